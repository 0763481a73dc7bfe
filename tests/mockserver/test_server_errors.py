"""Every error of protocol.md 11.2: reached, with its class and whether the session survives it, or why it is not."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from mockserver.admission import Slots
from mockserver.profiles import PROFILES
from scenarios.model import Reply

PROTOCOL = Path(__file__).parents[2] / "docs" / "protocol.md"
INVALID, SERVER, RATE = "invalid_request_error", "server_error", "rate_limit_error"
TWO = Reply(starts_at_unit=0, units=2, text="One two.")
EXTRA = {"auto_response": True, "minicpmo45_native_duplex": True, "native_duplex": True}


@dataclass(frozen=True)
class Case:
    """How a code is reached.

    Attributes:
        do: what the client does after the connection was accepted; the code is the last error sent.
        kind: `error.type`; None: the flat form.
        after: what becomes of the connection.
        profile: where it is reached; the dialects that have it are in the row's text.
    """

    do: Callable[[Any], Any]
    kind: str | None = INVALID
    after: Literal["goes on", "ends"] = "goes on"
    profile: str = "july"
    query: dict[str, str] | None = None


def opened(do: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda t: do(t.open(extra_body=EXTRA))


def sent(name: str, **fields: Any) -> Callable[[Any], Any]:
    return opened(lambda t: t.send(name, **fields))


def updated(**fields: Any) -> Callable[[Any], Any]:
    return sent("session.update", session=fields)


def spoken(do: Callable[[Any, str], Any]) -> Callable[[Any], Any]:
    """While a reply is open."""

    def run(t: Any) -> Any:
        t.open(extra_body=EXTRA).append().until(0.1)
        return do(t, t.of("response.created")[0]["response_id"])

    return run


def too_late(t: Any, rid: str) -> None:
    t.until(5).append().commit()
    t.send("playback.ack", response_id=rid, played_ms=1)


def five_commits(t: Any) -> None:
    for _ in range(5):
        t.append(100).commit()


def text_alone(t: Any) -> None:
    t.send("conversation.item.create", item={"content": [{"type": "input_text", "text": "Hello."}]})
    t.send("response.create")


REACHED: dict[str, list[Case]] = {
    "config_timeout": [Case(lambda t: t.until(10), after="ends")],
    "invalid_json": [
        Case(lambda t: t.send_text("{"), after="ends"),
        Case(opened(lambda t: t.send_text("{"))),
    ],
    "bad_event": [
        Case(lambda t: t.send("session.heartbeat"), after="ends"),
        Case(lambda t: t.send_text("[]"), after="ends"),
        Case(opened(lambda t: t.send_text("[]"))),
        Case(opened(lambda t: t.append(sample_rate_hz=1))),
        Case(opened(lambda t: t.append(sample_rate_hz=0))),
        Case(lambda t: t.open(sample_rate_hz=0).append()),
        Case(opened(lambda t: t.append(audio=None))),
        Case(sent("turn.signal")),
        Case(sent("conversation.item.create")),
        Case(spoken(lambda t, rid: t.send("playback.ack", response_id=rid)), profile="engine"),
        Case(
            spoken(
                lambda t, rid: t.send("conversation.item.truncate", item_id=f"item_{rid}", audio_end_ms=-1)
            )
        ),
    ],
    "event_too_large": [
        Case(lambda t: t.send_text('{"type":"' + "x" * 15_728_640 + '"}')),
        Case(opened(lambda t: t.send_text('{"type":"' + "x" * 15_728_640 + '"}'))),
    ],
    "unknown_event": [Case(sent("no.such")), Case(sent("push_chunk", audio="AAA="), profile="engine")],
    "ref_audio_required": [
        Case(lambda t: t.open(ref_audio=None), after="ends"),
        Case(lambda t: t, after="ends", profile="engine", query={"model": "m"}),
    ],
    "unsupported_ref_audio_path": [Case(lambda t: t.open(ref_audio_path="/x.wav"), after="ends")],
    "invalid_duplex_runtime_config": [
        Case(lambda t: t.open(extra_body={"ref_audio_data": "x"}), after="ends"),
        Case(updated(extra_body={"ref_audio_data": "x"})),
    ],
    "unsupported_audio_format": [
        Case(lambda t: t.open(input_audio_format="opus")),
        Case(lambda t: t.open(output_audio_format="opus")),
        Case(opened(lambda t: t.append(format="opus"))),
        Case(opened(lambda t: t.append(format=17))),
    ],
    "unsupported_turn_detection": [
        Case(lambda t: t.open(turn_detection={"type": "server_vad"})),
        Case(lambda t: t.open(turn_detection={"type": "semantic_vad"}), profile="engine"),
    ],
    "resource_exhausted": [
        Case(lambda t: t.open(), RATE, after="ends", profile="one-session"),
        Case(lambda t: t.open(), RATE, after="ends", profile="one-engine-session"),
    ],
    "invalid_session_config": [Case(lambda t: t.open(modalities="audio"), after="ends", profile="engine")],
    "bad_audio": [
        Case(opened(lambda t: t.append(audio="AAAA"))),
        Case(opened(lambda t: t.append(audio="AAAAA"))),
    ],
    "invalid_video_frames": [Case(opened(lambda t: t.append(video_frames=["AAAA"])))],
    "invalid_input_modality": [
        Case(sent("input_audio_buffer.append", video_frames=["/9gx"]), profile="engine")
    ],
    "input_audio_buffer_empty": [Case(sent("input_audio_buffer.commit"))],
    "input_backpressure": [
        Case(opened(lambda t: t.append(300_000, loud=False))),
        Case(opened(lambda t: t.append(300_000, loud=False)), RATE, profile="engine"),
        Case(opened(five_commits), profile="july"),
    ],
    "native_text_append_unsupported": [Case(sent("input.text.append", text="x"))],
    "text_only_turn_unsupported": [Case(opened(text_alone), profile="engine")],
    "response_create_without_input": [Case(sent("response.create"))],
    "response_already_active": [Case(spoken(lambda t, rid: t.send("response.create")))],
    "response_not_active": [
        Case(sent("response.cancel")),
        Case(spoken(lambda t, rid: t.until(5).send("response.cancel", response_id=rid))),
    ],
    "unsupported_native_response_options": [Case(sent("response.create", response={"temperature": 1.0}))],
    "missing_item_id": [
        Case(sent(f"conversation.item.{name}")) for name in ("retrieve", "delete", "truncate")
    ],
    "item_not_found": [
        Case(sent(f"conversation.item.{name}", item_id="x")) for name in ("retrieve", "delete", "truncate")
    ],
    "playback_item_mismatch": [
        Case(
            spoken(lambda t, rid: t.send("playback.ack", response_id=rid, item_id="item_x", played_ms=1)),
            profile="engine",
        )
    ],
    "playback_item_not_found": [
        Case(sent("playback.ack", response_id="x", played_ms=1), profile="engine"),
    ],
    "playback_ack_too_late": [Case(spoken(too_late), profile="engine")],
    "barge_in_unsupported": [Case(sent("barge_in"))],
    "model_update_unsupported": [Case(updated(model="other"))],
    "voice_update_after_audio_unsupported": [
        Case(opened(lambda t: t.append().send("session.update", session={"voice": "other"})))
    ],
    "ref_audio_update_unsupported": [Case(updated(ref_audio="data:other"))],
    "server_vad_unavailable": [
        Case(lambda t: t.open(turn_detection={"type": "server_vad"}), SERVER, profile="engine")
    ],
    "invalid_event_ack": [
        Case(sent("session.event_ack", server_event_seq=seq)) for seq in (99, -1, "1", 1.0, True, None)
    ],
    "unsupported_session_resume": [Case(lambda t: t.send("session.resume"), after="ends")],
    "input_clock_unsupported": [
        Case(lambda t: t.open(extra_body={"clock": "wall"}), after="ends", profile="input-clock")
    ],
    "input_clock_update_unsupported": [
        Case(updated(extra_body={"clock": "input"}), profile="input-clock"),
    ],
    "unsupported": [
        Case(lambda t: t, None, after="ends", query={}),
        Case(lambda t: t, None, after="ends", profile="engine", query={"duplex": "0"}),
    ],
    "internal_error": [
        Case(lambda t: t.binary(), SERVER, after="ends"),
        Case(lambda t: t.open(session_id="another"), SERVER, after="ends", profile="two-sessions"),
    ],
}

ENGINE = "an engine fails: the scripted model never does; a scenario sends it with the fault error_event"
NO_RESUME = "resume is optional (12.6), and this server says that it has none"
NOT_REACHED: dict[str, str] = {
    "duplex_session_busy": "older name of resource_exhausted, of no dialect here",
    "runtime_open_failed": ENGINE,
    "runtime_open_unsupported": ENGINE,
    "runtime_contract_invalid": ENGINE,
    "stale_fence": ENGINE,
    "invalid_capability": ENGINE,
    "not_found": ENGINE,
    "invalid_argument": ENGINE,
    "timeout": ENGINE,
    "failed_precondition": ENGINE,
    "session_exists": "the server names the sessions of N",
    "unknown_session": NO_RESUME,
    "session_closed": NO_RESUME,
    "engine_backpressure": ENGINE,
    "unsupported_response_modality": "chat lane only",
    "instructions_update_unsupported": "no dialect is known to refuse it on the native lane",
    "voice_update_unsupported": "no dialect is known to refuse it before audio started",
    "persona_update_unsupported": "no field of 4.1 is a persona",
    "server_vad_inference_failed": "no detector is loaded",
    "server_vad_manual_commit_unsupported": "no detector is loaded",
    "runtime_append_failed": ENGINE,
    "runtime_append_task_failed": ENGINE,
    "runtime_data_plane_stream_failed": ENGINE,
    "runtime_data_plane_text_without_audio": "turn mode only",
    "runtime_signal_failed": ENGINE,
    "runtime_abort_failed": ENGINE,
    "runtime_close_failed": ENGINE,
    "runtime_touch_failed": ENGINE,
    "runtime_touch_unsupported": ENGINE,
    "invalid_session_resume": NO_RESUME,
    "session_resume_expired": NO_RESUME,
    "invalid_resume_token": NO_RESUME,
    "session_resume_conflict": NO_RESUME,
    "runtime_resume_failed": NO_RESUME,
    "runtime_resume_unsupported": NO_RESUME,
    "chat_error": "chat lane only",
    "response_error": "chat lane only",
    "commit_aborted": ENGINE,
    "engine_error": ENGINE,
    "realtime_input_failed": ENGINE,
    "duplex_error": "stands in for a missing code; every error here has one",
}


def test_every_code_of_the_table_is_reached_or_has_its_reason() -> None:
    section = PROTOCOL.read_text().split("### 11.2")[1].split("\n## ")[0]
    firsts = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    codes = {code for first in firsts for code in re.findall(r"`([a-z_]+)`", first)}

    assert len(codes) > 75
    assert set(REACHED) | set(NOT_REACHED) == codes
    assert set(REACHED) & set(NOT_REACHED) == set()


@pytest.mark.parametrize(
    ("code", "case"),
    [(code, case) for code, cases in REACHED.items() for case in cases],
    ids=[f"{code}-{n}" for code, cases in REACHED.items() for n in range(len(cases))],
)
def test_a_code_is_reached_with_its_class_and_its_end(talk: Any, code: str, case: Case) -> None:
    one = {"one-session": "july", "one-engine-session": "engine", "two-sessions": "july"}.get(case.profile)
    profile = PROFILES[one or case.profile]
    t = talk(TWO, profile=profile, query=case.query, decision_s=0.05)
    if one:
        t.session.slots = Slots(2 if case.profile == "two-sessions" else 1)
        t.session.slots.take("another", "another", 0.0)

    case.do(t)

    assert t.errors[-1:] == [code]
    told = t.of("error")[-1]["error"]
    assert (told["type"] if isinstance(told, dict) else None) == case.kind
    assert len(t.ends) == (1 if case.after == "ends" else 0)
    assert (t.session.state == "closed") is (case.after == "ends")
    if code == "resource_exhausted":
        assert ("limit=1" in told["message"]) is (one == "engine")
