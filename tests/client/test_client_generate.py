"""Whole sessions over real sockets in virtual time: streaming, commit, padding, drain (evaluation.md 3 to 9)."""

from __future__ import annotations

import asyncio
import base64
import inspect
import itertools
import re
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection

from client.connection import Connection
from client.conversation import Conversation
from client.generate import clip_units, drain_window_s, generate_sample, shape_tail
from client.padding import Padding
from client.record import AttemptRecord
from client.session import ClientSession
from conformance.clock import run_virtual

APPEND = "input_audio_buffer.append"
COMMIT = "input_audio_buffer.commit"


def attempt(kit: Any, seconds: float = 3.0, *, clip: Any = None, **peer_options: Any) -> Any:
    """(result, the peer's session, seconds) of one attempt."""
    settings = peer_options.pop("settings", {})

    async def main() -> Any:
        loop = asyncio.get_running_loop()
        peer = kit.Peer(**peer_options)
        async with peer.running():
            began_s = loop.time()
            result = await generate_sample(clip or kit.clip(seconds), kit.settings(peer.url, **settings))
            return result, peer.sessions[0], loop.time() - began_s

    return run_virtual(main)


def pcm_of(event: dict[str, Any]) -> bytes:
    return base64.b64decode(event["audio"])


def split_at_commit(session: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Appends before and after the commit."""
    events = [event for _, event in session.received]
    at = next(k for k, event in enumerate(events) if event["type"] == COMMIT)
    return [e for e in events[:at] if e["type"] == APPEND], [e for e in events[at:] if e["type"] == APPEND]


@pytest.mark.parametrize("family", ["audio", "output_audio"])
def test_session_in_either_dialect(kit: Any, family: str) -> None:
    result, session, _ = attempt(kit, reply=kit.Reply(words=("A cyclist", " passes."), family=family))

    assert result.success
    assert [item["sentence"] for item in result.timed_sentences] == ["A cyclist passes."]
    assert (result.audio_bytes, result.audio_sample_rate_hz) == (32_000, 8_000)
    assert session.names[0] == "session.update"
    assert session.names[-1] == "session.close"


def test_clip_of_whole_units_ends_two_bytes_short_then_commit_then_silence(kit: Any) -> None:
    _, session, _ = attempt(kit, 3.0, reply=kit.Reply(at=2, words=("a", "b", "c.")))
    clip, padded = split_at_commit(session)

    assert [len(pcm_of(e)) for e in clip] == [32_000, 32_000, 31_998]
    assert session.of(COMMIT) == [{"type": COMMIT, "final": True}]
    assert padded
    assert all(pcm_of(e) == bytes(32_000) and e["is_speech"] is False for e in padded)
    assert all("is_speech" not in e for e in clip)


def test_clip_with_a_residual_is_left_alone(kit: Any) -> None:
    _, session, _ = attempt(kit, 2.4)
    clip, _ = split_at_commit(session)

    assert [len(pcm_of(e)) for e in clip] == [32_000, 32_000, 12_800]


def test_media_clock_counts_on_through_padding(kit: Any) -> None:
    result, session, _ = attempt(kit, 2.4, reply=kit.Reply(at=2, words=("a", " b", " c.")))

    ends = [e["audio_end_ms"] for e in session.of(APPEND)]
    assert ends == [1000, 2000, 2400] + [2400 + 1000 * k for k in range(1, len(ends) - 2)]
    assert len(ends) > 4
    assert result.timed_sentences[0]["end"] > 2.4


def test_units_and_padding_keep_real_time(kit: Any) -> None:
    _, session, _ = attempt(kit, 2.4, reply=kit.Reply(at=2, words=("a", "b", "c", "d.")))

    times = session.times(APPEND)
    gaps = [round(b - a, 6) for a, b in itertools.pairwise(times)]
    assert gaps[:3] == [1.0, 1.0, 0.4]
    assert set(gaps[3:]) == {1.0}


def test_as_fast_as_possible_does_not_sleep_and_marks_the_clock(kit: Any) -> None:
    result, session, _ = attempt(kit, 30.0, reply=None, settings={"pace": "as-fast-as-possible"})
    clip, _ = split_at_commit(session)

    assert len(clip) == 30
    assert session.times(COMMIT)[0] - session.times(APPEND)[0] < 0.01
    assert result.metadata["clock"] == "invalid"


def test_open_reply_is_fed_until_it_ends_and_no_longer(kit: Any) -> None:
    words = tuple(f"w{k}" for k in range(40))
    result, session, _ = attempt(kit, 2.4, reply=kit.Reply(at=2, words=words))
    _, padded = split_at_commit(session)

    assert result.success
    assert len(padded) == 39
    assert result.metadata["padding"]["units"] == 39
    close_s, last_s = session.times("session.close")[0], session.times(APPEND)[-1]
    assert close_s - last_s == pytest.approx(2.0, abs=0.01)


def test_session_that_listens_per_padded_unit_settles(kit: Any) -> None:
    """R46: the server answers each padded unit with a listen; the drain must not live on them."""
    result, _session, took_s = attempt(kit, 2.4)

    assert result.success
    assert took_s < 2.4 + 4
    assert result.drain_timeout is None


def test_listen_only_session_is_no_success_and_ends_early(kit: Any) -> None:
    result, _, took_s = attempt(kit, 2.4, reply=None)

    assert not result.success
    assert not result.response_done
    assert result.errors == []
    assert took_s < 6


def test_late_reply_is_kept_apart(kit: Any) -> None:
    async def commit(session: Any, event: dict[str, Any]) -> None:
        await session.send("input_audio_buffer.committed", event={})
        await say(session, "r1", "The answer.")
        await asyncio.sleep(1)
        await say(session, "r2", "By the way.")

    async def say(session: Any, rid: str, words: str) -> None:
        await session.send("response.created", response_id=rid)
        await session.send("response.audio_transcript.delta", response_id=rid, delta=words)
        await session.send("response.done", response={"id": rid})

    result, _, took_s = attempt(kit, 2.4, reply=None, on={COMMIT: commit})

    assert [item["sentence"] for item in result.timed_sentences] == ["The answer."]
    assert [item["sentence"] for item in result.metadata["late_sentences"]] == ["By the way."]
    assert result.success
    assert took_s == pytest.approx(2.4 + 1 + 2, abs=0.1)


def test_frozen_reply_ends_at_the_window_and_names_the_response(kit: Any) -> None:
    async def commit(session: Any, event: dict[str, Any]) -> None:
        await session.send("input_audio_buffer.committed", event={})
        await session.send("response.created", response_id="r7")
        await session.send("response.audio.delta", response_id="r7", delta="AAAA" * 8000)

    result, _, took_s = attempt(kit, 2.4, reply=None, on={COMMIT: commit, APPEND: nothing})

    assert result.errors == [result.drain_timeout]
    assert result.drain_timeout.startswith(
        "drain: 122.4 s passed, awaited: the decision on the residual unit"
    )
    assert result.drain_timeout.endswith(", open: r7 (1 deltas, 500 ms)")
    assert took_s == pytest.approx(2.4 + 122.4, abs=0.5)


async def nothing(session: Any, event: dict[str, Any]) -> None:
    """Read and say nothing."""


def test_window_is_the_clip_and_two_minutes(kit: Any) -> None:
    assert drain_window_s(37.0, kit.settings("ws://x").deadlines) == 157.0


def test_commit_is_alone_while_its_write_yields(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """R37: padding starts only after the commit's write has returned."""
    written: list[str] = []
    real = ClientConnection.send

    async def slow(self: ClientConnection, message: Any, *args: Any, **kwargs: Any) -> None:
        name = re.search(rb'"type":"([^"]+)"', bytes(message))
        assert name is not None
        if b"buffer.commit" in message:
            await asyncio.sleep(7)
        await real(self, message, *args, **kwargs)
        written.append(name.group(1).decode())

    monkeypatch.setattr(ClientConnection, "send", slow)
    _, session, _ = attempt(kit, 2.4, reply=kit.Reply(at=2, words=("a", "b.")))

    appends = [name for name in written if name in (APPEND, COMMIT)]
    assert appends.index(COMMIT) == 3
    assert session.times(APPEND)[3] - session.times(APPEND)[2] >= 7


def test_empty_commit_ends_the_wait_at_once(kit: Any) -> None:
    async def refuse(session: Any, event: dict[str, Any]) -> None:
        await session.send("error", error={"code": "input_audio_buffer_empty", "message": "nothing"})

    result, _, took_s = attempt(kit, 2.4, on={COMMIT: refuse, APPEND: nothing})

    assert result.server_errors == ["input_audio_buffer_empty: nothing"]
    assert took_s < 4


@pytest.mark.parametrize("how", ["drop", "reset", "close"])
def test_connection_lost_in_the_drain_fails_at_once_and_says_how(kit: Any, how: str) -> None:
    async def commit(session: Any, event: dict[str, Any]) -> None:
        await session.send("response.created", response_id="r1")
        await session.send("response.audio_transcript.delta", response_id="r1", delta="She picks ")
        if how == "close":
            await session.ws.close(1001, "restart")
        else:
            getattr(session, how)()

    result, _, took_s = attempt(kit, 2.4, reply=None, on={COMMIT: commit, APPEND: nothing})

    assert took_s < 5
    assert result.close == "lost"
    assert result.broken.startswith("ConnectionLost: ")
    assert ("1001 (restart)" if how == "close" else "1006") in result.broken
    if how != "reset":  # a reset may overtake what was on its way
        assert [item["sentence"] for item in result.timed_sentences] == ["She picks"]


def test_session_closed_by_the_server_in_the_middle_is_told(kit: Any) -> None:
    async def expire(session: Any, event: dict[str, Any]) -> None:
        await session.send("session.closed", event={"reason": "timeout"})

    result, session, took_s = attempt(kit, 8.0, on={APPEND: expire})

    assert result.errors == ["session.closed by the server (timeout)"]
    assert "session.close" not in session.names
    assert took_s < 3


def test_first_error_before_session_created_fails_without_a_close_event(kit: Any) -> None:
    async def refuse(session: Any, event: dict[str, Any]) -> None:
        await session.send("error", error="no duplex here", code="unsupported")

    result, session, took_s = attempt(kit, on={"session.update": refuse})

    assert result.errors == ["unsupported: no duplex here"]
    assert session.names == ["session.update"]
    assert took_s < 15


def test_error_in_the_session_lets_the_reply_be_read_to_its_end(kit: Any) -> None:
    async def update(session: Any, event: dict[str, Any]) -> None:
        await session.send("session.created")
        await session.send("error", error={"code": None, "message": "conversation is busy"})

    result, _, _ = attempt(kit, on={"session.update": update})

    assert result.response_done
    assert result.errors == ["error: conversation is busy"]
    assert result.timed_sentences


def test_chunk_period_of_the_server_rules_tail_units_and_padding(kit: Any) -> None:
    async def update(session: Any, event: dict[str, Any]) -> None:
        await session.send("session.created", session={"capabilities": {"chunk_period_ms": 400}})

    result, session, _ = attempt(
        kit, 2.0, reply=kit.Reply(at=2, words=("a", "b.")), on={"session.update": update}
    )
    clip, padded = split_at_commit(session)

    assert [len(pcm_of(e)) for e in clip] == [12_800] * 4 + [12_798]
    assert {len(pcm_of(e)) for e in padded} == {12_800}
    assert result.metadata["padding"]["period_ms"] == 400


def test_acks_follow_what_was_received_every_quarter_second(kit: Any) -> None:
    _, session, _ = attempt(kit, 3.0, reply=kit.Reply(at=0, words=("a", "b.")))

    acks = session.of("playback.ack")
    played = [ack["played_ms"] for ack in acks]
    gaps = [
        round(b - a, 3)
        for a, b in zip(session.times("playback.ack"), session.times("playback.ack")[1:], strict=False)
    ]
    assert played == sorted(played)
    assert played[-1] == 2000
    assert set(gaps[:-1]) == {0.25}
    assert all(ack["item_id"] == "item_" + ack["response_id"] for ack in acks)


class TestPaddingThroughTheShippedClass:
    """R40, R42: the padding goes through the real connection with only the library's `send` stubbed."""

    def padding(self, kit: Any, send: Any) -> tuple[Padding, Conversation]:
        deadlines = kit.settings("ws://x").deadlines
        connection = Connection("S/1", deadlines)
        stub = type("OnlySend", (), {"send": staticmethod(send), "transport": None})
        connection._socket = stub()  # type: ignore[assignment]
        session = ClientSession(settle_s=deadlines.settle_s)
        session.append_sent(2400)
        session.commit_sent()
        conversation = Conversation("S/1", deadlines, connection, session, AttemptRecord("S", "1"))
        return Padding(conversation), conversation

    def test_units_reach_the_librarys_send(self, kit: Any) -> None:
        sent: list[tuple[float, bytes]] = []

        async def main() -> None:
            async def send(message: bytes, *, text: bool) -> None:
                sent.append((asyncio.get_running_loop().time(), message))

            padding, _ = self.padding(kit, send)
            padding.start()
            await asyncio.sleep(2.5)
            padding.stop()
            await asyncio.sleep(0.01)
            assert padding.task is not None
            assert padding.task.done()

        run_virtual(main)

        assert [round(t, 3) for t, _ in sent] == [1000.0, 1001.0, 1002.0]
        assert b'"audio_end_ms":5400' in sent[-1][1]
        assert b'"is_speech":false' in sent[-1][1]

    def test_stopped_before_the_first_unit_sends_nothing(self, kit: Any) -> None:
        sent: list[bytes] = []

        async def main() -> None:
            async def send(message: bytes, *, text: bool) -> None:
                sent.append(message)

            padding, _ = self.padding(kit, send)
            padding.stop()
            padding.start()
            await asyncio.sleep(3)

        run_virtual(main)

        assert sent == []

    @pytest.mark.parametrize("error", [OSError(32, "Broken pipe"), ConnectionResetError()])
    def test_closed_socket_ends_it_quietly(self, kit: Any, error: Exception) -> None:
        async def main() -> None:
            async def send(message: bytes, *, text: bool) -> None:
                raise error

            padding, _ = self.padding(kit, send)
            padding.start()
            await asyncio.sleep(1)
            assert padding.task is not None
            assert padding.task.done()
            assert padding.failure() is None

        run_virtual(main)

    def test_anything_else_surfaces(self, kit: Any) -> None:
        async def main() -> None:
            async def send(message: bytes, *, text: bool) -> None:
                raise AttributeError("append_silence")

            padding, conversation = self.padding(kit, send)
            padding.start()
            await asyncio.sleep(1)
            assert isinstance(padding.failure(), AttributeError)
            assert await conversation.changed.wait_until(0)

        run_virtual(main)

    def test_every_name_the_client_calls_exists_on_the_librarys_class(self) -> None:
        source = inspect.getsource(inspect.getmodule(Connection))  # type: ignore[arg-type]
        called = set(re.findall(r"self\._socket\.(\w+)", source))

        ours = {"listen", "budget"}  # of our subclass, which is what `connect` makes
        assert called == {"send", "recv", "close"} | ours
        for name in called - ours:
            assert callable(getattr(ClientConnection, name))
        assert "text" in inspect.signature(ClientConnection.send).parameters

    def test_padding_calls_only_what_the_conversation_has(self) -> None:
        source = inspect.getsource(Padding)
        for name in re.findall(r"self\.conversation\.(\w+)", source):
            fields = Conversation.__dataclass_fields__
            assert name in fields or hasattr(Conversation, name), name


def test_padding_that_breaks_fails_the_sample_with_its_error(
    kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(self: Padding) -> None:
        raise AttributeError("append_silence")

    monkeypatch.setattr(Padding, "send_unit", broken)

    with pytest.raises(AttributeError, match="append_silence"):
        attempt(kit, 2.4, reply=kit.Reply(at=2, words=("a", "b.")))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pace": "slow"}, "pace"),
        ({"mix": "video"}, "mix"),
        ({"clock": "wall"}, "clock"),
        ({"unit_ms": 0}, "unit_ms"),
    ],
)
def test_unusable_settings_are_refused_before_a_socket_is_opened(
    kit: Any, change: dict[str, Any], message: str
) -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match=message):
            await generate_sample(kit.clip(1.0), kit.settings("ws://127.0.0.1:1/x", **change))

    run_virtual(main)


