"""What a scenario expects of the judging, and what always holds of it (design.md 8, `judge-ledger`)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from conformance.checks import Told, matches, statement, told
from conformance.judging import Judged, JudgedFacts
from conformance.outcome import Finding
from mockserver.judge_ledger import TEXT_CHARS
from scenarios.judging import JudgedExpect

if TYPE_CHECKING:
    from conformance.observation import Observation
    from mockserver.judge_ledger import JudgeRequest

UNCHECKED = "unchecked"
MAX_CONTENT_REQUESTS = 4
"""Answered requests of one content judgement: two ways, each with one re-ask (R59)."""
MAX_REPEATS = 5
"""Times one request is repeated that no reply answered; what is bounded is bounded by less."""

REQUIREMENTS: Mapping[str, tuple[str, ...]] = {
    "judge.requests": ("R52", "R57", "R58", "R59", "R60"),
    "judge.reasks": ("R52", "R53", "R54", "R60"),
    "judge.transport_retries": ("R58", "R59"),
    "judge.scored": ("R52", "R56", "R60", "R61"),
    "judge.reason": ("R54", "R56", "R60", "R61"),
    "judge.content_score": ("R52", "R59", "R60"),
    "judge.avg_temporal_score": ("R52", "R60"),
    "judge.total_score": ("R52", "R60"),
    "judge.rows": ("R52", "R60"),
    "judge.segments": ("R52", "R58"),
    "judge.spread_s": ("R52", "R59"),
    "judge.trace": ("R54", "R55", "R56", "R57", "R58"),
    "accuracy": ("R61", "R52"),
}
"""Requirements a check speaks for; the scenario's own `requires` picks among them."""


def check_judging(observation: Observation) -> Iterator[Told]:
    """Every statement under `expect.judge` and `expect.accuracy`."""
    judged = observation.judged
    if judged is None:
        return
    expect = observation.scenario.expect
    if expect.judge is not None:
        times_s = [entry.t_s for entry in judged.ledger]
        counts: dict[str, float] = {
            **tally(judged.ledger),
            "scored": sum(f.score is not None for f in judged.samples),
            "spread_s": round(max(times_s) - min(times_s), 6) if times_s else 0.0,
        }
        for key, count in counts.items():
            yield from _check(observation, f"judge.{key}", getattr(expect.judge, key), count, None)
        for facts in judged.samples:
            wanted = expect.judge.samples.get(facts.id, expect.judge.sample)
            if wanted is not None:
                yield from _check_sample(observation, facts, wanted)
    for key, matcher in expect.accuracy.items():
        actual = _at(judged.accuracy, key)
        if key == "errors" and isinstance(matcher, dict) and isinstance(actual, list):
            actual = "\n".join(map(str, actual))
        yield from _check(observation, f"accuracy.{key}", matcher, actual, None)


def _check_sample(observation: Observation, facts: JudgedFacts, expect: JudgedExpect) -> Iterator[Told]:
    score = facts.score or {}
    counts = tally(facts.requests)
    values: dict[str, tuple[Any, Any]] = {
        "scored": (UNCHECKED if expect.scored is None else expect.scored, facts.score is not None),
        "reason": (expect.reason, facts.reason),
        "requests": (expect.requests, counts["requests"]),
        "reasks": (expect.reasks, counts["reasks"]),
        "content_score": (expect.content_score, _at(score, "content.content_score", None)),
        "avg_temporal_score": (
            expect.avg_temporal_score,
            _at(score, "temporal.summary.avg_temporal_score", None),
        ),
        "total_score": (expect.total_score, _at(score, "pr.total_score", None)),
        "rows": (expect.rows, len(_rows(score))),
        "segments": (
            UNCHECKED if expect.segments is None else expect.segments,
            [row.get("response_segment") for row in _at(score, "pr.events", [])],
        ),
    }
    for key, (matcher, actual) in values.items():
        yield from _check(observation, f"judge.{key}", matcher, actual, facts.name)
    if expect.trace is not None:
        yield from _check_trace(observation, facts, expect.trace)


