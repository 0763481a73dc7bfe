"""What one short session showed of a server: what scenarios adapt to, and what a reader wants to know first."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from mockserver.profiles import DIALECTS, Dialect
from mockserver.seen import Seen

SLOW = 0.7
"""Part of real time; a reply of a few units has a slow end even where the server keeps up."""
ENDS_BY_ITSELF_S = 1.3
"""In chunk periods: later audio than this after the commit, with nothing sent, is the server's own doing."""


@dataclass(frozen=True)
class Measured:
    """None: the session did not come to the point."""

    dialect: str
    """J, I or N; C differs from N only where a client asks for its clock (protocol.md 18)."""
    dialect_sure: bool
    """False: no reply came, so that the spelling was not seen."""
    chunk_period_ms: int
    declared_period: bool
    """False: the server declares none, and the default holds."""
    session_created_s: float | None
    first_audio_s: float | None
    """From the first append to the first audio of a reply."""
    pace: float | None
    """Seconds of reply audio a second, between the first and the last delta of the first reply."""
    decision_s: float | None
    """Median from an append to the decision after it, while nobody speaks."""
    continues_without_input: bool | None
    """An open reply went on after the commit while nothing was sent; None: it could not be seen."""
    listens_in_padding: int
    padded_units: int
    replies: int
    replies_done: int
    closed_after_s: float | None
    close: str
    """How the connection ended after `session.closed`."""
    supports_barge_in: bool | None

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return asdict(self)

    @property
    def behind(self) -> bool:
        """It is slower than real time: units wait for it, and its decisions come late."""
        return self.pace is not None and self.pace < SLOW

    @property
    def profile(self) -> Dialect:
        """Names and rules of the dialect."""
        return DIALECTS[self.dialect]

    def lines(self) -> list[str]:
        """For a reader."""

        def seconds(value: float | None) -> str:
            return "not seen" if value is None else f"{value:.2f} s"

        goes_on = {
            None: "not seen (no reply had more to say once the units before the commit were decided)",
            True: "yes, an open reply goes on by itself",
            False: "no, an open reply waits for units",
        }
        return [
            f"dialect                {self.dialect}{'' if self.dialect_sure else ' (guessed: no reply was heard)'}",
            f"chunk period           {self.chunk_period_ms} ms{'' if self.declared_period else ' (not declared)'}",
            f"session.created after  {seconds(self.session_created_s)}",
            f"first audio after      {seconds(self.first_audio_s)}",
            f"pace                   {'not seen' if self.pace is None else f'{self.pace:.2f} of real time'}",
            f"decision after         {seconds(self.decision_s)}",
            f"silence continuation   {goes_on[self.continues_without_input]}",
            f"listens in padding     {self.listens_in_padding} for {self.padded_units} unit(s)",
            f"replies                {self.replies_done} of {self.replies} done",
            f"close                  session.closed after {seconds(self.closed_after_s)}, then {self.close}",
        ]


def measured(seen: Seen, append_times_s: list[float], padded_at_s: list[float]) -> Measured:
    """Read it off what the proxy saw.

    Args:
        append_times_s: loop times at which appends were sent.
        padded_at_s: those of padded units alone.
    """
    capabilities = seen.capabilities or {}
    period = capabilities.get("chunk_period_ms")
    declared = isinstance(period, int) and not isinstance(period, bool) and period > 0
    period_ms = period if isinstance(period, int) and declared else 1000
    first = next((r for r in seen.responses.values() if r.first_audio_s is not None), None)
    dialect, sure = dialect_of(seen)
    barge_in = capabilities.get("supports_barge_in")
    return Measured(
        dialect=dialect,
        dialect_sure=sure,
        chunk_period_ms=period_ms,
        declared_period=declared,
        session_created_s=_since(seen.opened_s, seen.created_s),
        first_audio_s=_since(seen.first_append_s, first.first_audio_s if first is not None else None),
        pace=_pace(seen),
        decision_s=_decision(seen, append_times_s),
        continues_without_input=_continues(
            seen, padded_at_s, period_ms, len(append_times_s) - len(padded_at_s)
        ),
        listens_in_padding=sum(1 for at_s in seen.listens if padded_at_s and at_s >= padded_at_s[0]),
        padded_units=len(padded_at_s),
        replies=len(seen.responses),
        replies_done=sum(r.done_s is not None for r in seen.responses.values()),
        closed_after_s=_since(seen.close_s, seen.closed_s),
        close="a TCP end without a close frame"
        if seen.close_code is None
        else f"close frame {seen.close_code}",
        supports_barge_in=barge_in if isinstance(barge_in, bool) else None,
    )


def dialect_of(seen: Seen) -> tuple[str, bool]:
    """The letter (protocol.md 18), and whether the spelling of a reply was seen."""
    capabilities = seen.capabilities or {}
    old = seen.incarnation if seen.family is None else seen.family == "response.audio"
    if not old:
        return "N", seen.family is not None
    return ("I" if capabilities.get("supports_barge_in") is True else "J"), seen.family is not None


def _since(begin_s: float | None, end_s: float | None) -> float | None:
    return None if begin_s is None or end_s is None else round(end_s - begin_s, 3)


def _pace(seen: Seen) -> float | None:
    for response in seen.responses.values():
        times = response.audio_at
        if len(times) >= 2 and times[-1][0] > times[0][0]:
            return round((times[-1][1] - times[0][1]) / 1000 / (times[-1][0] - times[0][0]), 2)
    return None


def _decision(seen: Seen, append_times_s: list[float]) -> float | None:
    lags = []
    for at_s in seen.listens:
        before = [sent_s for sent_s in append_times_s if sent_s <= at_s]
        if before:
            lags.append(at_s - before[-1])
    return round(sorted(lags)[len(lags) // 2], 3) if lags else None


def _continues(seen: Seen, padded_at_s: list[float], period_ms: int, units: int) -> bool | None:
    """Audio of a reply that was open at the commit, in the time in which nothing was sent.

    Args:
        units: sent before that time. A server that is behind with them is neither waiting nor going on by itself, nor
            is a reply that has said everything and is never done.
    """
    if seen.committed_s is None or seen.last_append_s is None:
        return None
    commit_s = seen.commit_s or seen.committed_s
    until_s = padded_at_s[0] if padded_at_s else (seen.close_s or seen.ended_s or commit_s)
    since_s = commit_s + ENDS_BY_ITSELF_S * period_ms / 1000
    open_then = [
        r
        for r in seen.responses.values()
        if r.created_s <= since_s and (r.done_s is None or r.done_s > since_s)
    ]
    if not open_then or until_s <= since_s:
        return None
    if any(since_s < at_s <= until_s for r in open_then for at_s, _ in r.audio_at):
        return True
    spoken = [at_s for r in seen.responses.values() for at_s, _ in r.audio_at]
    decided = sum(at_s <= until_s for at_s in [*seen.listens, *spoken])
    went_on = any(at_s > until_s for r in open_then for at_s, _ in r.audio_at)
    return False if went_on and decided >= units else None
