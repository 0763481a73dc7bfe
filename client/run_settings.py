"""How samples are run, what a run takes, and whom it tells (evaluation.md 12.3, 21)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from client.masking import bare_url
from client.media import Prepared
from client.response_root import comparable
from client.run_result import SampleRecord
from client.settings import SessionSettings


class Planned(Protocol):
    """A sample whose media is prepared when its turn comes, in a worker thread."""

    @property
    def split(self) -> str: ...
    @property
    def id(self) -> str: ...
    def __call__(self) -> Prepared:
        """Raises MediaError: the sample fails with that reason and no session is opened."""


class Progress(Protocol):
    """Told as samples start and end. `index` counts from 0 in the order asked for."""

    def started(self, index: int, split: str, sample_id: str) -> None: ...
    def ended(self, index: int, record: SampleRecord) -> None: ...


@dataclass(frozen=True)
class RunSettings:
    """How samples are run.

    Source: evaluation.md 12.3, 21.
    """

    session: SessionSettings
    response_root: Path
    concurrency: int = 1
    """Sessions at a time."""
    defer_artifacts: bool = False
    """Write answers after the last sample, outside the timed window."""
    overwrite: bool = False
    """Run finished samples again."""
    readiness: bool = False
    """Spend one session on the first sample before the timed window; the run ends when that one fails."""
    warmups: int = 0
    """Further sessions before the timed window, as many at a time as in it. Nothing of them is kept or counted."""
    stop_when_away: bool = False
    """End the run when its first samples do not even reach the server."""


def told(settings: RunSettings) -> dict[str, Any]:
    """Settings for the run result: no headers, no credentials of the URL.

    Padding after the final commit changes the evaluation protocol, so it is said that it was on (R63).
    """
    session = settings.session
    return {
        "url": bare_url(session.url),
        **comparable(session),
        "clock": session.clock,
        "request_timeout_s": session.deadlines.request_s,
        "concurrency": settings.concurrency,
        "defer_artifacts": settings.defer_artifacts,
        "overwrite": settings.overwrite,
        "readiness": settings.readiness,
        "warmups": settings.warmups,
        "drain_padding": True,
    }
