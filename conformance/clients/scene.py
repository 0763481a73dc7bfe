"""What a client under test is given to play in, and what the runner asks of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import socket

    from client.media import ReferenceVoice
    from conformance.clock import RealLoop, VirtualLoop
    from conformance.judging import JudgeStage
    from conformance.observation import Observation, PendingTask
    from conformance.options import RunOptions
    from conformance.trace import Recorder
    from conformance.witness import Looker

Attempt = tuple[str, str, int]
"""(split, id, attempt), counted from 1."""


@dataclass(frozen=True)
class Scene:
    """One performance, as a client sees it from behind the stage."""

    observation: Observation
    options: RunOptions
    folder: Path
    """Of the scenario; answers go below `observation.out`."""
    voice: ReferenceVoice
    loop: VirtualLoop | RealLoop
    recorder: Recorder
    judge: JudgeStage | None
    on_step: Callable[[str, Mapping[str, Any]], None]
    """Hears what a client tells of itself."""
    small_bytes: int | None
    """Send buffer that a fault of the scenario asks for, in bytes."""
    connections: Callable[[], int]
    """How many connections the server has had."""


class ClientRun(Protocol):
    """A client under test in one performance. `builtin`, `python:` and `command:` each have one."""

    def current_attempt(self) -> Attempt | None:
        """Of the running task, where the client says so."""

    def nth_attempt(self, number: int) -> Attempt | None:
        """Of the n-th connection of the server, where that can be told as it comes."""

    def listener(self, rcvbuf_bytes: int | None) -> socket.socket | None:
        """A bound socket that the client can reach, for the server or the judge; None: any of this machine's."""

    async def run(self, server_url: str) -> None:
        """The client's job. Cancelled when the harness gives up on it."""

    def looker(self, port: int, server: socket.socket) -> Looker | None:
        """Looks at its end of a connection that is in no transport of this process; None: that cannot be seen."""

    def pending(self) -> list[PendingTask]:
        """What of it has not ended."""

    def account(self) -> None:
        """After the performance: what became of every sample, into the observation."""
