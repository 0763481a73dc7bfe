"""Whether client and proxy keep the beat: units of many sessions at a time, at real-time pace, to a served mock.

The mock server is another process (`conformance serve`); client and proxy are this one, as in a live run. How late a
unit is, is read off the proxy's journal: the gap to the unit before it, less a second. Prints; asserts nothing.
Usage: python bench/live_beat.py [--sessions N] [--seconds S]
"""

from __future__ import annotations

import argparse
import asyncio
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from client.deadlines import Deadlines
from client.generate import SessionSettings
from client.media import Frame, Prepared
from client.run import Run, RunSettings
from conformance.clients.builtin import MODEL, reference_voice
from conformance.options import RunOptions
from mockserver.journal import Entry, Journal
from mockserver.proxy import ProxyServer
from mockserver.upstream import Behind
from scenarios.clips import make_frames, make_pcm
from scenarios.model import Clip


class Beat:
    """Hears the proxy's journal and keeps how late each unit of a clip was, in milliseconds."""

    def __init__(self) -> None:
        self.late_ms: list[float] = []
        self._before: dict[int, float] = {}
        self._committed: set[int] = set()

    def hear(self, entry: Entry) -> None:
        """One entry."""
        if entry.kind != "received":
            return
        if entry.name == "input_audio_buffer.commit":
            self._committed.add(entry.connection)
        elif entry.name == "input_audio_buffer.append" and entry.connection not in self._committed:
            before_s = self._before.get(entry.connection)
            self._before[entry.connection] = entry.t_s
            if before_s is not None:
                self.late_ms.append((entry.t_s - before_s - 1.0) * 1000)


def _samples(count: int, seconds: int) -> list[Prepared]:
    clip = Clip(seconds=float(seconds))
    frames = tuple(Frame(float(n), jpeg) for n, jpeg in enumerate(make_frames(clip, 1, "beat")))
    pcm = make_pcm(clip, 1, "beat")
    return [Prepared("RTD_Omni", str(n), pcm, frames, float(seconds)) for n in range(count)]


async def _measure(url: str, sessions: int, seconds: int, beat: Beat, out: Path) -> None:
    proxy = ProxyServer(Behind(url), journal=Journal(sink=beat.hear, keep=False))
    await proxy.start()
    session = SessionSettings(
        url=proxy.url, model=MODEL, ref_audio=reference_voice(RunOptions()), deadlines=Deadlines()
    )
    settings = RunSettings(session=session, response_root=out, concurrency=sessions)
    run = Run(_samples(sessions, seconds), settings, observer=None)
    await run.run()
    print(f"{sessions} sessions: {run.result.published if run.result else 0} published")
    await proxy.stop()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sessions", type=int, default=32)
    parser.add_argument("--seconds", type=int, default=20)
    asked = parser.parse_args()
    served = subprocess.Popen(
        [sys.executable, "-m", "conformance", "serve"], stdout=subprocess.PIPE, text=True
    )
    assert served.stdout is not None
    try:
        found = re.search(r"ws://\S+", served.stdout.readline())
        assert found is not None
        beat = Beat()
        with tempfile.TemporaryDirectory() as out:
            asyncio.run(_measure(found.group(0), asked.sessions, asked.seconds, beat, Path(out)))
    finally:
        served.terminate()
        served.wait()
    late_ms = sorted(beat.late_ms)
    for part in (0.5, 0.9, 0.99, 1.0):
        at = min(len(late_ms) - 1, int(part * len(late_ms)))
        print(f"late at p{part * 100:g}: {late_ms[at]:.1f} ms of {len(late_ms)} units")


if __name__ == "__main__":
    main()