def _check_trace(
    observation: Observation, facts: JudgedFacts, expect: Sequence[Mapping[str, Any]]
) -> Iterator[Told]:
    lines = len(facts.trace)
    yield from _statement(
        observation,
        "judge.trace",
        lines == len(expect),
        f"{len(expect)} line(s)",
        f"{lines} line(s)",
        facts.name,
    )
    for number, (wanted, line) in enumerate(zip(expect, facts.trace, strict=False), start=1):
        for key, matcher in wanted.items():
            actual = line.get(key, "absent")
            expected = f"line {number}: {key} {told(matcher)}"
            met = matches(matcher, actual)
            yield from _statement(observation, "judge.trace", met, expected, repr(actual), facts.name)


def tally(requests: Sequence[JudgeRequest]) -> dict[str, int]:
    """Counts as `expect.judge` names them; a repeated request is no second re-ask."""
    return {
        "requests": len(requests),
        "reasks": sum(entry.reask and not entry.repeats for entry in requests),
        "transport_retries": sum(entry.repeats for entry in requests),
    }


def _at(document: Mapping[str, Any], key: str, absent: Any = "absent") -> Any:
    value: Any = document
    for step in key.split("."):
        if not isinstance(value, dict) or step not in value:
            return absent
        value = value[step]
    return value


def _rows(score: Mapping[str, Any]) -> list[Any]:
    rows = _at(score, "temporal.sentences", None) or _at(score, "pr.events", None)
    return rows if isinstance(rows, list) else []


def _check(
    observation: Observation, name: str, matcher: Any, actual: Any, sample: str | None
) -> Iterator[Told]:
    if matcher != UNCHECKED:
        met = matches(matcher, actual)
        yield from _statement(observation, name, met, told(matcher), repr(actual), sample)


def _statement(
    observation: Observation, name: str, met: bool, expected: str, actual: str, sample: str | None
) -> Iterator[Told]:
    wanted = tuple(observation.scenario.requires)
    spoken = REQUIREMENTS.get(name, REQUIREMENTS.get(name.split(".", 1)[0], ()))
    both = tuple(requirement for requirement in wanted if requirement in spoken)
    yield from statement(observation, name, met, expected, actual, sample, both or wanted)


# -- what always holds


def judge_ledger(observation: Observation) -> Iterator[Finding]:
    """The judge's ledger, the client's trace and its score files tell the same story, within the bounds."""
    judged = observation.judged
    if judged is None:
        return
    yield from _violations(judged)
    yield from _beyond_the_script(judged)
    full = {
        str(report.evidence.get("file", "")) for report in observation.faults if report.name == "full_disk"
    }
    answers = {(f.split, f.id): f.sentences for f in observation.samples}
    for facts in judged.samples:
        anew = any((facts.split, facts.id) in run.again for run in observation.killed)
        asked = replace(facts, earlier=()) if anew else facts  # before, it was asked of another answer
        yield from _asked_in_full(asked, answers.get((facts.split, facts.id)) or ())
        if not any(file.endswith(f"{facts.name}.judge.jsonl") for file in full):
            # A disk that took no line is no client that wrote none.
            # A request under way when everything is cancelled may never be read, and is traced all the same.
            unread = judged.spec.workers if observation.scenario.client.cancel_at_s is not None else 0
            yield from _traced(facts, _cut_lines(observation, facts), unread)
        yield from _bounded(facts)
        yield from _counted(facts)
        yield from _founded(facts)
    if judged.finished:
        yield from _accounted(judged)


def _violations(judged: Judged) -> Iterator[Finding]:
    seen: set[str] = set()
    for entry in judged.ledger:
        for violation in entry.violations:
            if violation.rule in seen:
                continue
            seen.add(violation.rule)
            yield Finding(
                "judge-violation",
                (violation.requirement,) if violation.requirement else (),
                f"evaluation.md {violation.section}",
                f"{violation.rule}: {violation.detail} (request {entry.number} of the judge)",
                "/".join(entry.sample) if entry.sample else None,
            )


def _beyond_the_script(judged: Judged) -> Iterator[Finding]:
    beyond = [entry.number for entry in judged.ledger if entry.source == "exhausted"]
    if beyond:
        yield Finding(
            "judge-ledger",
            ("R52", "R59"),
            "no request beyond the judge's script",
            f"request(s) {', '.join(map(str, beyond))} found no reply left",
        )


