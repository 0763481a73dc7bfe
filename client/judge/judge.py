"""One judgement: a request, and at most one re-ask (evaluation.md 16.6 to 16.8)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import quote

import orjson
import pybase64

from client.judge.errors import JudgeError, JudgeHttpError, JudgeResponseError, ReplyError
from client.judge.http import HttpAnswer, JudgeHttp, check_status, is_transient, pause_s
from client.judge.parsing import Fields, Kind, read_reply
from client.judge.prompts import reask_text
from client.judge.replies import Reply, reply_of
from client.judge.settings import JudgeSettings
from client.judge.trace import Mode, Trace, TraceLine

log = logging.getLogger(__name__)

MAX_ASKS: Final = 2
"""Requests of one judgement: the first, and one re-ask (R52)."""

Message = Mapping[str, Any]


@dataclass(frozen=True)
class Question:
    """What is asked of the judge."""

    kind: Kind
    messages: tuple[Message, ...]
    """In the form of the chat API; media included."""
    mode: Mode = "text"
    index: int = 0
    """Sentence or event, from 0."""
    late: bool = False
    """Beside the score, with late sentences counted in."""


@dataclass
class Counts:
    """Requests of one sample."""

    requests: int = 0
    reasks: int = 0
    transport_retries: int = 0


@dataclass(frozen=True)
class Exchange:
    """One request that got an answer of the judge, and where it stands."""

    question: Question
    reply: Reply
    status: int
    judge_retry: bool
    transport_retry: bool


@dataclass
class Judge:
    """Asks for one sample. `name` is split/id."""

    name: str
    http: JudgeHttp
    trace: Trace
    counts: Counts = field(default_factory=Counts)

    @property
    def settings(self) -> JudgeSettings:
        return self.http.settings

    async def judge(self, question: Question) -> Fields:
        """The verdict on a question.

        Raises: JudgeError: no score; every request made has its line. OSError: the trace cannot be written.
        """
        messages: Sequence[Message] = question.messages
        asked = 0
        while True:
            asked += 1
            exchange = await self.request(question, messages, judge_retry=asked > 1)
            try:
                fields = read_reply(exchange.reply, question.kind)
            except JudgeError as error:
                self.keep(exchange, str(error))
                if not may_ask_again(error, asked):
                    raise
                told = self.http.masked(str(error))
                log.info("%s: %s %d asked again: %s", self.name, question.kind, question.index, told)
                messages = [*question.messages, *reask_messages(exchange.reply, question.kind, error)]
                continue
            self.keep(exchange, None)
            return fields

    async def request(
        self, question: Question, messages: Sequence[Message], *, judge_retry: bool
    ) -> Exchange:
        """Send a request until the judge has answered it with a reply.

        Tries that failed are traced here, the reply by the caller, who knows whether it can be used.

        Raises JudgeError: no reply.
        """
        body = body_of(self.settings, messages)
        tries = 0
        while True:
            tries += 1
            answer: HttpAnswer | None = None
            self.count(judge_retry, tries)
            try:
                answer = await self.http.exchange(body, self.request_id(question))
                check_status(answer)
                reply = reply_of(answer.body)
                self.http.answered += 1
                return Exchange(question, reply, answer.status, judge_retry, tries > 1)
            except asyncio.CancelledError:
                self.keep_failed(question, JudgeError("cancelled"), answer, judge_retry, tries > 1)
                raise
            except JudgeError as error:
                wait_s = self.next_try_s(error, tries, answer)
                self.keep_failed(question, error, answer, judge_retry, tries > 1)
                if wait_s is None:
                    raise
                log.info("%s: %s; tried again in %.1f s", self.name, self.http.masked(str(error)), wait_s)
            await asyncio.sleep(wait_s)

    def next_try_s(self, error: JudgeError, tries: int, answer: HttpAnswer | None) -> float | None:
        """Seconds before the same request is sent once more; None: it is not."""
        if not is_transient(error):
            return None
        return pause_s(self.settings, tries, answer.retry_after_s if answer else None, self.http.chance)

    def keep(self, exchange: Exchange, error: str | None) -> None:
        """Trace a request that got a reply; `error` says why the reply was not used (R55 to R58)."""
        reply = exchange.reply
        line = TraceLine(
            kind=exchange.question.kind,
            index=exchange.question.index,
            mode=exchange.question.mode,
            judge_retry=exchange.judge_retry,
            transport_retry=exchange.transport_retry,
            status=exchange.status,
            finish_reason=reply.finish_reason,
            raw=reply.text,
            error=error,
            late=exchange.question.late,
        )
        self.trace.keep(replace(line, raw=self._masked(line.raw), error=self._masked(line.error)))

    def keep_failed(
        self,
        question: Question,
        error: JudgeError,
        answer: HttpAnswer | None,
        judge_retry: bool,
        transport_retry: bool,
    ) -> None:
        """Trace a request that got no reply."""
        status = answer.status if answer is not None else None
        line = TraceLine(
            kind=question.kind,
            index=question.index,
            mode=question.mode,
            judge_retry=judge_retry,
            transport_retry=transport_retry,
            status=error.status if isinstance(error, JudgeHttpError) else status,
            finish_reason=error.finish_reason if isinstance(error, JudgeResponseError) else None,
            raw=None,
            error=str(error),
            late=question.late,
        )
        self.trace.keep(replace(line, error=self._masked(line.error)))

    def count(self, judge_retry: bool, tries: int) -> None:
        """Tally a request about to be sent; a repeated one is no re-ask."""
        self.counts.requests += 1
        if tries > 1:
            self.counts.transport_retries += 1
        elif judge_retry:
            self.counts.reasks += 1

    def request_id(self, question: Question) -> str:
        """`split/id/kind/index/n`, percent-encoded: which request of which sample this is."""
        late = "late-" if question.late else ""
        return quote(f"{self.name}/{late}{question.kind}/{question.index}/{self.counts.requests}")

    def _masked(self, text: str | None) -> str | None:
        return None if text is None else self.http.masked(text)


def may_ask_again(error: JudgeError, asked: int) -> bool:
    """Whether a judgement gets another request: its reply came whole without a usable verdict, and it was the first."""
    return isinstance(error, ReplyError) and asked < MAX_ASKS


def reask_messages(reply: Reply, kind: Kind, error: JudgeError) -> list[Message]:
    """What is added for the re-ask: the judge's own reply verbatim, and what was wrong with it (R53, R54)."""
    return [
        {"role": "assistant", "content": reply.echo},
        {"role": "user", "content": reask_text(kind, str(error))},
    ]


def body_of(settings: JudgeSettings, messages: Sequence[Message]) -> bytes:
    """The JSON of a request."""
    body: dict[str, Any] = {
        "model": settings.model,
        "messages": list(messages),
        "temperature": settings.temperature,
        "max_tokens": settings.max_tokens,
    }
    if settings.modalities:
        body["modalities"] = list(settings.modalities)
    return orjson.dumps(body)


def user_message(text: str, parts: Sequence[Mapping[str, Any]] = ()) -> Message:
    """A user turn: text alone, or text and media parts."""
    if not parts:
        return {"role": "user", "content": text}
    return {"role": "user", "content": [{"type": "text", "text": text}, *parts]}


def image_part(jpeg: bytes) -> Mapping[str, Any]:
    """One frame. Base64 needs no escaping, so the text is rendered once and copied."""
    url = orjson.Fragment(b'"data:image/jpeg;base64,' + pybase64.b64encode(jpeg) + b'"')
    return {"type": "image_url", "image_url": {"url": url}}


def video_part(uri: str) -> Mapping[str, Any]:
    """A clip by its `file://` address; the judge must be able to read it."""
    return {"type": "video_url", "video_url": {"url": uri}}
