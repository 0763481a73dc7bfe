"""What the commands of `duplex-eval` share: exit codes, options, reading them, and how mistakes are told."""

from __future__ import annotations

import enum
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from client.cli_numbers import BAD_INPUT as BAD_INPUT  # its place among the exit codes is here
from client.cli_numbers import number_option, whole_option
from client.masking import bare_url

if TYPE_CHECKING:
    import ssl

    from client.dataset import Dataset
    from client.deadlines import Deadlines
    from client.judge.settings import JudgeSettings
    from client.progress import PlainProgress, TerminalProgress
    from client.settings import SessionSettings

OK, FAILED, SERVER_AWAY = 0, 1, 4
LEGACY_REQUEST_S = 6 * 3600.0
"""What a request timeout of 0 or less stands for (evaluation.md 15)."""


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


class VideoMode(enum.StrEnum):
    """How the content judgement sees a clip first."""

    VIDEO_URL = "video_url"
    FRAMES = "frame-sample"


class Overflow(enum.StrEnum):
    """What to do when the judge says that the content frames are too many."""

    ERROR = "error"
    REDUCE = "reduce"


class Guard(enum.StrEnum):
    """What a run is gated on beside floors."""

    BASIC = "basic"
    STRICT = "strict"
    OFF = "off"


DatasetOption = Annotated[
    str,
    typer.Option(
        "--dataset", help="Folder in hub layout, .parquet file, or .json/.jsonl manifest.", show_default=False
    ),
]
SplitOption = Annotated[str, typer.Option("--split", help="One split.")]
FamilyOption = Annotated[Family, typer.Option("--family", help="One family.")]
IdsOption = Annotated[
    list[str] | None, typer.Option("--ids", help="Only these (ID or SPLIT/ID; repeat, or commas).")
]
ExcludeOption = Annotated[list[str] | None, typer.Option("--exclude-ids", help="Not these (ID or SPLIT/ID).")]
LimitOption = Annotated[int | None, whole_option("--limit", "At most this many samples.", 1)]
MediaRootOption = Annotated[Path | None, typer.Option("--media-root", help="Folder of relative media paths.")]
UrlOption = Annotated[
    str, typer.Option("--url", help="Server, as ws://HOST:PORT/v1/realtime (or http, https, wss).")
]
ModelOption = Annotated[str, typer.Option("--model", help="Model name the server knows.")]
RefAudioOption = Annotated[Path, typer.Option("--ref-audio", help="WAV file with the voice to speak with.")]
ResponseRootOption = Annotated[
    Path, typer.Option("--response-root", help="Folder for the answers; finished ones are kept.")
]
FpsOption = Annotated[float, number_option("--fps", "Frames a second sent.", "frames a second above 0")]
PaceOption = Annotated[
    Pace, typer.Option("--pace", help="Sending pace; answers of the fast one have no times.")
]
ConcurrencyOption = Annotated[int, whole_option("--concurrency", "Sessions at a time.", 1)]
TimeoutOption = Annotated[
    float,
    number_option(
        "--request-timeout-s", "Seconds for one attempt; 0 or less: 6 h.", "seconds (0 or less: 6 h)"
    ),
]
KeyOption = Annotated[
    str | None,
    typer.Option("--api-key-env", help="Environment variable that holds the API key.", show_default=False),
]
CaFileOption = Annotated[
    Path | None,
    typer.Option(
        "--ca-file",
        metavar="PEM",
        help="Of a wss server: trust these certificates instead of the system's.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
JudgeUrlOption = Annotated[
    str, typer.Option("--judge-base-url", help="Judge, as http://HOST:PORT (or with /v1, or the full path).")
]
JudgeModelOption = Annotated[str, typer.Option("--judge-model", help="Model name the judge knows.")]
JudgeKeyOption = Annotated[
    str, typer.Option("--judge-api-key", help="Key of the judge; better in a variable.", show_default=False)
]
JudgeKeyEnvOption = Annotated[
    str | None,
    typer.Option("--judge-api-key-env", help="Environment variable with that key.", show_default=False),
]
JudgeCaFileOption = Annotated[
    Path | None,
    typer.Option(
        "--judge-ca-file",
        metavar="PEM",
        help="Of an https judge: trust these certificates instead of the system's.",
        show_default=False,
    ),
]
JudgeTimeoutOption = Annotated[
    float, number_option("--judge-timeout-s", "Seconds for one request.", "seconds above 0")
]
VideoModeOption = Annotated[
    VideoMode, typer.Option("--judge-video-mode", help="What content is judged by; frames are the fallback.")
]
JudgeFpsOption = Annotated[
    float, number_option("--judge-fps", "Frames a second of a window.", "frames a second above 0")
]
ModalitiesOption = Annotated[
    str | None,
    typer.Option("--judge-modalities", help="Sent with each request (commas).", show_default=False),
]
FrameLimitOption = Annotated[int, whole_option("--content-frame-limit", "Most frames of a whole clip.", 1)]
OverflowOption = Annotated[
    Overflow, typer.Option("--judge-frame-overflow", help="When the judge says they are too many.")
]
WindowOption = Annotated[
    float, number_option("--window-size", "Seconds in which a reminder counts.", "seconds above 0")
]
InvalidClockOption = Annotated[
    bool, typer.Option("--allow-invalid-clock", help="Judge answers that were not paced.")
]
WorkersOption = Annotated[int, whole_option("--eval-workers", "Samples judged at a time.", 1)]
LateOption = Annotated[
    bool,
    typer.Option(
        "--judge-late/--no-judge-late",
        help="Judge samples with late sentences once more with them, for the comparison.",
    ),
]
FloorsOption = Annotated[
    list[str] | None,
    typer.Option("--floors", help="reference, or NAME=NUMBER such as rtd.mean_content_score=1.8 (commas)."),
]


def load_samples(
    source: str,
    *,
    split: str,
    family: Family,
    ids: list[str] | None,
    exclude_ids: list[str] | None,
    limit: int | None,
    media_root: Path | None,
    require_media: bool = True,
) -> Dataset:
    """The selected samples; what was refused is told at once. Raises DatasetError: nothing is left."""
    from client.dataset import DatasetError, load_dataset

    chosen = load_dataset(
        source,
        split=split,
        family=family.value,
        ids=listed(ids) or None,
        exclude_ids=listed(exclude_ids),
        limit=limit,
        media_root=media_root,
        require_media=require_media,
    )
    for note in chosen.notes:
        complain(f"note: {note}")
    for refused in chosen.refused:
        complain(f"refused: {refused.where} (id {refused.id}): {refused.reason}")
    if not chosen.samples:
        raise DatasetError(
            f"{chosen.source}: nothing to run: {chosen.rows} rows, {len(chosen.refused)} refused, "
            "none left by the filters"
        )
    return chosen


def session_settings(
    *,
    url: str,
    model: str,
    ref_audio: Path,
    request_timeout_s: float,
    pace: Pace,
    fps: float,
    api_key_env: str | None,
    ca_file: Path | None = None,
    mix: Mix = Mix.QUESTION,
    clock: Clock = Clock.MEDIA,
) -> SessionSettings:
    """Settings of the sessions. Raises MediaError: the voice. Ends the command on an option out of range."""
    from client.media import load_reference_voice
    from client.settings import SessionSettings

    return SessionSettings(
        url=url,
        model=model,
        ref_audio=load_reference_voice(ref_audio),
        deadlines=_deadlines(request_timeout_s),
        pace=pace.value,
        fps=_fps(fps),
        mix=mix.value,
        clock=clock.value,
        headers=_headers(api_key_env),
        tls=_trust(ca_file, url),
    )


def judge_settings(
    *,
    base_url: str,
    model: str,
    api_key: str,
    api_key_env: str | None,
    timeout_s: float,
    video_mode: VideoMode,
    fps: float,
    modalities: str | None,
    content_frame_limit: int,
    frame_overflow: Overflow,
    window_size_s: float,
    ca_file: Path | None = None,
) -> JudgeSettings:
    """Settings of the judge, checked. Ends the command on one out of range."""
    from client.judge.settings import JudgeSettings

    settings = JudgeSettings(
        base_url=base_url,
        model=model,
        api_key=_key(api_key_env, "--judge-api-key-env") if api_key_env is not None else api_key,
        timeout_s=timeout_s,
        video_mode="video_url" if video_mode is VideoMode.VIDEO_URL else "frame-sample",
        fps=fps,
        modalities=tuple(listed([modalities])) if modalities else None,
        content_frame_limit=content_frame_limit,
        frame_overflow="reduce" if frame_overflow is Overflow.REDUCE else "error",
        window_size_s=window_size_s,
        tls=_trust(ca_file, base_url, "--judge-ca-file"),
    )
    try:
        settings.check()
    except ValueError as error:
        refuse(str(error))
    return settings


def progress_of(total: int, as_json: bool, what: str = "sample") -> PlainProgress | TerminalProgress:
    """A bar on a terminal, else a line a sample; on stderr."""
    from client.progress import PlainProgress, TerminalProgress

    if as_json or not sys.stderr.isatty():
        return PlainProgress(total, complain)
    from rich.console import Console

    return TerminalProgress(total, Console(stderr=True), what)


def print_rows(rows: Sequence[tuple[str, str]]) -> None:
    """A table of names and values on a terminal, else lines."""
    if not sys.stdout.isatty():
        for name, value in rows:
            typer.echo(f"{name}: {value}")
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in rows:
        table.add_row(Text(name), Text(value))
    Console().print(table)


def print_json(content: object) -> None:
    """Indented JSON on stdout; what has no UTF-8, as a folder's name may, becomes `?` as in files."""
    from client.artifacts import indented

    typer.echo(indented(content).decode())


def listed(values: list[str] | None) -> list[str]:
    """The parts of repeated options, each of which may hold several, separated by commas."""
    return [part.strip() for value in values or [] for part in value.split(",") if part.strip()]


def complain(line: str) -> None:
    """Tell on stderr. A reader that goes away in the middle of a run costs nothing: files and exit code tell too."""
    from client.escaping import escaped

    try:
        typer.echo(escaped(line), err=True)
    except OSError:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - it stays open


def hear_logs() -> None:
    """Warnings of the client go to stderr, but for those that progress and the closing table tell anyway."""
    import logging

    from client.escaping import EscapingFormatter

    handler = logging.StreamHandler()
    handler.setFormatter(EscapingFormatter())
    handler.addFilter(lambda record: not getattr(record, "in_result", False))
    logger = logging.getLogger("client")
    logger.addHandler(handler)
    logger.propagate = False


def refuse(message: str) -> NoReturn:
    """End the command on bad input."""
    complain(f"error: {message}")
    raise typer.Exit(BAD_INPUT)


def _deadlines(request_timeout_s: float) -> Deadlines:
    from client.deadlines import Deadlines

    if not math.isfinite(request_timeout_s):
        refuse(f"--request-timeout-s: found {request_timeout_s}; allowed: seconds (0 or less: 6 h)")
    return Deadlines(request_s=request_timeout_s if request_timeout_s > 0 else LEGACY_REQUEST_S)


def _fps(fps: float) -> float:
    if not (math.isfinite(fps) and fps > 0):
        refuse(f"--fps: found {fps}; allowed: frames a second above 0")
    return fps


def _headers(api_key_env: str | None) -> dict[str, str]:
    """The key goes into the upgrade request and nowhere else."""
    return {} if api_key_env is None else {"Authorization": f"Bearer {_key(api_key_env, '--api-key-env')}"}


def _trust(ca_file: Path | None, url: str, option: str = "--ca-file") -> ssl.SSLContext | None:
    """The certificates of a file; without one the system's are used."""
    import ssl

    if ca_file is None:
        return None
    if not url.startswith(("wss:", "https:")):
        refuse(f"{option}: {bare_url(url)} has no TLS; allowed: with wss:// or https://")
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except OSError as error:  # an SSLError is one too
        why = error.strerror if error.filename or not getattr(error, "reason", "") else error.reason  # type: ignore[attr-defined]
        refuse(f"{option} {ca_file}: {why}; allowed: certificates in PEM")


def _key(variable: str, option: str) -> str:
    key = os.environ.get(variable, "").strip()
    if not key or not key.isprintable() or not key.isascii():
        refuse(f"{option}: {variable} is unset, empty or no plain text; allowed: a variable with the key")
    return key
