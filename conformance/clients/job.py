"""The job that a client of others gets, as an object or as environment variables (docs/bring-your-own-client.md)."""

from __future__ import annotations

import io
import wave
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson

from conformance.canary import SECRET

if TYPE_CHECKING:
    from client.media import Frame, Prepared, ReferenceVoice
    from scenarios.model import SampleSpec

AUDIO_RATE_HZ = 16_000


@dataclass(frozen=True)
class Job:
    """What to do, and where to put it. Paths are absolute."""

    url: str
    """`ws://127.0.0.1:PORT/v1/realtime`; the client adds the query of protocol.md 1.1."""
    model: str
    ref_audio: str
    """Path of a WAV: the reference voice."""
    samples: str
    """Path of a `.jsonl` manifest of the samples (fields of evaluation.md 1), media beside it."""
    out: str
    """The response root to write into."""
    deadline_s: float
    """When the harness gives up on the client, seconds after its start."""
    judge_url: str = ""
    """Base URL of the judge, when the scenario has one."""
    judge_model: str = ""
    api_key: str = field(default=SECRET, repr=False)
    """For server and judge, which take any: it opens nothing, and must turn up nowhere."""

    def environment(self) -> dict[str, str]:
        """The job as `CONFORMANCE_*` variables."""
        variables = {
            "CONFORMANCE_URL": self.url,
            "CONFORMANCE_MODEL": self.model,
            "CONFORMANCE_REF_AUDIO": self.ref_audio,
            "CONFORMANCE_SAMPLES": self.samples,
            "CONFORMANCE_OUT": self.out,
            "CONFORMANCE_DEADLINE_S": f"{self.deadline_s:g}",
            "CONFORMANCE_API_KEY": self.api_key,
        }
        if self.judge_url:
            variables["CONFORMANCE_JUDGE_URL"] = self.judge_url
            variables["CONFORMANCE_JUDGE_MODEL"] = self.judge_model
        return variables

    def fields(self) -> dict[str, str]:
        """What `{...}` in a command line is filled with; no key, for everybody sees command lines."""
        parts = urlsplit(self.url)
        return {
            "url": self.url,
            "host": parts.hostname or "",
            "port": str(parts.port or ""),
            "model": self.model,
            "ref_audio": self.ref_audio,
            "samples": self.samples,
            "out": self.out,
            "deadline_s": f"{self.deadline_s:g}",
            "judge_url": self.judge_url,
            "judge_model": self.judge_model,
        }


def write_media(
    folder: Path, specs: Sequence[SampleSpec], prepared: Sequence[Prepared], voice: ReferenceVoice
) -> tuple[Path, Path]:
    """Write the samples as a manifest with media beside it, and the reference voice.

    Args:
        folder: made if need be.
        specs: what the scenario says of each sample: question, references, reminders.
        prepared: their input, in the same order: 16 kHz mono PCM16 and JPEG frames, one a second.
        voice: written as it is sent.
    Returns: the manifest and the voice, absolute paths.

    Paths in it are absolute, for clients differ in what relative ones are relative to. A row has the fields of
    evaluation.md 1.2 and one more, `frames`: the stills as JPEG files, one a second, for
    clients that decode no video. Where PyAV is not installed, `video` is null.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    rows = [
        _row(folder, f"{index:04d}", spec, sample)
        for index, (spec, sample) in enumerate(zip(specs, prepared, strict=True))
    ]
    manifest = folder / "samples.jsonl"
    manifest.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    reference = folder / "reference_voice.wav"
    reference.write_bytes(voice_bytes(voice))
    return manifest.resolve(), reference.resolve()


def _row(folder: Path, stem: str, spec: SampleSpec, sample: Prepared) -> dict[str, Any]:
    (folder / f"{stem}_question.wav").write_bytes(wav_of(sample.pcm))
    frames = []
    for second, frame in enumerate(sample.frames):
        still = folder / f"{stem}_{second:03d}.jpg"
        still.write_bytes(frame.jpeg)
        frames.append(str(still))
    film = folder / f"{stem}.mp4"
    video = str(film) if frames and write_video(film, sample.frames) else None
    reminders = {f"reminder{n}": s for n, s in ((1, spec.reminder1), (2, spec.reminder2)) if s is not None}
    return {
        "split": sample.split,
        "id": sample.id,
        "question_audio": str(folder / f"{stem}_question.wav"),
        "question_text": spec.question,
        "answer1": spec.answer1,
        "answer2": spec.answer2,
        **{name: f"{second:g}" for name, second in reminders.items()},
        "video_duration": sample.video_duration_s,
        "video": video,
        "frames": frames,
    }


def wav_of(pcm: bytes) -> bytes:
    """A WAV file of 16 kHz mono PCM16."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(AUDIO_RATE_HZ)
        out.writeframes(pcm)
    return buffer.getvalue()


def voice_bytes(voice: ReferenceVoice) -> bytes:
    """The WAV file inside a reference voice's data URL."""
    import pybase64

    return bytes(pybase64.b64decode(voice.data_url.partition(",")[2]))


def write_video(path: Path, frames: Sequence[Frame]) -> bool:
    """Write stills, one a second, as an MP4. Returns False where PyAV is not installed."""
    try:
        import av
    except ImportError:
        return False
    with av.open(str(path), "w") as out:
        stream = out.add_stream("mjpeg", rate=1)
        for second, one in enumerate(frames):
            with av.open(io.BytesIO(one.jpeg), mode="r", format="mjpeg") as still:
                frame = next(still.decode(video=0))
            if second == 0:
                stream.width, stream.height, stream.pix_fmt = frame.width, frame.height, "yuvj420p"
            frame.pts, frame.time_base = second, Fraction(1, 1)
            out.mux(stream.encode(frame))
        out.mux(stream.encode())
    return True
