"""What the server of a cassette answered of its client, and since when it answered nothing."""

from __future__ import annotations

from conformance.live.cassette import Cassette
from mockserver.answered import ACK_TOO_LATE, Answered


def answers_in(cassette: Cassette) -> Answered:
    """Read off both directions."""
    found = Answered()
    for line in cassette.lines:
        name = line.type if line.kind == "text" else line.kind
        if line.dir == "client->server":
            found.ask(name, line.t_s)
        elif line.kind in ("text", "pong"):
            error = (line.event or {}).get("error")
            late = name == "error" and isinstance(error, dict) and error.get("code") == ACK_TOO_LATE
            found.hear("playback.acknowledged" if late else name, line.t_s)
    return found


def end_s(cassette: Cassette) -> float:
    """When its last frame or end came, in seconds since the connection was accepted."""
    return max((line.t_s for line in cassette.lines), default=0.0)


def answers_line(cassette: Cassette) -> str:
    """In one line, such as `the server answered nothing after t 4.30 s (9 of 20 acks answered; …)`."""
    return answers_in(cassette).told(0.0, end_s(cassette))


def silence(cassette: Cassette) -> str | None:
    """The same, where the server answered nothing from some moment on; None: it did."""
    return answers_line(cassette) if answers_in(cassette).deaf(end_s(cassette)) else None
