"""Cases a second of one core, for a median case and for the whole distribution.

    python bench/fuzz_speed.py [--seconds 10]

The median case: 6 units, one reply; without media (aim: 100 a second), with a picture a second (aim: 60). One case is
drawn, checked, played once and judged; shuffled ties are counted apart. Processor time, so that a loaded machine tells
the same.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from conformance.fuzz.case import CasePlayer
from conformance.fuzz.drawing import Kinds, draw
from conformance.pool import freeze_once
from conformance.scratch import scratch_folder

MEDIAN: dict[str, Any] = {
    "title": "The median case",
    "about": "Six units, one reply.",
    "requires": [],
    "clip": {"seconds": 5.4, "frames": False},
    "server": {"reply": [{"starts_at_unit": 1, "units": 2, "text": "A cyclist passed."}]},
    "client": {"deadlines": {"request_s": 120.0}},
    "expect": {"finishes_within_s": 86400.0},
}


def rate(step: Callable[[int], None], seconds: float) -> tuple[int, float]:
    """How many steps a second of processor time."""
    for number in range(5):
        step(number)
    began_s, count = time.process_time(), 0
    while time.process_time() - began_s < seconds:
        step(count)
        count += 1
    return count, count / (time.process_time() - began_s)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10.0)
    seconds = parser.parse_args().seconds
    with_media = {**MEDIAN, "clip": {"seconds": 5.4, "frames": True}}
    freeze_once()
    with scratch_folder() as scratch:
        player = CasePlayer(1, scratch)

        def median(data: dict[str, Any]) -> Callable[[int], None]:
            def step(number: int) -> None:
                draw(Kinds(), 1, number)  # what a case costs beside its play
                player.play(data, number)

            return step

        def drawn(number: int) -> None:
            player.case(number, draw(Kinds(), 1, number))

        def only_drawn(number: int) -> None:
            draw(Kinds(), 1, number)

        for name, step in (
            ("median case, no media", median(MEDIAN)),
            ("median case, a picture a second", median(with_media)),
            ("whole distribution, with ties and pieces", drawn),
            ("drawing alone", only_drawn),
        ):
            count, per_s = rate(step, seconds)
            print(f"{name:<42} {per_s:8.1f} cases a core second   ({count} cases)", flush=True)


if __name__ == "__main__":
    main()
