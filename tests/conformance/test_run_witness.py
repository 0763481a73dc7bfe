"""Whose doing a stall was is told from the sockets of both sides, and never guessed."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from typing import Any

import pytest

from conformance.clock import run_virtual
from conformance.options import RunOptions
from conformance.runner import run_scenario
from conformance.witness import PENDING_FOR_S, Look, StallWitness, cause_of, in_this_process
from scenarios import load_catalogue

STUCK = Look(
    buffered_bytes=50_000,
    unsent_bytes=4_000,
    in_flight_bytes=0,
    acked_bytes=9_000,
    retransmitted_bytes=0,
    peer_unread_bytes=3_000,
    peer_read_bytes=6_000,
)
ELSEWHERE = replace(STUCK, peer_unread_bytes=None, peer_read_bytes=None)
LOSING = replace(STUCK, unsent_bytes=0, in_flight_bytes=5_000, peer_unread_bytes=0)


@pytest.mark.parametrize(
    ("before", "after", "cause"),
    [
        (STUCK, STUCK, "the peer stopped reading"),
        (STUCK, replace(STUCK, peer_unread_bytes=3_500), "the peer stopped reading"),
        (STUCK, replace(STUCK, peer_unread_bytes=100), "unknown"),
        (ELSEWHERE, ELSEWHERE, "the peer stopped reading"),
        (ELSEWHERE, replace(ELSEWHERE, in_flight_bytes=10), "unknown"),
        (replace(ELSEWHERE, unsent_bytes=0), replace(ELSEWHERE, unsent_bytes=0), "unknown"),
        (LOSING, replace(LOSING, retransmitted_bytes=5_000), "the network lost it"),
        (LOSING, LOSING, "unknown"),
        (
            replace(LOSING, peer_unread_bytes=None, peer_read_bytes=None),
            replace(LOSING, peer_unread_bytes=None, peer_read_bytes=None, retransmitted_bytes=1),
            "the network lost it",
        ),
        (STUCK, replace(STUCK, late_s=1.5), "our own loop was late"),
        (STUCK, replace(STUCK, acked_bytes=9_001), "the peer stopped reading"),
        (STUCK, replace(STUCK, peer_read_bytes=6_001), "unknown"),
        (ELSEWHERE, replace(ELSEWHERE, acked_bytes=9_001), "unknown"),
        (
            replace(STUCK, buffered_bytes=0, unsent_bytes=0),
            replace(STUCK, buffered_bytes=0, unsent_bytes=0),
            "unknown",
        ),
    ],
)
def test_the_cause_follows_from_what_both_ends_show(before: Look, after: Look, cause: str) -> None:
    assert cause_of(before, after) == cause


def test_a_stopped_peer_is_named_in_the_report() -> None:
    scenario = next(s for s in load_catalogue() if s.id == "commit/stall-at-commit")
    (report,) = run_scenario(scenario, RunOptions()).faults

    assert report.evidence["cause"] == "the peer stopped reading"


def _watched(*, reads: bool) -> list[dict[str, Any]]:
    """What a witness saw of a writer that fills a small socket, while nobody reads it or somebody slowly does."""
    seen: list[dict[str, Any]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            client.setblocking(False)
            await loop.sock_connect(client, listener.getsockname())
            peer, _ = listener.accept()
        peer.setblocking(False)
        transport, _ = await loop.create_connection(asyncio.Protocol, sock=client)
        transport.write(bytes(300_000))
        looker = in_this_process(transport.get_extra_info("socket"), lambda: transport, lambda: peer)
        witness = StallWitness(looker, seen.append)
        witness.start()
        for _ in range(20):
            await asyncio.sleep(PENDING_FOR_S / 4)
            if reads:
                peer.recv(2000)
        witness.stop()
        transport.abort()
        peer.close()
        await asyncio.sleep(0)

    run_virtual(main)
    return seen


def test_a_real_stalled_pair_of_sockets_says_who_stopped() -> None:
    assert [evidence["cause"] for evidence in _watched(reads=False)] == ["the peer stopped reading"]


def test_a_stall_is_observed_after_more_than_a_second_and_not_before() -> None:
    (evidence,) = _watched(reads=False)

    # Figures, and not the constant: a threshold of nothing would call every busy moment a stall.
    assert 1.0 <= evidence["pending_s"] <= 1.5


def test_a_peer_that_reads_now_and_then_is_no_stall() -> None:
    assert _watched(reads=True) == []
