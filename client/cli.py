"""`duplex-eval`: the evaluation client for people (evaluation.md 21).

Exit codes: 0 every sample has its answer; 1 a sample failed or a row was refused; 2 bad input; 4 the server
is away; 130 interrupted. Progress goes to stderr, the closing table or `--json` to stdout.
"""

from __future__ import annotations

import enum
import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from client.dataset import Dataset, Sample
    from client.deadlines import Deadlines
    from client.media import Prepared
    from client.progress import PlainProgress, TerminalProgress
    from client.run import RunSettings
    from client.run_result import RunResult

OK, SAMPLE_FAILED, BAD_INPUT, SERVER_AWAY, INTERRUPTED = 0, 1, 2, 4, 130
LEGACY_REQUEST_S = 6 * 3600.0
"""What a request timeout of 0 or less stands for (evaluation.md 15)."""

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Run full-duplex realtime evaluation samples against a server.",
)


class Family(enum.StrEnum):
    """Families of samples."""

    ALL = "all"
    RTD = "rtd"
    PR = "pr"


class Pace(enum.StrEnum):
    """How fast a clip is sent."""

    REALTIME = "realtime"
    FAST = "as-fast-as-possible"


class Mix(enum.StrEnum):
    """What audio is sent."""

    QUESTION = "question"


class Clock(enum.StrEnum):
    """What the times of an answer are measured on."""

    MEDIA = "media"


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
    """Run full-duplex realtime evaluation samples against a server."""


@app.command()
def generate(
    dataset: Annotated[
        str,
        typer.Option(
            help="Folder in hub layout, .parquet file, or .json/.jsonl manifest.", show_default=False
        ),
    ],
    url: Annotated[str, typer.Option(help="Server, as ws://HOST:PORT/v1/realtime (or http, https, wss).")],
    model: Annotated[str, typer.Option(help="Model name the server knows.")],
    ref_audio: Annotated[Path, typer.Option(help="WAV file with the voice to speak with.")],
    response_root: Annotated[Path, typer.Option(help="Folder for the answers; finished ones are kept.")],
    split: Annotated[str, typer.Option(help="One split.")] = "all",
    family: Annotated[Family, typer.Option(help="One family.")] = Family.ALL,
    ids: Annotated[
        list[str] | None, typer.Option(help="Only these (ID or SPLIT/ID; repeat, or commas).")
    ] = None,
    exclude_ids: Annotated[list[str] | None, typer.Option(help="Not these (ID or SPLIT/ID).")] = None,
    limit: Annotated[int | None, typer.Option(help="At most this many samples.", min=1)] = None,
    media_root: Annotated[Path | None, typer.Option(help="Folder of relative media paths.")] = None,
    fps: Annotated[float, typer.Option(help="Frames a second sent.")] = 1.0,
    mix: Annotated[Mix, typer.Option(help="Audio that is sent.")] = Mix.QUESTION,
    pace: Annotated[
        Pace, typer.Option(help="Sending pace; answers of the fast one have no times.")
    ] = Pace.REALTIME,
    clock: Annotated[Clock, typer.Option(help="Clock of the answers.")] = Clock.MEDIA,
    concurrency: Annotated[int, typer.Option(help="Sessions at a time.", min=1)] = 1,
    overwrite: Annotated[bool, typer.Option(help="Run finished samples again.")] = False,
    request_timeout_s: Annotated[
        float, typer.Option(help="Seconds for one attempt; 0 or less: 6 h.")
    ] = 900.0,
    api_key_env: Annotated[
        str | None, typer.Option(help="Environment variable that holds the API key.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the run result as JSON.")] = False,
) -> None:
    """Send each sample to the server and keep its answer in the response root."""
    from client.dataset import DatasetError, load_dataset
    from client.media import MediaError, load_reference_voice
    from client.response_root import RunError
    from client.run import Run, RunSettings
    from client.settings import SessionSettings

    try:
        session = SessionSettings(
            url=url,
            model=model,
            ref_audio=load_reference_voice(ref_audio),
            deadlines=_deadlines(request_timeout_s),
            pace=pace.value,
            fps=_fps(fps),
            mix=mix.value,
            clock=clock.value,
            headers=_headers(api_key_env),
        )
        settings = RunSettings(session, response_root, concurrency, overwrite=overwrite, stop_when_away=True)
        Run([], settings)  # settings are looked at before the dataset is, which may be large
        chosen = load_dataset(
            dataset,
            split=split,
            family=family.value,
            ids=_listed(ids) or None,
            exclude_ids=_listed(exclude_ids),
            limit=limit,
            media_root=media_root,
        )
        _tell_refused(chosen)
        raise typer.Exit(_run(chosen, settings, as_json))
    except (DatasetError, MediaError, RunError) as error:
        _refuse(str(error))
    except KeyboardInterrupt:
        _complain("interrupted before a sample was run")
        raise typer.Exit(INTERRUPTED) from None


