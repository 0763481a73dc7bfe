"""One short session: the reference voice asks, the server decides, the session is closed."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from pathlib import Path

from client.deadlines import Deadlines
from client.input_errors import MediaError
from client.media import load_reference_voice
from client.wav import read_pcm16
from conformance.live.measured import Measured, measured
from conformance.live.problem import Problem, Step
from conformance.live.server import LiveServer, masked
from conformance.probing.prober import Asking, ProbeFailed, play
from conformance.probing.transcript import Transcript
from mockserver.answered import ACK
from mockserver.proxy import ProxyServer
from mockserver.seen import Seen
from mockserver.upstream import Tape
from scenarios.probing import ProbeSpec, ProbeStep

CLIP_MS = 2400
"""Of the reference voice; no whole number of units, so that the commit has a residual to decide."""
BYTES_PER_MS = 32
PADDED_UNITS = 2
QUIET_S = 2.6
"""After the commit, with nothing sent: enough to see whether an open reply goes on by itself."""
ACK_EVERY_S = 0.25
"""As an ordinary client does (evaluation.md 5)."""
ACKS_ON_THEIR_WAY = 1
"""So many may go without an answer where the session ends."""
DEADLINES = Deadlines(connect_s=10.0, created_s=20.0, write_s=10.0, close_s=8.0)
TURN = ProbeSpec(
    steps=[
        ProbeStep(do="open"),
        ProbeStep(do="stream"),
        ProbeStep(do="commit"),
        ProbeStep(do="wait", seconds=QUIET_S),
        ProbeStep(do="silence", units=PADDED_UNITS),
        ProbeStep(do="ack"),
        ProbeStep(do="wait", seconds=0.3),
        ProbeStep(do="close"),
    ],
    facts=["closed_reason"],
)


@dataclass(frozen=True)
class Turn:
    """What came of it."""

    steps: list[Step]
    measured: Measured


def question_of(wav: Path) -> bytes:
    """The beginning of a voice, as 16 kHz mono PCM16; a short one is followed by silence.

    Raises Problem: it cannot be read.
    """
    try:
        pcm = read_pcm16(wav, str(wav))
    except MediaError as error:
        raise Problem(
            "reference voice", str(error), "give a WAV file with a voice by --ref-audio", usage=True
        ) from error
    return pcm[: CLIP_MS * BYTES_PER_MS].ljust(CLIP_MS * BYTES_PER_MS, b"\0")


async def take_turn(server: LiveServer, wav: Path, tape: Tape | None = None) -> Turn:
    """Open a session, ask, listen, acknowledge, close.

    Args:
        tape: keeps the session.
    Raises Problem: naming the step that failed and what the server said.
    """
    pcm, voice = question_of(wav), load_reference_voice(wav)
    proxy = ProxyServer(server.behind(), tape=tape)
    await proxy.start()
    failed = ""
    transcript = Transcript()
    try:
        asking = Asking(proxy.url, server.model, voice, pcm, deadlines=DEADLINES, ack_every_s=ACK_EVERY_S)
        try:
            transcript = await play(TURN, asking)
        except ProbeFailed as error:
            failed = masked(str(error), server.headers)
    finally:
        with contextlib.suppress(asyncio.TimeoutError):
            await proxy.stop()
    seen = next(iter(proxy.seen.values()), None)
    _check_upgrade(server, proxy, seen, failed)
    assert seen is not None
    _check_session(server, seen, failed)
    return _judged(seen, transcript, failed)


def _check_upgrade(server: LiveServer, proxy: ProxyServer, seen: Seen | None, failed: str) -> None:
    if proxy.unreachable:
        raise Problem(
            "upgrade",
            masked(f"the connection failed: {proxy.unreachable[0]}", server.headers),
            "the layers below work: does something close WebSockets between here and there?",
        )
    if proxy.statuses:
        raise _refused_upgrade(proxy.statuses[0])
    if seen is None:
        raise Problem("upgrade", failed or "no connection was made", "see the server's log")


def _refused_upgrade(status: int) -> Problem:
    hints = {
        401: "give --api-key-env VAR, or check its value",
        403: "credentials are refused, or the path is not allowed for them",
        404: "is the path right? it is /v1/realtime on a duplex deployment",
        503: "no capacity: wait, or restart the server; earlier sessions may hold its slots",
    }
    plain = "this path answers plain HTTP: is it the realtime endpoint, or another service?"
    return Problem(
        "upgrade", f"the WebSocket upgrade is answered with HTTP {status}", hints.get(status, plain)
    )


def _check_session(server: LiveServer, seen: Seen, failed: str) -> None:
    first = seen.errors[0] if seen.errors else None
    told = masked(f"{first[1]}: {first[2]}" if first is not None else "", server.headers)
    if seen.created_s is None:
        if first is not None and first[1] in ("resource_exhausted", "duplex_session_busy"):
            raise Problem(
                "session",
                f"no session slot is free ({told})",
                "wait for others to end; a lost session may keep its slot for minutes, until the server notices "
                "or is started anew",
                refused=True,
            )
        if first is not None and first[1] == "unsupported":
            raise Problem(
                "session",
                f"this server is not duplex ({told})",
                "deploy it with full duplex",
                refused=True,
            )
        if first is not None:
            raise Problem(
                "session", f"refused: {told}", "see the code in docs/protocol.md 11.2", refused=True
            )
        if _went_away(seen):
            raise Problem("session", "the connection ended before session.created", "see the server's log")
        raise Problem(
            "session",
            f"no session.created within {DEADLINES.created_s:g} s",
            "the engine hangs or is overloaded: look at its log",
        )
    capabilities = seen.capabilities
    level = (capabilities or {}).get("implementation_level", "model_native_duplex")
    if capabilities is None or level != "model_native_duplex":
        what = "tells no capabilities" if capabilities is None else f"is {level!r}"
        raise Problem(
            "session",
            f"the session {what}: this peer is not full duplex (protocol.md 1.1)",
            "is the deployment a native duplex one, and the model a duplex model?",
        )
    if len(seen.families) > 1:
        raise Problem(
            "turn",
            f"the server changed its dialect in mid-session: {' and '.join(sorted(seen.families))}",
            "a gateway that rewrites events? two servers behind one address?",
        )


def _check_acks(seen: Seen) -> None:
    """Raises Problem: acks were left unanswered, as by a server that stopped reading."""
    sent, answered = seen.answers.sent[ACK], seen.answers.answered[ACK]
    if sent - answered <= ACKS_ON_THEIR_WAY or _went_away(seen):
        return
    waited_s = DEADLINES.close_s if seen.closed_s is None else 0.0
    end_s = (seen.closed_s or seen.close_s or seen.opened_s) + waited_s
    raise Problem(
        "ack",
        f"{sent - answered} of {sent} acks were left unanswered: {seen.answers.told(seen.opened_s, end_s)}",
        "does the server still read its socket? its log at that time; every session would cost its teardown, "
        "and its slot may stay taken",
    )


def _went_away(seen: Seen) -> bool:
    """The server ended the connection before anybody asked it to."""
    return seen.ended_s is not None and (seen.close_s is None or seen.ended_s < seen.close_s)


def _judged(seen: Seen, transcript: Transcript, failed: str) -> Turn:
    appends = [s.t_s for s in transcript.sent("input_audio_buffer.append")]
    result = measured(seen, appends, appends[len(appends) - transcript.padded :])
    steps = [
        Step(
            "session",
            f"session.created after {result.session_created_s:.2f} s",
            result.session_created_s or 0,
        )
    ]
    late = [f"{code}: {message}" for _, code, message in seen.errors if code != "playback_ack_too_late"]
    if late:
        raise Problem("turn", f"the server reported {late[0]}", "see the code in docs/protocol.md 11.2")
    if failed:
        raise Problem("turn", failed, "the server went away or hung in the middle of a session: see its log")
    if not seen.listens and not seen.responses:
        raise Problem(
            "turn",
            f"{len(appends)} units were sent and none was decided",
            "the engine does not step: is it another model, or a stage that hangs?",
        )
    _check_acks(seen)
    said = f"{result.replies} reply(s), {len(seen.listens)} listen(s)"
    if result.replies > result.replies_done:
        said += f"; {result.replies - result.replies_done} reply(s) not done when the session was closed"
    steps.append(Step("turn", said, warns=result.replies == 0 or result.replies_done < result.replies))
    if seen.committed_s is None:
        raise Problem(
            "turn",
            "the commit was not acknowledged: no input_audio_buffer.committed came",
            "every sample would wait out its drain: the server's log at the commit; docs/protocol.md 5.5",
        )
    if seen.answers.sent[ACK]:
        steps.append(Step("ack", "all answered, four a second"))
    if _went_away(seen):
        raise Problem("close", "the connection ended before session.close", "see the server's log")
    if seen.closed_s is None:
        raise Problem(
            "close",
            f"no session.closed within {DEADLINES.close_s:g} s",
            "see the server's log at session.close: every session will cost its teardown, and its slot may stay taken",
        )
    steps.append(Step("close", f"session.closed after {result.closed_after_s:.2f} s, then {result.close}"))
    return Turn(steps, result)
