"""`conformance deadlines`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from conformance.exits import Exit


def deadlines(
    patterns: Annotated[
        list[str] | None, typer.Argument(metavar="[ID|GLOB|FILE]...", help="Default: the whole catalogue.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", help="Only scenarios with this tag.")] = None,
    samples: Annotated[int, typer.Option(min=1, help="Samples of the run.")] = 66,
    concurrency: Annotated[int, typer.Option(min=1, help="Sessions at a time.")] = 8,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Check the order of the client's deadlines, and tell the worst case of a sample, a run and a CI job."""
    from conformance.deadline_order import show_deadlines
    from scenarios import ScenarioError

    try:
        code = show_deadlines(
            patterns or [], tag or [], samples=samples, concurrency=concurrency, as_json=json
        )
    except ScenarioError as error:
        print(f"conformance: {error}", file=sys.stderr)
        raise typer.Exit(int(Exit.USAGE)) from None
    raise typer.Exit(int(code))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(deadlines)
