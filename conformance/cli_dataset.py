"""`conformance dataset`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from conformance.exits import Exit


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(dataset)


def dataset(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New or empty.")],
    per_split: Annotated[int, typer.Option("--per-split", help="Samples of each split.", min=1, max=50)] = 1,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the media.", min=0)] = 1,
) -> None:
    """Make a small dataset in the layout of Omni-DuplexEval, with a reference voice: noise and grey pictures."""
    from conformance.errors import ConfigurationError
    from conformance.made_dataset import VOICE, make_dataset

    try:
        made = make_dataset(folder, per_split=per_split, seed=seed)
    except ConfigurationError as error:
        print(f"conformance: {error}", file=sys.stderr)
        raise typer.Exit(int(Exit.USAGE)) from None
    print(f"{len(made)} samples in {folder}/data: {', '.join(made)}")
    print(f"reference voice: {folder / VOICE}")
