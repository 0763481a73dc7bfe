"""The scenario: what is scripted, sent and expected (docs/writing-scenarios.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, SerializeAsAny, model_validator

from scenarios.datasets import DatasetExpect, DatasetSpec, dataset_rules
from scenarios.errors import Broken
from scenarios.faults import FaultBase
from scenarios.forms import (
    STRICT,
    AccuracyKey,
    Anomaly,
    CountMatcher,
    Deadline,
    DiagnosticKey,
    FlagMatcher,
    Floor,
    LogMatcher,
    Matcher,
    MaybeCountMatcher,
    MetadataKey,
    NumberMatcher,
    RunKey,
    SafeId,
    Seconds,
    TextMatcher,
    Verdict,
    hold,
)
from scenarios.judging import JudgeExpect, JudgeSpec
from scenarios.probing import ProbeSpec, probe_rules
from scenarios.rules import (
    SINGLE_SAMPLE_ID,
    clip_rules,
    cross_rules,
    distinct,
    expect_rules,
    reply_rules,
    requirement,
    server_rules,
)

ProfileName = Literal["july", "input-driven", "engine", "below-real-time", "interim", "input-clock"]
Pacing = Literal["realtime", "as-fast-as-possible"]
CloseKind = Literal["clean", "by_peer", "forced", "lost", "none"]
"""How a session's connection ended.

clean: closing handshake with close frames after `session.closed`. by_peer: `session.closed` came, then TCP
ended. forced: the client aborted its transport. lost: the connection ended before `session.closed`. none: no
connection was made.
"""


class Strict(BaseModel):
    """Unknown keys are errors; values do not change after loading."""

    model_config = STRICT


class Clip(Strict):
    """The input of a sample: made from the seed, or taken from a dataset.

    Either `seconds` (with `speech`, `frames`) or `dataset`, `split` and `id`.
    """

    seconds: Annotated[float, Field(gt=0, le=600)] | None = None
    """Length of the question audio, 16 kHz mono."""
    speech: list[float] | None = None
    """[from_s, to_s) with sound; None: sound all through; []: silence only."""
    frames: bool = True
    """One JPEG a second rides the appends."""
    frame_bytes: Annotated[int, Field(ge=400, le=2_000_000)] = 24_000
    """Size of each JPEG file."""
    dataset: str | None = None
    """Name of a dataset folder known to the runner (`--dataset NAME=PATH`, or `mini`)."""
    split: str | None = None
    """Split of the dataset."""
    id: str | None = None
    """Id of the sample in the split, in quotes."""

    @model_validator(mode="after")
    def _made_or_taken(self) -> Self:
        hold(clip_rules(self))
        return self


class SampleSpec(Strict):
    """One sample of a scenario with several."""

    id: SafeId
    split: SafeId = "RTD_Omni"
    clip: Clip
    question_text: Annotated[str, Field(min_length=1)] | None = None
    """The instruction that the judge is shown; None: one that names the sample, or the dataset's."""
    answer1: str = ""
    """Reference answer, or the correction wanted; empty: none."""
    answer2: str = ""
    """Second reference answer; empty: none."""
    reminder1: Annotated[float, Field(ge=0)] | None = None
    """When the event happens that the user wants to be reminded of, in seconds of the clip."""
    reminder2: Annotated[float, Field(ge=0)] | None = None
    """The second such event."""

    @property
    def question(self) -> str:
        """The instruction of a made sample, different for each."""
        return self.question_text or f"Tell what happens in clip {self.split}/{self.id} as it happens."


