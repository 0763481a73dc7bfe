"""The dataset of a scenario: its samples written down in a form, with further rows, for the client's own loader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, model_validator

from scenarios.errors import Broken
from scenarios.forms import STRICT, TextMatcher, hold

WAV = "{wav}"
"""Stands in a row for a WAV file of a second: its bytes, or its path in a manifest."""


class DatasetForm(BaseModel):
    """Unknown keys are errors; values do not change after loading."""

    model_config = STRICT


class DatasetSpec(DatasetForm):
    """How the client gets its samples: from a dataset, through its loader (evaluation.md 1)."""

    form: Literal["jsonl", "json", "parquet", "folder"] = "jsonl"
    """A manifest with WAV files beside it, one parquet file, or a folder with a parquet file a split."""
    rows: list[dict[str, Any]] = Field(default_factory=list)
    """Further rows, which are no samples: columns as they stand in the file. A row without `question_audio` and `video`
    gets null for them; `{wav}` becomes a WAV file."""
    first: bool = False
    """They stand before the samples instead of behind them."""


class RefusedExpect(DatasetForm):
    """A row that cannot be used."""

    id: str | None
    """As the loader tells it; null: it has none."""
    reason: TextMatcher
    """Why it cannot be used."""


class DatasetExpect(DatasetForm):
    """What the loader must have made of the dataset. Unless an error is expected, every sample must have loaded."""

    rows: Annotated[int, Field(ge=1)] | None = None
    """Rows read."""
    refused: list[RefusedExpect] = Field(default_factory=list)
    """Rows told as unusable, in their order; no others."""
    error: TextMatcher = "unchecked"
    """The whole dataset is refused with this message, and nothing is run."""

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        hold(self._broken())
        return self

    def _broken(self) -> Iterable[Broken]:
        if self.error != "unchecked":
            for key in ("rows", "refused"):
                if key in self.model_fields_set:
                    yield Broken((key,), "given with error", "a dataset that is refused has no rows to count")
        elif not self.model_fields_set:
            yield Broken((), "nothing is expected", "state at least one thing")


def dataset_rules(parts: Mapping[str, Any]) -> Iterable[Broken]:
    """The rules between a dataset and the other sections of a scenario."""
    spec, expect = parts.get("dataset"), parts.get("expect")
    if spec is None:
        if "dataset" in parts and expect is not None and expect.dataset is not None:
            yield Broken(("expect", "dataset"), "expected without a dataset", "give a `dataset` section")
        return
    if expect is not None and expect.dataset is None:
        yield Broken(("expect",), "nothing is expected of the dataset", "say in `dataset` what loads")
    if parts.get("clip") is not None:
        yield Broken(("clip",), "given with a dataset", "name what the rows are of: `samples`")
    for index, sample in enumerate(parts.get("samples", [])):
        clip = sample.clip
        if clip.dataset is not None:
            yield Broken(
                ("samples", index, "clip", "dataset"), "a clip that is in a dataset already", "seconds"
            )
        elif clip.frames:
            allowed = "frames: false; no video is made for a dataset"
            yield Broken(("samples", index, "clip", "frames"), "frames of a clip in a dataset", allowed)
    if any(fault.name == "kill_client" for fault in parts.get("faults", [])):
        yield Broken(("dataset",), "given with the fault kill_client", "one of the two")
