"""The conversation's items: who precedes whom, and the events that tell of them (protocol.md 5.5, 7.2, 7.8)."""

from __future__ import annotations

from collections import deque
from typing import Any

from mockserver.wire import Event, Refusal

MAX_KEPT_BYTES = 32 * 1024 * 1024
"""Of items that a client has entered itself, deleted ones included."""
ITEM_BYTES = 1_000
"""What each takes beyond its text."""


def user_item(item_id: str, content: list[Event]) -> Event:
    """A completed user message."""
    return {
        "id": item_id,
        "object": "realtime.item",
        "type": "message",
        "role": "user",
        "status": "completed",
        "content": content,
    }


def assistant_item(item_id: str, status: str, content: list[Event]) -> Event:
    """An assistant message."""
    return {
        "id": item_id,
        "object": "realtime.item",
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": content,
    }


class Conversation:
    """Items in order of their adding."""

    def __init__(self) -> None:
        self._items: dict[str, Event] = {}
        self._previous: dict[str, str | None] = {}
        self._last: str | None = None
        self._unclaimed: deque[str] = deque()
        """Items of normal commits that no commit of silence has used yet (protocol.md 5.5, quirk 4)."""
        self.committed = 0
        """Inputs with speech."""
        self._kept_bytes = 0
        self.text_waits = False
        """The user wrote something since the last committed input."""

    def get(self, item_id: str) -> Event | None:
        """An item by id."""
        return self._items.get(item_id)

    def added(self, item: Event) -> list[Event]:
        """An item enters: `conversation.item.added` and `.created`."""
        previous = self._last
        item_id: str = item["id"]
        self._items[item_id] = item
        self._previous[item_id] = previous
        self._last = item_id
        return [
            {"type": "conversation.item.added", "previous_item_id": previous, "item": item},
            {"type": "conversation.item.created", "previous_item_id": previous, "item": item},
        ]

    def makes_room(self, size_bytes: int) -> None:
        """For an item of the client's.

        Raises Refusal: it has entered too much already.
        """
        if self._kept_bytes + size_bytes > MAX_KEPT_BYTES:
            raise Refusal("input_backpressure", f"more than {MAX_KEPT_BYTES} bytes of items", section="12.1")
        self._kept_bytes += size_bytes + ITEM_BYTES

    def entered(self, item: Event, previous: str | None) -> list[Event]:
        """An item of the client's enters complete, behind another where it names one that is there."""
        events = self.added(item)
        if previous in self._items and previous != item["id"]:
            self._previous[item["id"]] = previous
            for event in events:
                event["previous_item_id"] = previous
        self.text_waits = self.text_waits or item["role"] == "user"
        return [*events, self.done(item)]

    def done(self, item: Event) -> Event:
        """An item is complete: `conversation.item.done`."""
        self._items[item["id"]] = item
        return {
            "type": "conversation.item.done",
            "previous_item_id": self._previous.get(item["id"]),
            "item": item,
        }

    def remove(self, item_id: str) -> bool:
        """Forget an item; false when there is none of that id."""
        if self._items.pop(item_id, None) is None:
            return False
        if self._last == item_id:
            self._last = next(reversed(self._items), None)
        return True

    def commit(self, item_id: str, transcript: str, state: Event) -> list[Event]:
        """The fan-out of a commit with speech.

        Args:
            transcript: the hints of the input joined; empty: no transcription event.
            state: `session_id`, `turn_id` and `epoch` of the moment.
        """
        self.committed += 1
        self.text_waits = False
        self._unclaimed.append(item_id)
        events = self.added(user_item(item_id, [{"type": "input_audio", "transcript": ""}]))
        events.append(self._committed(item_id, self._told(item_id, state)))
        if transcript:
            events.append(
                {
                    "type": "conversation.item.input_audio_transcription.completed",
                    "item_id": item_id,
                    "content_index": 0,
                    "transcript": transcript,
                }
            )
        events.append(self.done(user_item(item_id, [{"type": "input_audio", "transcript": transcript}])))
        return events

    def commit_silence(self, fresh_id: str, state: Event, *, reuse: bool) -> list[Event]:
        """The fan-out of a commit with only non-speech.

        Args:
            reuse: its item is an old one as long as there is one (protocol.md 5.5, quirk 4).
        """
        flags: dict[str, Any] = {"empty": True, "is_speech": False, "no_response": True}
        if reuse and self._unclaimed:
            item_id = self._unclaimed.popleft()
            item = self._items.get(item_id)
            if item is not None:
                return [self._committed(item_id, self._told(item_id, state) | flags), self.done(item)]
            fresh_id = item_id
        item = user_item(fresh_id, [{"type": "input_audio", "transcript": "", "is_speech": False}])
        return [
            *self.added(item),
            self._committed(fresh_id, self._told(fresh_id, state) | flags),
            self.done(item),
        ]

    def _told(self, item_id: str, state: Event) -> Event:
        return {
            "type": "input.committed",
            **state,
            "history_len": self.committed,
            "native_audio": True,
            "message": {
                "role": "user",
                "content": [{"type": "audio_url", "audio_url": {"url": "native-duplex:input-audio"}}],
            },
            "realtime_item_id": item_id,
        }

    def _committed(self, item_id: str, event: Event) -> Event:
        return {
            "type": "input_audio_buffer.committed",
            "previous_item_id": self._previous.get(item_id),
            "item_id": item_id,
            "event": event,
        }
