"""The network that a program of others runs in: one of its own where allowed, else this machine's (design.md 4).

In a network of its own, send buffers can be small, so that a peer that stops reading is felt at once; and it reaches
nothing but loopback. The server listens there through a socket that was made inside and handed out.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

HELPER = Path(__file__).with_name("netns_helper.py")
ANSWER_S = 10.0
"""Real seconds that the helper has to make its network, on a busy machine too."""
MSS_BYTES = 1460
"""On this machine's network: loopback's own segments of 64 kB would fill a small window with one write."""
Network = Literal["own", "shared"]


class NetworkError(OSError):
    """No network of its own can be made here; the message says what the system refused."""


class Helper:
    """A process that has made a network of its own, where that is asked for, and waits to become a program.

    Args:
        network: `own` or `shared`.
        sockets: how many TCP sockets to make in it.
        wmem_bytes: send buffer of its sockets; 0: as the system has it.
        output: what stdout and stderr of the program go to; None: to this process's.
    Raises NetworkError: it is not allowed. The process has ended then.
    """

    def __init__(
        self, network: Network, sockets: int, wmem_bytes: int, *, output: int | None = subprocess.PIPE
    ) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            number = str(theirs.fileno())
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    str(HELPER),
                    number,
                    str(int(network == "own")),
                    str(sockets),
                    str(wmem_bytes),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._channel = ours
        ours.settimeout(ANSWER_S)
        try:
            line, numbers, _, _ = socket.recv_fds(ours, 65536, sockets + 1)
        except TimeoutError:
            line, numbers = b"", []
        made = [socket.socket(fileno=fd) for fd in numbers]
        if len(made) < sockets + (network == "own") or not line:
            for one in made:
                one.close()
            self.give_up()
            raise NetworkError(_error_in(line) or "the helper did not answer")
        self.diag = made.pop() if len(made) > sockets else None
        """A NETLINK_SOCK_DIAG socket of its network; None: the system has none."""
        self.sockets = made

    def become(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        """Let the helper become the program. Raises OSError: it cannot; the message names the program."""
        asked = json.dumps({"argv": list(argv), "env": dict(environment)})
        self._channel.sendall(asked.encode() + b"\n")
        with self._channel, self._channel.makefile("rb") as lines:
            refused = _error_in(lines.readline())  # the channel closes when the program has begun
        if refused:
            raise OSError(refused)

    def give_up(self) -> None:
        """Nothing is to be run; a program that runs already ends with its group."""
        self._channel.close()
        if self.process.returncode is None:  # not reaped, so its group cannot be another's
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


def _error_in(line: bytes) -> str:
    try:
        told = json.loads(line) if line else {}
    except ValueError:
        return f"the helper said {line[:100]!r}"
    return str(told.get("error", ""))


def refusal() -> str | None:
    """Why no network of its own can be made here; None: it can."""
    if sys.platform != "linux":
        return f"network namespaces are Linux's, this is {sys.platform}"
    try:
        helper = Helper("own", 0, 4096, output=subprocess.DEVNULL)
    except NetworkError as error:
        return str(error)
    if helper.diag is not None:
        helper.diag.close()
    helper.give_up()
    return None


def bind(listener: socket.socket, rcvbuf_bytes: int | None, *, mss_bytes: int | None = None) -> socket.socket:
    """Bind to a free port of loopback, ready to be listened on.

    Args:
        rcvbuf_bytes: SO_RCVBUF, set before anything else: accepted sockets inherit it, and the handshake settles the
            window scale; None: the system's.
        mss_bytes: TCP_MAXSEG; None: the system's.
    Raises OSError: the system refuses.
    """
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if rcvbuf_bytes is not None:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf_bytes)
    if mss_bytes is not None:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, mss_bytes)
    listener.bind(("127.0.0.1", 0))
    listener.setblocking(False)
    return listener
