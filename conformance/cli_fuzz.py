"""`conformance fuzz`, `replay`, `promote`, `merge`: search, see again, keep."""

from __future__ import annotations

import os
import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from conformance.exits import Exit

if TYPE_CHECKING:
    from conformance.fuzz.campaign import Plan

_TIME = re.compile(r"(?P<number>\d+(\.\d+)?)(?P<unit>s|m|h)?")
_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}
_SHARD = re.compile(r"(?P<k>\d+)/(?P<n>\d+)")

Save = Annotated[str | None, typer.Option("--save", metavar="DIR", help="Write each finding here.")]
States = Annotated[
    bool, typer.Option("--states", help="The whole table of states, not only what was missed.")
]


def fuzz(
    cases: Annotated[int | None, typer.Option("--cases", help="How many cases; default 1000.")] = None,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="How long instead: 90s, 10m, 1h.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The same seed draws the same cases.", min=0)] = 1,
    jobs: Annotated[int, typer.Option("--jobs", help="Processes; 0: one a core.", min=0, max=64)] = 0,
    save: Save = None,
    case: Annotated[
        int | None, typer.Option("--case", help="Only this case, as a finding names it.", min=0)
    ] = None,
    shard: Annotated[
        str, typer.Option("--shard", metavar="K/N", help="The K-th of N parts, for N jobs of a CI.")
    ] = "1/1",
    executor: Annotated[
        str, typer.Option("--executor", metavar="local|ray[:ADDRESS]", help="Where cases are played.")
    ] = "local",
    media: Annotated[bool, typer.Option("--media/--no-media", help="Clips with pictures.")] = True,
    judge: Annotated[bool, typer.Option("--judge/--no-judge", help="Scenarios with a judge.")] = True,
    server: Annotated[
        bool, typer.Option("--server", help="Hostile clients against the mock server instead.")
    ] = False,
    states: States = False,
    json: Annotated[
        Path | None, typer.Option("--json", help="Write the summary as JSON; `-` for standard output.")
    ] = None,
) -> None:
    """Play drawn scenarios until something breaks; hand it over as a small file."""
    from conformance.options import ConfigurationError

    try:
        plan = _plan(cases, for_, seed, jobs, case, shard, executor, media=media, judge=judge, server=server)
        code = _campaign(plan, _folder(save), json, states=states)
    except ConfigurationError as error:
        raise _fail(str(error)) from None
    raise typer.Exit(int(code))


def _plan(
    cases: int | None,
    for_: str | None,
    seed: int,
    jobs: int,
    case: int | None,
    shard: str,
    executor: str,
    *,
    media: bool,
    judge: bool,
    server: bool,
) -> Plan:
    from conformance.options import ConfigurationError

    try:
        from conformance.fuzz.campaign import Plan
        from conformance.fuzz.drawing import Kinds
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"fuzzing needs {error.name}: pip install {error.name}") from None
    if cases is not None and for_ is not None:
        raise ConfigurationError("--cases and --for: give one of the two")
    if cases is not None and cases < 1:
        raise ConfigurationError(f"--cases {cases}: at least 1")
    if re.fullmatch(r"local|ray(:.+)?", executor) is None:
        raise ConfigurationError(f"--executor {executor!r}: local, ray or ray:ADDRESS")
    kinds = Kinds(media=media, judge=judge, server=server)
    for_s = None if for_ is None else _seconds(for_)
    part = _shard(shard)
    if case is not None:
        asked = {
            "--cases": cases is not None,
            "--for": for_ is not None,
            "--shard": part != (1, 1),
            "--executor": executor != "local",
            "--jobs": jobs > 1,
        }
        if said := ", ".join(option for option, given in asked.items() if given):
            raise ConfigurationError(f"--case {case} plays that case alone, here: it takes no {said}")
        return Plan(seed, case=case, kinds=kinds)
    jobs = jobs or os.cpu_count() or 1
    if cases is None and for_s is None:
        cases = 1000
    if cases is not None and part[0] > cases:
        raise ConfigurationError(
            f"--shard {shard} of {cases} case(s): nothing to play there; at most {cases} shard(s), or more --cases"
        )
    return Plan(seed, cases=cases, for_s=for_s, jobs=jobs, shard=part, kinds=kinds, executor=executor)


def _seconds(text: str) -> float:
    from conformance.options import ConfigurationError

    found = _TIME.fullmatch(text)
    if found is None or float(found["number"]) <= 0:
        raise ConfigurationError(f"--for {text!r}: a time such as 90s, 10m or 1h")
    return float(found["number"]) * _UNITS_S[found["unit"]]


def _shard(text: str) -> tuple[int, int]:
    from conformance.options import ConfigurationError

    found = _SHARD.fullmatch(text)
    if found is None or not 1 <= int(found["k"]) <= int(found["n"]):
        raise ConfigurationError(f"--shard {text!r}: K/N with 1 <= K <= N, such as 2/4")
    return int(found["k"]), int(found["n"])


def _folder(save: str | None) -> Path | None:
    from conformance.options import ConfigurationError

    if save is not None and not save.strip():
        raise ConfigurationError(f"--save {save!r}: the name of a folder is wanted")
    return None if save is None else Path(save)


