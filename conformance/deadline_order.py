"""`deadline-order`: every inner deadline below the one around it, and the worst case in minutes (design.md 8).

A static lint over the client's Deadlines, as they are by default and as each scenario sets them; nothing is run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from client.deadlines import Deadlines
from conformance.clients.judging import LONGEST_TRY_S, REQUESTS_A_SAMPLE, TRIES
from conformance.clients.judging import worst_case_s as judging_s
from conformance.exits import Exit
from scenarios import load_catalogue, select
from scenarios.judging import JudgeSpec
from scenarios.model import Scenario

LONGEST_CLIP_S = 65.0
"""Of the dataset's clips (design.md 12)."""
ATTEMPTS = 2
KEEP_ALIVE_S = 50.0
"""After so long without a pong the library ends the connection: 20 s, 20 s, and 10 s to close (design.md 4)."""


@dataclass(frozen=True)
class Misorder:
    """An inner deadline that is not below the one around it."""

    where: str
    """`defaults`, or the id of a scenario."""
    inner: str
    inner_s: float
    outer: str
    outer_s: float

    def told(self) -> str:
        """One line."""
        return (
            f"deadline-order {self.where}: {self.inner} ({self.inner_s:g} s) can never act: "
            f"{self.outer} ({self.outer_s:g} s) is not above it"
        )


def misordered(where: str, deadlines: Deadlines) -> list[Misorder]:
    """Pairs of which the inner deadline could never act, whatever the session does."""
    return list(_misordered(where, deadlines))


def _misordered(where: str, deadlines: Deadlines) -> Iterator[Misorder]:
    d = deadlines
    pairs = (
        ("close_s", d.close_s, "close_s + grace_s, around the whole close (R12)", d.close_outer_s),
        ("library_close_s", d.library_close_s, "handshake_s, around the library's close", d.handshake_s),
        ("settle_s", d.settle_s, "drain_slack_s, the shortest drain window", d.drain_slack_s),
        ("connect_s", d.connect_s, "request_s, around the attempt", d.request_s),
        ("created_s", d.created_s, "request_s, around the attempt", d.request_s),
        ("write_s", d.write_s, "request_s, around the attempt", d.request_s),
    )
    for inner, inner_s, outer, outer_s in pairs:
        if not inner_s < outer_s:
            yield Misorder(where, inner, inner_s, outer, outer_s)


def of_scenario(scenario: Scenario) -> tuple[list[Misorder], list[Misorder]]:
    """What is out of order in a scenario's deadlines, and what a short request timeout keeps from acting on purpose.

    A scenario that shortens the request timeout, and no more, is about it, or about something that comes sooner.
    """
    given = scenario.client.deadlines
    deadlines = Deadlines(**given)
    found = misordered(scenario.id, deadlines)
    broken = [one for one in found if one.inner in given or "request_s" not in given]
    hidden = [one for one in found if one not in broken]
    lengths_s = [spec.clip.seconds or LONGEST_CLIP_S for spec in scenario.specs]
    # The window begins with the commit, when the clip has been streamed.
    reached_s = 2 * max(lengths_s, default=LONGEST_CLIP_S) + deadlines.drain_slack_s
    if reached_s >= deadlines.request_s:
        hidden.append(
            Misorder(scenario.id, "the end of the drain window", reached_s, "request_s", deadlines.request_s)
        )
    return broken, hidden


@dataclass(frozen=True)
class Worst:
    """How long it can take, in seconds, when everything that can stall stalls."""

    attempt_s: float
    """The request timeout and a stuck teardown."""
    sample_s: float
    """Two attempts."""
    run_s: float
    """All samples, so many at a time."""
    judging_s: float
    """Every request to the judge tried to its end, every judgement asked again."""
    job_s: float
    """The run and then the judging."""


