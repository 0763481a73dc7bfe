"""The judge's ledger: one entry a request, numbered within its judgement."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from mockserver.judge_reading import Asked, Kind, Mode
from mockserver.judge_verdict import Verdict

TEXT_CHARS = 65_536
"""So much of a request's words is kept; a longer one is cut and says so by its length."""

MODEL_CHARS = 256
"""And so much of the name of its model."""

Source = Literal["script", "again", "heuristic", "exhausted", "fault", "refused", "none", "behind"]
"""Who answered: the script, the script once more where it was used up, the heuristic, nobody because the script had run
out, a fault in front of the model, the endpoint because the request was malformed; behind: a judge of one's own; none:
no answer has gone out."""


@dataclass(frozen=True)
class JudgedSample:
    """What the judge knows of a sample, to tell whose request it reads."""

    split: str
    id: str
    question: str
    """The instruction, which every request shows (evaluation.md 16.3)."""

    @property
    def key(self) -> tuple[str, str]:
        """(split, id)."""
        return self.split, self.id

    def is_shown_in(self, text: str) -> bool:
        """Whether a request shows its instruction, as it is or quoted as JSON."""
        quoted = json.dumps(self.question, ensure_ascii=False)[1:-1]
        return bool(self.question) and (self.question in text or quoted in text)

    @property
    def family(self) -> Literal["pr", "rtd"]:
        """By the name of its split (evaluation.md 1.4)."""
        return "pr" if self.split.lower().startswith("pr") else "rtd"


@dataclass(frozen=True)
class JudgeViolation:
    """Something that evaluation.md forbids a client of the judge."""

    section: str
    rule: str
    detail: str
    requirement: str | None = None
    """The requirement of the review thread that it breaks, where one names it."""


@dataclass
class JudgeRequest:
    """One request, from its reading to its answer."""

    number: int
    """From 1, in the order read."""
    t_s: float
    """Loop time."""
    kind: Kind | None = None
    """None: malformed."""
    mode: Mode | None = None
    sample: tuple[str, str] | None = None
    """(split, id); None: nothing tells whose it is."""
    judgement: int = 0
    """Which judgement of its sample and kind, from 1."""
    request: int = 0
    """Which request of that judgement, from 1."""
    beside: bool = False
    """The client says that it is beside the score (late sentences counted in)."""
    reask: bool = False
    """It shows the judge a reply of its own."""
    repeats: bool = False
    """The same messages as the request before it in this judgement, which no reply had answered."""
    text: str = ""
    """Its words without media and without what follows a reply of the judge; at most `TEXT_CHARS`."""
    complaint: str = ""
    """What it says after the reply that it shows; at most `TEXT_CHARS`."""
    model: str = ""
    images: int = 0
    video: bool = False
    """It shows a video."""
    body_bytes: int = 0
    status: int | None = None
    """HTTP status sent; None: nothing was sent, or it did not reach the client."""
    source: Source = "none"
    finish_reason: str | None = None
    content: str | None = None
    """`content` of the reply as sent."""
    verdict: Verdict = field(default_factory=lambda: Verdict("none"))
    """How the reply stands; it counts only with status 200."""
    faults: list[str] = field(default_factory=list)
    """Faults that had a part in the answer."""
    violations: list[JudgeViolation] = field(default_factory=list)

    @property
    def answered(self) -> bool:
        """A reply of the model, whatever it says, went out."""
        return self.status == 200 and self.verdict.standing != "none"

    @property
    def judged(self) -> bool:
        """A verdict went out that can be scored."""
        return self.status == 200 and self.verdict.standing == "verdict"

    def to_json(self) -> dict[str, Any]:
        """A flat object for traces and journals: no media, no prompt."""
        return {
            "number": self.number,
            "kind": self.kind,
            "mode": self.mode,
            "sample": "/".join(self.sample) if self.sample else None,
            "judgement": self.judgement,
            "request": self.request,
            "beside": self.beside,
            "reask": self.reask,
            "repeats": self.repeats,
            "model": self.model,
            "images": self.images,
            "video": self.video,
            "body_bytes": self.body_bytes,
            "status": self.status,
            "source": self.source,
            "finish_reason": self.finish_reason,
            "standing": self.verdict.standing,
            "faults": list(self.faults),
            "violations": [violation.rule for violation in self.violations],
        }


@dataclass
class _Judgement:
    number: int
    requests: list[JudgeRequest] = field(default_factory=list)
    last_print: int = 0
    """Fingerprint of the last request."""
    openings: dict[int, JudgeRequest] = field(default_factory=dict)
    """Fingerprint of an opening to the last request that was nothing more."""
    forgotten: int = 0
    """Requests before those."""

    def forget(self, oldest: int) -> None:
        """Requests with a lower number go."""
        kept = [entry for entry in self.requests if entry.number >= oldest]
        self.forgotten += len(self.requests) - len(kept)
        self.requests = kept
        self.openings = {key: entry for key, entry in self.openings.items() if entry.number >= oldest}


