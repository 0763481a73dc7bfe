"""A bare HTTP client of the judge: bodies by hand, nothing of the evaluation client."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson
import pytest

from mockserver.judge import JudgedSample, JudgeServer

JPEG = "data:image/jpeg;base64,/9j/4AAQSkZJRg=="
FORMATS = {
    "temporal": 'Answer with {"temporal_score": 0 to 3, "is_relevant": 0 or 1}.',
    "content": 'Answer with {"content_score": 0.00 to 3.00}.',
    "chat": 'Answer with {"success_score": 0 or 1}.',
}
CYCLIST = JudgedSample("RTD_Omni", "610", "Describe the street as it happens.")
KITCHEN = JudgedSample("RTD_OCR", "560", "Read every sign.")
PHONE = JudgedSample("PR_correction", "0", "Why does the man hang up the phone?")
SAMPLES = (CYCLIST, KITCHEN, PHONE)

Message = dict[str, Any]


def images(count: int, url: str = JPEG) -> list[dict[str, Any]]:
    return [{"type": "image_url", "image_url": {"url": url}} for _ in range(count)]


def user(text: str, *parts: dict[str, Any]) -> Message:
    return {"role": "user", "content": [{"type": "text", "text": text}, *parts] if parts else text}


def temporal(
    sample: JudgedSample = CYCLIST, said: str = "A cyclist passes.", frames: int = 2
) -> list[Message]:
    text = f"Window 1.00 to 2.00. {sample.question} The answer said: {said}. {FORMATS['temporal']}"
    return [{"role": "system", "content": "You are careful."}, user(text, *images(frames))]


def content(sample: JudgedSample = CYCLIST, *, frames: int | None = None) -> list[Message]:
    """By video, or by so many frames."""
    text = f"{sample.question} The whole answer: A cyclist passes. {FORMATS['content']}"
    video = {"type": "video_url", "video_url": {"url": f"file:///media/{sample.split}/{sample.id}.mp4"}}
    return [user(text, *([video] if frames is None else images(frames)))]


def chat(sample: JudgedSample = PHONE, said: str = "He did not.") -> list[Message]:
    return [user(f"{sample.question} The answer: {said} {FORMATS['chat']}")]


def again(messages: Sequence[Message], echo: str, told: str) -> list[Message]:
    """The re-ask of evaluation.md 16.7."""
    return [*messages, {"role": "assistant", "content": echo}, user(told)]


@dataclass
class Answered:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def body(self) -> dict[str, Any]:
        return dict(orjson.loads(self.text))

    @property
    def choice(self) -> dict[str, Any]:
        return dict(self.body["choices"][0])

    @property
    def said(self) -> str | None:
        return self.choice["message"]["content"]  # type: ignore[no-any-return]

    @property
    def verdict(self) -> dict[str, Any]:
        return dict(orjson.loads(self.said or ""))

    @property
    def error(self) -> dict[str, Any]:
        return dict(self.body["error"])


@dataclass
class Asker:
    """Posts to a judge."""

    server: JudgeServer
    session: aiohttp.ClientSession
    headers: dict[str, str] = field(default_factory=lambda: {"Authorization": "Bearer EMPTY"})

    async def ask(self, messages: Sequence[Message], *, sample: str | None = None, **body: Any) -> Answered:
        """One well-formed request, unless `body` says otherwise."""
        document = {
            "model": "judge-model",
            "messages": messages,
            "temperature": 0.1,
            "max_tokens": 1200,
            **body,
        }
        headers = {} if sample is None else {"X-Client-Request-Id": f"{sample}/any/0/1"}
        return await self.post(orjson.dumps(document), **headers)

    async def post(self, data: bytes, **headers: str) -> Answered:
        told = {"Content-Type": "application/json", **self.headers, **headers}
        async with self.session.post(
            f"{self.server.url}/chat/completions", data=io.BytesIO(data), headers=told
        ) as response:
            return Answered(response.status, response.headers, await response.text())

    @property
    def last(self) -> Any:
        """The last ledger entry."""
        return self.server.ledger.entries[-1]

    @property
    def violations(self) -> list[str]:
        return [violation.rule for entry in self.server.ledger.entries for violation in entry.violations]


@asynccontextmanager
async def judged(**how: Any) -> AsyncIterator[Asker]:
    """A started judge and a client, both ended at the end."""
    server = JudgeServer(**{"samples": SAMPLES, **how})
    await server.start()
    try:
        async with aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=None), trust_env=False
        ) as session:
            yield Asker(server, session)
    finally:
        await server.stop()


@pytest.fixture
def judging() -> Callable[..., AbstractAsyncContextManager[Asker]]:
    return judged


@pytest.fixture
def say() -> Any:
    """The makers of messages, by name."""

    class Say:
        temporal = staticmethod(temporal)
        content = staticmethod(content)
        chat = staticmethod(chat)
        again = staticmethod(again)
        user = staticmethod(user)
        images = staticmethod(images)
        formats = FORMATS
        cyclist, kitchen, phone = CYCLIST, KITCHEN, PHONE

    return Say
