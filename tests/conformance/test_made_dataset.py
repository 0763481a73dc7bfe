"""`conformance dataset`: a small dataset that the client loads as it loads the real one."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from client.dataset import load_dataset
from client.media import load_reference_voice
from conformance.commands import app


def test_a_made_dataset_loads_with_its_media_and_is_the_same_for_a_seed(tmp_path: Path) -> None:
    for name in ("one", "two"):
        done = CliRunner().invoke(app, ["dataset", str(tmp_path / name)])
        assert done.exit_code == 0, done.output

    loaded = load_dataset(tmp_path / "one")
    assert not loaded.refused
    assert [sample.split for sample in loaded.samples] == sorted(
        ["RTD_Omni", "RTD_OCR", "PR_correction", "PR_event_reminder", "PR_post_event_reminder"]
    )
    reminders = {sample.split: sample.reminders_s for sample in loaded.samples}
    assert reminders["PR_post_event_reminder"] == (1.5, 3.0)
    prepared = loaded.samples[0].prepare()
    assert len(prepared.frames) == 5
    assert len(prepared.pcm) == 2 * round(4.4 * 16_000)
    other = load_dataset(tmp_path / "two").samples[0].prepare()
    assert (other.pcm, other.frames) == (prepared.pcm, prepared.frames)
    assert load_reference_voice(tmp_path / "one" / "reference_voice.wav").data_url


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")

    done = CliRunner().invoke(app, ["dataset", str(tmp_path)])

    assert done.exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_folder_that_cannot_be_filled_is_not_left_half_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> bytes:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("conformance.made_dataset.write_splits", full)
    done = CliRunner().invoke(app, ["dataset", str(tmp_path / "made")])

    assert done.exit_code == 2
    assert done.output == f"conformance: {tmp_path}/made: cannot be written: No space left on device\n"
    assert list(tmp_path.iterdir()) == []