def _run(chosen: Dataset, settings: RunSettings, as_json: bool) -> int:
    """Run the samples and print what came of it. Returns the exit code."""
    import asyncio

    from client.run import Run

    interrupted = False
    with _progress(len(chosen.samples), as_json) as progress:
        run = Run(
            [_Planned(sample, settings.session.fps) for sample in chosen.samples], settings, progress=progress
        )
        try:
            asyncio.run(run.run())
        except KeyboardInterrupt:
            interrupted = True
    _print_result(run.result, chosen, as_json)
    if interrupted:
        _complain("interrupted; the same command goes on where this one ended")
        return INTERRUPTED
    if run.result.stopped:
        _complain(run.result.stopped)
        return SERVER_AWAY
    unfinished = run.result.failed + run.result.cancelled + len(chosen.refused)
    return SAMPLE_FAILED if unfinished or run.result.artifact_errors else OK


class _Planned:
    """A sample of the dataset, prepared when its turn comes."""

    def __init__(self, sample: Sample, fps: float) -> None:
        self.split, self.id = sample.split, sample.id
        self._sample, self._fps = sample, fps

    def __call__(self) -> Prepared:
        return self._sample.prepare(fps=self._fps)


def _progress(total: int, as_json: bool) -> PlainProgress | TerminalProgress:
    from client.progress import PlainProgress, TerminalProgress

    if as_json or not sys.stderr.isatty():
        return PlainProgress(total, _complain)
    from rich.console import Console

    return TerminalProgress(total, Console(stderr=True))


def _print_result(result: RunResult, chosen: Dataset, as_json: bool) -> None:
    import orjson

    from client.progress import ending, summary_rows, table_of

    if as_json:
        refused = [
            {"split": r.split, "id": r.id, "where": r.where, "reason": r.reason} for r in chosen.refused
        ]
        content = {**result.to_json(), "refused": refused}
        typer.echo(orjson.dumps(content, option=orjson.OPT_INDENT_2).decode())
        return
    for record in result.samples:
        if record.outcome == "failed":
            typer.echo(ending(record))
    if sys.stdout.isatty():
        from rich.console import Console

        Console().print(table_of(result, len(chosen.refused)))
    else:
        for name, value in summary_rows(result, len(chosen.refused)):
            typer.echo(f"{name}: {value}")


def _tell_refused(chosen: Dataset) -> None:
    """Say which rows cannot be run. Ends the command when nothing is left to run."""
    from client.dataset import DatasetError

    for note in chosen.notes:
        _complain(f"note: {note}")
    for refused in chosen.refused:
        _complain(f"refused: {refused.where} (id {refused.id}): {refused.reason}")
    if not chosen.samples:
        raise DatasetError(
            f"{chosen.source}: nothing to run: {chosen.rows} rows, {len(chosen.refused)} refused, "
            "none left by the filters"
        )


def _deadlines(request_timeout_s: float) -> Deadlines:
    from client.deadlines import Deadlines

    if not math.isfinite(request_timeout_s):
        _refuse(f"--request-timeout-s: found {request_timeout_s}; allowed: seconds (0 or less: 6 h)")
    return Deadlines(request_s=request_timeout_s if request_timeout_s > 0 else LEGACY_REQUEST_S)


def _fps(fps: float) -> float:
    if not (math.isfinite(fps) and fps > 0):
        _refuse(f"--fps: found {fps}; allowed: frames a second above 0")
    return fps


def _headers(api_key_env: str | None) -> dict[str, str]:
    """The key goes into the upgrade request and nowhere else."""
    if api_key_env is None:
        return {}
    key = os.environ.get(api_key_env, "").strip()
    if not key or not key.isprintable() or not key.isascii():
        _refuse(
            f"--api-key-env: {api_key_env} is unset, empty or no plain text; allowed: a variable with the key"
        )
    return {"Authorization": f"Bearer {key}"}


def _listed(values: list[str] | None) -> list[str]:
    return [part.strip() for value in values or [] for part in value.split(",") if part.strip()]


def _complain(line: str) -> None:
    typer.echo(line, err=True)


def _refuse(message: str) -> NoReturn:
    _complain(f"error: {message}")
    raise typer.Exit(BAD_INPUT)


def main() -> None:
    """Entry point of `duplex-eval`."""
    app()


if __name__ == "__main__":
    main()
