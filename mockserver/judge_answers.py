"""What the judge answers: a reply in OpenAI's envelope, an HTTP error, or nothing for a while."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

from mockserver.judge_heuristic import plausible_reply
from mockserver.judge_ledger import JudgeRequest
from mockserver.judge_reading import Asked

CREATED = 1_790_000_000
"""`created` of the first reply; each request is a second later, so that the same run gives the same bytes."""
CHARACTERS_A_TOKEN = 4
TOKENS_AN_IMAGE = 256


@dataclass
class Answer:
    """A completion. Faults change it before it goes out."""

    content: str | None
    finish_reason: str | None = "stop"
    extra: dict[str, Any] = field(default_factory=dict)
    """More keys of the message: tool_calls, refusal, reasoning_content."""
    choices: Sequence[Any] | None = None
    """In place of the one choice, where `odd_choices`."""
    odd_choices: bool = False
    error: Mapping[str, Any] | None = None
    """`error` beside the choices, as gateways send it with status 200."""


@dataclass(frozen=True)
class HttpError:
    """An answer of the endpoint in front of the model."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Hold:
    """The answer waits."""

    delay_s: float | None
    """None: for ever."""


class ReplySpec(Protocol):
    """What the script needs of `scenarios.judging.JudgeReply`."""

    @property
    def wanted_kind(self) -> str | None: ...
    @property
    def mode(self) -> str | None: ...
    @property
    def sample(self) -> str | None: ...
    @property
    def request(self) -> int | None: ...
    @property
    def times(self) -> int: ...
    @property
    def text(self) -> str | None: ...
    @property
    def fields(self) -> Mapping[str, Any]: ...
    @property
    def finish_reason(self) -> str | None: ...


class Exhausted(Exception):
    """The script has no reply left for a request; the message says for which."""


class JudgeScript:
    """Scripted replies, each used up by the requests that it answers.

    Args:
        replies: the first one that fits and is not used up answers.
        fall_back: whether a request that none is left for gets a plausible verdict, or is an error.
        again: whether such a request gets the last one that fits it once more, before anything plausible: a script
            counts the sentences of the scripted answer, and another answer may have more.
    """

    def __init__(self, replies: Sequence[ReplySpec], *, fall_back: bool, again: bool = False) -> None:
        self._replies = list(replies)
        self._left = [reply.times for reply in replies]
        self._fall_back = fall_back
        self._again = again

    @property
    def left(self) -> int:
        """Replies not used."""
        return sum(self._left)

    def answer(self, entry: JudgeRequest, asked: Asked) -> Answer:
        """The reply to a request; `entry.source` tells where it is from.

        Raises Exhausted: no reply is left for it.
        """
        for index, reply in enumerate(self._replies):
            if self._left[index] and _fits(reply, entry):
                self._left[index] -= 1
                entry.source = "script"
                return Answer(_text(reply, asked), reply.finish_reason)
        fitting = [reply for reply in self._replies if _fits(reply, entry)] if self._again else []
        if fitting:
            entry.source = "again"
            return Answer(_text(fitting[-1], asked), fitting[-1].finish_reason)
        if self._fall_back:
            entry.source = "heuristic"
            return Answer(plausible_reply(asked))
        entry.source = "exhausted"
        whose = "/".join(entry.sample) if entry.sample else "an unknown sample"
        raise Exhausted(
            f"the judge's script has no reply for request {entry.number}: {entry.kind}, {whose}, "
            f"request {entry.request} of its judgement; {self.left} reply(s) left for others"
        )


def _fits(reply: ReplySpec, entry: JudgeRequest) -> bool:
    return (
        reply.wanted_kind in (None, entry.kind)
        and reply.mode in (None, entry.mode)
        and (reply.sample is None or (entry.sample is not None and reply.sample == entry.sample[1]))
        and reply.request in (None, entry.request)
    )


def _text(reply: ReplySpec, asked: Asked) -> str:
    if reply.text is not None:
        return reply.text
    reasoning = {"temporal": "temporal_reasoning", "content": "content_reasoning", "chat": "reasoning"}
    return orjson.dumps({**reply.fields, reasoning[asked.kind]: "scripted"}).decode()


def completion(entry: JudgeRequest, asked: Asked, answer: Answer) -> bytes:
    """The body of a completion (evaluation.md 16.1)."""
    prompt_tokens = len(asked.text) // CHARACTERS_A_TOKEN + TOKENS_AN_IMAGE * len(asked.images)
    completion_tokens = len(answer.content or "") // CHARACTERS_A_TOKEN
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": answer.content, **answer.extra},
        "finish_reason": answer.finish_reason,
    }
    body: dict[str, Any] = {
        "id": f"chatcmpl-{entry.number:06d}",
        "object": "chat.completion",
        "created": CREATED + entry.number,
        "model": asked.body["model"],
        "choices": answer.choices if answer.odd_choices else [choice],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }
    if answer.error is not None:
        body["error"] = answer.error
    return orjson.dumps(body)


def error_body(
    message: str, kind: str = "invalid_request_error", *, param: str | None = None, code: str | None = None
) -> bytes:
    """An error in OpenAI's form."""
    return orjson.dumps({"error": {"message": message, "type": kind, "param": param, "code": code}})
