"""The strict reader: what protocol.md forbids a client although the real server lets it pass, or answers otherwise.

An event that the server refuses with an `error` is a violation by itself (`ServerSession` says so); here stands the
rest. It never changes what goes over the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mockserver.appends import Append
from mockserver.input_buffer import UNIT_SAMPLES
from mockserver.playback import Ledger
from mockserver.profiles import Dialect
from mockserver.wire import Event, Violation, told_value

NUMBER_TYPES = frozenset({int, float})
"""Of a number as the reader makes it; true and false are none."""
_NUMBERS = ("duration_ms", "audio_duration_ms", "audio_end_ms", "audio_start_ms", "speech_probability")
_BOOLS = ("is_speech", "speech", "force_listen")
_STRINGS = ("text", "transcript", "event_id")
SESSION_TYPES: Mapping[str, tuple[type, ...]] = {
    "model": (str,),
    "modalities": (list,),
    "output_modalities": (list,),
    "instructions": (str, type(None)),
    "input_audio_format": (str, dict),
    "output_audio_format": (str, dict),
    "sample_rate_hz": (int,),
    "audio": (dict,),
    "overlap_policy": (str,),
    "overlap_short_ack_ms": (int, float),
    "overlap_barge_in_ms": (int, float),
    "overlap_silence_rms": (int, float),
    "playback_commit_policy": (str,),
    "temperature": (int, float, type(None)),
    "ref_audio": (str,),
    "idle_timeout_s": (int, float),
    "extra_body": (dict,),
    "force_listen_count": (int,),
    "auto_response": (bool,),
    "full_duplex": (bool,),
}
"""Field types of protocol.md 4.1 and 4.3."""


def _has_type(value: Any, kinds: tuple[type, ...]) -> bool:
    if isinstance(value, bool):
        return bool in kinds
    return isinstance(value, kinds)


class StrictReader:
    """What one client has done so far, and what was wrong with it."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._last_end_ms: float | None = None
        self._rate_hz: int | None = None

    def session(self, session: Event) -> list[Violation]:
        """The session object of a `session.update` (protocol.md 4.1, 4.3)."""
        extra = session.get("extra_body")
        sources = [session, extra] if isinstance(extra, dict) else [session]
        found = [
            Violation(
                "4.1" if source is session else "4.3", "wrong-type", f"{key}: {type(source[key]).__name__}"
            )
            for source in sources
            for key, kinds in SESSION_TYPES.items()
            if key in source and not _has_type(source[key], kinds)
        ]
        for flag in self._dialect.native_flags:
            if isinstance(extra, dict) and flag in extra and extra[flag] is not True:
                found.append(Violation("4.3", "wrong-type", f"{flag} must be true"))
        return found

    def append(
        self, event: Event, append: Append, *, after_commit: bool, silence_rms: float
    ) -> list[Violation]:
        """An append (protocol.md 5.1 to 5.3)."""
        found: list[Violation] = []
        for key in _NUMBERS:
            if key in event and type(event[key]) not in NUMBER_TYPES:
                found.append(Violation("5.1", "wrong-type", f"{key}: {type(event[key]).__name__}"))
        for key in _BOOLS:
            if key in event and type(event[key]) is not bool:
                found.append(Violation("5.1", "wrong-type", f"{key}: {type(event[key]).__name__}"))
        for key in _STRINGS:
            if key in event and type(event[key]) is not str:
                found.append(Violation("5.1", "wrong-type", f"{key}: {type(event[key]).__name__}"))
        if not append.strict_base64:
            found.append(Violation("5.1", "bad-base64", "audio holds characters outside the alphabet"))
        if append.samples > UNIT_SAMPLES:
            found.append(
                Violation(
                    "5.1", "append-above-a-unit", f"{append.samples} samples; a unit has {UNIT_SAMPLES}"
                )
            )
        if self._rate_hz is not None and append.rate_hz != self._rate_hz:
            found.append(
                Violation("4.1", "rate-changed", f"{self._rate_hz} Hz, then {append.rate_hz} Hz in one input")
            )
        self._rate_hz = append.rate_hz
        end_ms = event.get("audio_end_ms")
        if end_ms is not None and type(end_ms) in NUMBER_TYPES:
            last_ms = self._last_end_ms
            if last_ms is not None and end_ms <= last_ms and append.samples >= 16:
                found.append(
                    Violation("5.1", "audio-end-not-rising", f"audio_end_ms {end_ms:g} after {last_ms:g}")
                )
            self._last_end_ms = end_ms
        if after_commit and append.audio and append.speech(event, silence_rms):
            found.append(
                Violation(
                    "5.2; evaluation.md 8",
                    "speech-after-commit",
                    "an append after the commit counts as speech",
                )
            )
        return found

    def cleared(self) -> None:
        """What was appended is dropped; another input begins (protocol.md 5.6)."""
        self._rate_hz = None

    def commit(self, event: Event) -> list[Violation]:
        """A commit (protocol.md 5.4)."""
        self._rate_hz = None
        return [
            Violation("5.4", "wrong-type", f"{key}: {type(event[key]).__name__}")
            for key in ("final", "response_create")
            if key in event and type(event[key]) is not bool
        ]

    def ack(self, event: Event, ledger: Ledger) -> list[Violation]:
        """A playback acknowledgement (protocol.md 8.1)."""
        response_id, item_id = event.get("response_id"), event.get("item_id")
        played, committed = event.get("played_ms", event.get("audio_ms")), event.get("committed_ms", 0)
        found: list[Violation] = []
        for key, value in (("played_ms", played), ("committed_ms", committed)):
            if value is None or type(value) not in NUMBER_TYPES or value < 0:
                found.append(Violation("8.1", "ack-position", f"{key}: {told_value(value)}"))
        for key, value in (("response_id", response_id), ("item_id", item_id)):
            if value is not None and type(value) is not str:
                found.append(Violation("8.1", "wrong-type", f"{key}: {type(value).__name__}"))
        if type(response_id) is str:
            if type(item_id) is str and item_id != f"item_{response_id}":
                found.append(
                    Violation(
                        "8.1",
                        "ack-ids-disagree",
                        f"response {told_value(response_id)}, item {told_value(item_id)}",
                    )
                )
            if response_id not in ledger.known:
                found.append(Violation("8.1", "ack-of-unknown-response", told_value(response_id)))
        elif type(item_id) is str and item_id.removeprefix("item_") not in ledger.known:
            found.append(Violation("8.1", "ack-of-unknown-response", told_value(item_id)))
        return found
