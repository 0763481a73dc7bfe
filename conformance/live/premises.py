"""Whether a live server did what a scenario scripts, as far as its statements depend on it.

A scenario says what the model does. A live model does what it likes, so a statement that does not hold is the client's
failure only where the conversation was the scripted one; otherwise it is told as unobserved, with what was different.
What always holds (the invariants) is judged in any case.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from conformance.abilities import Need
from conformance.live.bill import DeviceUse
from conformance.live.judged import COUNTED, script_played
from conformance.outcome import Finding, Unobserved
from scenarios.faults import Layer
from scenarios.model import Clip, Scenario

if TYPE_CHECKING:
    from conformance.observation import Observation
    from mockserver.proxy import ProxyServer
    from mockserver.seen import Seen

EXACT = (
    "sample.text",
    "sample.sentences",
    "sample.first_start_s",
    "sample.last_end_s",
    "sample.late_text",
    "sample.latency_s",
    "wire.appends",
    "wire.padded_appends",
    "wire.acks_before_commit",
    "wire.last_acks_ms",
    "metadata.late_sentences",
)
"""Statements about what the model says and when: they hold only of the very script."""
EXACT_PREFIXES = (
    "run.mean_",
    "run.median_",
    "run.p50",
    "run.p90",
    "run.p99",
    "run.max_",
    "run.total_",
    "run.duplex_stream_",
    "sample.first_attempt.partial",
    "judge.",
    "accuracy.",
)
"""The same of families of figures."""
AUDIO_TOLERANCE = 0.1
"""Part by which reply audio may be more or less than scripted."""


@dataclass(frozen=True)
class Shape:
    """What a session's model does, as far as a story can depend on it."""

    replies: int
    begun_before_commit: int
    open_at_commit: bool
    audio_s: float = 0.0
    """Of all replies together."""
    done_after_commit: bool = False
    """A reply was done after the commit, whenever it began: on a server that is behind it begins late."""

    def like(self, other: Shape) -> bool:
        """Whether a story can take one for the other."""
        return (self.replies, self.begun_before_commit, self.open_at_commit) == (
            other.replies,
            other.begun_before_commit,
            other.open_at_commit,
        ) and abs(self.audio_s - other.audio_s) <= AUDIO_TOLERANCE * max(self.audio_s, other.audio_s)

    def told(self) -> str:
        """In words."""
        if self.replies == 0:
            return "no reply"
        where = "open at the commit" if self.open_at_commit else "none open at the commit"
        begun = f"{self.begun_before_commit} begun before the commit"
        return f"{self.replies} reply(s) of {self.audio_s:.1f} s, {begun}, {where}"


@dataclass(frozen=True)
class Session:
    """One connection to the server."""

    number: int
    sample: str | None
    attempt: int
    shape: Shape
    all_done: bool
    text: str
    """Everything the server said, in its order."""
    after_commit_s: float
    """From the commit to when nothing was awaited of the server any more (evaluation.md 7)."""
    heard_s: float = 0.0
    """From the commit to the last decision that was heard before the close: a server that is behind decides padded
    units long after they were sent, and with each of them the client's quiet begins anew (evaluation.md 8)."""
    shaken_s: float = 0.0
    """What the server took to open the session and to close it."""


