"""The scenario: what is scripted, sent and expected (docs/writing-scenarios.md)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from scenarios.faults import FaultBase

ProfileName = Literal["july", "input-driven"]
CloseKind = Literal["clean", "by_peer", "forced", "lost", "none"]
"""How a session's connection ended.

clean: closing handshake with close frames after `session.closed`. by_peer: `session.closed` came, then the TCP end.
forced: the client aborted its transport. lost: the connection ended before `session.closed`. none: no connection was made.
"""


class Strict(BaseModel):
    """Unknown keys are errors; values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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
    id: str | None = None


class SampleSpec(Strict):
    """One sample of a scenario with several."""

    id: str
    split: str = "RTD_Omni"
    clip: Clip


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


class ServerSpec(Strict):
    """The scripted server."""

    profile: ProfileName = "july"
    reply: list[Reply] = []
    decision_ms: Annotated[int, Field(ge=0)] = 50
    """Model time a unit takes."""


class ClientSpec(Strict):
    """Settings of the built-in client. `deadlines` overrides fields of `client.deadlines.Deadlines` by name, in seconds."""

    deadlines: dict[str, float] = {}
    pace: Literal["realtime", "as-fast-as-possible"] = "realtime"
    defer_artifacts: bool = True
    concurrency: Annotated[int, Field(ge=1, le=64)] = 1
    cancel_at_s: Annotated[float, Field(gt=0)] | None = None
    """The harness cancels the whole client run at this time (seconds since its start)."""


Matcher = Any
"""A literal; `set` (a non-empty string, list or a true value); null; or one mapping of
`contains`, `not_contains`, `at_least`, `at_most`, `one_of`."""


class SampleExpect(Strict):
    """What must have become of a sample. Absent keys are not checked."""

    outcome: Literal["published", "failed", "cancelled"] | None = None
    attempts: Matcher = "unchecked"
    retry_count: Matcher = "unchecked"
    response_done: Matcher = "unchecked"
    error: Matcher = "unchecked"
    text: Matcher = "unchecked"
    """All sentences of the published answer joined by spaces."""
    sentences: Matcher = "unchecked"
    """Number of sentences."""
    latency_s: Matcher = "unchecked"
    """Latency of the reported attempt."""
    metadata: dict[str, Matcher] = {}
    close: CloseKind | None = None
    """How the last attempt's connection ended."""


class WireExpect(Strict):
    """Counts over the whole scenario of what the server read."""

    connections: Matcher = "unchecked"
    appends: Matcher = "unchecked"
    padded_appends: Matcher = "unchecked"
    """Appends after the commit."""
    commits: Matcher = "unchecked"
    closes: Matcher = "unchecked"
    """`session.close` events."""
    acks_after_close: Matcher = "unchecked"
    last_clip_append_bytes: Matcher = "unchecked"
    """PCM bytes of the last append before the (first) commit."""


class Expect(Strict):
    """What must hold at the end, beside the invariants."""

    sample: SampleExpect | None = None
    """The only sample, or what holds for every sample."""
    samples: dict[str, SampleExpect] = {}
    """By sample id."""
    metadata: dict[str, Matcher] = {}
    """Metadata of the only sample (short for sample.metadata)."""
    close: CloseKind | None = None
    """Short for sample.close."""
    finishes_within_s: Annotated[float, Field(gt=0)] | None = None
    """The client returned within this many seconds of loop time."""
    run: dict[str, Matcher] = {}
    """Keys of the run result."""
    wire: WireExpect | None = None
    log: list[Matcher] = []
    """Each must match at least one log message of the client."""
    socket_evidence: Literal["write_blocked", "unread"] | None = None


class Scenario(Strict):
    """One scenario of the catalogue, loaded and checked."""

    id: str
    """Path below the catalogue without the suffix."""
    title: str
    about: str
    requires: list[str]
    tags: list[str] = []
    clip: Clip | None = None
    samples: list[SampleSpec] = []
    server: ServerSpec = ServerSpec()
    faults: list[FaultBase] = []
    client: ClientSpec = ClientSpec()
    expect: Expect