def _cut_lines(observation: Observation, facts: JudgedFacts) -> int:
    """How many lines of this sample a kill may have cost: the one that was written, or whose request was under way."""
    trace = f"/{facts.name}.judge.jsonl"
    several = observation.judged is not None and observation.judged.spec.workers > 1
    return sum(several or str(run.words.evidence.get("file")).endswith(trace) for run in observation.killed)


def _traced(facts: JudgedFacts, cut: int, unread: int) -> Iterator[Finding]:
    """One line a request, and each line says what kind of request it was.

    `cut`: so many lines a kill may have cost; `unread`: so many requests may never have reached the judge.
    """
    if facts.torn:
        yield Finding("torn-artifact", ("R58",), "every artifact parses", facts.torn, facts.name)
    counts = tally(facts.all_requests)
    lines = {
        "requests": len(facts.trace),
        "transport_retries": sum(line.get("transport_retry") is True for line in facts.trace),
        "reasks": sum(
            line.get("judge_retry") is True and line.get("transport_retry") is not True
            for line in facts.trace
        ),
    }
    words = {
        "requests": "trace lines",
        "transport_retries": "transport_retry lines",
        "reasks": "judge_retry lines",
    }
    for key, count in counts.items():
        if not count - cut <= lines[key] <= count + unread:
            yield Finding(
                "judge-ledger",
                ("R58", "R56", "R57"),
                f"{count} {words[key]}, one for each such request that the judge read",
                f"{lines[key]}",
                facts.name,
            )


def _counted(facts: JudgedFacts) -> Iterator[Finding]:
    """What a score file says of its requests, where it says it, is what the judge read: re-asks and repeats apart."""
    said = (facts.score or {}).get("judge_requests")
    if not isinstance(said, Mapping) or facts.earlier:
        return  # a score of a run before the kill counts that run's requests
    for key, count in tally(facts.requests).items():
        if said.get(key, count) != count:
            yield Finding(
                "judge-ledger",
                ("R58", "R59"),
                f"judge_requests.{key} {count}, as the judge read them",
                f"{said[key]}",
                facts.name,
            )


def _bounded(facts: JudgedFacts) -> Iterator[Finding]:
    reasks: Counter[tuple[str | None, int, bool, str | None]] = Counter()
    content: Counter[tuple[int, bool]] = Counter()
    repeats = longest = 0
    for entry in facts.requests:
        if entry.reask and not entry.repeats:
            reasks[entry.kind, entry.judgement, entry.beside, entry.mode] += 1
        if entry.kind == "content" and entry.answered:
            content[entry.judgement, entry.beside] += 1
        repeats = repeats + 1 if entry.repeats else 0
        longest = max(longest, repeats)
    for (kind, judgement, _, _), count in reasks.items():
        if count > 1 + (kind == "chat" and facts.may_be_two(judgement)):
            actual = f"{count} of {kind} judgement {judgement}"
            yield Finding("judge-ledger", ("R52",), "at most one re-ask a judgement", actual, facts.name)
    most = max(content.values(), default=0)
    if most > MAX_CONTENT_REQUESTS:
        expected = f"at most {MAX_CONTENT_REQUESTS} answered content requests"
        yield Finding("judge-ledger", ("R59",), expected, f"{most}", facts.name)
    if longest > MAX_REPEATS:
        expected = f"a request is repeated at most {MAX_REPEATS} times"
        yield Finding("judge-ledger", ("R59",), expected, f"{longest}", facts.name)


def _founded(facts: JudgedFacts) -> Iterator[Finding]:
    """Every score stands on a complete reply that holds it."""
    if facts.score is None:
        return
    given = {
        kind: Counter(
            _scores(entry.verdict.scores)
            for entry in facts.all_requests
            if entry.judged and entry.kind == kind
        )
        for kind in ("temporal", "content", "chat")
    }
    for kind, scores in _claimed(facts.score).items():
        unfounded = Counter(scores) - given[kind]
        if unfounded:
            claimed = ", ".join(str(dict(score)) for score in unfounded)
            yield Finding(
                "judge-ledger",
                ("R60",),
                f"each {kind} score stands in a complete reply of the judge",
                f"no such reply gave {claimed}",
                facts.name,
            )


