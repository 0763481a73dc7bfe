"""A correct evaluation client on plain `websockets`: it leaves the answers to the samples of a job, and nothing else.

conformance run --client python:docs/examples/minimal_client.py:run
conformance run --client command:"python docs/examples/minimal_client.py" --client-shows answers 'stream/*'
"""

import asyncio
import json
import os
import re
import sys
import wave
from base64 import b64decode, b64encode
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

SHOWS = "answers"  # no metadata is to be looked for
UNIT = 32000  # bytes of a second of sound
QUERY = "duplex=1&autostart=0&minicpmo45_native_duplex=1"
SOCKET = {"compression": None, "proxy": None, "open_timeout": 20, "close_timeout": 9, "max_size": 2**26}
SESSION = {"modalities": ["audio", "text"], "turn_detection": None, "overlap_policy": "listen_only"}
SESSION |= {"playback_commit_policy": "ack_only"}
SESSION |= {"extra_body": {"auto_response": True, "minicpmo45_native_duplex": True, "force_listen_count": 0}}


class Session:
    """What was sent and heard, and what is still awaited. Every wait for the peer has a deadline."""

    def __init__(self, ws):
        self.ws, self.loop, self.news = ws, asyncio.get_running_loop(), asyncio.Event()
        self.created = self.committed = self.decided = self.ended = self.leaving = False
        self.sent_ms, self.rate, self.active_s = 0, 24000, 0.0
        self.replies, self.texts, self.errors, self.seen = {}, [], [], set()

    async def send(self, kind, within_s=30, **fields):
        async with asyncio.timeout(within_s):
            await self.ws.send(json.dumps({"type": kind, **fields}))

    async def append(self, pcm, **more):
        self.sent_ms += (ms := len(pcm) // 32)
        more |= {"audio": b64encode(pcm).decode(), "duration_ms": ms, "audio_end_ms": self.sent_ms}
        await self.send("input_audio_buffer.append", input_audio_format="pcm16", sample_rate_hz=16000, **more)

    async def ack(self, within_s=30):
        for rid, reply in list(self.replies.items()):
            if reply.heard_ms or not reply.status:
                heard = {"played_ms": reply.heard_ms, "committed_ms": reply.heard_ms}
                await self.send("playback.ack", within_s, response_id=rid, item_id=f"item_{rid}", **heard)

    async def pad(self):
        if self.awaits():
            await self.append(bytes(UNIT), is_speech=False)

    async def every(self, period_s, act):
        with suppress(OSError, ConnectionClosed):  # a stall or a loss shows where the session is awaited
            while True:
                await act()
                await asyncio.sleep(period_s)

    def awaits(self):
        return not (self.committed and self.decided and all(r.status for r in self.replies.values()))

    def answered(self):
        return any(r.status == "completed" and not r.late for r in self.replies.values())

    def settled(self):
        return not self.awaits() and self.loop.time() >= self.active_s + 2

    async def until(self, met, within_s):
        """Woken by events, and by quiet. Raises where the session ends, or answers with an error."""
        known = len(self.errors)
        async with asyncio.timeout(within_s):
            while not met():
                if self.ended or len(self.errors) > known:
                    raise ConnectionError("nothing more to wait for")
                self.news.clear()
                await self.news.wait()

    async def read(self):
        with suppress(ConnectionClosed):
            async for text in self.ws:
                with suppress(ValueError, TypeError, AttributeError):  # garbage is no event, and says nothing
                    if isinstance(text, str):
                        self.take(json.loads(text))
                self.news.set()
                if self.ended:
                    break
        self.ended = True
        self.fail("the session ended")

    def fail(self, why):
        self.news.set()
        if not self.leaving:
            self.errors.append(why)

    def take(self, event):
        kind = str(event.get("type"))
        key = event.get("server_event_seq") or event.get("event_id") or object()
        if key in self.seen:
            return
        self.seen.add(key)
        response = event.get("response") or {}
        rid = event.get("response_id") or response.get("id")
        reply = self.replies.get(rid)
        if kind.startswith("response.") or kind == "input_audio_buffer.committed":
            self.active_s = self.loop.time()
            self.loop.call_later(2, self.news.set)  # then it may have been quiet
        if kind.endswith(".delta") and isinstance(event.get("delta"), str):
            self.hear(event, kind, reply)
        elif kind == "session.created":
            self.created = True
        elif kind == "input_audio_buffer.committed":
            self.committed = True
        elif kind == "response.created" and rid and not reply:
            late = self.answered() and not self.awaits()  # no part of the answer
            self.replies[rid] = SimpleNamespace(late=late, status="", size=0, heard_ms=0)
        elif kind == "response.listen":
            told = response.get("metadata") or {}
            self.decided |= self.committed and told.get("model_listen", True) and not told.get("buffering")
            if reply and not reply.status:
                reply.status = "listening"  # so it ends
        elif kind == "response.done" and reply and not reply.status:
            reply.status = response.get("status") or "completed"
            self.decided |= self.committed and reply.status != "cancelled"
            if reply.status != "completed":
                self.fail(f"response {rid}: {reply.status}")
        elif kind == "error":
            error = event["error"] if isinstance(event.get("error"), dict) else event
            if error.get("code") != "playback_ack_too_late":
                self.fail(f"{error.get('code')}: {error.get('message')}")
        elif kind in ("session.closed", "session.expired", "session.replaced"):
            self.ended = True

    def hear(self, event, kind, reply):
        if not reply or reply.status:
            return
        if kind.endswith("audio.delta"):
            self.rate = event.get("sample_rate_hz") or self.rate
            reply.size += len(b64decode(event["delta"], validate=True)) // 2 * 2
            reply.heard_ms = reply.size * 1000 // (self.rate * 2)
        elif not reply.late:
            self.texts.append((event.get("audio_end_ms", self.sent_ms), event["delta"]))

    async def leave(self):
        """A last ack, then the close; where one sticks the transport is dropped. Returns whether none did."""
        self.leaving = True
        try:
            if self.created and not self.ended:
                with suppress(TimeoutError):  # it only tells how much was heard
                    await self.ack(within_s=20)
                await self.send("session.close", within_s=25)
                await self.until(lambda: self.ended, 20)
            async with asyncio.timeout(10):
                await self.ws.close()
        except (OSError, ConnectionClosed) as stuck:
            self.ws.transport.abort()
            return not isinstance(stuck, TimeoutError)
        return True


def load(job, sample):
    """Sound that leaves the commit something to flush, pictures and voice."""
    with wave.open(sample["question_audio"]) as audio:
        pcm = audio.readframes(audio.getnframes())
    frames = [b64encode(Path(name).read_bytes()).decode() for name in sample.get("frames", [])]
    voice = "data:audio/wav;base64," + b64encode(Path(job.ref_audio).read_bytes()).decode()
    return pcm[:-2] if len(pcm) % UNIT == 0 else pcm, frames, voice


async def attempt(job, sample):
    """The sentences of one session. TimeoutError: it stalled, and nothing else was wrong."""
    pcm, frames, voice = load(job, sample)
    session = Session(await connect(f"{job.url}?{QUERY}", **SOCKET))
    reader, tasks, stalled = asyncio.create_task(session.read()), [], False
    try:
        await session.send("session.update", session={**SESSION, "model": job.model, "ref_audio": voice})
        await session.until(lambda: session.created and not session.errors, 20)
        tasks.append(asyncio.create_task(session.every(0.25, session.ack)))
        for second, at in enumerate(range(0, len(pcm), UNIT)):
            picture = {"video_frames": frames[second : second + 1]} if frames[second:] else {}
            await session.append(pcm[at : at + UNIT], **picture)
            await asyncio.sleep(len(pcm[at : at + UNIT]) / UNIT)
        await session.send("input_audio_buffer.commit", final=True)
        tasks.append(asyncio.create_task(session.every(1, session.pad)))
        await session.until(session.settled, sample["video_duration"] + 120)
    except TimeoutError:
        stalled = True
    except (ConnectionError, ConnectionClosed) as failure:
        session.fail(str(failure))
    finally:
        for task in tasks:
            task.cancel()
        closed = await session.leave()
        await asyncio.wait([reader, *tasks], timeout=5)
    answered, drained = session.answered(), len(tasks) == 2
    if answered and not stalled and not session.errors:
        return sentences(session.texts)
    if session.errors or (answered and not drained) or (closed and not stalled):
        raise ConnectionError("; ".join(session.errors) or "no completed response")
    raise TimeoutError("stalled")


def sentences(texts):
    """Cut behind marks that white space or the end follows; a sentence starts with the delta that opened it."""
    found, pending, start_s = [], "", 0.0
    for clock_ms, text in texts:
        start_s = start_s if pending.strip() else clock_ms / 1000
        *whole, pending = re.split(r"(?<=[.!?。！？])(?:\s+|$)", pending + text)
        for sentence in whole:
            found.append({"sentence": sentence.strip(), "start": start_s, "end": clock_ms / 1000})
            start_s = clock_ms / 1000
    if pending.strip():
        found.append({"sentence": pending.strip(), "start": start_s, "end": clock_ms / 1000})
    return found


async def answer(job, sample):
    """At most two attempts, the second only after a stall that came alone; the file appears whole."""
    path = Path(job.out, sample["split"], f"{sample['id']}.json")
    for number in (1, 2):
        try:
            async with asyncio.timeout(900):
                said = await attempt(job, sample)
        except (OSError, InvalidHandshake, ConnectionClosed) as failure:
            print(f"{path.stem}, attempt {number}: {failure}", file=sys.stderr)
            if not isinstance(failure, TimeoutError):
                return
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_suffix(".part").write_text(json.dumps(said, indent=2))
            path.with_suffix(".part").replace(path)
            return


def samples_of(job):
    """The rows of the manifest."""
    return [json.loads(line) for line in Path(job.samples).read_text().splitlines()]


async def run(job):
    """Every sample in turn."""
    for sample in samples_of(job):
        await answer(job, sample)


if __name__ == "__main__":
    asked = {name[12:].lower(): text for name, text in os.environ.items() if name.startswith("CONFORMANCE_")}
    asyncio.run(run(SimpleNamespace(**asked)))
