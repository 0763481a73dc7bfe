"""A correct evaluation client with everything that it may tell: metadata of every sample, late sentences, a run result.

conformance run --client python:docs/examples/complete_client.py:run
conformance run --client command:"python docs/examples/complete_client.py" 'stream/*'
"""

import asyncio
import base64
import hashlib
import json
import os
import re
import types
import wave
from pathlib import Path

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

DELTA = re.compile(r"response\.(?:output_)?(audio|audio_transcript|text)\.delta")
PCM16 = {"input_audio_format": "pcm16", "sample_rate_hz": 16000}
FINE = ("", "completed", "listening", "cut short")
USUAL = {"clock": "media", "pace": "realtime", "mix": "question", "fps": 1.0, "unit_ms": 1000}
LIBRARY = {"compression": None, "proxy": None, "open_timeout": None, "close_timeout": 9, "max_size": 2**26}
OPENING = {"modalities": ["audio", "text"], "input_audio_format": "pcm16", "output_audio_format": "pcm16"}
OPENING |= {"turn_detection": None, "overlap_policy": "listen_only", "playback_commit_policy": "ack_only"}
OPENING |= {"extra_body": {"auto_response": True, "minicpmo45_native_duplex": True, "force_listen_count": 0}}


async def bounded(what, coroutine, seconds, grace=5.0):
    """Not `wait_for`, which waits for ever on a child that does not end when it is cancelled."""
    task = asyncio.ensure_future(coroutine)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody else may retrieve it
    try:
        if (await asyncio.wait({task}, timeout=seconds))[0]:
            return task.result()
        task.cancel()
        await asyncio.wait({task}, timeout=grace)
        raise TimeoutError(f"{what}: {seconds:g} s passed")
    finally:
        task.cancel()


