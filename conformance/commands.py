"""The commands of `conformance`, each a thin layer over the package that does the work."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from conformance import (
    cli_dataset,
    cli_deadlines,
    cli_defects,
    cli_fuzz,
    cli_live,
    cli_probe,
    cli_proxy,
    cli_requirements,
    cli_serve,
)
from conformance.exits import Exit

app = typer.Typer(
    name="conformance",
    help="Conformance testbed for full-duplex realtime evaluation clients.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class ClockName(StrEnum):
    """Which clock a run uses."""

    VIRTUAL = "virtual"
    REAL = "real"


class NetworkName(StrEnum):
    """The network that a program runs in."""

    AUTO = "auto"
    OWN = "own"
    SHARED = "shared"


class ShowsName(StrEnum):
    """What a client of others leaves."""

    METADATA = "metadata"
    ANSWERS = "answers"


class TargetName(StrEnum):
    """The server spoken to."""

    MOCK = "mock"
    LIVE = "live"


MODEL = "openbmb/MiniCPM-o-4_5"
Patterns = Annotated[
    list[str] | None, typer.Argument(metavar="[ID|GLOB|FILE]...", help="Default: the whole catalogue.")
]
Tags = Annotated[
    list[str] | None, typer.Option("--tag", help="Only scenarios with this tag; may be repeated.")
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of media, ids and jitter.", min=0)]
Jobs = Annotated[int, typer.Option("--jobs", help="Processes; 0: one a core.", min=0, max=64)]
Datasets = Annotated[
    list[str] | None,
    typer.Option("--dataset", metavar="NAME=PATH", help="A dataset folder that scenarios name."),
]
RefAudio = Annotated[
    Path | None, typer.Option("--ref-audio", metavar="WAV", help="Reference voice of the sessions.")
]


def _fail(message: str, code: Exit = Exit.USAGE) -> typer.Exit:
    print(f"conformance: {message}", file=sys.stderr)
    return typer.Exit(int(code))


@app.callback(invoke_without_command=True)
def top(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Conformance testbed for full-duplex realtime evaluation clients."""
    if version:
        from conformance import __version__

        print(f"duplex-conformance {__version__}")
        raise typer.Exit


@app.command()
def run(
    context: typer.Context,
    patterns: Patterns = None,
    tag: Tags = None,
    target: Annotated[TargetName, typer.Option(help="The server spoken to.")] = TargetName.MOCK,
    clock: Annotated[
        ClockName | None, typer.Option(help="Time of server and client; real for a command, else virtual.")
    ] = None,
    client: Annotated[
        str, typer.Option(help='The client under test: builtin, python:MOD:FUNC or command:"PROGRAM …".')
    ] = "builtin",
    client_shows: Annotated[
        ShowsName | None,
        typer.Option(
            "--client-shows", help="Of a client of others: metadata of every sample, or its answers alone."
        ),
    ] = None,
    client_deadline: Annotated[
        float | None,
        typer.Option(
            "--client-deadline", metavar="S", min=0.1, help="Give up on a client of others after this."
        ),
    ] = None,
    client_env: Annotated[
        list[str] | None,
        typer.Option(
            "--client-env", metavar="NAME", help="A variable that a command gets too; may be repeated."
        ),
    ] = None,
    network: Annotated[
        NetworkName,
        typer.Option(help="Of a command: its own (auto: where that is allowed), or this machine's."),
    ] = NetworkName.AUTO,
    model: Annotated[str, typer.Option(help="Name of the model that sessions ask for.")] = MODEL,
    seed: Seed = 1,
    jobs: Jobs = 0,
    out: Annotated[Path | None, typer.Option(help="Keep traces and the client's files here.")] = None,
    json: Annotated[
        Path | None, typer.Option("--json", help="Write the report as JSON; `-` for standard output.")
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="Write the report as JUnit XML.")] = None,
    dataset: Datasets = None,
    ref_audio: RefAudio = None,
    probes: Annotated[
        Path | None, typer.Option(help="Write what the probes among the scenarios read, as JSON.")
    ] = None,
    expected_failures: Annotated[
        Path | None,
        typer.Option(
            "--expected-failures", metavar="FILE", help="Failures that are expected (docs/verdicts.md)."
        ),
    ] = None,
    max_retries: Annotated[
        int,
        typer.Option(
            "--max-retries",
            metavar="N",
            min=0,
            max=20,
            help="Run a failed scenario again: does it stay?",
        ),
    ] = 0,
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", help="Stop at the first scenario that does not pass.")
    ] = False,
    keep_trace: Annotated[
        bool, typer.Option("--keep-traces", help="With --out: traces of passing scenarios too.")
    ] = False,
    url: cli_live.Url = None,
    api_key_env: cli_live.ApiKeyEnv = None,
    ca_file: cli_live.CaFile = None,
    header: cli_live.Header = None,
    judge_url: cli_live.JudgeUrl = None,
    judge_model: cli_live.JudgeModel = cli_live.JUDGE_MODEL,
    judge_api_key_env: cli_live.JudgeKeyEnv = None,
    judge_ca_file: cli_live.JudgeCaFile = None,
    judge_video_mode: cli_live.JudgeVideoMode = "video_url",
    inject: cli_live.Inject = False,
    max_sessions: cli_live.MaxSessions = 4,
    budget_minutes: cli_live.BudgetMinutes = None,
    slot_wait: cli_live.SlotWait = 60.0,
    record: cli_live.Record = None,
    table: cli_live.Table = None,
) -> None:
    """Run scenarios against a target and judge the client."""
    from conformance.clients import choice
    from conformance.clients.program import program_environment
    from conformance.options import ConfigurationError, RunOptions
    from conformance.session import execute
    from scenarios import ScenarioError

    try:
        chosen = choice.showing(
            choice.parse_client(client), None if client_shows is None else client_shows.value
        )
        choice.refuse_unheard(chosen, client_deadline, client_env or ())
        options = RunOptions(
            clock=choice.clock_of(chosen, None if clock is None else clock.value),
            client=chosen,
            client_deadline_s=client_deadline,
            client_env=program_environment(os.environ, tuple(client_env or ())),
            network=choice.network_of(chosen, network.value),
            model=model,
            seed=seed,
            out=out,
            datasets=_datasets(dataset),
            ref_audio=ref_audio,
            keep_trace=keep_trace,
        )
        if target is TargetName.LIVE:
            server = cli_live.server_of(url, model, api_key_env, ca_file, header)
            judge = cli_live.judge_of(
                judge_url, judge_model, judge_api_key_env, judge_video_mode, judge_ca_file
            )
            limits = cli_live.Limits(inject, max_sessions, budget_minutes, record, fail_fast, slot_wait)
            cli_live.refuse_elsewhere_options(
                clock_virtual=clock is ClockName.VIRTUAL,
                jobs=jobs,
                probes=probes,
                expected_failures=expected_failures,
                max_retries=max_retries,
            )
            code = cli_live.run_live(
                patterns, tag, options, (server, judge), limits, files=(json, junit, table)
            )
            raise typer.Exit(int(code))
        cli_live.refuse_live_options(context)
        code = execute(
            patterns or [],
            tag or [],
            options,
            target=target.value,
            processes=jobs or choice.jobs_for(chosen),
            json_path=json,
            junit_path=junit,
            probes_path=probes,
            fail_fast=fail_fast,
            expected_failures=expected_failures,
            max_retries=max_retries,
        )
    except (ScenarioError, ConfigurationError) as error:
        raise _fail(str(error)) from None
    raise typer.Exit(int(code))


