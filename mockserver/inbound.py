"""Client events about the input: session updates, appends, commits, clears (protocol.md 4, 5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pybase64

from mockserver import opening, turns
from mockserver.appends import read_append
from mockserver.audio import read_wav
from mockserver.input_buffer import InputBuffer
from mockserver.wire import Event, Received, Refusal, decode_base64

if TYPE_CHECKING:
    from mockserver.session import ServerSession

Handler = Callable[["ServerSession", Event, float], None]

MAX_QUEUED_UNITS = 4096
"""Units that the model has not decided: far more than real-time input leaves it, and little memory."""
MAX_HINT_CHARACTERS = 1_000_000
"""Of one input's transcript."""
MAX_QUEUED_COMMITS = 4
"""More are refused with `input_backpressure` (12.1)."""


@dataclass
class InputState:
    """The input since the last commit or clear, and what of it waits."""

    buffer: InputBuffer = field(default_factory=InputBuffer)
    appends: int = 0
    """Of the whole session."""
    received_samples: int = 0
    """Of the whole session, at the model's rate."""
    heard: bool = False
    """Audio was appended."""
    speech: bool = False
    """Some of it counted as speech, a refused append included."""
    item_id: str | None = None
    """Allocated at the first speech (3.2)."""
    hints: list[str] = field(default_factory=list)
    hint_characters: int = 0
    commits: int = 0

    @property
    def padded(self) -> bool:
        """What is appended now follows a commit and is no speech."""
        return self.commits > 0 and not self.speech

    def hint(self, text: str) -> None:
        """What an append says of its own words.

        Raises Refusal: there are too many of them.
        """
        self.hint_characters += len(text)
        if self.hint_characters > MAX_HINT_CHARACTERS:
            raise Refusal("input_backpressure", f"more than {MAX_HINT_CHARACTERS} characters", section="12.1")
        self.hints.append(text)

    def forget(self) -> None:
        """A commit or a clear: the next append begins a new input."""
        self.hint_characters = 0
        self.heard = self.speech = False
        self.item_id = None
        self.hints.clear()


def copied_ms(event: Event, key: str) -> float:
    """A position that the server copies into one of its events; 0 where it is no number (5.1, 5.2)."""
    value = event.get(key, 0)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0


def session_update(session: ServerSession, event: Event, now_s: float) -> None:
    """`session.update` after the first."""
    asked = event.get("session")
    if not isinstance(asked, dict):
        asked = {key: value for key, value in event.items() if key not in ("type", "event_id")}
    opening.update(session, asked)


def append(session: ServerSession, event: Event, now_s: float) -> None:
    """`input_audio_buffer.append`: speech first, then frames, then audio, then at most one unit (5.1-5.3, 6.2)."""
    config, state = session.config, session.input
    assert config is not None
    try:
        read = read_append(event, config)
    except Refusal:
        session.note_received({**event, "audio": "(unread)", "video_frames": "(unread)"})
        raise
    after_commit = state.commits > 0
    if after_commit:
        read.told["after_commit"] = True
    session.note(Received("input_audio_buffer.append", read.told))
    state.appends += 1
    for violation in session.strict.append(
        event, read, after_commit=after_commit, silence_rms=config.silence_rms
    ):
        session.note(violation)
    missing = read.audio_problem is not None and read.audio_problem.code == "bad_event"
    hint = event.get("text") or event.get("transcript")
    if not state.speech or hint:
        speech = read.speech(event, config.silence_rms)
        if speech and state.item_id is None:
            state.item_id = session.new_item_id()
            session.emit(
                {
                    "type": "input_audio_buffer.speech_started",
                    "audio_start_ms": copied_ms(event, "audio_start_ms"),
                    "item_id": state.item_id,
                }
            )
        state.speech = state.speech or (speech and not missing)
        if speech and isinstance(hint, str):
            state.hint(hint)
    state.heard = state.heard or not missing
    if read.frames_problem is not None:
        raise read.frames_problem
    if missing and read.frames:
        code = session.dialect.frames_without_audio
        raise Refusal(code, "video_frames need audio", section="5.3", param="audio")
    if read.audio_problem is not None:
        raise read.audio_problem
    samples = read.samples
    if not state.buffer.takes(samples) or session.steps.queued >= MAX_QUEUED_UNITS:
        raise Refusal("input_backpressure", "more than 16 MiB of pending input", section="12.1")
    state.received_samples += samples
    unit = state.buffer.append(samples, read.frames, force_listen=event.get("force_listen") is True)
    if unit is not None:
        session.submit(unit, now_s)