class Session:
    """What one session has sent and heard, and what its drain still waits for."""

    def __init__(self, ws):
        self.ws, self.now, self.changed = ws, asyncio.get_running_loop().time, asyncio.Event()
        self.leaving = asyncio.Event()
        self.clock_ms, self.rate, self.active_s, self.ended = 0, 24000, 0.0, ""
        self.created = self.refused = self.committing = self.committed = self.decided = self.closing = (
            self.closed
        ) = False
        self.errors, self.texts, self.replies, self.seen, self.ack_timeout = [], [], {}, set(), None

    async def send(self, kind, seconds=30.0, grace=5.0, **fields):
        await bounded(kind, self.ws.send(json.dumps({"type": kind, **fields})), seconds, grace)

    async def append(self, pcm, **more):
        self.clock_ms += (ms := len(pcm) // 32)
        more |= {"audio": base64.b64encode(pcm).decode(), "duration_ms": ms, "audio_end_ms": self.clock_ms}
        await self.send("input_audio_buffer.append", **PCM16, **more)

    async def ack(self, seconds=30.0, grace=5.0):
        """How much of each reply has come; advisory, so a stall is only noted."""
        try:
            for rid, r in [(rid, r) for rid, r in self.replies.items() if r["bytes"] or not r["status"]]:
                told = dict.fromkeys(("played_ms", "committed_ms"), r["bytes"] * 1000 // (r["rate"] * 2))
                await self.send(
                    "playback.ack", seconds, grace, response_id=rid, item_id=f"item_{rid}", **told
                )
        except TimeoutError as stalled:
            self.ack_timeout = str(stalled)

    async def keep_acking(self):
        while True:
            await asyncio.sleep(0.25)
            await self.ack()

    async def pad(self):
        """Silence once a second, for as long as something is awaited; ends quietly with its socket."""
        try:
            while not self.leaving.is_set():
                if self.awaits():
                    await self.append(bytes(32000), is_speech=False)
                await asyncio.wait({stop := asyncio.ensure_future(self.leaving.wait())}, timeout=1.0)
                stop.cancel()
        except (ConnectionClosed, OSError):
            pass

    def awaits(self):
        return not (self.committed and self.decided and all(r["status"] for r in self.replies.values()))

    def said(self):
        return any(r["status"] == "completed" and not r["late"] for r in self.replies.values())

    async def until(self, met, seconds, what, settle=0.0):
        """Woken by events; `settle` seconds of quiet end it, the deadline fails it, and so does the session's end."""
        deadline = self.now() + seconds
        while self.refused or not (met() and self.now() >= self.active_s + settle):
            if self.refused or (self.ended and what != "session.closed"):
                raise ConnectionError(self.ended or "refused")
            if self.now() >= deadline:
                raise TimeoutError(f"{what}: {seconds:g} s passed")
            self.changed.clear()
            due = self.active_s + settle if met() else deadline
            waiter = asyncio.ensure_future(self.changed.wait())
            await asyncio.wait({waiter}, timeout=min(due, deadline) - self.now())
            waiter.cancel()

    async def read(self):
        try:
            async for text in self.ws:
                try:
                    event = json.loads(text) if isinstance(text, str) else None
                except ValueError:
                    continue
                if isinstance(event, dict) and isinstance(event.get("type"), str):
                    key = event.get("server_event_seq") or (event["type"], event.get("event_id") or object())
                    if key not in self.seen:
                        self.seen.add(key)
                        self.take(event, event["type"])
        finally:
            self.ended = self.ended or f"connection lost ({self.ws.close_code} {self.ws.close_reason})"
            self.changed.set()

    def take(self, event, kind):
        response = event["response"] if isinstance(event.get("response"), dict) else {}
        rid = event["response_id"] if isinstance(event.get("response_id"), str) else response.get("id")
        reply, delta = self.replies.get(rid if isinstance(rid, str) else None), DELTA.fullmatch(kind)
        if delta or kind in ("response.created", "response.listen", "response.done"):
            self.active_s = self.now()
        if delta:
            self.hear(event, reply, delta[1] == "audio", kind)
        elif kind == "session.created":
            self.created = True
        elif kind == "input_audio_buffer.committed" and self.committing and not self.committed:
            self.committed, self.active_s = True, self.now()
        elif kind == "response.created" and rid and isinstance(rid, str) and reply is None:
            late = not self.awaits() and any(r["status"] == "completed" for r in self.replies.values())
            self.replies[rid] = {"status": "", "bytes": 0, "late": late, "kinds": {}, "rate": self.rate}
        elif kind == "response.listen":
            told = response["metadata"] if isinstance(response.get("metadata"), dict) else {}
            own = told.get("buffering") is not True and told.get("model_listen", True) is True
            self.decided |= self.committed and own
            if reply and not reply["status"]:
                reply["status"] = "listening"
        elif kind == "response.done" and reply and not reply["status"]:
            reply["status"] = response["status"] if isinstance(response.get("status"), str) else "completed"
            reply["why"] = json.dumps(response.get("status_details"))
            self.decided |= self.committed and reply["status"] != "cancelled"
            if self.closing and reply["status"] == "cancelled":
                reply["status"] = "cut short"  # the server's answer to our own close
        elif kind == "error":
            inner = event["error"] if isinstance(event.get("error"), dict) else event
            if (code := inner.get("code")) != "playback_ack_too_late":
                self.errors.append(f"{code}: {inner.get('message') or inner.get('error')}")
                lost = code in ("input_audio_buffer_empty", "commit_aborted") and self.committing
                self.refused |= not self.created or (lost and not self.committed)
        elif kind in ("session.closed", "session.expired", "session.replaced"):
            self.ended, self.closed = (
                self.ended or f"{kind} {event.get('reason', '')}",
                self.closed or kind == "session.closed",
            )
        self.changed.set()

    def hear(self, event, reply, audio, kind):
        if reply and (reply["status"] or reply["kinds"].setdefault(audio, kind) != kind):
            return  # after its end, or the same once more under the other dialect's name
        data = event.get("delta")
        if isinstance(data, str) and not audio:
            self.texts.append((event.get("audio_end_ms", self.clock_ms), data, bool(reply and reply["late"])))
        elif isinstance(data, str) and reply:
            if isinstance(rate := event.get("sample_rate_hz"), int) and rate > 0:
                reply["rate"] = self.rate = rate
            try:
                reply["bytes"] += len(base64.b64decode(data, validate=True)) // 2 * 2
            except ValueError:
                pass  # damaged on its way: nothing of it was heard

    async def goodbye(self):
        self.closing = True
        await self.send("session.close", 25)
        await self.until(lambda: self.closed or self.ws.close_code is not None, 20, "session.closed")

    async def tear_down(self, tasks, reader):
        """Acks and padding joined, a last ack, the close: each with its deadline, then the transport is dropped."""
        self.leaving.set()
        if tasks[1:]:
            await asyncio.wait(tasks[1:], timeout=5)  # a padded unit may be stuck in the same socket
        for task in tasks:
            task.cancel()
        if tasks and (await asyncio.wait(tasks, timeout=5))[1]:
            self.ack_timeout = "the acks did not end"
        close_timeout = None
        try:
            if not self.ended and self.created:
                await self.ack(20, grace=0.0)
                await bounded("session close", self.goodbye(), 25)
            await bounded("websocket close", self.ws.close(), 10)
        except (ConnectionClosed, OSError) as gone:
            self.ended = self.ended or str(gone)
            if isinstance(gone, TimeoutError):
                close_timeout = str(gone)
                self.ws.transport.abort()
        await asyncio.wait({reader}, timeout=5)
        reader.cancel()
        return close_timeout


def sentences(texts):
    """Cut behind marks that white space or the end follows; a sentence starts with the delta that opened it."""
    found, pending, start, now = [], "", 0.0, 0.0
    for clock, text in texts:
        if not text or (text.isspace() and not pending):
            continue
        now = now if text.isspace() else clock / 1000
        start, pending = (start if pending else now), pending + text
        opened = start  # sentences completed by one delta share their start
        while not text.isspace() and (end := re.search(r"[.!?。！？]+(?=\s|\Z)", pending)):
            found.append({"sentence": pending[: end.end()].strip(), "start": opened, "end": max(opened, now)})
            pending, start = pending[end.end() :].lstrip(), now
    if pending.strip():
        found.append({"sentence": pending.strip(), "start": start, "end": max(start, now)})
    return found


def load(job, sample):
    """Sound shaped so that the commit has a unit to flush, pictures and voice, all as they are sent."""
    folder, voice = Path(job.samples).parent, Path(job.ref_audio).read_bytes()
    with wave.open(str(folder / sample["question_audio"])) as audio:
        pcm = audio.readframes(audio.getnframes())
    frames = [base64.b64encode((folder / name).read_bytes()).decode() for name in sample.get("frames", [])]
    return pcm[:-2] if len(pcm) % 32000 == 0 else pcm, frames, voice


async def attempt(job, sample, meta):
    """One session. Fills the metadata; returns the sentences, what the session reported, and what stalled."""
    pcm, frames, voice = load(job, sample)
    meta["ref_audio_sha256"] = hashlib.sha256(voice).hexdigest()
    opening = {**OPENING, "model": job.model}
    opening["ref_audio"] = "data:audio/wav;base64," + base64.b64encode(voice).decode()
    url = f"{job.url}?duplex=1&model={job.model.replace('/', '%2F')}&autostart=0&minicpmo45_native_duplex=1"
    session = Session(await bounded("connect", connect(url, **LIBRARY).__aenter__(), 20))
    reader, tasks, stalls, broken = asyncio.ensure_future(session.read()), [], [], []
    reader.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        await session.send("session.update", 20, session=opening)
        await session.until(lambda: session.created, 20, "session.created")
        tasks.append(asyncio.ensure_future(session.keep_acking()))
        stalled = "stream_timeout"
        try:
            for at in range(0, len(pcm), 32000):
                picture = {"video_frames": [frames[at // 32000]]} if at // 32000 < len(frames) else {}
                await session.append(pcm[at : at + 32000], **picture)
                await asyncio.sleep(len(pcm[at : at + 32000]) // 32 / 1000)
            session.committing = True
            await session.send("input_audio_buffer.commit", final=True)
            tasks.append(asyncio.ensure_future(session.pad()))
            stalled = "drain_timeout"
            window = sample["video_duration"] + 120
            await session.until(lambda: not session.awaits(), window, "drain", settle=2.0)
            meta["response_done"] = session.said()
        except TimeoutError as late:
            meta[stalled] = str(late)
            alone = stalled == "drain_timeout" or not session.said()  # else a write is stuck behind a reply
            (stalls if alone else broken).append(str(late))
    except (ConnectionError, ConnectionClosed) as gone:
        broken.append(session.ended or str(gone))
    finally:
        meta["close_timeout"] = await session.tear_down(tasks, reader)
    closing = [meta["close_timeout"]] if meta["close_timeout"] and not meta["response_done"] else []
    ends = [(rid, r["status"], r.get("why")) for rid, r in session.replies.items()]
    bad = [f"response {rid}: {status} {why}" for rid, status, why in ends if status not in FINE]
    meta |= {"server_errors": session.errors, "ack_timeout": session.ack_timeout}
    meta["late_sentences"] = sentences(text[:2] for text in session.texts if text[2])
    said = sentences(text[:2] for text in session.texts if not text[2])
    return said, session.errors + bad + broken, stalls + closing


def write(path, document):
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(document, indent=2))
    part.replace(path)


async def answer(job, sample):
    """At most two attempts, the second only after a stall that came alone; the answer file appears last."""
    for retry in (0, 1):
        meta = {key: sample[key] for key in ("id", "split")} | USUAL
        meta |= {"model": job.model, "response_done": False, "retry_count": retry, "server_errors": []}
        meta |= dict.fromkeys(("drain_timeout", "close_timeout", "ack_timeout", "stream_timeout"))
        said, reported, stalls = [], [], []
        try:
            said, reported, stalls = await bounded("request", attempt(job, sample, meta), 900, grace=65)
        except TimeoutError as late:
            stalls = [str(late)]
        except (OSError, InvalidHandshake, ConnectionClosed) as gone:
            reported = [f"{type(gone).__name__}: {gone}"]
        success = meta["response_done"] and not reported
        if success or reported or not stalls:
            break
    meta["error"] = "" if success else "; ".join(reported + stalls) or "no completed response"
    base = Path(job.out) / sample["split"]
    write(base / f"{sample['id']}.meta.json", meta)
    if success:
        write(base / f"{sample['id']}.json", said)
    return meta


def samples_of(job):
    """The rows of the manifest."""
    return [json.loads(line) for line in Path(job.samples).read_text().splitlines()]


async def run(job):
    """Every sample in turn, then the run result."""
    metas = [await answer(job, sample) for sample in samples_of(job)]
    errors, retries = [meta["error"] for meta in metas], [meta["retry_count"] for meta in metas]
    done = errors.count("")
    result = {"requested": len(metas), "completed": done, "published": done, "failed": len(metas) - done}
    result |= {"cancelled": 0, "errors": errors, "artifact_errors": []}
    result |= {"duplex_retried_samples": sum(map(bool, retries)), "duplex_retry_count": sum(retries)}
    write(Path(job.out) / "run_result.json", result)


if __name__ == "__main__":
    asked = {name[12:].lower(): text for name, text in os.environ.items() if name.startswith("CONFORMANCE_")}
    asyncio.run(run(types.SimpleNamespace(**asked)))
