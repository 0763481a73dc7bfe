"""An evaluation client as it is written first: right on a good day, with no deadline on its way out.

The catalogue fails it by name, `unbounded-await` where the peer stops reading or never answers:

    conformance run --client python:docs/examples/naive_client.py:run commit/stall-at-commit 'close/never-closed*'
"""

import asyncio
import base64
import hashlib
import json
import os
import types
import wave
from pathlib import Path

from websockets.asyncio.client import connect


def load(job, sample):
    """Sound, pictures and voice."""
    folder, voice = Path(job.samples).parent, Path(job.ref_audio).read_bytes()
    with wave.open(str(folder / sample["question_audio"])) as audio:
        pcm = audio.readframes(audio.getnframes())
    frames = [base64.b64encode((folder / name).read_bytes()).decode() for name in sample["frames"]]
    return pcm, frames, voice


async def answer(job, sample):
    """One session: stream the clip, commit, wait for the reply to be done, close."""
    pcm, frames, voice = load(job, sample)
    opening = {
        "model": job.model,
        "modalities": ["audio", "text"],
        "turn_detection": None,
        "ref_audio": "data:audio/wav;base64," + base64.b64encode(voice).decode(),
        "extra_body": {"auto_response": True, "minicpmo45_native_duplex": True, "force_listen_count": 0},
    }
    url = f"{job.url}?duplex=1&autostart=0&minicpmo45_native_duplex=1"
    async with connect(url, compression=None, proxy=None, max_size=64 * 2**20) as ws:

        async def send(kind, **fields):
            await ws.send(json.dumps({"type": kind, **fields}))

        created, done = asyncio.Event(), asyncio.Event()
        texts, heard, clock_ms = [], {}, 0

        async def read():
            async for text in ws:
                event = json.loads(text)
                kind, rid = event["type"], event.get("response_id")
                if kind == "session.created":
                    created.set()
                elif kind.endswith("transcript.delta"):
                    texts.append((clock_ms / 1000, event["delta"]))
                elif kind.endswith("audio.delta"):
                    heard[rid] = heard.get(rid, 0) + len(base64.b64decode(event["delta"]))
                elif kind == "response.done":
                    done.set()
                elif kind == "session.closed":
                    return

        reader = asyncio.create_task(read())
        await send("session.update", session=opening)
        await created.wait()
        for at in range(0, len(pcm), 32000):
            unit = pcm[at : at + 32000]
            clock_ms += len(unit) // 32
            picture = {"video_frames": [frames[at // 32000]]} if at // 32000 < len(frames) else {}
            await send(
                "input_audio_buffer.append",
                audio=base64.b64encode(unit).decode(),
                sample_rate_hz=16000,
                duration_ms=len(unit) // 32,
                audio_end_ms=clock_ms,
                **picture,
            )
            await asyncio.sleep(len(unit) / 32000)
        await send("input_audio_buffer.commit", final=True)
        await done.wait()
        for rid, size in heard.items():
            ms = size // 48
            await send("playback.ack", response_id=rid, item_id=f"item_{rid}", played_ms=ms, committed_ms=ms)
        await send("session.close")
        await reader
    whole = "".join(text for _, text in texts).strip()
    said = [{"sentence": whole, "start": texts[0][0], "end": texts[-1][0]}] if whole else []
    write(job, sample, said, hashlib.sha256(voice).hexdigest())


def write(job, sample, said, voice_sha256):
    """The metadata, then the answer."""
    folder = Path(job.out) / sample["split"]
    folder.mkdir(parents=True, exist_ok=True)
    meta = {
        "id": sample["id"],
        "split": sample["split"],
        "clock": "media",
        "pace": "realtime",
        "mix": "question",
    }
    meta |= {"fps": 1.0, "unit_ms": 1000, "model": job.model, "response_done": True, "retry_count": 0}
    meta |= dict.fromkeys(("drain_timeout", "close_timeout", "ack_timeout"))
    meta |= {"server_errors": [], "ref_audio_sha256": voice_sha256}
    (folder / f"{sample['id']}.meta.json").write_text(json.dumps(meta))
    (folder / f"{sample['id']}.json").write_text(json.dumps(said))


def samples_of(job):
    """The rows of the manifest."""
    return [json.loads(line) for line in Path(job.samples).read_text().splitlines()]


async def run(job):
    """Every sample in turn."""
    for sample in samples_of(job):
        await answer(job, sample)


if __name__ == "__main__":
    asked = {name[12:].lower(): text for name, text in os.environ.items() if name.startswith("CONFORMANCE_")}
    asyncio.run(run(types.SimpleNamespace(**asked)))
