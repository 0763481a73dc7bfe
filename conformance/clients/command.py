"""`command:"…"`: a program of others, on the real clock, judged by the wire and by what it leaves on the disk."""

from __future__ import annotations

import asyncio
import shlex
import socket
import subprocess
from typing import TYPE_CHECKING

from conformance.clients.network import MSS_BYTES, Helper, bind
from conformance.clients.outside import OutsideRun
from conformance.clients.program import Program
from conformance.clock.socket_diag import SocketDiag
from conformance.observation import PendingTask
from conformance.witness import in_another_process

if TYPE_CHECKING:
    from conformance.clients.job import Job
    from conformance.clients.scene import Attempt, Scene
    from conformance.witness import Looker

TOLD_LINES = 20
"""Last lines of a program's output that a report shows."""


class ProgramFailed(Exception):
    """The program ended in a way that accounts for nothing."""


class CommandRun:
    """A program in one performance."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._shared = OutsideRun(scene)
        self._program: Program | None = None
        self._status: int | None = None
        self._ended_s = 0.0
        self._argv: list[str] = []
        self._network = scene.options.network
        sockets = 1 if scene.judge is None else 2
        self._helper = Helper(self._network, sockets if self._network == "own" else 0, scene.small_bytes or 0)
        self._diag = SocketDiag(self._helper.diag) if self._helper.diag is not None else None

    def current_attempt(self) -> None:
        """It does not say."""

    def nth_attempt(self, number: int) -> Attempt | None:
        """With one sample alone, each connection is an attempt at it."""
        return self._shared.nth_attempt(number)

    def listener(self, rcvbuf_bytes: int | None) -> socket.socket | None:
        """In its own network; in this machine's, one whose window a stopped reader fills soon."""
        if self._network == "own":
            return bind(self._helper.sockets.pop(), rcvbuf_bytes)
        if rcvbuf_bytes is None:
            return None
        return bind(socket.socket(), rcvbuf_bytes, mss_bytes=MSS_BYTES)

    def looker(self, port: int, server: socket.socket) -> Looker | None:
        """Its kernel is asked."""
        if self._diag is None:
            return None
        return in_another_process(self._diag, ("127.0.0.1", port), server)

    async def run(self, server_url: str) -> None:
        """Start the program with its job and wait for its end; ended itself when this is cancelled."""
        scene = self._scene
        job = self._shared.job(server_url)
        self._argv = scene.options.client.fill(job.fields())
        try:
            self._program = Program(self._start(job))
        except BaseException:  # an interrupt while it starts
            self._helper.give_up()
            raise
        try:
            scene.recorder.add("", "client", "started", {"argv": shlex.join(self._argv)})
            await self._program.ended()
        finally:
            self._ended_s = asyncio.get_running_loop().time()
            self._status = await self._program.end()
            scene.recorder.add("", "client", "ended", {"status": self._status})
        self._check()

    def _start(self, job: Job) -> subprocess.Popen[bytes]:
        environment = {**self._scene.options.client_env, **job.environment()}
        try:
            self._helper.become(self._argv, environment)
        except OSError as error:
            raise ProgramFailed(f"it could not be started: {error}") from error
        return self._helper.process

    def _check(self) -> None:
        """Raises ProgramFailed: killed by a signal that is not ours, or a bad status before it ever connected."""
        assert self._status is not None
        if self._status < 0:
            raise ProgramFailed(f"it was killed by signal {-self._status}")
        if self._status and not self._scene.connections():
            raise ProgramFailed(f"it ended with status {self._status} before it connected")

    def pending(self) -> list[PendingTask]:
        """The process."""
        if self._program is None:
            return []
        name = f"process {self._program.process.pid}"
        return [PendingTask(name, (f"  {shlex.join(self._argv)}",))]

    def account(self) -> None:
        """What it did on the wire and left on the disk; its time counts from its first connection."""
        observation = self._scene.observation
        if self._diag is not None:
            self._diag.close()
        if self._program is None:
            self._helper.give_up()
        opened = [connection.opened_s for connection in observation.connections]
        if opened and not observation.watchdog_fired:
            observation.client_s = self._ended_s - min(opened)
        if self._program is not None:
            self._keep_output(self._program)
        self._shared.account()

    def _keep_output(self, program: Program) -> None:
        told: list[str] = []
        for name, kept in (("stdout", program.stdout), ("stderr", program.stderr)):
            (self._scene.folder / f"client.{name}").write_text(kept.text(), encoding="utf-8")
            told += [f"{name}: {line}" for line in kept.last_lines(TOLD_LINES)]
        self._scene.observation.output = tuple(told)
