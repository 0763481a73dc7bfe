"""`conformance defects` and `conformance coverage`: proof that the catalogue can fail."""

from __future__ import annotations

import os
from typing import Annotated

import typer

Seed = Annotated[int, typer.Option("--seed", help="Seed of media, ids and jitter.", min=0)]
Jobs = Annotated[int, typer.Option("--jobs", help="Processes; 0: one a core.", min=0, max=64)]


def register(app: typer.Typer) -> None:
    """Add the two commands."""
    app.command("defects")(defects)
    app.command("coverage")(coverage)


def defects(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Default: all defects.")
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help="A defect stops at its first true catch.")] = False,
    ablate: Annotated[
        bool, typer.Option("--ablate", help="Take mitigations away instead, alone and in pairs.")
    ] = False,
    scenarios: Annotated[
        list[str] | None,
        typer.Option(
            "--scenarios", metavar="ID|GLOB|FILE", help="Only these; may be given again. Default: all."
        ),
    ] = None,
    seed: Seed = 1,
    jobs: Jobs = 0,
    json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
) -> None:
    """Put historical defects back into the client and show which scenario catches which.

    After the scenario stands the finding, and in brackets the broken requirement that its message names; a failure that
    names none is no catch.
    """
    from conformance.defects.ablation_report import show_ablation
    from conformance.defects.matrix import show_matrix
    from conformance.options import ConfigurationError
    from scenarios.errors import ScenarioError

    processes = jobs or os.cpu_count() or 1
    try:
        if ablate and (names or fast or scenarios):
            raise ConfigurationError("--ablate takes neither names nor --fast nor --scenarios")
        if ablate:
            code = show_ablation(seed=seed, processes=processes, as_json=json)
        else:
            code = show_matrix(
                names or [],
                scenarios or [],
                seed=seed,
                processes=processes,
                stop_at_first=fast,
                as_json=json,
            )
    except (ConfigurationError, ScenarioError) as error:
        typer.echo(f"conformance: {error}", err=True)
        raise typer.Exit(2) from None
    raise typer.Exit(int(code))


def coverage(
    seed: Seed = 1,
    jobs: Jobs = 0,
    json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> None:
    """Show which requirements were seen to fail, by which defect and in which scenario."""
    from conformance.coverage import show_coverage
    from conformance.options import ConfigurationError

    try:
        code = show_coverage(seed=seed, processes=jobs or os.cpu_count() or 1, as_json=json)
    except ConfigurationError as error:
        typer.echo(f"conformance: {error}", err=True)
        raise typer.Exit(2) from None
    raise typer.Exit(int(code))
