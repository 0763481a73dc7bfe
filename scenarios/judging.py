"""The judge of a scenario: what it is scripted to say, and what must have become of the judging."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from scenarios.errors import Broken, impossible
from scenarios.faults_judge import REQUIRED_FIELDS, JudgeKind, JudgeMode
from scenarios.forms import (
    STRICT,
    CountMatcher,
    Matcher,
    MaybeCountMatcher,
    NumberMatcher,
    TextMatcher,
    TraceKey,
    hold,
)

_SCORES: Mapping[str, str] = {field: kind for kind, fields in REQUIRED_FIELDS.items() for field in fields}


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise impossible([Broken((), repr(value), "a number; a broken verdict is a fault, or `text`")])
    return value


Score = Annotated[Any, AfterValidator(_number)]


class JudgeForm(BaseModel):
    """Unknown keys are errors; values do not change after loading."""

    model_config = STRICT


class JudgeReply(JudgeForm):
    """One scripted reply of the judge; the first unused one that fits a request answers it."""

    kind: JudgeKind | None = None
    """Only a request of this kind; the fields of a verdict tell it by themselves."""
    mode: JudgeMode | None = None
    """Only a content request that shows the clip this way."""
    sample: str | None = None
    """Only for the sample with this id."""
    request: Annotated[int, Field(ge=1)] | None = None
    """Only this request of a judgement, counted from 1; the re-ask of a first reply is 2."""
    times: Annotated[int, Field(ge=1)] = 1
    """So many requests are answered with it."""
    text: str | None = None
    """The reply, word for word; instead of a verdict's fields."""
    temporal_score: Score | None = None
    """0 to 3."""
    is_relevant: Score | None = None
    """0 or 1."""
    content_score: Score | None = None
    """0.00 to 3.00."""
    success_score: Score | None = None
    """0 or 1."""
    finish_reason: str | None = "stop"
    """As the endpoint gives it; null leaves it null."""

    @property
    def fields(self) -> dict[str, Any]:
        """The verdict's scores that are given, by name."""
        given = {name: getattr(self, name) for name in _SCORES}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def wanted_kind(self) -> str | None:
        """The kind it answers; None: any."""
        return self.kind or next((_SCORES[name] for name in self.fields), None)

    @model_validator(mode="after")
    def _one_reply(self) -> Self:
        hold(self._broken())
        return self

    def _broken(self) -> Iterable[Broken]:
        fields = self.fields
        kinds = {_SCORES[name] for name in fields}
        if self.text is None and not fields:
            yield Broken((), "no reply", f"give text, or the fields of a verdict: {', '.join(_SCORES)}")
        elif self.text is not None and fields:
            yield Broken(("text",), "given with fields of a verdict", "one of the two")
        elif len(kinds) > 1:
            yield Broken((), f"fields of {len(kinds)} kinds", "one verdict: temporal, content or chat")
        elif self.kind is not None and kinds - {self.kind}:
            yield Broken(("kind",), f"{self.kind!r} with fields of another kind", f"{kinds.pop()!r}")
        elif fields:
            kind = kinds.pop()
            for name in REQUIRED_FIELDS[kind]:
                if name not in fields:
                    yield Broken(
                        (name,), "missing", f"a {kind} verdict holds {name}; to leave it out, use text"
                    )
        if self.mode is not None and self.wanted_kind not in (None, "content"):
            yield Broken(("mode",), f"given with kind {self.wanted_kind}", "only content requests have one")


class JudgeSpec(JudgeForm):
    """The scripted judge. With this section, the client evaluates what it has published."""

    mode: Literal["scripted", "heuristic"] | None = None
    """scripted: a request that no reply is left for is an error of the run. heuristic: such a request gets a
    plausible verdict made from its text. None: scripted where replies are given, else heuristic."""
    replies: list[JudgeReply] = Field(default_factory=list)
    """One entry a request."""
    model: Annotated[str, Field(min_length=1)] = "judge-model"
    """Name of the model it serves."""
    video_mode: Literal["video_url", "frame-sample"] = "video_url"
    """How the client is told to show the clip in content requests."""
    timeout_s: Annotated[float, Field(gt=0, le=3600)] = 600.0
    """What the client is told to give one request."""
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    """How many samples the client is told to judge at a time."""
    frame_overflow: Literal["error", "reduce"] = "error"
    """What the client is told to do when the judge says that the frames are too many (evaluation.md 16.2)."""
    answers_after_ms: Annotated[int, Field(ge=0)] = 20
    """Model time of a reply."""

    @property
    def is_scripted(self) -> bool:
        """Running out of replies is an error."""
        return self.mode == "scripted" or (self.mode is None and bool(self.replies))

    @model_validator(mode="after")
    def _script(self) -> Self:
        if self.mode == "scripted" and not self.replies:
            hold([Broken(("replies",), "missing", "a scripted judge has replies; or mode: heuristic")])
        return self


class JudgedExpect(JudgeForm):
    """What must have become of the judging of one sample."""

    scored: bool | None = None
    """Its score file is there."""
    reason: TextMatcher = "unchecked"
    """Why it has none, as `errors` of the accuracy object says."""
    requests: CountMatcher = "unchecked"
    """Requests the judge read for it."""
    reasks: CountMatcher = "unchecked"
    """Requests with an assistant turn."""
    content_score: NumberMatcher = "unchecked"
    avg_temporal_score: NumberMatcher = "unchecked"
    total_score: NumberMatcher = "unchecked"
    """0 or 1, of a PR sample."""
    rows: MaybeCountMatcher = "unchecked"
    """Rows of the score file: sentences of an RTD sample, events of a PR sample."""
    segments: list[str] | None = None
    """What each event of a PR sample was judged on, as the score file says."""
    trace: list[dict[TraceKey, Matcher]] | None = None
    """Lines of the trace in order, each by its keys; as many as there are."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set:
            hold([Broken((), "nothing is expected", "state at least one thing")])
        return self


class JudgeExpect(JudgeForm):
    """What the judge must have seen, and what came of it."""

    requests: CountMatcher = "unchecked"
    """Requests in the whole scenario."""
    reasks: CountMatcher = "unchecked"
    """Requests with an assistant turn."""
    transport_retries: CountMatcher = "unchecked"
    """Requests that repeat one which was not answered with a reply."""
    scored: CountMatcher = "unchecked"
    """Score files."""
    spread_s: NumberMatcher = "unchecked"
    """Loop time from the first request to the last, in seconds."""
    sample: JudgedExpect | None = None
    """The only sample, or what holds for every sample."""
    samples: dict[str, JudgedExpect] = Field(default_factory=dict)
    """By sample id."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set:
            hold([Broken((), "nothing is expected", "state at least one thing")])
        return self