@dataclass
class Conversation:
    """What the server did in one scenario."""

    scripted: dict[str | None, Shape]
    """By sample id."""
    sessions: list[Session] = field(default_factory=list)
    cut_short: list[str] = field(default_factory=list)
    """Sessions that ended before their commit with another conversation than scripted so far, in words."""
    uses: list[DeviceUse] = field(default_factory=list)
    """What each session cost, those that ended before the commit too."""
    profiles: tuple[str, str] = ("", "")
    """Of the scenario's server and of the live one, in words; the same: nothing is known to differ."""
    behind: bool = False
    """The server is slower than real time."""
    answer_only: bool = False
    """The story is what becomes of the answer, so that it does not matter when the server said it."""
    concurrency: tuple[int, int] = (1, 1)
    """Asked for by the scenario, and granted."""
    no_slot: list[str] = field(default_factory=list)
    """Each session that the server refused for want of a slot, in its words."""
    unconfirmed: int = 0
    """Sessions whose end the server never confirmed."""
    answers: list[str] = field(default_factory=list)
    """Of each session in which it left something unanswered, what and since when."""

    def differences(self) -> list[str]:
        """In what the sessions differ from the script, each once."""
        told: dict[str, None] = {}
        told.update(dict.fromkeys(self.cut_short))
        for session in self.sessions:
            wanted = self._wanted(session)
            if wanted is not None and not wanted.like(session.shape):
                told[f"scripted: {wanted.told()}; the server: {session.shape.told()}"] = None
        if self.profiles[0] != self.profiles[1]:
            told[f"scripted for a server that {self.profiles[0]}; this one {self.profiles[1]}"] = None
        asked, granted = self.concurrency
        if granted < asked:
            told[f"{asked} sessions at a time are scripted, {granted} are allowed (--max-sessions)"] = None
        return list(told)

    def broken_premises(self) -> list[str]:
        """What the story cannot do without, and did not get."""
        told: dict[str, None] = {}
        for session in self.sessions:
            wanted = self._wanted(session)
            if wanted is None:
                continue
            got = session.shape
            if wanted.replies and not got.replies:
                told["the story needs a reply, and the server said nothing"] = None
            elif got.replies and not wanted.replies:
                told["the story needs a server that only listens, and it spoke"] = None
            elif wanted.replies > 1 and got.replies != wanted.replies:
                told[f"the story needs {wanted.replies} replies, and the server gave {got.replies}"] = None
            elif wanted.open_at_commit and not (
                got.open_at_commit or got.done_after_commit or self.answer_only
            ):
                told["the story needs a reply that is open at the commit, and none was"] = None
        return list(told)

    def _wanted(self, session: Session) -> Shape | None:
        split_id = (session.sample or "").split("/", 1)
        return self.scripted.get(split_id[-1]) if session.sample is not None else None


def scripted_shape(scenario: Scenario, clip: Clip) -> Shape:
    """Of the scripted model with a clip."""
    seconds = clip.seconds or 0.0
    whole = math.floor(seconds)
    replies = scenario.server.reply
    begun = [reply for reply in replies if reply.starts_at_unit < whole]
    return Shape(
        replies=len(replies),
        begun_before_commit=len(begun),
        open_at_commit=any(reply.starts_at_unit + reply.units > whole for reply in begun),
        audio_s=sum(reply.units * reply.audio_ms for reply in replies) / 1000,
    )


def conversation_of(scenario: Scenario, proxy: ProxyServer) -> Conversation:
    """Read off what the proxy saw."""
    found = Conversation(
        {spec.id: scripted_shape(scenario, spec.clip) for spec in scenario.specs},
        answer_only=scenario.judge is not None and all(f.layer is Layer.JUDGE for f in scenario.faults),
    )
    for info in proxy.connections:
        seen = proxy.seen[info.number]
        if seen.commit_s is None:
            found.cut_short += _so_far(scenario, seen)
            continue
        found.sessions.append(
            Session(
                number=info.number,
                sample="/".join(info.sample) if info.sample is not None else None,
                attempt=info.attempt,
                shape=_seen_shape(seen, seen.commit_s),
                all_done=all(r.done_s is not None for r in seen.responses.values()),
                text=" ".join(r.text for r in seen.responses.values()),
                after_commit_s=_settled_s(seen, seen.commit_s) - seen.commit_s,
                heard_s=max([at_s for at_s in seen.listens if at_s <= (seen.close_s or at_s)], default=0.0)
                - seen.commit_s,
                shaken_s=(seen.created_s or seen.opened_s)
                - seen.opened_s
                + max(0.0, (seen.closed_s or 0.0) - (seen.close_s or math.inf)),
            )
        )
    return found


