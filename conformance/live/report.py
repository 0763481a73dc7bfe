"""A live run told to a person, and as a table for a pull request."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from conformance.live.bill import bill_lines
from conformance.outcome import Outcome, RunReport, ScenarioResult
from conformance.report.escape import one_line
from conformance.report.explain import explain, heading, needs_explaining

SHOWN_IDS = 6
UNSEEN = (Outcome.NOT_OBSERVABLE, Outcome.SKIPPED)


def observable(results: Sequence[ScenarioResult]) -> int:
    """How many scenarios showed something."""
    return sum(result.outcome not in UNSEEN for result in results)


def in_part(result: ScenarioResult) -> bool:
    """Something of it could not be seen."""
    return any(told.what != "invariant" for told in result.unobserved)


def fewer_than_half(results: Sequence[ScenarioResult]) -> bool:
    """Then nothing here says that a client is right."""
    return 2 * observable(results) < len(results)


def counts(results: Sequence[ScenarioResult]) -> dict[str, int]:
    """By outcome; what held is not called a pass where fewer than half was observable."""
    found = Counter(result.outcome.value for result in results)
    if fewer_than_half(results) and "pass" in found:
        found["held"] = found.pop("pass")
    return dict(sorted(found.items()))


def first_line(report: RunReport) -> str:
    """How much was observable, before anything else."""
    results = report.results
    seen, total = observable(results), len(results)
    if fewer_than_half(results):
        return (
            f"ONLY {seen} OF {total} SCENARIOS WERE OBSERVABLE, fewer than half: "
            "this run does not say that the client conforms"
        )
    part = sum(result.outcome not in UNSEEN and in_part(result) for result in results)
    return f"{seen} of {total} scenarios were observable" + (f", {part} of them in part" if part else "")


def played_here(report: RunReport) -> str:
    """In how many scenarios something beside the faults was not the peers' own doing; empty: in none."""
    count = sum(bool(result.injected) for result in report.results)
    return f"{count} scenario(s), a judge's script or the end of a reply" if count else ""


def ends(unconfirmed: int) -> str:
    """What became of sessions that were asked to end."""
    if unconfirmed:
        return f"{unconfirmed} session(s) did not confirm their end: the server may still hold their slots"
    return "its sessions were closed"


def slots(report: RunReport) -> list[str]:
    """What the server did with its slots, where somebody should know, before anything else."""
    live = report.live or {}
    told = []
    if unconfirmed := live.get("unconfirmed", 0):
        told.append(f"{ends(unconfirmed)} (no session.closed came)")
    told += [
        one_line(f"{result.id}: {words}", 300)
        for result in report.results
        if not needs_explaining(result)
        for words in result.answers
    ][:SHOWN_IDS]
    if untold := live.get("untold", ()):
        told.append(f"{len(untold)} scenario(s) were ended before they told of their sessions")
    if full := sum(bool(result.no_slot) for result in report.results):
        told.append(f"{full} scenario(s) found no free slot: nothing of them was played")
    return told


def lines(report: RunReport, texts: Mapping[str, str]) -> list[str]:
    """The report, from the first line to the counts."""
    live = report.live or {}
    told = [first_line(report), *slots(report), ""]
    server = live.get("server", {})
    told.append(
        f"server {one_line(str(server.get('url')), 200)}, model {one_line(str(server.get('model')), 100)}"
    )
    for result in report.results:
        if needs_explaining(result):
            told += ["", heading(result), *explain(result, texts)]
    told += ["", "not observable, by reason:"]
    told += [f"  {line}" for line in _reasons(report.results)] or ["  nothing"]
    told += ["", *bill_lines(live["bill"])]
    if played := played_here(report):
        told.append(f"played here: {played}")
    metrics = live.get("metrics")
    if metrics:
        told += ["server metrics, before and after:", *(f"  {line}" for line in _metrics(metrics))]
    told.append("")
    told.append(
        f"target live, client {one_line(report.client, 200)}, seed {report.seed}, {report.real_s:.0f} s: "
        + ", ".join(f"{count} {name}" for name, count in counts(report.results).items())
    )
    if report.interrupted:
        closed = ends((report.live or {}).get("unconfirmed", 0))
        told.append(f"interrupted: only what is counted above ran; {closed}")
    if report.stopped_early:
        told.append(f"stopped early: {one_line(report.stopped_early, 200)}")
    return told


