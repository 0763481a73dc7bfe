"""What a probe scenario asks a server, and which facts it reads off the answer (docs/probes.md).

A probe asserts nothing. It plays steps on the wire and notes what a client can see, where protocol.md 19 and
evaluation.md say that sources are uncertain or that versions differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, model_validator

from scenarios.errors import Broken, known
from scenarios.forms import STRICT, hold, holding

FACTS: Mapping[str, str] = {
    "created_after_s": "from `session.update` to `session.created`",
    "implementation_level": "what the capabilities call the session",
    "chunk_period_ms": "the unit that the server declares",
    "updated_follows": "whether `session.updated` follows `session.created`",
    "refusal": "how a session without a reference voice is refused: code and shape of the error",
    "refusal_ends": "what becomes of the connection after the refusal",
    "unknown_event": "how an event of an unknown type is answered: code and shape of the error",
    "closed_reason": "the reason that `session.closed` gives for a close of ours",
    "closed_after_s": "from `session.close` to `session.closed`",
    "connection_end": "how the connection ends after `session.closed`",
    "input_ms_per_decision": "input between two listen decisions while nobody speaks: the unit as observed",
    "residual_decision": "what the residual unit that the commit flushed became",
    "committed_after_s": "from the commit to `input_audio_buffer.committed`",
    "listens_per_padded_unit": "listen decisions for each unit of silence sent after the commit",
    "replies_in_padding": "replies that were opened by units of silence after the commit",
    "reply_in_padding_ends": "what became of the reply that was opened in padding",
    "audio_s_per_padded_unit": "reply audio for each unit of silence while such a reply was open",
    "continues_without_input": "whether an open reply goes on while nothing is sent",
    "done_without_input": "whether an open reply ends while nothing is sent",
    "cadence_s": "between two audio deltas of a reply that goes on while nothing is sent",
    "longest_pause_s": "the longest time without a delta of an open reply while nothing is sent",
    "moves_again_on_padding": "whether a reply that stood still goes on with units of silence",
    "listens_in_reply": "listen decisions while a reply was open",
    "ack_after_commit": "how a playback ack is answered once a later input has been committed",
    "history_committed": "whether such an ack may still enter the conversation",
    "generated_after_full_ack_ms": "the ledger's `generated_ms` when a full ack is repeated",
    "open_reply_at_close": "what comes for an open reply when the session is closed",
    "event_family": "which spelling the events of a reply have",
    "first_audio_after_speech_s": "from the append in which the question begins to the first reply audio",
    "first_audio_ms": "reply audio of the first delta",
    "audio_ms_per_delta": "reply audio of a delta in the middle of a reply",
    "done_repeats_audio": "whether `response.done` carries a second copy of the last audio",
}
"""Every fact by its name, in the order of a table. The reading of each is conformance/probing/facts.py."""

_TAKES: Mapping[str, tuple[str, ...]] = {
    "open": ("ref_audio",),
    "stream": ("piece_ms",),
    "commit": (),
    "silence": ("units",),
    "wait": ("seconds",),
    "await": ("event", "seconds"),
    "ack": (),
    "send": ("event",),
    "close": (),
}
_NEEDS: Mapping[str, tuple[str, ...]] = {
    "silence": ("units",),
    "wait": ("seconds",),
    "await": ("event", "seconds"),
    "send": ("event",),
}


class ProbeStep(BaseModel):
    """One thing that a probe does, or waits for.

    open: connect, `session.update`, wait for `session.created` or a refusal. stream: the clip, in real time. commit.
    silence: padded units at the declared period. wait: send nothing. await: an event by its logical name, at most so
    long; it may stay away. ack: every known reply, as far as its audio came. send: an event that has only a type.
    close: `session.close`, then what the server makes of it.
    """

    model_config = STRICT

    do: Literal["open", "stream", "commit", "silence", "wait", "await", "ack", "send", "close"]
    """What is done."""
    ref_audio: bool | None = None
    """open: false leaves the reference voice out, which a server must refuse."""
    piece_ms: Annotated[int, Field(ge=20, le=1000)] | None = None
    """stream: audio of one append; a unit by default."""
    units: Annotated[int, Field(ge=1, le=60)] | None = None
    """silence: how many units."""
    seconds: Annotated[float, Field(gt=0, le=120)] | None = None
    """wait, await: how long."""
    event: Annotated[str, Field(min_length=1)] | None = None
    """await, send: type of the event."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        hold(_step_rules(self))
        return self


def _step_rules(step: ProbeStep) -> Iterable[Broken]:
    takes = _TAKES[step.do]
    for key in sorted(step.model_fields_set - {"do", *takes}):
        allowed = f"{step.do} takes {', '.join(takes)}" if takes else f"{step.do} takes nothing"
        yield Broken((key,), f"does not apply to {step.do!r}", allowed)
    for key in _NEEDS.get(step.do, ()):
        if getattr(step, key) is None:
            yield Broken((key,), "missing", f"{step.do} needs {', '.join(_NEEDS[step.do])}")


def _facts(facts: list[str]) -> Iterable[Broken]:
    for index, name in enumerate(facts):
        if name not in FACTS:
            yield Broken((index,), f"unknown fact {name!r}", known(name, FACTS))
        elif name in facts[:index]:
            yield Broken((index,), f"{name!r} stands twice", "each once")
    if not facts:
        yield Broken((), "no facts", "name at least one fact to read")


def _steps(steps: list[ProbeStep]) -> Iterable[Broken]:
    for index, step in enumerate(steps):
        if (step.do == "open") is not (index == 0):
            found = f"{step.do!r} as step {index + 1}"
            yield Broken((index, "do"), found, "open is the first step, and only the first")
    if not steps:
        yield Broken((), "no steps", "begin with {do: open}")


class ProbeSpec(BaseModel):
    """What is asked of the server, and what is read off its answer."""

    model_config = STRICT

    steps: Annotated[list[ProbeStep], holding(_steps)]
    """Played in order on one connection."""
    facts: Annotated[list[str], holding(_facts)]
    """Names of FACTS."""


def probe_rules(parts: Mapping[str, Any]) -> Iterable[Broken]:
    """A probe asserts nothing and is not judged; anything else expects something.

    Args:
        parts: the valid sections of a scenario by name.
    """
    if "probe" not in parts or "expect" not in parts:
        return
    expects = bool(parts["expect"].model_fields_set)
    if parts["probe"] is None:
        if not expects:
            yield Broken(("expect",), "missing", "required")
        return
    if expects:
        yield Broken(("expect",), "beside `probe`", "a probe asserts nothing; leave it out")
    for key in ("requires", "faults", "samples", "judge"):
        if parts.get(key):
            yield Broken((key,), "beside `probe`", "a probe is no test of a client; leave it out or empty")
