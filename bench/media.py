"""Time to prepare a dataset folder, against one ffmpeg process a clip.

    python bench/media.py FOLDER [--rounds N]

Prints, a sample and in all: our time (audio and JPEG stills, in this process), ffmpeg's time for the same
stills and the same audio where ffmpeg is installed, and the ratio. The first round warms up and is not
counted.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from client.dataset import Sample, load_dataset
from client.media import MediaSource, materialise


def timed_s(work: Callable[[], object], rounds: int) -> float:
    """Median seconds of `rounds` runs after one that is not counted."""
    work()
    took = []
    for _ in range(rounds):
        begin = time.perf_counter()
        work()
        took.append(time.perf_counter() - begin)
    return statistics.median(took)


def ffmpeg(program: str, sample: Sample, folder: Path) -> None:
    """One process for the stills and one for the audio, as a client without PyAV would."""
    for media, name, arguments in (
        (sample.video, "video", ["-vf", "fps=1:round=up", "-q:v", "3", str(folder / "%d.jpg")]),
        (sample.question_audio, "audio", ["-ac", "1", "-ar", "16000", "-f", "s16le", str(folder / "a.pcm")]),
    ):
        if isinstance(media, MediaSource):
            path = materialise(media, folder, f"{sample.id}_{name}")
            command = [program, "-nostdin", "-loglevel", "error", "-y", "-i", str(path), *arguments]
            subprocess.run(command, check=True, timeout=120)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    program = shutil.which("ffmpeg")
    ours_s = theirs_s = clips_s = 0.0
    with tempfile.TemporaryDirectory() as scratch:
        for sample in load_dataset(options.folder).samples:
            prepared = sample.prepare()
            took_s = timed_s(sample.prepare, options.rounds)
            line = (
                f"{sample.split}/{sample.id}: {len(prepared.frames)} frames, {len(prepared.pcm) / 32_000:.1f} s "
                f"of audio, ours {took_s * 1000:.1f} ms"
            )
            ours_s, clips_s = ours_s + took_s, clips_s + prepared.video_duration_s
            if program:
                spent_s = timed_s(lambda s=sample: ffmpeg(program, s, Path(scratch)), options.rounds)  # type: ignore[misc]
                theirs_s += spent_s
                line += f", ffmpeg {spent_s * 1000:.1f} ms"
            print(line)
    print(
        f"in all: {clips_s:.1f} s of clips in {ours_s * 1000:.1f} ms, {clips_s / ours_s:.0f} times real time"
    )
    print(
        f"ratio: ffmpeg takes {theirs_s / ours_s:.2f} times ours"
        if program
        else "ratio: no ffmpeg to compare with"
    )


if __name__ == "__main__":
    main()