class Reply(Strict):
    """One scripted reply of the model."""

    starts_at_unit: Annotated[int, Field(ge=0)]
    """The decided unit, counted from 0 over the whole session, on which the model begins to speak."""
    units: Annotated[int, Field(ge=1)]
    """How many decided units the reply lasts; the turn ends in the last."""
    text: str
    """The transcript; split over the units at word boundaries, spaces kept."""
    audio_ms: Annotated[int, Field(ge=0, le=1000)] = 960
    """Audio a unit."""
    ends: bool = True
    """False: the model never ends its turn."""
    status: Literal["completed", "failed", "cancelled", "incomplete"] = "completed"
    """Status of the reply's `response.done`."""

    @model_validator(mode="after")
    def _visible(self) -> Self:
        if not self.text.strip() and self.audio_ms == 0:
            hold([Broken(("text",), "no text and no audio", "a reply says or plays something")])
        return self


class PaceSpec(Strict):
    """How fast the model is. A key that is absent is the profile's."""

    rtf: Annotated[float, Field(ge=0.4, le=2)] | None = None
    """Real-time factor: seconds of model time for one second of input and of the reply made from it; above 1 the server
    falls behind. Takes the place of `decision_ms`."""
    first_token_ms: Annotated[int, Field(ge=0, le=60_000)] | None = None
    """Milliseconds that the first unit of each reply takes beyond its unit's time."""
    jitter_ms: Annotated[int, Field(ge=0, le=5000)] | None = None
    """Milliseconds that each unit takes longer or shorter at most, by the seed."""


class ServerSpec(Strict):
    """The scripted server. Its profile says how it behaves; the keys below `decision_ms` change that."""

    profile: ProfileName = "july"
    """A server as it is met in the wild: its dialect, its silence, its pace."""
    reply: list[Reply] = []
    """What the model says."""
    decision_ms: Annotated[int, Field(ge=0)] = 50
    """Model time a unit takes in milliseconds, where the pace has no `rtf`."""
    pace: PaceSpec | None = None
    """How fast the model is."""
    deltas_per_unit: Annotated[int, Field(ge=1, le=8)] | None = None
    """Audio deltas into which a unit's audio is cut, each with a transcript delta; the first has the text."""
    listens_in_padding: Literal["each", "first", "none"] | None = None
    """Which units appended without speech after a commit are told with a `response.listen` while no reply is open:
    each; the first after a commit or a reply; none."""
    metrics: Annotated[list[Literal["stage", "request"]], AfterValidator(distinct)] | None = None
    """What replies tell of the engine: `stage` metrics (protocol.md 13.1; dialects after July's only to a client that
    asks), and `request` metrics (13.2; only those dialects)."""
    output_rate_hz: Annotated[int, Field(ge=8000, le=48_000)] | None = None
    """Samples a second of reply audio, as each audio delta says; 24000 where it is absent."""
    max_sessions: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Sessions at a time; more are refused with `resource_exhausted`."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        hold(reply_rules(self.reply))
        hold(server_rules(self))
        return self


class EarlierSpec(Strict):
    """A run that came before in the same folder, in which nothing went wrong. A key that is absent was as it is now."""

    model: Annotated[str, Field(min_length=1)] | None = None
    """Model that the client was told to ask for."""
    pace: Pacing | None = None
    """How the client was told to send."""
    judge_model: Annotated[str, Field(min_length=1)] | None = None
    """Model that judged."""
    reply: list[Reply] | None = None
    """What the model said."""
    again: Annotated[list[str], AfterValidator(distinct)] = []
    """Ids of samples whose answers were taken away after it, so that they are run again."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        hold(reply_rules(self.reply or []))
        return self


class GatesSpec(Strict):
    """What the built-in client's run is gated on (evaluation.md 19.1)."""

    guard: Literal["off", "basic", "strict"] = "basic"
    """basic: every request was successful. strict: and all was generated, written, on the media clock and scored."""
    floors: dict[Floor, float] = {}
    """Least means, by name (scenarios.names.FLOORS)."""
    max_retries: Annotated[int, Field(ge=0)] | None = None
    """Most retries; None: any number."""


