"""One HTTP reply of the judge: its text, how it ended, whether it is whole (evaluation.md 16.1, 16.6)."""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from client.judge.errors import JudgeHttpError, JudgeResponseError, JudgeUnusableError, ReplyError
from client.sentences import mended

_SHOWN: Final = 200
_CALLS: Final = ("tool_calls", "function_call")
_WHOLE: Final = (None, "stop")
_THINK_MARK: Final = re.compile(r"<(?P<end>/?)(?P<name>think|thinking|thought)>", re.IGNORECASE)
_THINK_OPEN: Final = re.compile(r"<(?:think|thinking|thought)>", re.IGNORECASE)
_THINK_CLOSE: Final = re.compile(r"</(?:think|thinking|thought)>", re.IGNORECASE)


@dataclass(frozen=True)
class Reply:
    """What one choice of a completion holds."""

    text: str | None
    """`message.content` as it came; list content is flattened from its text parts."""
    finish_reason: str | None
    refusal: str | None = None
    tool_calls: str | None = None
    """JSON text of calls nobody asked for; their arguments are not read."""
    has_reasoning: bool = False
    """Reasoning came in a field of its own; it is not read either."""

    @property
    def echo(self) -> str:
        """The judge's own words, for the assistant turn of a re-ask; never empty, which some servers refuse."""
        return self.text or self.tool_calls or "(no text)"


def reply_of(body: bytes) -> Reply:
    """The reply in a body of status 200.

    Raises:
        JudgeUnusableError: no JSON object (an HTML page, say).
        JudgeHttpError: an error object instead of choices; some gateways answer so with status 200.
        JudgeResponseError: no choices, or none that holds a message.
    """
    parsed = _parsed(body)
    if not isinstance(parsed, dict):
        shown = body[:_SHOWN].decode("utf-8", "replace")
        raise JudgeUnusableError(f"the judge's reply is no JSON object: {shown!r}")
    choices = parsed.get("choices")
    if not choices or not isinstance(choices, list):
        raise_error_inside(parsed)
        raise JudgeResponseError(f"no choices in the judge's reply (choices: {repr(choices)[:_SHOWN]})")
    replies = [_of_choice(choice) for choice in choices if isinstance(choice, dict)]
    tagged = [reply for is_text, reply in replies if is_text]
    filled = [reply for _, reply in replies if reply.text]
    for reply in [*tagged, *filled, *(reply for _, reply in replies)]:
        return reply
    raise JudgeResponseError("no choices in the judge's reply that hold a message")


def _parsed(body: bytes) -> Any:
    """What JSON a body holds; None: none. Half a surrogate pair, which only orjson refuses, becomes U+FFFD."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        if rb"\ud" not in body.lower():
            return None
    try:
        return orjson.loads(mended(json.dumps(json.loads(body), ensure_ascii=False)))
    except (ValueError, RecursionError):
        return None


def raise_error_inside(parsed: Mapping[str, Any]) -> None:
    """Raises JudgeHttpError: the body says `error`, with a status or without one (then 500)."""
    error = parsed.get("error")
    if not error:
        return
    code = error.get("code") if isinstance(error, dict) else None
    status = int(code) if isinstance(code, int | str) and re.fullmatch(r"[45]\d\d", str(code)) else 500
    raise JudgeHttpError(status, orjson.dumps(error).decode())


def _of_choice(choice: Mapping[str, Any]) -> tuple[bool, Reply]:
    """(tagged as text among several modalities, the reply)."""
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    finish = choice.get("finish_reason")
    calls = message.get("tool_calls") or message.get("function_call")
    refusal = message.get("refusal")
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    return "text" in (choice.get("modality"), message.get("modality")), Reply(
        text=_flat(message.get("content")),
        finish_reason=finish if finish is None else str(finish),
        refusal=refusal if isinstance(refusal, str) and refusal else None,
        tool_calls=orjson.dumps(calls).decode() if calls else None,
        has_reasoning=bool(reasoning),
    )


def _flat(content: Any) -> str | None:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else part for part in content]
        return "".join(part for part in parts if isinstance(part, str)) or None
    return None


def check_complete(reply: Reply) -> None:
    """Let only a reply pass that ended by itself and says something.

    A verdict that stands only in reasoning, or in a call nobody asked for, leaves a reply that came whole and lacks
    its fields: that one is asked again (design.md 7). What was cut, refused or empty is not.

    Raises: JudgeResponseError: cut short, refused, empty. ReplyError: whole, without a text of its own.
    Source: evaluation.md 16.6.
    """
    reason, raw = reply.finish_reason, reply.text
    if reason == "length":
        raise JudgeResponseError("reply truncated (finish_reason length)", finish_reason=reason, raw=raw)
    if reason in _CALLS or (reply.tool_calls and not raw):
        raise ReplyError("the reply is a tool call, and no tool was offered; the verdict must be the text")
    if reply.refusal is not None and not raw:
        raise JudgeResponseError(f"refusal: {reply.refusal[:_SHOWN]}", finish_reason=reason, raw=raw)
    if reason not in _WHOLE:
        raise JudgeResponseError(f"reply incomplete (finish_reason {reason})", finish_reason=reason, raw=raw)
    if not (raw or "").strip():
        if reply.has_reasoning:
            raise ReplyError("the reply holds reasoning alone; the verdict must be the text")
        raise JudgeResponseError("empty reply", finish_reason=reason, raw=raw)


def without_thinking(text: str) -> str:
    """`text` without think blocks, the unclosed one included, and one whose opening stood in the prompt."""
    text = _without_blocks(text)
    closes = list(_THINK_CLOSE.finditer(text))
    if closes:
        text = text[closes[-1].end() :]
    opened = _THINK_OPEN.search(text)
    return text[: opened.start()] if opened else text


def _without_blocks(text: str) -> str:
    """Whole blocks taken out, each from its opening to the next closing of its name; in one pass, whatever it holds."""
    marks = list(_THINK_MARK.finditer(text))
    closings: dict[str, list[int]] = {}
    for mark in marks:
        if mark["end"]:
            closings.setdefault(mark["name"].lower(), []).append(mark.end())
    kept: list[str] = []
    at = 0
    for mark in marks:
        if mark["end"] or mark.start() < at:
            continue
        ends = closings.get(mark["name"].lower(), [])
        nearest = bisect.bisect(ends, mark.end())
        if nearest < len(ends):
            kept += [text[at : mark.start()], " "]
            at = ends[nearest]
    return "".join([*kept, text[at:]])