def test_tail_is_shaped_only_on_a_boundary() -> None:
    assert len(shape_tail(bytes(64_000), 1000)) == 63_998
    assert len(shape_tail(bytes(64_002), 1000)) == 64_002
    assert len(shape_tail(bytes(25_600), 400)) == 25_598


def test_frames_ride_their_units_and_none_is_sent_beyond_the_audio(kit: Any) -> None:
    units = list(clip_units(kit.clip(2.4), memoryview(kit.clip(2.4).pcm)[:40_000], 1000))

    assert [len(pcm) for pcm, _ in units] == [32_000, 8_000]
    assert [len(jpegs) for _, jpegs in units] == [1, 1]


def test_same_seedless_run_gives_the_same_trail(kit: Any) -> None:
    def trail() -> list[Any]:
        steps: list[Any] = []

        async def main() -> None:
            async with kit.Peer().running() as peer:
                await generate_sample(
                    kit.clip(2.4),
                    kit.settings(peer.url),
                    observer=lambda step, fields: steps.append(
                        (asyncio.get_running_loop().time(), step, dict(fields))
                    ),
                )

        run_virtual(main)
        return steps

    first = trail()
    assert all(trail() == first for _ in range(5))
    assert {step for _, step, _ in first} >= {"sent", "received", "phase"}