def chunk(session: ServerSession, event: Event, now_s: float) -> None:
    """`input.audio.append` and `push_chunk`, appends whose format is WAV unless they name one (5.7)."""
    if not session.dialect.audio_aliases:
        session.note_received(event)
        raise Refusal("unknown_event", f"Unknown event: {event['type']}", section="5.7")
    plain = {**event, "type": "input_audio_buffer.append"}
    if not (event.get("format") or event.get("input_audio_format")):
        audio = event.get("audio") or event.get("delta")
        try:
            data, _ = decode_base64(audio if isinstance(audio, str) else "")
            pcm, plain["sample_rate_hz"] = read_wav(data)
        except ValueError as error:
            session.note(Received("input_audio_buffer.append", {"audio": "(unread)"}))
            raise Refusal("bad_audio", f"audio cannot be decoded: {error}", section="5.7") from None
        plain |= {"audio": pybase64.b64encode(pcm).decode(), "format": "pcm16"}
    append(session, plain, now_s)


def commit(session: ServerSession, event: Event, now_s: float) -> None:
    """`input_audio_buffer.commit`: nothing, only non-speech, or speech with and without a residual (5.5)."""
    if not session.input.heard:
        for violation in session.strict.commit(event):
            session.note(violation)
        raise Refusal(
            "input_audio_buffer_empty",
            "input_audio_buffer.commit requires a non-empty input audio buffer",
            section="5.5",
            echoes=True,
        )
    _commit(session, event, now_s)


def input_commit(session: ServerSession, event: Event, now_s: float) -> None:
    """`input.commit`: an alias that J does not check for an empty buffer (5.4)."""
    if not session.dialect.commits_empty_alias:
        commit(session, event, now_s)
        return
    _commit(session, event, now_s)


def _commit(session: ServerSession, event: Event, now_s: float) -> None:
    state = session.input
    for violation in session.strict.commit(event):
        session.note(violation)
    if session.steps.queued_commits >= MAX_QUEUED_COMMITS:
        raise Refusal("input_backpressure", f"more than {MAX_QUEUED_COMMITS} queued commits", section="12.1")
    state.commits += 1
    session.padding_listened = False
    told = {"session_id": session.id, "turn_id": session.turn_id, "epoch": session.epoch}
    silent = session.dialect.commit_declares_silence and event.get("is_speech") is False
    if (state.heard and not state.speech) or silent:
        if state.item_id is not None:
            _speech_stopped(session, event, state.item_id)
        state.buffer.clear()
        state.forget()
        fan_out = session.conversation.commit_silence(
            session.new_item_id(), told, reuse=session.dialect.reuses_items
        )
        session.emit_all(fan_out)
        turns.tell_listen(session, "silence_or_noise", by_model=False)
        return
    item_id = state.item_id or session.new_item_id()
    if state.item_id is not None:
        _speech_stopped(session, event, item_id)
    transcript = "".join(state.hints)
    state.forget()
    session.emit_all(session.conversation.commit(item_id, transcript, told))
    residual = state.buffer.flush()
    if residual is not None:
        session.submit(residual, now_s)


def _speech_stopped(session: ServerSession, event: Event, item_id: str) -> None:
    end_ms = copied_ms(event, "audio_end_ms")
    session.emit({"type": "input_audio_buffer.speech_stopped", "audio_end_ms": end_ms, "item_id": item_id})


def clear(session: ServerSession, event: Event, now_s: float) -> None:
    """`input_audio_buffer.clear`: drops what waits; units already submitted and the epoch stay (5.6)."""
    drop_input(session)
    session.emit({"type": "input_audio_buffer.cleared"})


def drop_input(session: ServerSession) -> None:
    """What waits, and what is known of the input so far."""
    session.input.buffer.clear()
    session.input.forget()
    session.strict.cleared()


def input_cancel(session: ServerSession, event: Event, now_s: float) -> None:
    """`input.cancel`: a clear that also cancels the output (5.6)."""
    drop_input(session)
    if session.response is not None:
        turns.cancel(session, session.dialect.cancel_reason)
    else:
        turns.advance_epoch(session)
        session.emit({"type": "input_audio_buffer.cleared"})


def text_append(session: ServerSession, event: Event, now_s: float) -> None:
    """`input.text.append` (5.7)."""
    raise Refusal(
        "native_text_append_unsupported", "text cannot be appended to a native session", section="5.7"
    )


INPUT_HANDLERS: Mapping[str, Handler] = {
    "session.update": session_update,
    "input_audio_buffer.append": append,
    "input.audio.append": chunk,
    "push_chunk": chunk,
    "input_audio_buffer.commit": commit,
    "input.commit": input_commit,
    "input_audio_buffer.clear": clear,
    "input.cancel": input_cancel,
    "input.text.append": text_append,
}
