"""The whole evaluation of 66 samples with judge, in virtual time: speed, memory, and who spent it.

30 RTD and 36 PR, clips of 15 to 65 s with a JPEG of 16 kB a second, real-time pace, concurrency 8, three replies a
session, answers of ten sentences: some 300 temporal requests with frames and all content requests. The store of
prepared frames is shared by sessions and judge; it is filled before the clock starts and reported apart.

Prints, asserts nothing. Usage: python bench/evaluation.py [--rounds N]
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from session_cost import Sampler  # the script beside this one

from conformance.clients import builtin
from conformance.judging import JudgeStage
from conformance.options import RunOptions
from conformance.runner import perform
from scenarios.judging import JudgeSpec
from scenarios.model import ClientSpec, Clip, Expect, Reply, SampleSpec, Scenario, ServerSpec

SELECTION = {
    **{split: range(first, first + 5) for split, first in (
        ("RTD_world_knowledge", 360), ("RTD_counting", 410), ("RTD_fine_grained_movement", 460),
        ("RTD_interaction_relation", 510), ("RTD_OCR", 560), ("RTD_Omni", 610),
    )},
    "PR_correction": range(13),
    "PR_event_reminder": range(133, 146),
    "PR_post_event_reminder": range(261, 271),
}  # fmt: skip
"""The selection of the accuracy job (evaluation.md 19.1)."""
REPLIES = (
    (2, "A person walks in. The door closes behind them. A lamp is switched on. It is quiet."),
    (6, "Somebody opens a window. A bird sings outside. The person looks up."),
    (10, "The kettle boils. A cup is filled. The person sits down."),
)
SIDES = {"client": "client", "server": "server and judge", "harness": "harness (clock, trace, sockets)"}


def scenario() -> Scenario:
    """The run as a scenario."""
    rng = random.Random(66)
    samples = [
        SampleSpec(
            id=str(number),
            split=split,
            clip=Clip(seconds=round(rng.uniform(15, 65), 2), frame_bytes=16_000),
            answer1="A person walks in and sits down.",
            reminder1=6.0 if "reminder" in split else None,
        )
        for split, numbers in SELECTION.items()
        for number in numbers
    ]
    return Scenario(
        id="bench/evaluation",
        title="66 samples, judged",
        about="66 samples, judged",
        requires=["R51"],
        samples=samples,
        server=ServerSpec(
            profile="july", reply=[Reply(starts_at_unit=at, units=3, text=text) for at, text in REPLIES]
        ),
        judge=JudgeSpec(mode="heuristic", workers=8),
        client=ClientSpec(concurrency=8),
        expect=Expect(finishes_within_s=86_400),
    )


class Phases:
    """When the judging began and ended, in real and CPU seconds, and whose ticks fell into each part."""

    def __init__(self) -> None:
        self.sampler = Sampler()
        self.marks: list[tuple[float, float]] = []
        self.counts: dict[str, Counter[tuple[str, str]]] = {}
        inner = JudgeStage.evaluate

        async def evaluate(stage: JudgeStage, subjects: Any = None) -> Any:
            self.mark("sessions")
            try:
                return await inner(stage, subjects)
            finally:
                self.mark("judging")

        JudgeStage.evaluate = evaluate  # type: ignore[method-assign]

    def mark(self, ended: str) -> None:
        """The part that ends here."""
        self.marks.append((time.perf_counter(), time.process_time()))
        self.counts[ended] = self.sampler.counts.copy()
        self.sampler.counts.clear()


def measure() -> None:
    """One run in this process."""
    script, options = scenario(), RunOptions()
    began = time.perf_counter()
    prepared = builtin.prepare(script, options)
    media_s = time.perf_counter() - began
    media_mb = sum(len(p.pcm) + sum(len(f.jpeg) for f in p.frames) for p in prepared) / 1e6
    phases = Phases()
    with tempfile.TemporaryDirectory() as folder:
        phases.sampler.start()
        phases.marks.append((time.perf_counter(), time.process_time()))
        seen = perform(script, options, Path(folder), prepared)
        phases.mark("after")
        phases.sampler.stop()
    (begin, cpu0), *_, (end, cpu1) = phases.marks
    took_s, cpu_s = end - begin, cpu1 - cpu0
    sessions_s = sum(facts.latency_s or 0.0 for facts in seen.samples)
    published = sum(facts.outcome == "published" for facts in seen.samples)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    judged = seen.judged
    assert judged is not None, "the scenario has a judge"
    print(
        f"{published} of 66 published, {judged.accuracy.get('evaluated')} evaluated, "
        f"{len(judged.ledger)} judge requests; {sessions_s:.0f} s of sessions ({sessions_s / 66:.1f} s each)"
    )
    print(
        f"real {took_s:.2f} s, CPU {cpu_s:.2f} s: {sessions_s / took_s:.0f} x session time by the wall, "
        f"{sessions_s / cpu_s:.0f} x by the CPU; peak {peak_mb:.0f} MB"
    )
    print(
        f"media, apart: {media_s:.2f} s for {media_mb:.0f} MB of PCM and JPEG, one store for sessions and judge"
    )
    for (name, counts), (before, after) in zip(
        phases.counts.items(), zip(phases.marks, phases.marks[1:], strict=False), strict=True
    ):
        spent_s = after[1] - before[1]
        shares = Counter[str]()
        for (side, _), ticks in counts.items():
            shares[side] += ticks
        told = ", ".join(
            f"{SIDES.get(s, s)} {n / max(1, counts.total()):.0%}" for s, n in shares.most_common()
        )
        owners = Counter[str]()
        for (_, package), ticks in counts.items():
            owners[package] += ticks
        inner = ", ".join(f"{p} {n / max(1, counts.total()):.0%}" for p, n in owners.most_common(6))
        print(
            f"{name}: {spent_s:.2f} s CPU ({spent_s / cpu_s:.0%}); by side: {told or '-'}; by code: {inner or '-'}"
        )
    if seen.harness_errors:
        print("harness errors:", seen.harness_errors[:3])


def main() -> None:
    """Each round in a process of its own, so that peaks do not mix."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        measure()
        return
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load {load:.1f}, Python {platform.python_version()}")
    for _ in range(given.rounds):
        subprocess.run([sys.executable, __file__, "--here"], check=True)


if __name__ == "__main__":
    main()
