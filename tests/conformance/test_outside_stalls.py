"""Whose doing a stall is, staged on real sockets; how a program's socket is filled where its network is shared."""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from client import evidence
from conformance.clients.calibration import Figure, abilities_after, filled, measure
from conformance.clients.choice import ClientChoice, abilities_of
from conformance.clients.program import program_environment
from conformance.clock import RealLoop
from conformance.clock.socket_diag import SocketDiag
from conformance.options import RunOptions
from conformance.witness import StallWitness, in_another_process, in_this_process
from scenarios import load_catalogue

HERE = Path(__file__).resolve().parent
CATALOGUE = {scenario.id: scenario for scenario in load_catalogue()}
NETLINK_SOCK_DIAG = 4
SO_ATTACH_FILTER = 26
_DROP_ALL = struct.pack("=HBBI", 0x06, 0, 0, 0)
"""One instruction of classic BPF: return 0, keep nothing of what arrives."""


class Pair:
    """A client's transport and the server's socket, with small buffers, and all that looks at them."""

    def __init__(self) -> None:
        self.told: dict[str, list[Any]] = {"here": [], "elsewhere": []}
        self.looks: list[evidence.SocketSample] = []

    async def open(self) -> None:
        """Connect, on the loop that runs."""
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            client.setblocking(False)
            await loop.sock_connect(client, listener.getsockname())
            self.server, _ = listener.accept()
        self.transport, _ = await loop.create_connection(asyncio.Protocol, sock=client)
        self.diag = SocketDiag(socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_SOCK_DIAG))

    def lose_everything(self) -> None:
        """From now on the server's kernel drops every segment that arrives, before TCP sees it."""
        program = ctypes.create_string_buffer(_DROP_ALL)
        self.server.setsockopt(
            socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("@HP", 1, ctypes.addressof(program))
        )

    def watch(self) -> list[StallWitness]:
        """Write more than fits, and look at it as at a client of this process and as at a program."""
        self.transport.write(bytes(300_000))
        here = in_this_process(
            self.transport.get_extra_info("socket"), lambda: self.transport, lambda: self.server
        )
        address = self.transport.get_extra_info("sockname")
        elsewhere = in_another_process(self.diag, address, self.server)
        witnesses = [
            StallWitness(here, self.told["here"].append),
            StallWitness(elsewhere, self.told["elsewhere"].append),
        ]
        for witness in witnesses:
            witness.start()
        return witnesses

    def look(self, late_s: float = 0.0) -> None:
        """As the client itself looks at its socket."""
        now_s = asyncio.get_running_loop().time()
        self.looks.append(evidence.look(now_s, "in a test", self.transport, late_s))

    def close(self) -> None:
        """Both ends."""
        self.transport.abort()
        self.server.close()
        self.diag.close()


def on_the_real_clock(main: Callable[[], Any]) -> None:
    """Run on the wall clock, with our task factory."""
    with asyncio.Runner(loop_factory=RealLoop) as runner:
        runner.run(main())


@pytest.mark.real
def test_a_stopped_peer_and_a_network_that_loses_are_told_apart_from_every_side() -> None:
    stopped, lossy = Pair(), Pair()

    async def main() -> None:
        await stopped.open()
        await lossy.open()
        lossy.lose_everything()
        witnesses = [*stopped.watch(), *lossy.watch()]
        await asyncio.sleep(0.1)
        stopped.look()
        lossy.look()
        await asyncio.sleep(1.9)
        stopped.look()
        lossy.look()
        for witness in witnesses:
            witness.stop()
        stopped.close()
        lossy.close()

    on_the_real_clock(main)
    for pair, cause in ((stopped, "the peer stopped reading"), (lossy, "the network lost it")):
        told = {side: [one["cause"] for one in seen] for side, seen in pair.told.items()}
        assert told == {"here": [cause], "elsewhere": [cause]}
    assert evidence.verdict(stopped.looks) == "peer stopped reading"
    assert evidence.verdict(lossy.looks) == "network lost it"


@pytest.mark.real
def test_a_loop_that_stood_still_takes_the_blame_itself() -> None:
    pair = Pair()

    async def main() -> None:
        await pair.open()
        witnesses = pair.watch()
        await asyncio.sleep(0.6)  # one look is behind us, the next is due in less than half a second
        time.sleep(1.6)  # noqa: ASYNC251 - the loop must stand
        await asyncio.sleep(0.05)
        for witness in witnesses:
            witness.stop()
        pair.close()

    on_the_real_clock(main)
    assert {side: [one["cause"] for one in seen] for side, seen in pair.told.items()} == {
        "here": ["our own loop was late"],
        "elsewhere": ["our own loop was late"],
    }


def test_a_socket_that_is_gone_is_nobody(tmp_path: Path) -> None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_SOCK_DIAG) as netlink:
        assert SocketDiag(netlink).look(("127.0.0.1", 9), ("127.0.0.1", 10)) is None


# -- a network that is shared


FIGURE = Figure(600_000, True, "it took 600000 bytes before a write waited")


def test_pictures_grow_until_one_unit_fills_the_socket() -> None:
    scenario = CATALOGUE["retry/stalled-stream[twice]"]
    large = filled(scenario, FIGURE)
    assert not isinstance(large, str)
    assert large.clip is not None
    assert scenario.clip is not None
    assert large.clip.frame_bytes == 562_500
    assert large.clip.frame_bytes * 4 / 3 > 600_000
    assert large.model_copy(update={"clip": scenario.clip}) == scenario


@pytest.mark.parametrize(
    ("scenario_id", "figure", "told"),
    [
        ("commit/stall-at-commit", FIGURE, "takes 600000 bytes, more than it sends after the clip"),
        ("retry/stalled-stream[twice]", Figure(600_000, False, ""), "unit(s) of sound"),
        ("retry/stalled-stream[twice]", Figure(9_000_000, True, ""), "more than a unit can hold"),
    ],
)
def test_a_stall_that_cannot_be_felt_is_not_observable_with_the_figure(
    scenario_id: str, figure: Figure, told: str
) -> None:
    why = filled(CATALOGUE[scenario_id], figure)
    assert isinstance(why, str)
    assert told in why
    assert str(figure.takes_bytes) in why


def test_a_scenario_without_a_stall_and_a_socket_that_is_soon_full_are_left_alone() -> None:
    clean, stalled = CATALOGUE["stream/clean-residual[july]"], CATALOGUE["retry/stalled-stream[twice]"]
    assert filled(clean, FIGURE) is clean
    assert filled(stalled, Figure(8_000, False, "")) is stalled


def test_a_trial_measures_what_a_program_takes(tmp_path: Path) -> None:
    choice = ClientChoice("command", arguments=(sys.executable, str(HERE / "hasty_program.py")))
    options = RunOptions(
        clock="real",
        client=choice,
        client_env=program_environment(os.environ, ()),
        abilities=abilities_of(choice, "shared"),
        client_deadline_s=3.0,
    )
    figure = measure(options)
    assert figure.takes_bytes is not None
    assert 8_000 < figure.takes_bytes < 10_000_000
    assert figure.pictures
    assert abilities_after(figure, options.abilities).missing(["transport"]) is None  # type: ignore[list-item]


def test_a_program_that_never_fills_its_socket_is_told_so() -> None:
    abilities = abilities_of(ClientChoice("command", arguments=("true",)), "shared")
    figure = Figure(None, False, "no write of it waited within 20 s")
    after = abilities_after(figure, abilities)
    assert "no write of it waited within 20 s" in " ".join(after.why_not.values())