def _settled_s(seen: Seen, commit_s: float) -> float:
    """When the residual was decided and every reply done; a slow server has earlier units to decide before it."""
    committed_s = seen.committed_s if seen.committed_s is not None else commit_s
    replies = [(r.created_s, r.done_s) for r in seen.responses.values() if r.done_s is not None]
    decided = [at_s for at_s in seen.listens if at_s >= committed_s]
    decided += [done_s for created_s, done_s in replies if created_s > committed_s]
    return max([commit_s, *sorted(decided)[:1], *(done_s for _, done_s in replies)])


def _so_far(scenario: Scenario, seen: Seen) -> list[str]:
    """In what a session without a commit differs from the script, by the units that went to the server."""
    units = seen.appends
    replies = scenario.server.reply
    begun = sum(reply.starts_at_unit < units for reply in replies)
    done = sum(reply.starts_at_unit + reply.units <= units for reply in replies)
    got = len(seen.responses), sum(r.done_s is not None for r in seen.responses.values())
    if got == (begun, done):
        return []
    scripted = f"scripted after {units} unit(s): {begun} reply(s) begun, {done} done"
    return [f"{scripted}; the server: {got[0]} begun, {got[1]} done"]


def _seen_shape(seen: Seen, commit_s: float) -> Shape:
    before = [r for r in seen.responses.values() if r.created_s < commit_s]
    return Shape(
        replies=len(seen.responses),
        begun_before_commit=len(before),
        open_at_commit=any(r.done_s is None or r.done_s > commit_s for r in before),
        audio_s=sum(r.audio_ms for r in seen.responses.values()) / 1000,
        done_after_commit=any(r.done_s is None or r.done_s > commit_s for r in seen.responses.values()),
    )


def missed_moments(observation: Observation, conversation: Conversation) -> dict[int, Unobserved]:
    """Faults that were not seen to bite in a conversation that was not the scripted one: their moment did not come."""
    different = [*conversation.broken_premises(), *conversation.differences()]
    told: dict[int, Unobserved] = {}
    for report in observation.faults:
        # What a live server sends, and when, is its own affair: a fault that waited for it was not triggered.
        if report.state == "armed" or (different and report.state != "observed"):
            why = "; ".join(different) or "what it waits for did not come from this server"
            reason = f"its moment did not come ({report.state}): {why}"
            told[report.index] = Unobserved(report.name, "fault", Need.SERVER_CONTROL, reason)
    return told


def held_against(
    statements: Iterable[Finding | Unobserved], observation: Observation, conversation: Conversation
) -> list[Finding | Unobserved]:
    """The statements as they may be held against a client of a live server."""
    premises = [
        Unobserved("script", "statement", Need.SERVER_CONTROL, told)
        for told in conversation.broken_premises()
    ]
    different = conversation.differences()
    from conformance.live.adapted import holds_all_the_same, in_the_servers_words

    told: list[Finding | Unobserved] = [*premises]
    for statement in statements:
        if not isinstance(statement, Finding):
            told.append(statement)
        elif holds_all_the_same(statement, observation, conversation):
            continue
        elif (other := in_the_servers_words(statement, observation, conversation)) is not None:
            told.append(other)
        elif statement.id in COUNTED and not premises and script_played(observation):
            told.append(statement)
        elif statement.id in EXACT or statement.id.startswith(EXACT_PREFIXES):
            reason = (
                f"it is about the script, which a live server does not follow; here {statement.actual[:120]}"
            )
            told.append(Unobserved(statement.id, "statement", Need.SERVER_CONTROL, reason, statement.sample))
        elif premises or different:
            where = "; ".join(different) or "see above"
            reason = f"{statement.actual[:120]} here, in another conversation than the scripted one: {where}"
            told.append(Unobserved(statement.id, "statement", Need.SERVER_CONTROL, reason, statement.sample))
        else:
            told.append(statement)
    return told
