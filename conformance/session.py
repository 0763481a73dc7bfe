"""One `conformance run`: select, run, report, exit code."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import importlib.metadata
import importlib.util
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.exits import Exit, exit_of
from conformance.options import ConfigurationError, RunOptions
from conformance.outcome import Outcome, RunReport, ScenarioResult
from conformance.pool import interrupted_by_sigterm, spread
from conformance.report.console import ConsoleReport
from conformance.requirements import requirement_texts
from scenarios import load_catalogue, select
from scenarios.model import Scenario

if TYPE_CHECKING:
    from conformance.again import Plan

LIBRARIES = (
    "aiohttp",
    "websockets",
    "orjson",
    "pybase64",
    "numpy",
    "soundfile",
    "soxr",
    "pydantic",
    "PyYAML",
)


def environment() -> dict[str, str]:
    """Versions of Python and of the libraries in use (R62)."""
    versions = {"python": platform.python_version(), "platform": f"{platform.system()} {platform.machine()}"}
    for name in LIBRARIES:
        versions[name] = importlib.metadata.version(name)
    return versions


def choose(
    patterns: Sequence[str], tags: Sequence[str], options: RunOptions, files: dict[str, Path] | None = None
) -> tuple[list[Scenario], list[ScenarioResult]]:
    """The scenarios to run, and results for those that cannot run here.

    Args:
        files: filled with the file of each scenario that came from one.

    Scenarios that need what is not here (a dataset folder, pyarrow) are skipped when the whole catalogue runs;
    asked for by name, what is missing is an error.

    Raises ConfigurationError: nothing was selected, nothing of it can run here, or a named scenario needs what is
        not here.
    Raises ScenarioError: a file does not load.
    """
    chosen = select(load_catalogue(), list(patterns), list(tags), files=files)
    if not chosen:
        asked = " ".join([*patterns, *(f"--tag {t}" for t in tags)]) or "the catalogue"
        raise ConfigurationError(f"nothing selected by {asked}; `conformance list` shows what there is")
    runnable: list[Scenario] = []
    skipped: list[ScenarioResult] = []
    for scenario in chosen:
        missing = _missing(scenario, options)
        if not missing:
            runnable.append(scenario)
        elif scenario.id in patterns:
            raise ConfigurationError(f"{scenario.id} needs {missing}")
        else:
            skipped.append(
                ScenarioResult(
                    id=scenario.id,
                    title=scenario.title,
                    requires=tuple(scenario.requires),
                    outcome=Outcome.SKIPPED,
                    reason=f"needs {missing}",
                )
            )
    if not runnable:
        raise ConfigurationError(f"nothing selected that can run here: {skipped[0].id} {skipped[0].reason}")
    return runnable, skipped


def _missing(scenario: Scenario, options: RunOptions) -> str:
    """What a scenario needs and is not here, with what to do; empty: nothing."""
    folders = sorted(_datasets_of(scenario) - set(options.datasets))
    if folders:
        return f"the dataset folder {folders[0]!r} (--dataset {folders[0]}=PATH)"
    in_parquet = scenario.dataset is not None and scenario.dataset.form in ("parquet", "folder")
    if in_parquet and importlib.util.find_spec("pyarrow") is None:
        return "pyarrow, which comes with the extra `dataset` (pip install duplex-conformance[dataset])"
    return ""


def _datasets_of(scenario: Scenario) -> set[str]:
    clips = [scenario.clip, *(sample.clip for sample in scenario.samples)]
    return {clip.dataset for clip in clips if clip is not None and clip.dataset is not None}


def check_clock(options: RunOptions) -> None:
    """Raises ConfigurationError: the virtual clock cannot work on this machine."""
    from conformance.clock import supported

    reason = supported() if options.clock == "virtual" else None
    if reason is not None:
        raise ConfigurationError(f"{reason}; use --clock real")


def ready_client(options: RunOptions) -> RunOptions:
    """The options with what can be seen of the client; a module of others is loaded here, once for all scenarios.

    Raises ConfigurationError: the module or its function cannot be used.
    """
    from conformance.clients.choice import abilities_of

    seen = options.client
    if seen.kind == "python":
        from conformance.clients.python_module import declared_shows

        declared = declared_shows(seen)
        seen = replace(seen, shows=seen.shows or declared)
    return replace(options, abilities=abilities_of(seen, options.network))


def measured(
    scenarios: Sequence[Scenario], options: RunOptions, processes: int, console: ConsoleReport
) -> RunOptions:
    """Tell how long a program's run takes; measure its socket first where it has no network of its own."""
    from conformance.clients.calibration import abilities_after, measure, stalls
    from conformance.clients.estimating import estimate

    if options.network == "shared" and any(stalls(scenario) for scenario in scenarios):
        console.note("no network of its own: measuring how much the client's socket takes")
        figure = measure(options)
        console.note(f"measured: {figure.told}")
        options = replace(options, figure=figure, abilities=abilities_after(figure, options.abilities))
    console.note(estimate(scenarios, options, processes))
    return options


def check_outputs(out: Path | None, files: Sequence[Path]) -> None:
    """Raises ConfigurationError: a folder or file that cannot be written, before anything is spent; names it."""
    for file in files:
        if file.is_dir():
            raise ConfigurationError(f"{file}: is a folder; a file is wanted")
    named = [file.resolve() for file in files if file.is_file() or not file.exists()]
    for file in named:
        if named.count(file) > 1:
            raise ConfigurationError(f"{file}: named for two reports; each needs a file of its own")
    for folder in dict.fromkeys([*([out] if out is not None else []), *(file.parent for file in files)]):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise ConfigurationError(f"{folder}: cannot be written: {error.strerror or error}") from error