class ClientSpec(Strict):
    """Settings of the built-in client."""

    deadlines: dict[Deadline, Seconds] = {}
    """Overrides fields of the client's deadlines by name, in seconds (scenarios.names.DEADLINES)."""
    pace: Pacing = "realtime"
    model: Annotated[str, Field(min_length=1)] | None = None
    """Model it is told to ask for; None: the usual one."""
    defer_artifacts: bool = True
    concurrency: Annotated[int, Field(ge=1, le=64)] = 1
    cancel_at_s: Annotated[float, Field(gt=0)] | None = None
    """The harness cancels the whole client run at this time (seconds since its start)."""
    gates: GatesSpec | None = None
    """What the run is gated on; None: nothing."""


class SampleExpect(Strict):
    """What must have become of a sample. Absent keys are not checked."""

    outcome: Literal["published", "failed", "cancelled", "skipped_finished"] | None = None
    attempts: CountMatcher = "unchecked"
    retry_count: CountMatcher = "unchecked"
    response_done: FlagMatcher = "unchecked"
    error: TextMatcher = "unchecked"
    text: TextMatcher = "unchecked"
    """All sentences of the published answer joined by spaces."""
    sentences: CountMatcher = "unchecked"
    """Number of sentences."""
    first_start_s: NumberMatcher = "unchecked"
    """Start of the first sentence, in seconds of the input clock; null: there is none."""
    last_end_s: NumberMatcher = "unchecked"
    """End of the last sentence, in seconds of the input clock; null: there is none."""
    late_text: TextMatcher = "unchecked"
    """Sentences of late replies, which stand in the metadata alone, joined by spaces."""
    anomalies: dict[Anomaly, CountMatcher] = {}
    """How often the metadata count an oddity of the server (scenarios.names.ANOMALIES); one that is absent counts 0."""
    latency_s: NumberMatcher = "unchecked"
    """Latency of the reported attempt."""
    metadata: dict[MetadataKey, Matcher] = {}
    attempt_files: CountMatcher = "unchecked"
    """Number of diagnostics files: one for each failed or retried attempt."""
    first_attempt: dict[DiagnosticKey, Matcher] = {}
    """Keys of the first attempt's diagnostics, such as `row` of evaluation.md 14."""
    last_attempt: dict[DiagnosticKey, Matcher] = {}
    """Keys of the last attempt's diagnostics; there are none when it was published."""
    close: CloseKind | None = None
    """How the last attempt's connection ended."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set:
            hold([Broken((), "nothing is expected", "state at least one thing")])
        if self.outcome == "failed" and self.error == "":
            hold(
                [Broken(("error",), "no error of a sample that failed", "`set`, text, or outcome: published")]
            )
        return self


class WireExpect(Strict):
    """Counts over the whole scenario of what the server read."""

    connections: CountMatcher = "unchecked"
    appends: CountMatcher = "unchecked"
    padded_appends: CountMatcher = "unchecked"
    """Appends after the commit."""
    commits: CountMatcher = "unchecked"
    closes: CountMatcher = "unchecked"
    """`session.close` events."""
    acks_before_commit: CountMatcher = "unchecked"
    """`playback.ack` events before the commit of their connection."""
    acks_after_close: CountMatcher = "unchecked"
    last_acks_ms: Matcher = "unchecked"
    """What the last `playback.ack` of each reply of the last connection said was played, in milliseconds, in the order
    of the replies; null for one that was never acked. The closing ack tells the whole length."""
    aborts: CountMatcher = "unchecked"
    """Connections that the client ended without a close frame: its transport was aborted."""
    client_close_code: MaybeCountMatcher = "unchecked"
    """Code of the close frame on the last connection that got one from the client; null: there was none."""
    last_clip_append_bytes: MaybeCountMatcher = "unchecked"
    """PCM bytes of the last append before the (first) commit."""


class Expect(Strict):
    """What must hold at the end, beside the invariants."""

    sample: SampleExpect | None = None
    """The only sample, or what holds for every sample."""
    samples: dict[str, SampleExpect] = {}
    """By sample id."""
    metadata: dict[MetadataKey, Matcher] = {}
    """Metadata of the only sample (short for sample.metadata)."""
    close: CloseKind | None = None
    """Short for sample.close."""
    finishes_within_s: Seconds | None = None
    """The client returned within this many seconds of loop time."""
    refused: Matcher = "unchecked"
    """Why the client would not run, or judge, in the folder that an earlier run left; null: it did."""
    run: dict[RunKey, Matcher] = {}
    """Keys of the run result."""
    verdicts: dict[Verdict, Literal["passed", "failed"]] = {}
    """What became of each gate, by its name in `run_result.json`: `guard`, `retries`, `floor rtd.mean_content_score`,
    `strict: scored` and so on."""
    wire: WireExpect | None = None
    """What the server read."""
    dataset: DatasetExpect | None = None
    """What the client's loader made of the dataset."""
    judge: JudgeExpect | None = None
    """What the judge read, and which samples have a score."""
    accuracy: dict[AccuracyKey, Matcher] = {}
    """Keys of the accuracy object (evaluation.md 19); a dot leads into an object: `rtd.mean_content_score`."""
    log: list[LogMatcher] = []
    """Each must match at least one log message of the client."""
    warnings: CountMatcher = "unchecked"
    """Number of warnings and errors in the client's own log."""
    deadlines: list[str] | None = None
    """What ran past its deadline, by the client's own names, each once, in the order of the first time."""
    socket_evidence: Literal["write_blocked", "unread"] | None = None
    """What the client's socket must have shown."""

    @model_validator(mode="after")
    def _told_once(self) -> Self:
        hold(expect_rules(self))
        return self