def _datasets(given: list[str] | None) -> dict[str, Path]:
    from conformance.options import ConfigurationError

    folders: dict[str, Path] = {}
    for item in given or []:
        name, equals, path = item.partition("=")
        if not equals or not name or not path:
            raise ConfigurationError(f"--dataset {item!r}: expected NAME=PATH")
        if not Path(path).exists():
            raise ConfigurationError(f"--dataset {item!r}: {path} does not exist")
        folders[name] = Path(path)
    return folders


@app.command("list")
def list_scenarios(
    patterns: Patterns = None,
    tag: Tags = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> None:
    """List scenarios with their titles."""
    from scenarios import ScenarioError, load_index, select

    try:
        chosen = select(load_index(), patterns or [], tag or [])
    except ScenarioError as error:
        raise _fail(str(error)) from None
    if json:
        import orjson

        rows = [
            {"id": s.id, "title": s.title, "tags": list(s.tags), "requires": list(s.requires)} for s in chosen
        ]
        print(orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode())
        return
    width = max((len(s.id) for s in chosen), default=0)
    for scenario in chosen:
        print(f"{scenario.id:<{width}}  {scenario.title}")


@app.command()
def show(
    scenario: Annotated[str, typer.Argument(metavar="ID|FILE", help="A scenario.")],
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Show one scenario: its story, what it requires and what it expects."""
    from conformance.listing import show_lines
    from scenarios import ScenarioError, load_catalogue, select

    try:
        chosen = select(load_catalogue(), [scenario], [])
    except ScenarioError as error:
        raise _fail(str(error)) from None
    for one in chosen:
        if json:
            print(one.model_dump_json(indent=2, serialize_as_any=True))
        else:
            print("\n".join(show_lines(one)))


@app.command()
def validate(files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Scenario files.")]) -> None:
    """Check scenario files; every problem is told with file, line, key and what is allowed."""
    from conformance.clients.estimating import loose_bound
    from scenarios import ScenarioError, load_scenarios

    bad = 0
    for file in files:
        try:
            loaded = load_scenarios(file)
        except ScenarioError as error:
            bad += 1
            print(str(error), file=sys.stderr)
        else:
            print(f"{file}: {len(loaded)} scenario(s), valid")
            for warning in filter(None, map(loose_bound, loaded)):
                print(f"{file}: warning: {warning}", file=sys.stderr)
    if bad:
        raise typer.Exit(int(Exit.USAGE))


@app.command()
def schema() -> None:
    """Print the JSON Schema of a scenario file, for editors."""
    import orjson

    from scenarios import json_schema

    print(orjson.dumps(json_schema(), option=orjson.OPT_INDENT_2).decode())


@app.command()
def faults(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Default: all faults.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="As docs/faults.md.")] = False,
) -> None:
    """List what can go wrong on purpose, with parameters and units."""
    from conformance.fault_list import show
    from conformance.options import ConfigurationError

    try:
        print(show(names or [], json=json, markdown=markdown))
    except ConfigurationError as error:
        raise _fail(str(error)) from None


cli_dataset.register(app)
cli_defects.register(app)
cli_deadlines.register(app)
cli_fuzz.register(app)
cli_probe.register(app)
cli_requirements.register(app)
cli_live.register(app)
cli_proxy.register(app)
cli_serve.register(app)
