"""One open response and the events that tell of it, in their exact order (protocol.md 7)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mockserver.audio import OUTPUT_RATE_HZ, tone
from mockserver.conversation import Conversation, assistant_item
from mockserver.engine_figures import EngineFigures, Spent, listening_stages, request_metrics
from mockserver.playback import Ledger
from mockserver.profiles import Dialect, Metrics
from mockserver.wire import Event

VLLM_OMNI: Event = {
    "runtime_impl": "scheduler_data_plane",
    "owned_runtime": False,
    "model_turn_id": 0,
    "uses_model_runner_scheduler": True,
    "runner_kv_backed": True,
}


def listen(
    session_id: str, epoch: int, reason: str, *, turn_id: int, by_model: bool, spent: Spent | None = None
) -> Event:
    """`response.listen` (protocol.md 7.1); only the model's own decision carries `model_listen`.

    Args:
        spent: on its unit, where stage metrics are told.
    """
    metadata: Event = {"type": "response.listen", "session_id": session_id, "epoch": epoch, "reason": reason}
    if by_model:
        metadata["model_listen"] = True
        metadata["vllm_omni"] = {**VLLM_OMNI, "model_turn_id": turn_id}
        if spent is not None:
            metadata["vllm_omni"]["stage_metrics"] = listening_stages(spent)
    return {
        "type": "response.listen",
        "session_id": session_id,
        "epoch": epoch,
        "response": {"object": "realtime.response", "status": "listening", "metadata": metadata},
    }


@dataclass
class OpenResponse:
    """A response between its created group and its done group."""

    id: str
    session_id: str
    epoch: int
    turn_id: int
    modalities: list[str]
    dialect: Dialect
    conversation: Conversation
    ledger: Ledger
    metrics: frozenset[Metrics] = frozenset()
    """What it tells of the engine."""
    rate_hz: int = OUTPUT_RATE_HZ
    """Of its audio."""
    audio_ms: int = 0
    texts: list[str] = field(default_factory=list)
    _marks: list[Event] = field(default_factory=list)
    _last_delta: Event | None = None
    _audio_part: bool = False
    _figures: EngineFigures = field(default_factory=EngineFigures)
    _stages: Event = field(default_factory=dict)
    _request: Event | None = None

    @property
    def item_id(self) -> str:
        """Always `item_` and the response's id (protocol.md 3.2)."""
        return f"item_{self.id}"

    @property
    def _place(self) -> Event:
        return {"response_id": self.id, "item_id": self.item_id, "output_index": 0, "content_index": 0}

    def created(self) -> list[Event]:
        """The created group and `response.speak` (protocol.md 7.2, 7.3)."""
        item = assistant_item(self.item_id, "in_progress", [])
        duplex_event = {
            "type": "response.created",
            "session_id": self.session_id,
            "response_id": self.id,
            "epoch": self.epoch,
            "modalities": self.modalities,
        }
        events: list[Event] = [
            {
                "type": "response.created",
                "response_id": self.id,
                "response": {
                    "id": self.id,
                    "object": "realtime.response",
                    "status": "in_progress",
                    "status_details": None,
                    "output": [],
                    "modalities": self.modalities,
                    "metadata": {"duplex_event": duplex_event},
                },
            },
            *self.conversation.added(item),
            {"type": "response.output_item.added", "response_id": self.id, "output_index": 0, "item": item},
        ]
        if "audio" in self.modalities:
            events.append(self._part_added())
        metadata = {"session_id": self.session_id, "epoch": self.epoch, "model_speak": True}
        events.append({"type": "response.speak", **self._place, "metadata": metadata})
        return events

    def unit(
        self, text: str, audio_ms: int, *, end_of_turn: bool, pieces: int, spent: Spent | None
    ) -> list[Event]:
        """One unit's output; the text rides with its first audio delta (7.5).

        Args:
            pieces: audio deltas, at most one a millisecond.
            spent: on the unit; needed where metrics are told.
        """
        if spent is not None and self.metrics:
            if "request" in self.metrics and not self.audio_ms and not self.texts:
                self._request = request_metrics(text, spent)
            if "stage" in self.metrics:
                self._figures.unit(text, audio_ms, spent)
                self._stages = self._figures.stages()
        if pieces == 1 or not audio_ms:
            return self.deltas(text, audio_ms, end_of_turn=end_of_turn)
        events: list[Event] = []
        for number in range(pieces):
            part_ms = audio_ms * (number + 1) // pieces - audio_ms * number // pieces
            last = number + 1 == pieces
            events += self.deltas(text if number == 0 else "", part_ms, end_of_turn=end_of_turn and last)
        return events

    def deltas(self, text: str, audio_ms: int, *, end_of_turn: bool) -> list[Event]:
        """An audio delta with its transcript delta, or a transcript delta alone (7.4, 7.5)."""
        events: list[Event] = []
        self._last_delta = None
        if text:
            self.texts.append(text)
        if audio_ms:
            if not self._audio_part:
                events.append(self._part_added())
            events.append(self._audio_delta(text, audio_ms, end_of_turn=end_of_turn))
        if text or audio_ms:
            events.append({"type": self.dialect.transcript_delta, **self._place, "delta": text})
            if self._request is not None:  # on the first text and audio alone (13.2)
                omni = {"response_request_metrics": self._request}
                events[-1]["metadata"] = {"vllm_omni": omni}
                self._request = None
        return events

    def done(self, status: str, details: Event | None, *, heard_ms: int | None = None) -> list[Event]:
        """The done group with `rate_limits.updated` (protocol.md 7.12).

        Args:
            details: `status_details`.
            heard_ms: the item's transcript is cut to what was acknowledged as played; None leaves it whole.
        """
        transcript = "".join(self.texts)
        events: list[Event] = []
        if self.audio_ms or transcript:
            events.append({"type": self.dialect.audio_done, **self._place})
            if transcript:
                events.append({"type": self.dialect.transcript_done, **self._place, "transcript": transcript})
        if self._audio_part:
            part = {"type": "audio", "transcript": transcript}
            events.append({"type": "response.content_part.done", **self._place, "part": part})
        item = assistant_item(self.item_id, status, [self._final_content(transcript, heard_ms)])
        events += [
            {"type": "response.output_item.done", "response_id": self.id, "output_index": 0, "item": item},
            self.conversation.done(item),
            {
                "type": "response.done",
                "response_id": self.id,
                "response": {
                    "id": self.id,
                    "object": "realtime.response",
                    "status": status,
                    "status_details": details,
                    "output": [item],
                    "metadata": self._closing_metadata(status),
                },
            },
            {"type": "rate_limits.updated", "rate_limits": []},
        ]
        return events

    def _part_added(self) -> Event:
        self._audio_part = True
        return {
            "type": "response.content_part.added",
            **self._place,
            "part": {"type": "audio", "transcript": ""},
        }

    def _audio_delta(self, text: str, audio_ms: int, *, end_of_turn: bool) -> Event:
        self.audio_ms += audio_ms
        if not self._marks:
            # J repeats the first unit's mark on every delta although it calls the marks cumulative
            self._marks = [{"text_chars": len(text), "audio_end_ms": self.audio_ms}]
        playback = self.ledger.sent(self.id, self.audio_ms).told()
        omni = {**VLLM_OMNI, "model_turn_id": self.turn_id, "stage_metrics": self._stages}
        if self._request is not None:
            omni["response_request_metrics"] = self._request
        sound = tone(audio_ms, self.rate_hz).text
        shared: dict[str, Any] = {
            "end_of_turn": end_of_turn,
            "model_speak": True,
            "audio_duration_ms": self.audio_ms,
            "audio_text_marks": self._marks,
            "playback": playback,
            "vllm_omni": omni,
        }
        # The turn that ends in an audio delta leaves that delta as the metadata of `response.done` (protocol.md 7.10)
        self._last_delta = {
            "type": "response.output_audio.delta",
            "session_id": self.session_id,
            "response_id": self.id,
            "epoch": self.epoch,
            "text": text,
            "audio": sound,
            "format": "pcm",
            "sample_rate_hz": self.rate_hz,
            **shared,
        }
        return {
            "type": self.dialect.audio_delta,
            **self._place,
            "delta": sound,
            "format": "pcm16",
            "sample_rate_hz": self.rate_hz,
            "metadata": {"session_id": self.session_id, "epoch": self.epoch, **shared},
        }

    def _closing_metadata(self, status: str) -> Event:
        if status == "completed" and self._last_delta is not None and self._last_delta["end_of_turn"]:
            return self._last_delta
        told: Event = {
            "type": "response.done",
            "session_id": self.session_id,
            "response_id": self.id,
            "epoch": self.epoch,
            "committed": status == "completed",
        }
        if self._stages:
            told["vllm_omni"] = {**VLLM_OMNI, "model_turn_id": self.turn_id, "stage_metrics": self._stages}
        return told

    def _final_content(self, transcript: str, heard_ms: int | None) -> Event:
        if heard_ms is not None:
            share = min(1.0, heard_ms / self.audio_ms) if self.audio_ms else 0.0
            transcript = transcript[: int(len(transcript) * share)].rstrip()
        content: Event = {"type": "output_audio", "transcript": transcript}
        if self.audio_ms:
            content["audio_duration_ms"] = self.audio_ms
        if self._marks:
            content["audio_text_marks"] = self._marks
        return content


def late_delta_pair(
    dialect: Dialect, response_id: str, text: str, audio_ms: int, rate_hz: int = OUTPUT_RATE_HZ
) -> list[Event]:
    """Deltas of a response that is finished already (a fault's): an audio delta, where it has sound, and its text."""
    place: Event = {
        "response_id": response_id,
        "item_id": f"item_{response_id}",
        "output_index": 0,
        "content_index": 0,
    }
    events: list[Event] = []
    if audio_ms:
        events.append(
            {
                "type": dialect.audio_delta,
                **place,
                "delta": tone(audio_ms, rate_hz).text,
                "format": "pcm16",
                "sample_rate_hz": rate_hz,
                "metadata": {"audio_duration_ms": audio_ms},
            }
        )
    events.append({"type": dialect.transcript_delta, **place, "delta": text})
    return events
