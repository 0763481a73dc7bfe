"""A request to the judge, read: its shape, its kind, its turns (evaluation.md 16.1, 16.2, 16.7)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

Kind = Literal["temporal", "content", "chat"]
Mode = Literal["video_url", "frames", "text"]

REQUIRED_FIELDS: Mapping[Kind, tuple[str, ...]] = {
    "temporal": ("temporal_score", "is_relevant"),
    "content": ("content_score",),
    "chat": ("success_score",),
}
"""What a verdict of each kind must hold (evaluation.md 16.4)."""
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})


class Malformed(ValueError):
    """A request that no OpenAI-compatible endpoint would take; `param` names the part."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


@dataclass(frozen=True, slots=True)
class Turn:
    """One message."""

    role: str
    text: str
    """Its text parts joined by line breaks; "" where its content is null."""
    images: tuple[str, ...]
    """URLs of its image parts."""
    videos: tuple[str, ...]
    """URLs of its video parts."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A well-formed request."""

    body: Mapping[str, Any]
    """Without the messages."""
    turns: tuple[Turn, ...]
    kind: Kind
    mode: Mode
    first_print: int
    """Fingerprint of the messages before the first assistant turn."""
    whole_print: int
    """Fingerprint of all messages."""
    body_bytes: int

    @property
    def opening(self) -> tuple[Turn, ...]:
        """The turns before the first assistant turn."""
        for index, turn in enumerate(self.turns):
            if turn.role == "assistant":
                return self.turns[:index]
        return self.turns

    @property
    def text(self) -> str:
        """What the opening says."""
        return "\n".join(turn.text for turn in self.opening)

    @property
    def images(self) -> tuple[str, ...]:
        """Image URLs of the opening."""
        return tuple(url for turn in self.opening for url in turn.images)

    @property
    def videos(self) -> tuple[str, ...]:
        """Video URLs of the opening."""
        return tuple(url for turn in self.opening for url in turn.videos)

    @property
    def echoes(self) -> tuple[str, ...]:
        """Texts of the assistant turns."""
        return tuple(turn.text for turn in self.turns if turn.role == "assistant")

    @property
    def is_reask(self) -> bool:
        """It shows the judge a reply of its own."""
        return bool(self.echoes)


def read_request(body: bytes) -> Asked:
    """Read a request body.

    Raises Malformed: no JSON object, no model, no usable messages, or `stream`.
    """
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Malformed(f"the body is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise Malformed("the body is no JSON object")
    model, messages = document.get("model"), document.get("messages")
    if not isinstance(model, str) or not model:
        raise Malformed("`model` must be the name of a model", "model")
    if not isinstance(messages, list) or not messages:
        raise Malformed("`messages` must be a list that is not empty", "messages")
    if document.get("stream"):
        raise Malformed("`stream` is not supported here", "stream")
    turns = tuple(_turn(message, f"messages[{index}]") for index, message in enumerate(messages))
    if not any(turn.role == "user" for turn in turns):
        raise Malformed("no message of the user", "messages")
    first = next((i for i, turn in enumerate(turns) if turn.role == "assistant"), len(turns))
    kind = _kind(turns[:first])
    return Asked(
        body={key: value for key, value in document.items() if key != "messages"},
        turns=turns,
        kind=kind,
        mode=_mode(turns[:first]),
        first_print=hash(turns[:first]),
        whole_print=hash(turns),
        body_bytes=len(body),
    )


def _turn(message: Any, where: str) -> Turn:
    if not isinstance(message, dict) or message.get("role") not in _ROLES:
        raise Malformed(f"`{where}` must be an object with a role: {', '.join(sorted(_ROLES))}", where)
    role, content = message["role"], message.get("content")
    if isinstance(content, str):
        return Turn(role, content, (), ())
    if content is None and role == "assistant":
        return Turn(role, "", (), ())
    if not isinstance(content, list):
        raise Malformed(f"`{where}.content` must be text or a list of parts", f"{where}.content")
    texts: list[str] = []
    images: list[str] = []
    videos: list[str] = []
    for index, part in enumerate(content):
        _part(part, f"{where}.content[{index}]", texts, images, videos)
    return Turn(role, "\n".join(texts), tuple(images), tuple(videos))


def _part(part: Any, where: str, texts: list[str], images: list[str], videos: list[str]) -> None:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text" and isinstance(part.get("text"), str):
        texts.append(part["text"])
        return
    if kind in ("image_url", "video_url"):
        holder = part.get(kind)
        url = holder.get("url") if isinstance(holder, dict) else None
        if isinstance(url, str) and url:
            (images if kind == "image_url" else videos).append(url)
            return
    raise Malformed(f"`{where}` must be a text, image_url or video_url part", where)


def _mode(opening: Sequence[Turn]) -> Mode:
    if any(turn.videos for turn in opening):
        return "video_url"
    return "frames" if any(turn.images for turn in opening) else "text"


def _kind(opening: Sequence[Turn]) -> Kind:
    """By the fields that the request asks for, which every client must name; else by its shape alone."""
    text = "\n".join(turn.text for turn in opening)
    named: list[Kind] = [
        kind for kind, fields in REQUIRED_FIELDS.items() if re.search(rf"\b{fields[0]}\b", text)
    ]
    if len(named) == 1:
        return named[0]
    mode = _mode(opening)
    if mode == "video_url":
        return "content"
    if any(turn.role == "system" for turn in opening):
        return "temporal"
    return "content" if mode == "frames" else "chat"
