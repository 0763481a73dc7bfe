"""A correct evaluation client on plain `websockets`: it leaves the answers to the samples of a job, and nothing else.

conformance run --client python:docs/examples/minimal_client.py:run
conformance run --client command:"python docs/examples/minimal_client.py" --client-shows answers 'stream/*'
"""

import asyncio
import json
import os
import re
import wave
from base64 import b64decode, b64encode
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, WebSocketException

SHOWS = "answers"  # no metadata is to be looked for
UNIT = 32000  # bytes of a second of sound
NATIVE = {"auto_response": True, "minicpmo45_native_duplex": True, "force_listen_count": 0}
CREATED, COMMITTED, DECISION = "session.created", "input_audio_buffer.committed", "decision on the commit"


class Session:
    """One coroutine sends on a schedule and listens in between. `awaited` is what the server owes: an event by its
    type, a decision, an open reply by its id. Every wait has an end, and where something is owed then, it stalled."""

    def __init__(self, ws):
        self.ws, self.now, self.awaited = ws, asyncio.get_running_loop().time, {CREATED, COMMITTED, DECISION}
        self.heard, self.texts, self.failures, self.seen = {}, [], [], set()
        self.sent_ms, self.rate_hz, self.active_s, self.answered, self.late = 0, 24000, 0.0, False, False

    async def send(self, kind, **fields):
        async with asyncio.timeout(30):
            await self.ws.send(json.dumps({"type": kind, **fields}))

    async def append(self, pcm, **more):
        """One unit, and what is to be heard and acked while it sounds."""
        self.sent_ms += (ms := len(pcm) // 32)
        more |= {"audio": b64encode(pcm).decode(), "duration_ms": ms, "audio_end_ms": self.sent_ms}
        await self.send("input_audio_buffer.append", **more)
        for _ in range(4):
            await self.listen(ms / 4000)
            await self.ack()

    async def ack(self):
        for rid, size in self.heard.items():
            if size or rid in self.awaited:
                ms = size * 1000 // (self.rate_hz * 2)
                await self.send("playback.ack", response_id=rid, item_id=f"item_{rid}", played_ms=ms)

    async def listen(self, seconds, *last):
        """Takes events for so long, or up to one of these types."""
        kind = None
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while kind not in last:
                    text = await self.ws.recv()
                    with suppress(ValueError, TypeError, AttributeError, KeyError):  # garbage says nothing
                        kind = self.take(json.loads("" + text))

    def take(self, event):
        kind, key, response = event["type"], event.get("event_id") or object(), event.get("response") or {}
        rid, told = event.get("response_id") or response.get("id"), response.get("metadata") or {}
        if key in self.seen:
            return None
        self.seen.add(key)
        if kind == COMMITTED or kind.startswith("response."):
            self.active_s = self.now()
        if kind == "response.created" and rid:
            self.late |= self.answered and not self.awaited  # no part of the answer
            self.awaited.add(rid)
            self.heard.setdefault(rid, 0)
        elif kind == "response.listen" or (kind == "response.done" and rid in self.awaited):
            self.awaited.discard(rid)
            self.answered |= kind == "response.done"
            if response.get("status", "completed") not in ("completed", "listening"):
                self.failures.append(event)
            if COMMITTED not in self.awaited and told.get("model_listen", True) and not told.get("buffering"):
                self.awaited.discard(DECISION)
        elif kind.endswith("audio.delta") and rid in self.awaited:
            self.rate_hz = int(event.get("sample_rate_hz") or self.rate_hz)
            self.heard[rid] += len(b64decode(event["delta"], validate=True))
        elif kind.endswith(".delta") and rid in self.awaited and not self.late:
            self.texts.append(((event.get("audio_end_ms") or self.sent_ms) / 1000, "" + event["delta"]))
        elif kind in ("error", "session.closed", "session.expired", "session.replaced"):
            error = event["error"] if isinstance(event.get("error"), dict) else event
            if error.get("code") != "playback_ack_too_late":
                self.failures.append(event)
        self.awaited.discard(kind)
        return kind


async def attempt(job, sample):
    """The sentences of one session. TimeoutError: it stalled, and nothing else was wrong."""
    with wave.open(sample["question_audio"]) as clip:
        pcm = clip.readframes(clip.getnframes())
    pcm = pcm[:-2] if len(pcm) % UNIT == 0 else pcm  # so the commit has something to flush
    media = map(Path, [job.ref_audio, *sample.get("frames", [])])
    voice, *frames = [b64encode(path.read_bytes()).decode() for path in media]
    opening = {"model": job.model, "turn_detection": None, "extra_body": NATIVE}
    opening["ref_audio"] = f"data:audio/wav;base64,{voice}"
    url = f"{job.url}?duplex=1&autostart=0&minicpmo45_native_duplex=1"
    session, known = Session(await connect(url, proxy=None, max_size=2**26)), None
    try:
        await session.send("session.update", session=opening)
        await session.listen(20, CREATED, "error")
        if CREATED in session.awaited:
            raise TimeoutError("no session")
        for at in range(0, len(pcm), UNIT):
            await session.append(pcm[at : at + UNIT], video_frames=frames[at // UNIT :][:1])
        await session.send("input_audio_buffer.commit", final=True)
        known = len(session.failures)
        async with asyncio.timeout(sample["video_duration"] + 120):
            while not session.failures[known:] and (session.awaited or session.now() < session.active_s + 2):
                if session.awaited:
                    with suppress(TimeoutError):  # it sticks, and what is awaited may come all the same
                        await asyncio.wait_for(session.append(bytes(UNIT), is_speech=False), 1)
                await session.listen(0 if session.awaited else 0.05)
    except TimeoutError:
        await session.listen(0)  # what came while a write stuck
    finally:
        failures, owed = list(session.failures), set(session.awaited)  # what comes later is no news
        with suppress(TimeoutError, ConnectionClosed):
            async with asyncio.timeout(30) as closing:
                if CREATED not in session.awaited:
                    await session.ack()
                    await session.send("session.close")
                    await session.listen(60, "session.closed")
                await session.ws.close()
        session.ws.transport.abort()  # where the close stuck; a closed connection does not feel it
    if failures or (session.answered and known is None):
        raise ConnectionError(failures)
    if session.answered and not owed:
        return sentences(session.texts)
    raise TimeoutError("stalled") if owed or closing.expired() else ConnectionError("no completed response")


def sentences(texts):
    """Cut behind marks that white space or the end follows; a sentence starts with the delta that opened it."""
    found, pending, start_s, clock_s = [], "", 0.0, 0.0
    for clock_s, text in texts:
        start_s = start_s if pending.strip() else clock_s
        *whole, pending = re.split(r"(?<=[.!?。！？])(?:\s+|$)", pending + text)
        found += [{"sentence": sentence.strip(), "start": start_s, "end": clock_s} for sentence in whole]
        start_s = clock_s if whole else start_s
    rest = {"sentence": pending.strip(), "start": start_s, "end": clock_s}
    return [*found, rest] if rest["sentence"] else found


async def run(job):
    """At most two attempts a sample, the second only after a stall that came alone; its file appears whole."""
    manifest = await asyncio.to_thread(Path(job.samples).read_text)
    for sample in map(json.loads, manifest.splitlines()):
        path = Path(job.out, sample["split"], f"{sample['id']}.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        for number in (1, 2):
            try:
                path.with_suffix(".part").write_text(json.dumps(await attempt(job, sample), indent=2))
                path.with_suffix(".part").replace(path)
            except (OSError, WebSocketException) as failure:
                print(f"{path.stem}, attempt {number}: {failure!r:.300}")
                if isinstance(failure, TimeoutError):
                    continue
            break


if __name__ == "__main__":
    asked = {name[12:].lower(): text for name, text in os.environ.items() if name.startswith("CONFORMANCE_")}
    asyncio.run(run(SimpleNamespace(**asked)))