def whole_rules(parts: Mapping[str, Any]) -> Iterable[Broken]:
    """The rules between the sections of a scenario, given by name; the broken ones are left out."""
    yield from cross_rules(parts)
    yield from dataset_rules(parts)
    yield from probe_rules(parts)


class Scenario(Strict):
    """One scenario of the catalogue, loaded and checked."""

    id: str
    """Path below the catalogue without the suffix; with `[case]` when the file has cases."""
    title: str
    """The rule, in one line."""
    about: str
    """The story: what happens, and what a right client does."""
    requires: Annotated[list[Annotated[str, BeforeValidator(requirement)]], AfterValidator(distinct)]
    """Requirements of docs/requirements.yaml that it speaks for."""
    tags: Annotated[list[str], AfterValidator(distinct)] = []
    """Words to select it by."""
    clip: Clip | None = None
    """The input of the only sample."""
    samples: list[SampleSpec] = []
    """The samples, when there are several."""
    server: ServerSpec = ServerSpec()
    """How the server behaves when nothing goes wrong, and what the model says."""
    faults: list[SerializeAsAny[FaultBase]] = []
    """What goes wrong."""
    dataset: DatasetSpec | None = None
    """A dataset that the client loads the samples from; None: it is handed them."""
    judge: JudgeSpec | None = None
    """The judge; without this section nothing is judged."""
    client: ClientSpec = ClientSpec()
    """What the built-in client is told."""
    earlier: EarlierSpec | None = None
    """A run that came before in the same folder; None: the folder is new."""
    probe: ProbeSpec | None = None
    """What is asked of the server instead of running a client; such a scenario asserts nothing."""
    expect: Expect = Expect.model_construct()
    """What must hold at the end; required unless the scenario is a probe."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        hold(whole_rules({name: getattr(self, name) for name in type(self).model_fields}))
        return self

    @property
    def specs(self) -> list[SampleSpec]:
        """The samples; a single clip has the id `SINGLE_SAMPLE_ID`, or the dataset's own split and id."""
        if self.clip is None:
            return list(self.samples)
        if self.clip.dataset is not None:
            return [SampleSpec(id=str(self.clip.id), split=str(self.clip.split), clip=self.clip)]
        return [SampleSpec(id=SINGLE_SAMPLE_ID, clip=self.clip)]
