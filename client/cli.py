"""`duplex-eval`: the evaluation client for people (evaluation.md 21).

Exit codes: 0 as asked; 1 a sample, the guard or a floor failed; 2 bad input, which is also media that no sample of
the run could be made of; 4 the server or the judge is away; 130 ended by Ctrl-C, 143 by SIGTERM, both with the summary
of what was run. Progress goes to stderr, the closing table or `--json` to stdout. Each failure's reason is told once
while it happens, in short, and once at the end, in full.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from client import cli_judge, cli_run
from client.cli_entry import enter
from client.cli_options import (
    BAD_INPUT,
    FAILED,
    OK,
    SERVER_AWAY,
    CaFileOption,
    Clock,
    ConcurrencyOption,
    DatasetOption,
    ExcludeOption,
    Family,
    FamilyOption,
    FpsOption,
    IdsOption,
    JsonOption,
    KeyOption,
    LimitOption,
    MediaRootOption,
    Mix,
    ModelOption,
    Pace,
    PaceOption,
    RefAudioOption,
    ResponseRootOption,
    SplitOption,
    TimeoutOption,
    UrlOption,
    complain,
    hear_logs,
    load_samples,
    print_json,
    print_rows,
    progress_of,
    refuse,
    session_settings,
)
from client.cli_tell import print_failures, refused_rows, tell_bad_media, tell_stage
from client.interrupt import INTERRUPTED, run_until_ended
from client.library import UnsupportedLibrary
from client.planned import PlannedSample

if TYPE_CHECKING:
    from client.dataset import Dataset
    from client.run import RunSettings
    from client.run_result import RunResult

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Run full-duplex realtime evaluation samples against a server, and judge the answers.",
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"duplex-eval {version('duplex-conformance')}")
        raise typer.Exit


@app.callback()
def _root(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Run full-duplex realtime evaluation samples against a server, and judge the answers."""


@app.command()
def generate(
    dataset: DatasetOption,
    url: UrlOption,
    model: ModelOption,
    ref_audio: RefAudioOption,
    response_root: ResponseRootOption,
    split: SplitOption = "all",
    family: FamilyOption = Family.ALL,
    ids: IdsOption = None,
    exclude_ids: ExcludeOption = None,
    limit: LimitOption = None,
    media_root: MediaRootOption = None,
    fps: FpsOption = 1.0,
    mix: Annotated[Mix, typer.Option(help="Audio that is sent.")] = Mix.QUESTION,
    pace: PaceOption = Pace.REALTIME,
    clock: Annotated[Clock, typer.Option(help="Clock of the answers.")] = Clock.MEDIA,
    concurrency: ConcurrencyOption = 1,
    overwrite: Annotated[bool, typer.Option(help="Run finished samples again.")] = False,
    print_stage: Annotated[bool, typer.Option(help="Tell each phase of each session.")] = False,
    request_timeout_s: TimeoutOption = 900.0,
    api_key_env: KeyOption = None,
    ca_file: CaFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send each sample to the server and keep its answer in the response root."""
    from client.dataset import DatasetError
    from client.media import MediaError
    from client.response_root import RunError
    from client.run import Run, RunSettings

    try:
        session = session_settings(
            url=url,
            model=model,
            ref_audio=ref_audio,
            request_timeout_s=request_timeout_s,
            pace=pace,
            fps=fps,
            api_key_env=api_key_env,
            ca_file=ca_file,
            mix=mix,
            clock=clock,
        )
        settings = RunSettings(session, response_root, concurrency, overwrite=overwrite, stop_when_away=True)
        Run([], settings)  # settings are looked at before the dataset is, which may be large
        chosen = load_samples(
            dataset,
            split=split,
            family=family,
            ids=ids,
            exclude_ids=exclude_ids,
            limit=limit,
            media_root=media_root,
        )
        raise typer.Exit(_generate(chosen, settings, as_json, print_stage))
    except (DatasetError, MediaError, RunError) as error:
        refuse(str(error))
    except KeyboardInterrupt:
        complain("interrupted before a sample was run")
        raise typer.Exit(INTERRUPTED) from None


def _generate(chosen: Dataset, settings: RunSettings, as_json: bool, print_stage: bool) -> int:
    """Run the samples and print what came of it. Returns the exit code."""
    from client.run import Run

    with progress_of(len(chosen.samples), as_json) as progress:
        run = Run(
            [PlannedSample(sample, settings.session.fps) for sample in chosen.samples],
            settings,
            progress=progress,
            observer=tell_stage if print_stage else None,
        )
        ended_by = run_until_ended(run.run)
    _print_result(run.result, chosen, as_json)
    if ended_by:
        complain("interrupted; the same command goes on where this one ended")
        return ended_by
    if run.result.stopped:
        complain(f"error: {run.result.stopped}")
        return SERVER_AWAY
    if run.result.nothing_prepared:
        tell_bad_media(run.result)
        return BAD_INPUT
    unfinished = run.result.failed + run.result.cancelled + len(chosen.refused)
    return FAILED if unfinished or run.result.artifact_errors else OK


def _print_result(result: RunResult, chosen: Dataset, as_json: bool) -> None:
    from client.progress import summary_rows

    if as_json:
        print_json({**result.to_json(), "refused": refused_rows(chosen)})
        return
    print_failures(result)
    print_rows(summary_rows(result, len(chosen.refused)))


app.command()(cli_judge.evaluate)
app.command()(cli_judge.summarize)
app.command()(cli_run.run)
app.command()(cli_run.compare)


def main() -> None:
    """Entry point of `duplex-eval`."""
    hear_logs()
    try:
        enter(app, "duplex-eval")
    except UnsupportedLibrary as error:
        complain(f"error: {error}")
        sys.exit(BAD_INPUT)


if __name__ == "__main__":
    main()
