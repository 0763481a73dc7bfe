"""Speed of the spine: one stalled scenario, the catalogue in one process, and the 66-sample run without the judge.

Prints figures and ratios; asserts nothing. Usage: python bench/first_light.py [--replies N]
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from conformance.clients import builtin
from conformance.options import RunOptions
from conformance.outcome import Outcome
from conformance.pool import spread
from conformance.runner import perform, run_scenario
from scenarios import load_catalogue
from scenarios.model import ClientSpec, Clip, Expect, Reply, SampleSpec, Scenario, ServerSpec


def stalled_scenario(rounds: int = 20) -> None:
    """Median and worst real time of one stalled scenario, media included."""
    chosen = [s for s in load_catalogue() if any(f.name == "stop_reading" for f in s.faults)]
    for scenario in chosen:
        times = sorted(run_scenario(scenario, RunOptions()).real_s * 1000 for _ in range(rounds))
        print(
            f"stalled scenario {scenario.id:<45} median {times[rounds // 2]:6.1f} ms, worst {times[-1]:6.1f} ms"
        )


def catalogue() -> None:
    """The whole catalogue in one process, loading included."""
    started = time.perf_counter()
    scenarios = [s for s in load_catalogue() if s.clip is None or s.clip.dataset is None]
    results = list(spread(lambda s: run_scenario(s, RunOptions()), scenarios, 1))
    took = time.perf_counter() - started
    passed = sum(r.outcome is Outcome.PASS for r in results)
    print(f"catalogue: {len(results)} scenarios, {passed} passed, {took:.2f} s in one process")


def sixty_six(replies: int) -> None:
    """66 sessions at concurrency 8: clips of 15 to 65 s out of step, JPEG and PCM, acks on."""
    rng = random.Random(66)
    samples = [
        SampleSpec(
            id=str(360 + n),
            split="RTD_Omni",
            clip=Clip(seconds=round(rng.uniform(15, 65), 2), frame_bytes=16_000),
        )
        for n in range(66)
    ]
    script = [
        Reply(
            starts_at_unit=2 + 5 * n,
            units=4,
            text="A person walks in. The door closes behind them. It is quiet.",
        )
        for n in range(replies)
    ]
    scenario = Scenario(
        id="bench/sixty-six",
        title="66 samples",
        about="66 samples",
        requires=["R51"],
        samples=samples,
        server=ServerSpec(profile="july", reply=script),
        client=ClientSpec(concurrency=8),
        expect=Expect(finishes_within_s=86_400),
    )
    options = RunOptions()
    started = time.perf_counter()
    prepared = builtin.prepare(scenario, options)
    prepared_s = time.perf_counter() - started
    with tempfile.TemporaryDirectory() as folder:
        started, cpu = time.perf_counter(), time.process_time()
        observation = perform(scenario, options, Path(folder), prepared)
        took, cpu = time.perf_counter() - started, time.process_time() - cpu
    session_s = sum(facts.latency_s or 0.0 for facts in observation.samples)
    published = sum(facts.outcome == "published" for facts in observation.samples)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"66 samples, {replies} replies a session: {published} published, {session_s:.0f} s of sessions "
        f"({session_s / 66:.1f} s each), loop {observation.client_s:.0f} s, real {took:.2f} s (CPU {cpu:.2f} s): "
        f"{session_s / took:.0f} x session time; media {prepared_s:.2f} s apart; peak {peak_mb:.0f} MB"
    )
    if observation.harness_errors:
        print("harness errors:", observation.harness_errors[:3])


def version() -> None:
    """Start-up of the command line."""
    for arguments in (["--version"], ["list"]):
        times = []
        for _ in range(7):
            started = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "conformance", *arguments], check=True, stdout=subprocess.DEVNULL
            )
            times.append(time.perf_counter() - started)
        print(f"conformance {' '.join(arguments):<10} median {sorted(times)[3]:.3f} s")


def main() -> None:
    """Run one part, or all parts, each in a process of its own so that peaks do not mix."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--replies", type=int, default=1)
    parser.add_argument("--only", choices=("stalled", "catalogue", "sixty-six", "version"))
    given = parser.parse_args()
    if given.only is None:
        print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}")
        for name in ("version", "stalled", "catalogue", "sixty-six"):
            subprocess.run(
                [sys.executable, __file__, "--only", name, "--replies", str(given.replies)], check=True
            )
        return
    if given.only == "sixty-six":
        sixty_six(given.replies)
    else:
        {"stalled": stalled_scenario, "catalogue": catalogue, "version": version}[given.only]()


if __name__ == "__main__":
    main()
