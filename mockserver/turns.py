"""The model's turn: a unit decided, its events sent, the reply opened, ended or cancelled (protocol.md 6.4, 7, 9.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mockserver.engine_figures import Spent
from mockserver.input_buffer import Submission
from mockserver.profiles import Metrics
from mockserver.replies import Decision
from mockserver.responses import OpenResponse, listen
from mockserver.steploop import Decided
from mockserver.wire import Event, Unit, Withheld

if TYPE_CHECKING:
    from mockserver.session import ServerSession

_STATUS_REASONS = {"completed": "stop", "failed": "runtime_append_failed", "incomplete": "max_output_tokens"}


def decide(session: ServerSession, index: int, submission: Submission) -> Decision:
    """What the scripted model does on a unit; the journal is told."""
    assert session.config is not None
    stale = submission.epoch != session.epoch
    forced = submission.forced_listen or session.units_in_turn < session.config.force_listen_count
    session.units_in_turn += 1
    decision = session.script.decide(index, forced_listen=forced or stale)
    data: Event = {"decision": decision.kind, "cause": submission.cause, "samples": submission.samples}
    if submission.frame is not None:
        data["frame"] = submission.frame
    if decision.kind == "speak":
        data |= {"reply": decision.reply, "ends": decision.ends}
    session.note(Unit(index, data))
    return decision


def forward(session: ServerSession, unit: Decided) -> bool:
    """The events of a decision (6.4); true when the turn goes on, so that silence would follow."""
    if unit.submission.epoch != session.epoch:
        return False
    decision = unit.decision
    if decision.kind == "listen":
        if session.response is not None:
            return session.dialect.listen_continues
        if _tells_listen(session, unit.submission):
            spent = _spent(session, unit) if "stage" in _metrics(session) else None
            tell_listen(session, "model_listen", spent=spent)
        return False
    if decision.starts and session.response is not None:
        finish(session, "completed", None)
    if decision.text or decision.audio_ms:
        if session.response is None:
            _open(session)
        assert session.response is not None
        session.emit_all(
            session.response.unit(
                decision.text,
                decision.audio_ms,
                end_of_turn=decision.ends,
                pieces=session.profile.deltas_per_unit,
                spent=_spent(session, unit) if session.response.metrics else None,
            )
        )
    if not decision.ends:
        return True
    if session.response is None:
        tell_listen(session, "model_turn_completed_without_output")
    else:
        finish(
            session,
            decision.status,
            _STATUS_REASONS.get(decision.status, session.dialect.cancel_reason),
        )
    session.turn_id += 1
    session.units_in_turn = 0
    return False


def tell_listen(
    session: ServerSession, reason: str, *, by_model: bool = True, spent: Spent | None = None
) -> None:
    """`response.listen` goes out, with stage metrics where `spent` is given."""
    session.emit(
        listen(session.id, session.epoch, reason, turn_id=session.turn_id, by_model=by_model, spent=spent)
    )


def silence_withheld(session: ServerSession) -> None:
    """The step loop would have made silence for the open reply, and a fault has switched it off."""
    if session.response is not None:
        session.note(Withheld(session.response.id))


def finish(session: ServerSession, status: str, reason: str | None, *, heard_ms: int | None = None) -> None:
    """The open response gets its done group."""
    response = session.response
    assert response is not None
    details = None if reason is None else {"type": status, "reason": reason}
    session.emit_all(response.done(status, details, heard_ms=heard_ms))
    session.finished[response.id] = session.conversation.committed
    session.padding_listened = False
    session.response = None


def cancel(session: ServerSession, reason: str) -> None:
    """The open response is cancelled: epoch + 1, truncated where the dialect says so, done group (9.1)."""
    response = session.response
    assert response is not None
    advance_epoch(session)
    heard_ms = session.ledger.of(response.id).played_ms
    if session.dialect.truncated_on_cancel:
        told = {"item_id": response.item_id, "content_index": 0, "audio_end_ms": heard_ms}
        inner = {
            "type": "conversation.item.truncated",
            "session_id": session.id,
            "epoch": session.epoch,
            **told,
        }
        session.emit({"type": "conversation.item.truncated", **told, "event": inner})
    finish(session, "cancelled", reason, heard_ms=heard_ms)


def advance_epoch(session: ServerSession) -> None:
    """Output of what was submitted before is never sent (3.2)."""
    session.epoch += 1
    session.script.cancel()
    session.steps.release()


def _open(session: ServerSession) -> None:
    assert session.config is not None
    response_id = session.new_response_id()
    session.ledger.open(response_id)
    session.last_response_id = response_id
    session.response = OpenResponse(
        response_id,
        session.id,
        session.epoch,
        session.turn_id,
        session.config.modalities,
        session.dialect,
        session.conversation,
        session.ledger,
        _metrics(session),
        session.profile.output_rate_hz,
    )
    session.emit_all(session.response.created())


def _metrics(session: ServerSession) -> frozenset[Metrics]:
    """What this session's replies tell of the engine (4.3, 13)."""
    metrics = session.profile.metrics
    if not metrics:
        return frozenset()
    assert session.config is not None
    asked = session.config.extra.get("return_stage_metrics") is True
    untold = session.dialect.stages_on_request and not asked
    return frozenset(name for name in metrics if not (name == "stage" and untold))


def _spent(session: ServerSession, unit: Decided) -> Spent:
    """The model time behind a unit that is told now."""
    return Spent(
        waited_ms=(session.now_s - unit.since_s) * 1000,
        first_token_ms=unit.first_token_s * 1000,
        unit_ms=unit.took_s * 1000,
    )


def _tells_listen(session: ServerSession, submission: Submission) -> bool:
    """Whether the profile tells a unit on which the model listens, no reply being open."""
    which = session.profile.listens_in_padding
    if which == "each" or not submission.padded:
        return True
    told, session.padding_listened = session.padding_listened, True
    return which == "first" and not told
