"""The session without I/O: completion, late replies, audio and anomalies (evaluation.md 5 to 9, design.md 7)."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from client.sentences import timed_sentences
from client.session import ClientSession

SETTLE_S = 2.0


def created(rid: str = "r1") -> dict[str, Any]:
    return {"type": "response.created", "response_id": rid}


def done(rid: str = "r1", status: str = "completed", reason: str = "") -> dict[str, Any]:
    details = {"reason": reason}
    return {"type": "response.done", "response": {"id": rid, "status": status, "status_details": details}}


def listen(**metadata: Any) -> dict[str, Any]:
    return {"type": "response.listen", "response": {"metadata": {"model_listen": True, **metadata}}}


def text(words: str, rid: str | None = "r1", name: str = "response.audio_transcript.delta") -> dict[str, Any]:
    return {"type": name, "delta": words} | ({"response_id": rid} if rid else {})


def audio(data: str, rid: str = "r1", name: str = "response.audio.delta", **more: Any) -> dict[str, Any]:
    return {"type": name, "response_id": rid, "delta": data, **more}


def b64(size: int) -> str:
    return base64.b64encode(bytes(size)).decode()


COMMITTED: dict[str, Any] = {"type": "input_audio_buffer.committed"}
DEFERRED: dict[str, Any] = {"type": "input_audio_buffer.committed", "event": {"overlap_deferred": True}}
NOISE: dict[str, Any] = {"type": "response.listen", "response": {"metadata": {"reason": "silence_or_noise"}}}
BUFFERING = listen(buffering=True)
COMMIT = "commit"

COMMITTED_AWAITED = "input_audio_buffer.committed"
DECISION_AWAITED = "the decision on the residual unit"
DONE_AWAITED = "response.done"

COMPLETION: list[tuple[str, list[Any], str | None]] = [
    ("nothing yet", [COMMIT], COMMITTED_AWAITED),
    ("a commit before ours does not count", [COMMITTED, COMMIT], COMMITTED_AWAITED),
    ("committed alone", [COMMIT, COMMITTED], DECISION_AWAITED),
    ("a listen after it", [COMMIT, COMMITTED, listen()], None),
    ("a listen before it decides nothing", [COMMIT, listen(), COMMITTED], DECISION_AWAITED),
    ("a buffering notice decides nothing", [COMMIT, COMMITTED, BUFFERING], DECISION_AWAITED),
    ("a listen that is not the model's", [COMMIT, COMMITTED, listen(model_listen=False)], DECISION_AWAITED),
    ("silence_or_noise counts", [COMMIT, COMMITTED, NOISE], None),
    ("open reply", [COMMIT, COMMITTED, listen(), created()], DONE_AWAITED),
    ("reply done", [COMMIT, COMMITTED, created(), done()], None),
    ("reply open at the commit, done after", [created(), COMMIT, COMMITTED, done()], None),
    ("done before committed decides nothing", [created(), COMMIT, done(), COMMITTED], DECISION_AWAITED),
    ("cancelled decides nothing", [COMMIT, COMMITTED, created(), done(status="cancelled")], DECISION_AWAITED),
    ("failed decides", [COMMIT, COMMITTED, created(), done(status="failed")], None),
    ("incomplete decides", [COMMIT, COMMITTED, created(), done(status="incomplete")], None),
    ("deferred: the earlier reply decides nothing", [created(), COMMIT, DEFERRED, done()], DECISION_AWAITED),
    ("deferred: the next reply does", [created(), COMMIT, DEFERRED, done(), created("r2"), done("r2")], None),
    ("one of two open", [created(), COMMIT, COMMITTED, created("r2"), done("r2")], DONE_AWAITED),
    (
        "done twice closes one",
        [created(), created("r2"), COMMIT, COMMITTED, done("r2"), done("r2")],
        DONE_AWAITED,
    ),
    ("created twice opens one", [COMMIT, COMMITTED, created(), created(), done()], None),
    ("done of a stranger", [COMMIT, COMMITTED, created(), listen(), done("r9")], DONE_AWAITED),
    (
        "listen with the id of an open reply ends it",
        [COMMIT, COMMITTED, created(), {**listen(), "response_id": "r1"}],
        None,
    ),
]


def fed(steps: list[Any], *, opened: bool = True) -> ClientSession:
    """A session after these steps, one a second from 100 s on; `session.created` comes first unless told otherwise."""
    session = ClientSession(settle_s=SETTLE_S)
    if opened:
        session.receive({"type": "session.created"}, 99.0)
    for second, step in enumerate(steps):
        if step == COMMIT:
            session.commit_sent()
        else:
            session.receive(step, 100.0 + second)
    return session


@pytest.mark.parametrize(
    ("steps", "awaited"), [row[1:] for row in COMPLETION], ids=[row[0] for row in COMPLETION]
)
def test_what_is_awaited(steps: list[Any], awaited: str | None) -> None:
    session = fed(steps)

    assert session.awaited() == awaited
    assert session.padding_wanted() is (awaited is not None)
    assert (session.settles_at_s() is None) is (awaited is not None)


def test_no_padding_before_the_commit_or_after_the_end() -> None:
    session = ClientSession(settle_s=SETTLE_S)
    assert not session.padding_wanted()
    session.commit_sent()
    assert session.padding_wanted()
    session.receive({"type": "session.closed"}, 1.0)
    assert not session.padding_wanted()


@pytest.mark.parametrize(
    "event",
    [listen(), BUFFERING, text("x"), audio("AAAA"), created("r2"), text("x", None)],
    ids=lambda e: e["type"],
)
def test_activity_starts_the_quiet_anew(event: dict[str, Any]) -> None:
    session = fed([COMMIT, COMMITTED, created(), done(), listen()])
    before = session.settles_at_s()
    session.receive(event, 110.0)
    session.receive(done("r2"), 110.0)

    assert before == 104.0 + SETTLE_S
    assert session.settles_at_s() == 110.0 + SETTLE_S


@pytest.mark.parametrize(
    "name", ["playback.acknowledged", "rate_limits.updated", "session.updated", "brand.new"]
)
def test_what_is_no_activity_leaves_the_quiet_alone(name: str) -> None:
    session = fed([COMMIT, COMMITTED, listen()])
    session.receive({"type": name}, 110.0)

    assert session.settles_at_s() == 102.0 + SETTLE_S


def test_new_response_after_the_end_resumes_padding() -> None:
    session = fed([created(), COMMIT, COMMITTED, done()])
    assert not session.padding_wanted()
    session.receive(created("r2"), 105.0)
    assert session.padding_wanted()


LATE: list[tuple[str, list[Any], bool]] = [
    (
        "after the decision, with a reply completed",
        [created(), COMMIT, COMMITTED, done(), created("r2")],
        True,
    ),
    ("answers the commit's residual", [created(), done(), COMMIT, COMMITTED, created("r2")], False),
    ("first reply of the session", [COMMIT, COMMITTED, listen(), created("r2")], False),
    ("an earlier reply still open", [created(), COMMIT, COMMITTED, listen(), created("r2")], False),
    ("the earlier reply failed", [created(), COMMIT, COMMITTED, done(status="failed"), created("r2")], False),
    ("before committed", [created(), done(), COMMIT, created("r2")], False),
    (
        "while another late one is open",
        [created(), COMMIT, COMMITTED, done(), created("r3"), created("r2")],
        True,
    ),
    (
        "after a listen that decided, reply done before the commit",
        [created(), done(), COMMIT, COMMITTED, listen(), created("r2")],
        True,
    ),
]


@pytest.mark.parametrize(("steps", "late"), [row[1:] for row in LATE], ids=[row[0] for row in LATE])
def test_which_replies_are_late(steps: list[Any], late: bool) -> None:
    session = fed([*steps, text("hello", "r2"), done("r2")])

    assert session.responses["r2"].late is late
    assert session.texts[-1][1] is late
    assert ("r2" in [r.id for r in session.completed_replies()]) is not late


def test_media_clock_stamps_text() -> None:
    session = fed([created()])
    assert session.append_sent(1000) == 1000
    session.receive(text("a"), 1.0)
    assert session.append_sent(400) == 1400
    session.receive(text("b"), 2.0)

    assert [delta.clock_ms for delta, _ in session.texts] == [1000, 1400]


def test_acks_count_what_was_received() -> None:
    session = fed([created("a"), created("b"), created("c"), audio(b64(48_000), "a"), done("a"), done("b")])

    assert session.acks() == [("a", 1000), ("c", 0)]


def test_rate_of_a_delta_holds_for_later_responses() -> None:
    session = fed(
        [created("a"), audio(b64(32_000), "a", sample_rate_hz=16_000), created("b"), audio(b64(3200), "b")]
    )

    assert session.acks() == [("a", 1000), ("b", 100)]
    assert session.output_rate_hz == 16_000


DAMAGE: list[tuple[str, list[Any], str, int]] = [
    ("bad base64", [created(), audio("AA!*"), audio(b64(6))], "damaged_base64", 6),
    ("non-ASCII base64", [created(), audio("AAAé"), audio(b64(6))], "damaged_base64", 6),
    ("odd bytes", [created(), audio(b64(7))], "odd_audio_bytes", 6),
    ("no data", [created(), {"type": "response.audio.delta", "response_id": "r1"}], "audio_without_data", 0),
    ("a number where audio belongs", [created(), audio(7), audio(b64(4))], "audio_without_data", 4),  # type: ignore[arg-type]
    ("a number where text belongs", [created(), text(7)], "text_without_data", 0),  # type: ignore[arg-type]
    ("a rate that is none", [created(), audio(b64(4), sample_rate_hz="fast")], "unusable_audio_rate", 4),
    ("a rate of nought", [created(), audio(b64(4), sample_rate_hz=0)], "unusable_audio_rate", 4),
    ("a rate beyond hearing", [created(), audio(b64(4), sample_rate_hz=10**300)], "unusable_audio_rate", 4),
    ("rate change", [created(), audio(b64(4), sample_rate_hz=8000), audio(b64(4))], "", 8),
    (
        "rate change within a reply",
        [created(), audio(b64(4)), audio(b64(4), sample_rate_hz=8000)],
        "audio_rate_changed",
        8,
    ),
    ("after done", [created(), done(), audio(b64(4)), text(" extra")], "delta_after_done", 0),
    ("of nobody", [created(), audio(b64(4), "r9")], "delta_of_unknown_response", 0),
    (
        "other family",
        [created(), audio(b64(4)), audio(b64(4), name="response.output_audio.delta")],
        "second_event_family",
        4,
    ),
    (
        "audio of one dialect, transcript of the other",
        [created(), audio(b64(4)), text("x", name="response.output_audio_transcript.delta"), audio(b64(4))],
        "second_event_family",
        8,
    ),
    ("second session.created", [{"type": "session.created"}], "session_created_twice", 0),
    ("committed twice", [COMMIT, COMMITTED, COMMITTED], "committed_twice", 0),
    ("session closed twice", [{"type": "session.closed"}] * 2, "event_after_session_closed", 0),
    ("done twice", [created(), done(), done(status="failed")], "response_done_twice", 0),
    ("done without an id", [created(), {"type": "response.done"}], "response_done_without_id", 0),
    ("done of a response never created", [done("r9")], "done_of_unknown_response", 0),
    ("unknown event", [{"type": "brand.new"}] * 3, "unknown_event", 0),
    ("unknown field", [{**created(), "shiny": 1}], "unknown_field", 0),
    (
        "a unit longer than an append may be",
        [{"type": "session.updated", "session": {"capabilities": {"chunk_period_ms": 10**9}}}],
        "unusable_chunk_period",
        0,
    ),
    ("same journal position", [{**created(), "server_event_seq": 4}] * 2, "duplicate_event", 0),
    ("same event id", [created(), *[{**audio(b64(4)), "event_id": "e"}] * 2], "duplicate_event", 4),
]


@pytest.mark.parametrize(
    ("steps", "anomaly", "size"), [row[1:] for row in DAMAGE], ids=[row[0] for row in DAMAGE]
)
def test_damage_is_counted_and_costs_only_itself(steps: list[Any], anomaly: str, size: int) -> None:
    session = fed(steps)

    assert sum(r.audio_bytes for r in session.responses.values()) == size
    assert set(session.anomalies) == ({anomaly} if anomaly else set())


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("response.audio_transcript.delta", "response.output_audio_transcript.delta"),
        ("response.output_audio_transcript.delta", "response.audio_transcript.delta"),
        ("response.output_text.delta", "response.text.delta"),
    ],
)
def test_one_event_family_a_response_the_first_seen(first: str, second: str) -> None:
    session = fed([created(), text("yes", name=first), text("no", name=second)])

    assert [delta.text for delta, _ in session.texts] == ["yes"]


def test_dialect_is_one_for_audio_and_transcript_of_a_response_and_may_differ_between_responses() -> None:
    newer = "response.output_audio_transcript.delta"
    session = fed([created(), audio(b64(4)), text("no", name=newer), created("r2"), text("yes", "r2", newer)])

    assert [delta.text for delta, _ in session.texts] == ["yes"]


def test_stray_deltas_keep_to_one_dialect_too() -> None:
    newer = "response.output_audio_transcript.delta"
    session = fed([text("yes", None), text("yes", None, newer), text(" yes", "r9")])

    assert [delta.text for delta, _ in session.texts] == ["yes", " yes"]


def test_stray_text_in_padded_silence_is_late() -> None:
    session = fed(
        [created(), text("One."), COMMIT, COMMITTED, done(), text("Two.", None), text("Three.", "r9")]
    )

    assert [(delta.text, late) for delta, late in session.texts] == [
        ("One.", False),
        ("Two.", True),
        ("Three.", True),
    ]


THUMB = ("\ud83d", "\udc4d")
HALVES: list[tuple[str, list[Any], list[str]]] = [
    ("in the next delta", [text("ok " + THUMB[0]), text(THUMB[1] + " done")], ["ok 👍 done"]),
    ("alone in their deltas", [text("ok "), text(THUMB[0]), text(THUMB[1])], ["ok 👍"]),
    (
        "another reply speaks between",
        [text("ok " + THUMB[0]), text("Else. ", "r2"), text(THUMB[1])],
        ["ok Else.", "👍"],
    ),
    ("an empty delta between", [text(THUMB[0]), text(""), text(THUMB[1] + ".")], ["👍."]),
    ("the second half never comes", [text("ok " + THUMB[0]), done()], ["ok \ufffd"]),
    ("the first half never came", [text(THUMB[1] + " ok")], ["\ufffd ok"]),
    ("first halves in a row", [text(THUMB[0]), text(THUMB[0] + THUMB[1])], ["\ufffd👍"]),
]


@pytest.mark.parametrize(("steps", "wanted"), [row[1:] for row in HALVES], ids=[row[0] for row in HALVES])
def test_halves_of_a_character_are_rejoined_within_their_response(
    steps: list[Any], wanted: list[str]
) -> None:
    session = fed([created(), created("r2"), *steps])

    said = [item["sentence"] for item in timed_sentences(delta for delta, _ in session.texts)]
    assert said == wanted
    "".join(said).encode()


def test_text_after_done_is_not_part_of_the_answer() -> None:
    session = fed([created(), text("One."), done(), text(" extra"), created("r2"), text("Two.", "r2")])

    assert [delta.text for delta, _ in session.texts] == ["One.", "Two."]


@pytest.mark.parametrize(
    ("capabilities", "why"),
    [
        (None, None),
        ({}, None),
        ({"implementation_level": None}, None),
        ({"implementation_level": "model_native_duplex"}, None),
        ({"implementation_level": "serving_session_adapter"}, "'serving_session_adapter'"),
        ({"implementation_level": 3}, "'3'"),
        ([], "capabilities is no object"),
        ("yes", "capabilities is no object"),
    ],
)
def test_session_that_is_not_full_duplex_is_told(capabilities: Any, why: str | None) -> None:
    session = fed([{"type": "session.created", "session": {"capabilities": capabilities}}], opened=False)

    assert session.created
    assert session.unfit is None if why is None else why in (session.unfit or "")


def test_what_comes_before_session_created_is_counted_and_taken() -> None:
    session = fed([created(), text("Hi."), done(), {"type": "session.created"}], opened=False)

    assert session.anomalies == {"event_before_session_created": 3}
    assert [delta.text for delta, _ in session.texts] == ["Hi."]


def test_unknown_events_and_fields_are_named_but_only_the_first_ones() -> None:
    session = fed([{"type": f"new.{k:03}"} for k in range(100)] + [{**created(), "shiny": 1, "bright": 2}])

    assert session.anomalies == {"unknown_event": 100, "unknown_field": 1}
    assert list(session.strange) == [f"new.{k:03}" for k in range(20)]
    assert list(fed([{**created(), "shiny": 1, "bright": 2}]).strange) == ["response.created: bright"]


def test_memory_for_duplicates_is_bounded_and_reaches_far_back() -> None:
    session = ClientSession(settle_s=SETTLE_S)
    for seq in range(30_000):
        session.receive({"type": "response.speak", "server_event_seq": seq}, 1.0)
    assert session.anomalies["duplicate_event"] == 0
    for seq in range(22_000, 30_000):
        session.receive({"type": "response.speak", "server_event_seq": seq}, 1.0)

    assert session.anomalies["duplicate_event"] == 8_000
    assert len(session._seen) + len(session._seen_before) <= 16_384


def test_error_before_session_created_refuses_the_session() -> None:
    refusal = {"type": "error", "error": {"code": "ref_audio_required", "message": "no voice"}}
    session = fed([refusal], opened=False)

    assert session.refused
    assert session.server_errors == ["ref_audio_required: no voice"]


@pytest.mark.parametrize(
    "shape", [{"error": {"code": "playback_ack_too_late"}}, {"code": "playback_ack_too_late"}]
)
def test_ack_that_came_too_late_is_tolerated(shape: dict[str, Any]) -> None:
    session = fed([{"type": "error", **shape}])

    assert session.server_errors == []
    assert session.anomalies["playback_ack_too_late"] == 1


def test_empty_commit_is_known_to_be_refused() -> None:
    empty = {"type": "error", "error": {"code": "input_audio_buffer_empty", "message": "nothing"}}

    assert fed([COMMIT, empty]).commit_refused
    assert not fed([empty, COMMIT]).commit_refused


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (
            {"type": "session.closed", "event": {"reason": "timeout"}},
            "session.closed by the server (timeout)",
        ),
        ({"type": "session.expired", "reason": "idle_ttl_expired"}, "session.expired (idle_ttl_expired)"),
        ({"type": "session.replaced"}, "session.replaced by another connection"),
    ],
)
def test_end_of_the_session_has_its_reason_and_keeps_it(event: dict[str, Any], why: str) -> None:
    session = fed([event])
    session.connection_ended("ConnectionLost: 1006")

    assert session.ended == why
    assert session.closed is (event["type"] == "session.closed")


def test_cancelled_answer_to_our_own_close_is_told_apart() -> None:
    session = fed([created("a"), done("a", "cancelled"), created("b")])
    session.close_sent()
    session.receive(done("b", "cancelled", "session_close"), 9.0)

    assert [r.after_close for r in session.responses.values()] == [False, True]


HOSTILE: list[Any] = [None, 0, 1.5, True, "x", [], {}, [1], {"id": 3}, {"metadata": []}, {"capabilities": 1}]


@pytest.mark.parametrize(
    "name",
    [
        "session.created",
        "session.closed",
        "session.expired",
        "input_audio_buffer.committed",
        "response.created",
        "response.listen",
        "response.done",
        "response.audio.delta",
        "response.output_text.delta",
        "error",
        "unheard.of",
    ],
)
@pytest.mark.parametrize(
    "field", ["response_id", "response", "delta", "error", "session", "event", "metadata", "event_id"]
)
def test_wrong_types_never_raise(name: str, field: str) -> None:
    session = fed([created("x"), COMMIT])
    for value in HOSTILE:
        session.receive({"type": name, "response_id": "x", field: value}, 1.0)
    session.acks(), session.awaited(), session.open_responses()