@contextlib.contextmanager
def alone_in(folder: Path | None) -> Iterator[None]:
    """While this lasts no other run of ours writes there: what one removes is lost for the other's client.

    Raises ConfigurationError: one does.
    """
    if folder is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigurationError(f"{folder}: another run writes there; name another folder") from None
        yield
    finally:
        os.close(handle)


def planned(
    file: Path | None, max_retries: int, options: RunOptions, chosen: Sequence[Scenario | ScenarioResult]
) -> Plan:
    """How failures are treated in this run.

    Raises ScenarioError: the file of expected failures is broken.
    Raises ConfigurationError: it names flakes, and nothing can flake on the virtual clock.
    """
    from conformance.again import Plan
    from conformance.expected import NONE, load_excuses

    excuses = NONE
    if file is not None:
        excuses = load_excuses(file, [one.id for one in [*load_catalogue(), *chosen]])
    if excuses.flakes and options.clock == "virtual":
        raise ConfigurationError(
            f"{file}: flakes: {len(excuses.flakes)} known, allowed on the real clock only; on the virtual "
            "clock one seed gives one outcome, and a flake is an error"
        )
    return Plan(excuses, max_retries, datetime.date.today())


def run_all(
    scenarios: Sequence[Scenario],
    skipped: Sequence[ScenarioResult],
    options: RunOptions,
    *,
    target: str,
    processes: int,
    fail_fast: bool,
    report: ConsoleReport,
    plan: Plan | None = None,
) -> RunReport:
    """Run scenarios, telling each as it ends; Ctrl-C and SIGTERM keep what ran."""
    from conformance.again import Plan, run_with
    from conformance.runner import run_scenario

    started = time.perf_counter()
    results: list[ScenarioResult] = []
    interrupted = False
    total = len(scenarios)
    stopped = ""
    one = partial(run_with, options=options, plan=plan or Plan(), run_once=run_scenario)
    stream = spread(one, scenarios, processes)
    try:
        with interrupted_by_sigterm(), contextlib.closing(stream):
            for number, result in enumerate(stream, start=1):
                results.append(result)
                report.scenario_finished(result, number=number, total=total)
                if fail_fast and exit_of([result]) is not Exit.PASSED:
                    if number < total:
                        stopped = f"stopped at the first failure (--fail-fast): {number} of {total} ran"
                    break
    except KeyboardInterrupt:
        interrupted = True
    return RunReport(
        results=tuple(sorted([*results, *skipped], key=lambda r: r.id)),
        seed=options.seed,
        target=target,
        clock=options.clock,
        client=options.client.told,
        real_s=time.perf_counter() - started,
        interrupted=interrupted,
        stopped_early=stopped,
        environment=environment(),
    )


def execute(
    patterns: Sequence[str],
    tags: Sequence[str],
    options: RunOptions,
    *,
    target: str,
    processes: int,
    json_path: Path | None,
    junit_path: Path | None,
    probes_path: Path | None = None,
    fail_fast: bool,
    expected_failures: Path | None = None,
    max_retries: int = 0,
) -> Exit:
    """The whole of `conformance run`.

    With `json_path` `-` the document goes to standard output and everything else to standard error.
    """
    check_clock(options)
    options = ready_client(options)
    sources: dict[str, Path] = {}
    scenarios, skipped = choose(patterns, tags, options, sources)
    plan = planned(expected_failures, max_retries, options, [*scenarios, *skipped])
    files = [path for path in (json_path, junit_path, probes_path) if path is not None and str(path) != "-"]
    check_outputs(options.out, files)
    if options.out is not None:
        options = replace(options, out=options.out.resolve())
    options = replace(options, files=sources)
    from conformance.expected import complaints

    if options.keep_trace and options.out is None:
        raise ConfigurationError("--keep-traces: nowhere to keep them; give --out DIR")
    texts = requirement_texts()
    to_stdout = json_path is not None and str(json_path) == "-"
    console = ConsoleReport(sys.stderr if to_stdout else sys.stdout, requirements=texts)
    if options.client.kind == "command":
        options = measured(scenarios, options, processes, console)
    with alone_in(options.out):
        report = run_all(
            scenarios,
            skipped,
            options,
            target=target,
            processes=processes,
            fail_fast=fail_fast,
            report=console,
            plan=plan,
        )
    told = complaints(plan.excuses, report.results, plan.today, str(expected_failures))
    report = replace(report, complaints=told)
    console.run_finished(report)
    from conformance.report import json_report

    undelivered = _deliver(report, None if to_stdout else json_path, junit_path, probes_path, texts)
    if to_stdout:
        print(json_report.dumps(report))
    code = max(undelivered, exit_of(report.results, report.complaints))
    return max(code, Exit.INTERRUPTED) if report.interrupted else code


def _deliver(
    report: RunReport,
    json_path: Path | None,
    junit_path: Path | None,
    probes_path: Path | None,
    texts: Mapping[str, str],
) -> Exit:
    from conformance.probing import table
    from conformance.report import json_report, junit
    from conformance.report.publish import deliver

    def write_probes(path: Path) -> None:
        table.write(path, [table.target_of(report.target, report.results)])

    reports: list[tuple[Path | None, Callable[[Path], None]]] = [
        (json_path, partial(json_report.write, report)),
        (junit_path, partial(junit.write, report, requirements=texts)),
        (probes_path, write_probes),
    ]
    return deliver((path, write) for path, write in reports if path is not None)