def _reasons(results: Sequence[ScenarioResult]) -> list[str]:
    by_reason: dict[str, list[str]] = defaultdict(list)
    for result in results:
        if result.outcome in UNSEEN:
            by_reason[_first_reason(result)].append(result.id)
    return [
        f"{len(ids):>3}  {reason}: {', '.join(ids[:SHOWN_IDS])}{' …' if len(ids) > SHOWN_IDS else ''}"
        for reason, ids in sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0]))
    ]


def _first_reason(result: ScenarioResult) -> str:
    if result.unobserved:
        first = result.unobserved[0]
        about = "" if first.id == "script" else f"{first.id}: "
        return one_line(about + first.reason, 200)
    return one_line(result.reason, 200)


def _metrics(metrics: Mapping[str, Any]) -> list[str]:
    before, after = metrics.get("before") or {}, metrics.get("after") or {}
    names = sorted({*before, *after})
    return [
        f"{one_line(name, 120)}: {before.get(name, 'absent')} -> {after.get(name, 'absent')}"
        for name in names
    ]


def pull_request_table(report: RunReport) -> str:
    """Markdown that a maintainer pastes: what was run where, with what, and what became of it."""
    live = report.live or {}
    server, measured = live.get("server", {}), live.get("measured") or {}
    account = live["bill"]
    rows = [
        ("server", f"{server.get('url')}, model {server.get('model')}"),
        (
            "measured",
            f"dialect {measured.get('dialect')}, chunk period {measured.get('chunk_period_ms')} ms, "
            f"pace {measured.get('pace')}, first audio {measured.get('first_audio_s')} s",
        ),
        ("command", f"`{live.get('command')}`"),
        ("began, ended (UTC)", f"{live.get('began')}, {live.get('ended')}"),
        ("client", report.client),
        ("seed", str(report.seed)),
        ("environment", ", ".join(f"{name} {version}" for name, version in report.environment.items())),
        ("observable", first_line(report)),
        ("outcomes", ", ".join(f"{count} {name}" for name, count in counts(report.results).items())),
        (
            "device time",
            f"{account['device_minutes']:g} min in {account['sessions']} sessions; "
            f"retries {account['spent_on']['retry']:g} min",
        ),
        ("slots", "; ".join(slots(report)) or "every session confirmed its end"),
        ("played here", played_here(report) or "nothing beside the faults"),
    ]
    text = ["| | |", "|---|---|", *(f"| {name} | {_cell(value)} |" for name, value in rows)]
    bad = [r for r in report.results if needs_explaining(r)]
    if bad:
        text += ["", "| did not hold | outcome | finding |", "|---|---|---|"]
        for result in bad:
            found = (
                "; ".join(f"{f.id}: {f.expected}, got {f.actual}" for f in result.findings) or result.reason
            )
            found = "; ".join([found, *result.answers])
            text.append(f"| {_cell(result.id)} | {result.outcome.value} | {_cell(found)} |")
    unseen = [r for r in report.results if r.outcome in UNSEEN]
    if unseen:
        text += ["", f"<details><summary>{len(unseen)} not observable or skipped, with reasons</summary>", ""]
        text += [f"- {_cell(r.id)}: {_cell(_first_reason(r))}" for r in unseen]
        text += ["", "</details>"]
    return "\n".join(text) + "\n"


def _cell(value: str) -> str:
    return one_line(value, 400).replace("|", "\\|")