def _asked_in_full(facts: JudgedFacts, answer: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """A request shows what it asks to be judged: the answer as published, and what it is judged against."""
    said = [str(sentence.get("sentence", "")) for sentence in answer]
    references = [text for text in facts.references if text.strip()]
    asked = [entry for entry in facts.all_requests if not entry.beside and len(entry.text) < TEXT_CHARS]
    missing: dict[tuple[str, str], str] = {}
    for entry in asked:
        wanted: list[tuple[str, str]] = []
        if entry.kind == "content":
            wanted = [("sentence", text) for text in said] + [("reference", text) for text in references]
        elif entry.kind == "chat" and facts.task == "correction":
            wanted = [("sentence", text) for text in said] + [("reference", t) for t in facts.references[:1]]
        elif entry.kind == "temporal" and not any(_shows(entry.text, text) for text in said):
            missing["temporal", "sentence"] = f"request {entry.number} shows no sentence of the answer"
        for what, text in wanted:
            if not _shows(entry.text, text):
                missing.setdefault((str(entry.kind), what), f"request {entry.number} lacks {text[:80]!r}")
    temporal = [entry.text for entry in asked if entry.kind == "temporal"]
    for row in _at(facts.score or {}, "temporal.sentences", []):
        text = str(row.get("sentence", ""))
        if row.get("error") is None and not any(_shows(shown, text) for shown in temporal):
            missing.setdefault(("temporal", "sentence"), f"no request shows {text[:80]!r}, which has a score")
    for (kind, what), actual in missing.items():
        whole = f"its {what}" if kind == "temporal" else f"every {what}"
        yield Finding("judge-request-text", (), f"a {kind} request shows {whole}", actual, facts.name)


def _shows(text: str, words: str) -> bool:
    """Whether a request holds some words, as they are or quoted as JSON, however they are spaced."""
    told_in = " ".join(text.split())
    quoted = (words, *(json.dumps(words, ensure_ascii=plain)[1:-1] for plain in (False, True)))
    return any(" ".join(form.split()) in told_in for form in quoted)


def _scores(fields: Mapping[str, Any]) -> tuple[tuple[str, float], ...]:
    return tuple(sorted((name, round(float(value), 2)) for name, value in fields.items()))


def _claimed(score: Mapping[str, Any]) -> dict[str, list[tuple[tuple[str, float], ...]]]:
    """The scores of a score file that must come from a reply: error rows and empty segments ask for none."""
    temporal = [row for row in _at(score, "temporal.sentences", []) or [] if row.get("error") is None]
    chat = [row for row in _at(score, "pr.events", []) or [] if row.get("response_segment")]
    content = [_at(score, "content", {})] if "content" in score else []
    fields = {
        "temporal": (temporal, ("temporal_score", "is_relevant")),
        "content": (content, ("content_score",)),
        "chat": (chat, ("success_score",)),
    }
    return {
        kind: [_scores({name: row.get(name, -1) for name in names}) for row in rows]
        for kind, (rows, names) in fields.items()
    }


def _accounted(judged: Judged) -> Iterator[Finding]:
    """The accuracy object counts what is there, and every sample that was not scored has its reason (R61)."""
    accuracy = judged.accuracy
    total, scored = len(judged.samples), sum(f.score is not None for f in judged.samples)
    status = "completed" if scored == total else "partial" if scored else "failed"
    wanted = {"total": total, "evaluated": scored, "status": status}
    for key, value in wanted.items():
        if accuracy.get(key) != value:
            actual = repr(accuracy.get(key, "absent"))
            yield Finding(
                "judge-conservation", ("R61",), f"accuracy.{key} {value!r}, as the files say", actual
            )
    told_of = accuracy.get("evaluated"), accuracy.get("skipped"), accuracy.get("failed")
    if all(isinstance(n, int) for n in told_of) and sum(n for n in told_of if isinstance(n, int)) != total:
        yield Finding("judge-conservation", ("R61",), f"evaluated + skipped + failed = {total}", f"{told_of}")
    for facts in judged.samples:
        if facts.score is None and facts.requests and not facts.reason:
            yield Finding(
                "judge-conservation", ("R61",), "a sample without a score has a reason", "none", facts.name
            )
