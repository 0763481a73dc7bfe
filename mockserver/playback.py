"""The playback ledger: how much of each reply was sent, and heard (protocol.md 8)."""

from __future__ import annotations

from dataclasses import dataclass

from mockserver.wire import Event


@dataclass(slots=True)
class Cursor:
    """Positions in one reply's audio, milliseconds."""

    generated_ms: int = 0
    sent_ms: int = 0
    played_ms: int = 0
    committed_ms: int = 0

    def told(self) -> Event:
        """As on the wire."""
        return {
            "generated_ms": self.generated_ms,
            "sent_ms": self.sent_ms,
            "played_ms": self.played_ms,
            "committed_ms": self.committed_ms,
        }


class Ledger:
    """Cursors by response id. Maxima are kept, nothing is clamped (protocol.md 8.1)."""

    def __init__(self) -> None:
        self._cursors: dict[str, Cursor] = {}
        self.known: dict[str, int] = {}
        """Every response that was ever created, with its audio sent, also after its cursor was dropped."""
        self.changes = 0
        """Goes up whenever a position becomes another, or a cursor comes or goes."""

    @property
    def pending(self) -> list[str]:
        """Responses whose audio is not acknowledged in full, oldest first."""
        return [r for r, cursor in self._cursors.items() if cursor.committed_ms < cursor.sent_ms]

    def sent_in_all_ms(self, response_id: str) -> int:
        """Audio sent of a response, also after its cursor was dropped."""
        return self.known.get(response_id, 0)

    def open(self, response_id: str) -> None:
        """A response begins."""
        self.changes += 1
        self._cursors[response_id] = Cursor()
        self.known[response_id] = 0

    def sent(self, response_id: str, audio_ms: int) -> Cursor:
        """Cumulative audio of a response went out."""
        self.changes += 1
        cursor = self._cursors.setdefault(response_id, Cursor())
        cursor.generated_ms = max(cursor.generated_ms, audio_ms)
        cursor.sent_ms = max(cursor.sent_ms, audio_ms)
        self.known[response_id] = cursor.sent_ms
        return cursor

    def of(self, response_id: str | None) -> Cursor:
        """A response's cursor; one at zero where there is none."""
        return self._cursors.get(response_id or "", Cursor())

    def acknowledge(
        self, response_id: str, played_ms: int, committed_ms: int, *, truncate: bool, forget: bool
    ) -> Event:
        """Take an ack, tell the positions after it.

        Args:
            truncate: the committed position becomes `committed_ms` even when it was more.
            forget: the cursor goes once everything sent was heard.
        """
        if response_id not in self.known:  # nothing is kept of what never was
            return Cursor(played_ms=played_ms, committed_ms=committed_ms).told()
        cursor = self._cursors.get(response_id)
        kept = cursor is not None
        if cursor is None:
            cursor = Cursor()
        if played_ms > cursor.played_ms:
            cursor.played_ms = played_ms
            self.changes += kept
        if truncate or committed_ms > cursor.committed_ms:
            self.changes += kept and committed_ms != cursor.committed_ms
            cursor.committed_ms = committed_ms
        keeps = not (forget and cursor.committed_ms >= cursor.sent_ms)
        if keeps != kept:
            self.changes += 1
            if keeps:
                self._cursors[response_id] = cursor
            else:
                del self._cursors[response_id]
        return cursor.told()
