"""`conformance requirements`."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Annotated

import typer

from conformance.exits import Exit


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(requirements)


def requirements(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[R1]...", help="Default: all requirements.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> None:
    """List what a right client does, and how many scenarios speak for it.

    must: a right client does it. decided: the sources leave it open, and this project decided. open: nobody has yet.
    process: about tests and reports. `conformance coverage` shows which of them were seen to fail.
    """
    from conformance.options import ConfigurationError
    from conformance.requirements import requirement_lines
    from scenarios import load_index

    claims = Counter(requirement for scenario in load_index() for requirement in scenario.requires)
    try:
        print("\n".join(requirement_lines(names or [], claims, as_json=json)))
    except ConfigurationError as error:
        print(f"conformance: {error}", file=sys.stderr)
        raise typer.Exit(int(Exit.USAGE)) from None