def _campaign(plan: Plan, save: Path | None, json: Path | None, *, states: bool) -> Exit:
    import orjson

    from conformance.fuzz.campaign import run_campaign
    from conformance.fuzz.summary import summary
    from conformance.fuzz.telling import Progress, finished_lines, older_lines
    from conformance.options import RunOptions
    from conformance.pool import interrupted_by_sigterm
    from conformance.report.publish import deliver, publish
    from conformance.session import alone_in, check_clock, check_outputs

    check_clock(RunOptions())
    to_stdout = json is not None and str(json) == "-"
    check_outputs(save, [json] if json is not None and not to_stdout else [])
    out = sys.stderr if to_stdout else sys.stdout
    for line in older_lines(save):
        print(line, file=out)
    with alone_in(save), interrupted_by_sigterm():
        tally = run_campaign(plan, save=save, on_block=Progress(out, plan.kinds).on_block)
    told = orjson.dumps(summary(plan, tally), option=orjson.OPT_INDENT_2) + b"\n"
    reports = [] if json is None or to_stdout else [(json, partial(publish, content=told))]
    undelivered = deliver(reports)
    try:
        print("\n".join(finished_lines(plan, tally, save, states=states)), file=out, flush=True)
        if to_stdout:
            print(told.decode(), end="", flush=True)
    except OSError:
        if not tally.interrupted:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the terminal hung up, and its SIGHUP is why this ends
    code = Exit.FAILED if tally.groups else Exit.PASSED
    if tally.harness_errors:
        code = Exit.HARNESS
    code = max(code, undelivered)
    return max(code, Exit.INTERRUPTED) if tally.interrupted else code


def replay(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|TRACE|CASSETTE", help="As `conformance fuzz --save` or a recording wrote it."
        ),
    ],
    client: Annotated[
        str, typer.Option(help="Of a cassette: the client that meets the recorded server.")
    ] = "builtin",
) -> None:
    """Play a finding again: exit 1 when it is still there, 3 when it does not come back. Or a cassette's server."""
    from conformance import cli_live
    from conformance.fuzz import replaying
    from conformance.live.cassette import is_cassette
    from conformance.options import ConfigurationError

    try:
        if is_cassette(file):
            raise typer.Exit(int(cli_live.replay_cassette(file, client)))
        if file.suffix == ".ndjson":
            traced = replaying.replay_trace(file)
            if traced.first_difference is None:
                print(f"{file}: the same trace, {traced.records} records")
                return
            number, was, now = traced.first_difference
            raise _fail(f"{file}:{number}: the trace differs\n  was  {was}\n  now  {now}", Exit.HARNESS)
        played = replaying.replay(file)
    except ConfigurationError as error:
        raise _fail(str(error)) from None
    if played.other_versions:
        print(f"note: found with {played.saved.versions}")
    if played.same is None:
        now = ", ".join(one.key for one in played.again) or "nothing"
        raise _fail(f"{file}: {played.saved.key} does not reproduce; found now: {now}", Exit.HARNESS)
    finding = played.same.finding
    print(f"{played.same.key}  {' '.join(finding.requirements)}")
    print(f"  expected   {finding.expected}\n  actual     {finding.actual}")
    for line in finding.details:
        print(f"    {line}")
    raise typer.Exit(int(Exit.HARNESS if finding.id == "harness-error" else Exit.FAILED))


def promote(
    file: Annotated[Path, typer.Argument(help="A finding.")],
    name: Annotated[str, typer.Argument(metavar="ID", help="Id of the new scenario, below regressions/.")],
    catalogue: Annotated[Path | None, typer.Option(help="Another catalogue's folder.")] = None,
) -> None:
    """Take a finding over into the catalogue; its title is to be filled in."""
    from conformance.fuzz import replaying
    from conformance.options import ConfigurationError

    try:
        place = replaying.promote(file, name, catalogue)
    except ConfigurationError as error:
        raise _fail(str(error)) from None
    print(f"{place}: fill in the title and the story")


def merge(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="What the shards saved.")],
    save: Save = None,
    states: States = False,
) -> None:
    """Put the shards of a campaign together; a finding that several have is told once."""
    from conformance.fuzz import merging
    from conformance.fuzz.telling import merged_lines
    from conformance.options import ConfigurationError
    from conformance.session import check_outputs

    try:
        to = _folder(save)
        merged = merging.merge(folders)
        if to is not None:
            check_outputs(to, [])
            merging.keep(merged, to)
    except ConfigurationError as error:
        raise _fail(str(error)) from None
    print("\n".join(merged_lines(merged, states=states)))
    if any(finding.id == "harness-error" for finding in merged.findings.values()):
        raise typer.Exit(int(Exit.HARNESS))
    short = merged.missing or merged.unfinished
    raise typer.Exit(int(Exit.FAILED if merged.findings or short else Exit.PASSED))


def _fail(message: str, code: Exit = Exit.USAGE) -> typer.Exit:
    print(f"conformance: {message}", file=sys.stderr)
    return typer.Exit(int(code))


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    for command in (fuzz, replay, promote, merge):
        app.command()(command)