class Ledger:
    """All requests, and which judgement each belongs to.

    Args:
        samples: those that may be judged.
        keep: how many requests are remembered, twice as many at most; None: all. A judgement that none of its requests
            is remembered of is as if it had never been.
    """

    def __init__(self, samples: Sequence[JudgedSample] = (), keep: int | None = None) -> None:
        self.entries: list[JudgeRequest] = []
        self.asked = 0
        """Requests so far, those that are forgotten among them."""
        self._keep = keep
        self._samples = list(samples)
        self._judgements: dict[tuple[Any, ...], list[_Judgement]] = {}
        self._shown: dict[int, JudgeRequest] = {}

    def open(self, t_s: float) -> JudgeRequest:
        """A request arrived; what it is comes later."""
        if self._keep is not None and len(self.entries) >= 2 * self._keep:
            self._forget(len(self.entries) - self._keep + 1)
        self.asked += 1
        entry = JudgeRequest(self.asked, t_s)
        self.entries.append(entry)
        return entry

    def _forget(self, count: int) -> None:
        """The oldest requests go, and what only they told."""
        del self.entries[:count]
        oldest = self.entries[0].number if self.entries else self.asked + 1
        self._shown = {key: entry for key, entry in self._shown.items() if entry.number >= oldest}
        for group, group_list in list(self._judgements.items()):
            for judgement in group_list:
                judgement.forget(oldest)
            self._judgements[group] = [judgement for judgement in group_list if judgement.requests]
            if not self._judgements[group]:
                del self._judgements[group]

    def place(self, entry: JudgeRequest, asked: Asked, hint: tuple[str, str] | None) -> JudgeRequest | None:
        """Say whose request it is and which one of which judgement.

        Args:
            hint: (split, id) as the client or the harness says; counts where the text does not contradict.
        Returns: the last request of this judgement that was the same opening and nothing more; None: there was
            none.
        """
        entry.kind, entry.mode = asked.kind, asked.mode
        entry.model, entry.body_bytes = str(asked.body["model"])[:MODEL_CHARS], asked.body_bytes
        entry.images, entry.video = len(asked.images), bool(asked.videos)
        entry.reask = asked.is_reask
        entry.text = asked.text[:TEXT_CHARS]
        if asked.is_reask:
            entry.complaint = asked.turns[-1].text[:TEXT_CHARS]
        entry.sample = self._owner(asked, hint)
        self._shown[asked.first_print] = entry
        judgement = self._judgement(entry, asked)
        entry.judgement = judgement.number
        entry.request = judgement.forgotten + len(judgement.requests) + 1
        last = judgement.requests[-1] if judgement.requests else None
        entry.repeats = last is not None and not last.answered and judgement.last_print == asked.whole_print
        before = judgement.openings.get(asked.first_print)
        judgement.requests.append(entry)
        judgement.last_print = asked.whole_print
        if not asked.is_reask:
            judgement.openings[asked.first_print] = entry
        return before

    def of(self, sample: tuple[str, str]) -> list[JudgeRequest]:
        """The requests for a sample, in their order."""
        return [entry for entry in self.entries if entry.sample == sample]

    def _judgement(self, entry: JudgeRequest, asked: Asked) -> _Judgement:
        """Content is judged once a sample; other kinds once a text, and anew when it was judged before."""
        group = (entry.sample, asked.kind, entry.beside)
        group_list = self._judgements.setdefault(group, [])
        if asked.kind == "content" and entry.sample is not None:
            if not group_list:
                group_list.append(_Judgement(1))
            return group_list[0]
        for judgement in reversed(group_list):
            if asked.first_print not in judgement.openings:
                continue
            last = judgement.requests[-1]
            if asked.is_reask or asked.kind != "chat" or not last.judged:
                return judgement
            break
        # Two events of a PR sample may show the same words: after a verdict the same question is a new one.
        group_list.append(_Judgement(group_list[-1].number + 1 if group_list else 1))
        return group_list[-1]

    def _owner(self, asked: Asked, hint: tuple[str, str] | None) -> tuple[str, str] | None:
        """Whose request it is: by the hint where the text allows it, by the instruction it shows, by the file it
        names, by an earlier request that said the same and has no verdict; then by order."""
        text = asked.text
        shown = [sample for sample in self._samples if sample.is_shown_in(text)]
        if hint is not None and any(sample.key == hint for sample in shown or self._samples):
            return hint
        if shown:
            longest = max(len(sample.question) for sample in shown)
            shown = [sample for sample in shown if len(sample.question) == longest]
        candidates = shown or self._samples
        if len(candidates) == 1:
            return candidates[0].key
        if asked.videos:
            named = [sample for sample in candidates if _names(asked.videos[0], sample)]
            if len(named) == 1:
                return named[0].key
        earlier = self._shown.get(asked.first_print)
        if (
            earlier is not None
            and (asked.is_reask or not earlier.judged)
            and any(sample.key == earlier.sample for sample in candidates)
        ):
            return earlier.sample
        return hint if not self._samples else self._by_order(asked.kind, candidates)

    def _by_order(self, kind: Kind, candidates: Sequence[JudgedSample]) -> tuple[str, str] | None:
        """The first sample of the kind's family whose judging is not over yet."""
        family = "pr" if kind == "chat" else "rtd"
        fitting = [s for s in candidates if s.family == family] or list(candidates)
        for sample in fitting:
            judged = self._judgements.get((sample.key, "chat" if kind == "chat" else "content", False), [])
            if not any(r.judged for j in judged for r in j.requests):
                return sample.key
        return fitting[-1].key if fitting else None


def _names(url: str, sample: JudgedSample) -> bool:
    parts = url.replace("\\", "/").split("/")
    stem = parts[-1].rsplit(".", 1)[0]
    return sample.id in (stem, *parts[:-1]) and (sample.split in parts or stem == sample.id)


def tally(entries: Sequence[JudgeRequest]) -> Mapping[str, int]:
    """Counts as `expect.judge` names them."""
    return {
        "requests": len(entries),
        "reasks": sum(entry.reask and not entry.repeats for entry in entries),
        "transport_retries": sum(entry.repeats for entry in entries),
    }
