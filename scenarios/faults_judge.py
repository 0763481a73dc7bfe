"""Faults of the judge: what the LLM that grades can answer instead of a verdict (evaluation.md 16)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from scenarios.errors import Broken, impossible, known
from scenarios.faults_base import FaultBase, Layer

JudgeKind = Literal["temporal", "content", "chat"]
"""What is judged: one sentence of an RTD answer, its whole content, or a PR answer (evaluation.md 16.2)."""
JudgeMode = Literal["video_url", "frames"]
"""How a content request shows the clip (evaluation.md 16.2)."""

REQUIRED_FIELDS: dict[str, tuple[str, ...]] = {
    "temporal": ("temporal_score", "is_relevant"),
    "content": ("content_score",),
    "chat": ("success_score",),
}
"""What a verdict of each kind must hold (evaluation.md 16.4)."""

FOREIGN_KEYS = ("on", "at_s", "for_s", "attempt", "connection")
"""Keys of other faults that mean nothing to the judge."""


class JudgeFault(FaultBase):
    """A fault of the judge: which of its requests it answers in place of, or upon, the model."""

    layer: ClassVar[Layer] = Layer.JUDGE
    takes_trigger: ClassVar[bool] = False
    kind: JudgeKind | None = None
    """Only requests of this kind."""
    mode: JudgeMode | None = None
    """Only content requests that show the clip this way."""
    judgement: Annotated[int, Field(ge=1)] | None = None
    """Only this judgement of its sample and kind, counted from 1 (the third sentence: 3)."""
    request: Annotated[int, Field(ge=1)] | None = None
    """Only this request of a judgement, counted from 1; the re-ask of a first reply is 2."""
    count: Annotated[int, Field(ge=1)] | None = None
    """At most so many requests, the first that fit; None: every one."""

    @model_validator(mode="after")
    def _of_the_judge(self) -> Self:
        allowed = "a fault of the judge takes kind, mode, sample, judgement, request, count"
        broken = [
            Broken((key,), "does not apply to a fault of the judge", allowed)
            for key in FOREIGN_KEYS
            if getattr(self, key) is not None
        ]
        if self.mode is not None and self.kind not in (None, "content"):
            broken.append(Broken(("mode",), f"given with kind {self.kind}", "only content requests have one"))
        if broken:
            raise impossible(broken)
        return self


def _known_field(fault: JudgeFault, field: str | None) -> None:
    names = [n for kind, required in REQUIRED_FIELDS.items() if fault.kind in (None, kind) for n in required]
    if field is not None and field not in names:
        raise impossible([Broken(("field",), f"unknown field {field!r}", known(field, names))])


class Prose(JudgeFault):
    """The judge answers in plain words, without an object and without a score."""

    name: ClassVar[str] = "prose"
    text: Annotated[str, Field(min_length=1)] = "The answer follows the clip closely and names what matters."
    """What it says."""


class Fenced(JudgeFault):
    """The verdict stands in a Markdown fence with a remark before and after it."""

    name: ClassVar[str] = "fenced"


class ThinkBlock(JudgeFault):
    """The judge thinks aloud first, and its thoughts hold a draft of the verdict."""

    name: ClassVar[str] = "think_block"
    verdict: Literal["after", "inside", "in_field"] = "after"
    """after: the verdict follows the block. inside: it stands only in the block, and prose follows. in_field: it
    stands only in `reasoning_content`, and the content is prose."""


class MissingField(JudgeFault):
    """A required field of the verdict is left out."""

    name: ClassVar[str] = "missing_field"
    field: str | None = None
    """Which one; None: the first required field of the kind."""

    @model_validator(mode="after")
    def _field(self) -> Self:
        _known_field(self, self.field)
        return self


class InvalidField(JudgeFault):
    """A required field of the verdict is there with a value that cannot be used."""

    name: ClassVar[str] = "invalid_field"
    field: str | None = None
    """Which one; None: the first required field of the kind."""
    value: Any = 9
    """What stands there: a number out of range, a word, null, a list."""

    @model_validator(mode="after")
    def _field(self) -> Self:
        _known_field(self, self.field)
        return self


class Truncated(JudgeFault):
    """The reply is cut short: `finish_reason` is `length`."""

    name: ClassVar[str] = "truncated"
    keep_characters: Annotated[int, Field(ge=0)] | None = None
    """How much of the reply arrives; None: all but its last character, so that a score can be read in it."""


class Empty(JudgeFault):
    """The reply is complete and says nothing."""

    name: ClassVar[str] = "empty"
    content: Literal["text", "null"] = "text"
    """text: an empty string. null: no string at all."""


class HttpStatus(JudgeFault):
    """The endpoint answers with an HTTP error; the model is not asked."""

    name: ClassVar[str] = "http_status"
    status: Annotated[int, Field(ge=400, le=599)] = 500
    """HTTP status."""
    retry_after_s: Annotated[int, Field(ge=0)] | None = None
    """`Retry-After` in seconds; None: no such header."""
    body: Literal["error", "html"] = "error"
    """error: OpenAI's error object. html: a proxy's page, which quotes a verdict."""
    code: str | None = None
    """`code` of the error object, such as `context_length_exceeded`."""
    message: str = "scripted error"
    """`message` of the error object."""


class Stall(JudgeFault):
    """The request is read and the answer does not come; the socket stays open."""

    name: ClassVar[str] = "stall"
    delay_s: Annotated[float, Field(gt=0)] | None = None
    """Seconds until the answer comes after all; None: never."""


class ChoicesEmpty(JudgeFault):
    """Status 200, and no choice in it."""

    name: ClassVar[str] = "choices_empty"
    choices: Literal["empty", "null"] = "empty"
    """empty: an empty list. null: null beside an error object with code 429, as gateways send it."""


class ToolCall(JudgeFault):
    """The verdict comes as arguments of a tool call that nobody offered; `finish_reason` is `tool_calls`."""

    name: ClassVar[str] = "tool_call"


class Refusal(JudgeFault):
    """The judge refuses: no content, the reason in `refusal`."""

    name: ClassVar[str] = "refusal"
    text: Annotated[str, Field(min_length=1)] = "I can't help with rating this."
    """What it says."""


JUDGE_FAULTS: tuple[type[JudgeFault], ...] = (
    Prose,
    Fenced,
    ThinkBlock,
    MissingField,
    InvalidField,
    Truncated,
    Empty,
    HttpStatus,
    Stall,
    ChoicesEmpty,
    ToolCall,
    Refusal,
)
"""All of them."""