def worst_case(deadlines: Deadlines, samples: int, concurrency: int, judge: JudgeSpec | None) -> Worst:
    """The bounds of a run; `judge` None: nothing is judged."""
    attempt_s = deadlines.worst_attempt_s
    sample_s = ATTEMPTS * attempt_s
    run_s = -(-samples // concurrency) * sample_s
    judged_s = 0.0 if judge is None else judging_s(judge, samples)
    return Worst(attempt_s, sample_s, run_s, judged_s, run_s + judged_s)


def show_deadlines(
    patterns: Sequence[str], tags: Sequence[str], *, samples: int, concurrency: int, as_json: bool
) -> Exit:
    """Print the lint and the worst cases; exit 1 when an inner deadline is not below the outer one.

    Raises ScenarioError: a pattern or tag that picks nothing.
    """
    chosen = select(load_catalogue(), list(patterns), list(tags))
    defaults = Deadlines()
    broken = [*misordered("defaults", defaults)]
    hidden: list[Misorder] = []
    bounds: dict[str, Worst] = {}
    for scenario in chosen:
        out_of_order, on_purpose = of_scenario(scenario)
        broken += out_of_order
        hidden += on_purpose
        deadlines, count = Deadlines(**scenario.client.deadlines), len(scenario.specs)
        bounds[scenario.id] = worst_case(deadlines, count, scenario.client.concurrency, scenario.judge)
    whole = worst_case(defaults, samples, concurrency, JudgeSpec())
    if as_json:
        document = _document(defaults, broken, hidden, bounds, whole)
        print(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
    else:
        print("\n".join(_lines(defaults, broken, hidden, bounds, whole, samples, concurrency)))
    return Exit.FAILED if broken else Exit.PASSED


def _document(
    defaults: Deadlines,
    broken: Sequence[Misorder],
    hidden: Sequence[Misorder],
    bounds: dict[str, Worst],
    whole: Worst,
) -> dict[str, Any]:
    return {
        "defaults": asdict(defaults),
        "misordered": [asdict(one) for one in broken],
        "shadowed": [asdict(one) for one in hidden],
        "worst": asdict(whole),
        "scenarios": {name: asdict(worst) for name, worst in bounds.items()},
    }


def _lines(
    defaults: Deadlines,
    broken: Sequence[Misorder],
    hidden: Sequence[Misorder],
    bounds: dict[str, Worst],
    whole: Worst,
    samples: int,
    concurrency: int,
) -> Iterator[str]:
    yield "the client's deadlines, seconds: " + ", ".join(f"{k} {v:g}" for k, v in asdict(defaults).items())
    if defaults.close_outer_s < KEEP_ALIVE_S:
        yield f"a close that is never answered ends before the keep-alive would end it ({KEEP_ALIVE_S:g} s)"
    yield f"an attempt at most    {_minutes(whole.attempt_s)} (the request timeout, a stuck teardown)"
    yield f"a sample at most      {_minutes(whole.sample_s)} ({ATTEMPTS} attempts)"
    yield f"a run at most         {_minutes(whole.run_s)} ({samples} samples, {concurrency} at a time)"
    judge = JudgeSpec()
    yield (
        f"its judging at most   {_minutes(whole.judging_s)} ({whole.judging_s / 86_400:.0f} days: {samples} samples x "
        f"{REQUESTS_A_SAMPLE} requests x {TRIES} tries x ({judge.timeout_s:g} s + {LONGEST_TRY_S:g} s between), "
        f"{judge.workers} sample(s) at a time)"
    )
    yield f"a sample's judging    {_minutes(judging_s(judge, 1))} at most, when the judge answers nothing in time"
    yield f"a CI job at most      {_minutes(whole.job_s)} (the run, then its judging)"
    if bounds:
        longest = max(bounds, key=lambda name: bounds[name].run_s)
        total_s = sum(worst.run_s for worst in bounds.values())
        yield (
            f"{len(bounds)} scenario(s) one after another, on the real clock and without judging, at most "
            f"{_minutes(total_s)}; the longest {longest}, {_minutes(bounds[longest].run_s)}"
        )
    if hidden:
        yield (
            f"in {len({one.where for one in hidden})} scenario(s) a short request timeout ends an attempt before a "
            "deadline inside it: on purpose, to have a hang cost less"
        )
    yield from (one.told() for one in broken)
    yield f"deadline-order: {len(broken)} misordered"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f} min"
