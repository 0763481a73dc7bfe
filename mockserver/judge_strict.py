"""What evaluation.md forbids a client of the judge; noted, and otherwise let pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mockserver.judge_ledger import JudgeRequest, JudgeViolation
from mockserver.judge_reading import REQUIRED_FIELDS, Asked
from mockserver.judge_verdict import plain_standing
from scenarios.errors import shown

MAX_CONTENT_FRAMES = 16
_MAX_TOKENS = {"temporal": (1200, 800), "content": (1200,), "chat": (1200,)}
_JPEG = "data:image/jpeg;base64,"
_JPEG_START = "/9j/"
"""The start of every JPEG file, FF D8 FF, in base64."""


def request_violations(asked: Asked, headers: Mapping[str, str]) -> Iterator[JudgeViolation]:
    """What is wrong with a request by itself (evaluation.md 16.1 to 16.3)."""
    scheme, _, key = headers.get("Authorization", "").partition(" ")
    if scheme != "Bearer" or not key.strip():
        yield JudgeViolation("16.1", "no-authorization", "wanted `Authorization: Bearer KEY`")
    if headers.get("Content-Type", "").partition(";")[0].strip() != "application/json":
        yield JudgeViolation("16.1", "no-json-type", f"Content-Type {headers.get('Content-Type')!r}")
    if asked.body.get("temperature") != 0.1:
        yield JudgeViolation("16.1", "temperature", f"{shown(asked.body.get('temperature'))}; wanted 0.1")
    allowed = _MAX_TOKENS[asked.kind]
    if asked.body.get("max_tokens") not in allowed:
        wanted = " or ".join(map(str, allowed))
        yield JudgeViolation("16.1", "max-tokens", f"{shown(asked.body.get('max_tokens'))}; wanted {wanted}")
    yield from _shape(asked)
    text = asked.text
    for name in REQUIRED_FIELDS[asked.kind]:
        if name not in text:
            yield JudgeViolation("16.3", "format-not-told", f"the prompt does not ask for {name}")


def _shape(asked: Asked) -> Iterator[JudgeViolation]:
    roles = [turn.role for turn in asked.opening]
    wanted = ["system", "user"] if asked.kind == "temporal" else ["user"]
    if roles != wanted:
        found, right = ", ".join(roles), ", ".join(wanted)
        yield JudgeViolation("16.2", "roles", f"{asked.kind}: messages of {found}; wanted {right}")
    if asked.kind == "temporal" and asked.videos:
        yield JudgeViolation("16.2", "media", "a temporal request with a video")
    if asked.kind == "chat" and asked.mode != "text":
        yield JudgeViolation("16.2", "media", "a chat request with media")
    if asked.kind == "content":
        yield from _content_media(asked)
    for url in asked.images:
        if not url.startswith(_JPEG + _JPEG_START):
            yield JudgeViolation("16.2", "image-url", f"{url[:40]!r} is no JPEG in base64")
            return


def _content_media(asked: Asked) -> Iterator[JudgeViolation]:
    if asked.mode == "video_url" and (len(asked.videos) != 1 or asked.images):
        detail = f"{len(asked.videos)} videos and {len(asked.images)} images; wanted one video"
        yield JudgeViolation("16.2", "media", detail)
    if asked.mode == "video_url" and not asked.videos[0].startswith("file:///"):
        yield JudgeViolation(
            "16.2", "video-url", f"{asked.videos[0][:60]!r}; wanted file:// and an absolute path"
        )
    if len(asked.images) > MAX_CONTENT_FRAMES:
        detail = f"{len(asked.images)} frames; at most {MAX_CONTENT_FRAMES}"
        yield JudgeViolation("16.2", "too-many-frames", detail)


def reask_violations(asked: Asked, before: JudgeRequest | None) -> Iterator[JudgeViolation]:
    """What is wrong with a request that shows the judge a reply of its own (evaluation.md 16.7).

    Args:
        before: the earlier request with the same opening.
    """
    if not asked.is_reask:
        return
    if len(asked.echoes) > 1:
        detail = f"{len(asked.echoes)} replies are shown; a judgement is asked again once"
        yield JudgeViolation("16.7", "reask-of-a-reask", detail, "R52")
    first = len(asked.opening)
    roles = [turn.role for turn in asked.turns[first:]]
    if roles[:2] != ["assistant", "user"]:
        yield JudgeViolation("16.7", "reask-roles", f"{', '.join(roles)}; wanted assistant, user", "R53")
    if before is None:
        yield JudgeViolation("16.7", "reask-opening", "the messages before the echo were never sent", "R53")
        return
    if before.content and asked.echoes[0] != before.content:  # an empty one cannot be echoed: some refuse it
        yield JudgeViolation("16.7", "reask-echo", "the echo is not what the judge had said", "R53")
    yield from _reason(asked, before)


def _reason(asked: Asked, before: JudgeRequest) -> Iterator[JudgeViolation]:
    told = asked.turns[-1].text
    standing = before.verdict.standing
    plain = plain_standing(asked.kind, before.content)  # bare fragments may be read as none, depths otherwise
    if standing == "verdict":
        if plain == "verdict":
            yield JudgeViolation("16.7", "reask-of-a-verdict", "the reply before could be scored", "R52")
        return
    if before.finish_reason == "length":
        yield JudgeViolation("16.7", "reask-of-a-truncated-reply", "finish_reason length", "R60")
    if not all(name in told for name in REQUIRED_FIELDS[asked.kind]):
        yield JudgeViolation("16.7", "reask-format", "the fields wanted are not named", "R53")
    if standing == "invalid" and plain != "none" and "invalid" not in told.lower():
        yield JudgeViolation(
            "16.7", "reask-wrong-reason", f"{before.verdict.detail}; told as {told[:200]!r}", "R54"
        )
