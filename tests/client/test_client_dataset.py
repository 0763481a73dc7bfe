"""Which samples a dataset gives, and which rows it refuses (evaluation.md 1, 12.4)."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from client.dataset import Dataset, DatasetError, load_dataset
from client.media import MediaError

pa = pytest.importorskip("pyarrow", reason="the extra `dataset` is not installed")
import pyarrow.parquet as pq  # noqa: E402


def wav(seconds: float = 0.1) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.zeros(round(16_000 * seconds), np.int16), 16_000, format="WAV")
    return file.getvalue()


WAV = wav()


def row(sample_id: str, **more: Any) -> dict[str, Any]:
    audio = {"bytes": WAV, "path": f"{sample_id}.wav"}
    return {"id": sample_id, "question_audio": audio, "video": None, **more}


def write_parquet(path: Path, rows: list[dict[str, Any]], **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path, **options)
    return path


def hub_folder(root: Path, splits: dict[str, list[str]]) -> Path:
    for split, ids in splits.items():
        write_parquet(root / "data" / f"{split}-00000-of-00001.parquet", [row(i) for i in ids])
    return root


def names(dataset: Dataset) -> list[str]:
    return [f"{sample.split}/{sample.id}" for sample in dataset.samples]


def reasons(dataset: Dataset) -> dict[str | None, str]:
    return {refused.id: refused.reason for refused in dataset.refused}


def test_a_hub_folder_gives_each_file_its_split(tmp_path: Path) -> None:
    folder = hub_folder(tmp_path, {"RTD_OCR": ["560", "561"], "PR_correction": ["0"]})

    dataset = load_dataset(folder)

    assert names(dataset) == ["PR_correction/0", "RTD_OCR/560", "RTD_OCR/561"]
    assert [(s.family, s.task) for s in dataset.samples[:2]] == [("pr", "correction"), ("rtd", None)]
    assert (dataset.rows, dataset.splits, dataset.refused) == (3, ("PR_correction", "RTD_OCR"), ())


def test_shards_of_a_split_come_in_order_and_a_missing_one_is_an_error(tmp_path: Path) -> None:
    for number in (1, 0, 2):
        write_parquet(tmp_path / "data" / f"RTD_OCR-0000{number}-of-00003.parquet", [row(str(number))])

    assert names(load_dataset(tmp_path)) == ["RTD_OCR/0", "RTD_OCR/1", "RTD_OCR/2"]
    (tmp_path / "data" / "RTD_OCR-00001-of-00003.parquet").unlink()
    with pytest.raises(DatasetError, match=r"RTD_OCR: 2 of 3 shards; missing \[1\]"):
        load_dataset(tmp_path)


def test_media_is_read_from_parquet_only_when_asked_for(tmp_path: Path) -> None:
    rows = [row(str(n), video={"bytes": bytes([n]) * 10, "path": f"{n}.webm"}) for n in range(5)]
    file = write_parquet(tmp_path / "RTD_OCR-00000-of-00001.parquet", rows, row_group_size=2)

    samples = load_dataset(file).samples

    for number in (0, 4, 3, 1, 1, 2):
        video, audio = samples[number].video, samples[number].question_audio
        assert video is not None
        assert audio is not None
        assert (video.read(), video.suffix) == (bytes([number]) * 10, ".webm")
        assert audio.read() == WAV


def test_a_parquet_file_that_goes_away_fails_the_sample_not_the_program(tmp_path: Path) -> None:
    file = write_parquet(
        tmp_path / "RTD_OCR-00000-of-00001.parquet", [row("1"), row("2")], compression="none"
    )
    audio = load_dataset(file).samples[1].question_audio
    assert audio is not None
    file.write_bytes(b"\0" * file.stat().st_size)

    with pytest.raises(MediaError, match=str(file)):
        audio.read()


@pytest.mark.parametrize("kind", ["binary", "string"])
def test_parquet_media_may_be_plain_bytes_or_a_path(tmp_path: Path, kind: str) -> None:
    (tmp_path / "q.wav").write_bytes(WAV)
    value: Any = WAV if kind == "binary" else "q.wav"

    file = write_parquet(
        tmp_path / "RTD_OCR-00000-of-00001.parquet", [{"id": "1", "audio": value, "video": None}]
    )

    assert len(load_dataset(file).samples[0].prepare().pcm) == 3200


def test_parquet_rows_without_bytes_use_their_path_or_are_refused(tmp_path: Path) -> None:
    (tmp_path / "q.wav").write_bytes(WAV)
    media = [
        {"bytes": WAV, "path": None},
        {"bytes": None, "path": "q.wav"},
        {"bytes": None, "path": None},
        None,
    ]
    rows = [{"id": str(n), "question_audio": value, "video": None} for n, value in enumerate(media)]

    dataset = load_dataset(write_parquet(tmp_path / "RTD_OCR-00000-of-00001.parquet", rows))

    assert [len(sample.prepare().pcm) for sample in dataset.samples] == [3200, 3200]
    assert {i: "no media" in reason for i, reason in reasons(dataset).items()} == {"2": True, "3": True}


def test_a_lone_parquet_file_is_train_unless_its_rows_or_its_name_say_more(tmp_path: Path) -> None:
    own = write_parquet(
        tmp_path / "all.parquet", [row("1", split="RTD_OCR", task=None), row("2", task="correction")]
    )
    none = write_parquet(tmp_path / "other.parquet", [row("1")])

    assert names(load_dataset(own)) == ["RTD_OCR/1", "PR_correction/2"]
    assert names(load_dataset(own, split="RTD_OCR")) == ["RTD_OCR/1"]
    refused = load_dataset(none).refused
    assert "split 'train'" in refused[0].reason
    with pytest.raises(DatasetError, match="no row of split 'RTD_OCR'; splits seen: train"):
        load_dataset(none, split="RTD_OCR")


def manifest(path: Path, rows: list[dict[str, Any]]) -> Path:
    (path.parent / "q.wav").write_bytes(WAV)
    listed = [{"question_audio": "q.wav", "video": None, **r} for r in rows]
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in listed), encoding="utf-8")
    else:
        path.write_text(json.dumps(listed if path.stem == "list" else {path.stem: listed}), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["m.jsonl", "list.json", "data.json", "samples.json"])
def test_manifests_take_media_beside_them(tmp_path: Path, name: str) -> None:
    file = manifest(tmp_path / name, [{"id": 7, "split": "RTD_OCR", "question": "What?"}])

    sample = load_dataset(file).samples[0]

    assert (sample.id, sample.question_text, len(sample.prepare().pcm)) == ("7", "What?", 3200)


def test_a_manifest_line_ends_at_a_line_feed_alone(tmp_path: Path) -> None:
    text = "one\u2028two\u0085three\x1cfour"
    file = manifest(tmp_path / "m.jsonl", [{"id": "1", "split": "RTD_OCR", "question": text}, {"id": "2"}])

    dataset = load_dataset(file)

    assert (dataset.rows, dataset.samples[0].question_text) == (2, text)


def test_relative_paths_start_at_the_media_root(tmp_path: Path) -> None:
    (tmp_path / "media").mkdir()
    file = manifest(tmp_path / "m.jsonl", [{"id": "1", "split": "RTD_OCR", "question_audio": "v.wav"}])
    (tmp_path / "media" / "v.wav").write_bytes(wav(0.2))

    audio = load_dataset(file, media_root=tmp_path / "media").samples[0].question_audio

    assert audio is not None
    assert audio.read() == tmp_path / "media" / "v.wav"


def test_a_path_of_a_manifest_is_used_as_it_stands_also_outside_the_folder(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "1.wav").write_bytes(WAV)
    rows = [
        {"id": "1", "split": "RTD_OCR", "question_audio": "../elsewhere/1.wav", "video": None},
        {
            "id": "2",
            "split": "RTD_OCR",
            "question_audio": str(tmp_path / "elsewhere" / "1.wav"),
            "video": None,
        },
        {"id": "3", "split": "RTD_OCR", "question_audio": "../elsewhere/no.wav", "video": None},
    ]
    (tmp_path / "set").mkdir()
    file = tmp_path / "set" / "rows.json"
    file.write_text(json.dumps(rows))
    before = sorted(tmp_path.rglob("*"))
    first, second, third = load_dataset(file).samples

    assert first.prepare().pcm == second.prepare().pcm != b""
    with pytest.raises(MediaError, match=r"no\.wav"):
        third.prepare()
    assert sorted(tmp_path.rglob("*")) == before


def test_null_media_is_told_from_media_that_is_a_path(tmp_path: Path) -> None:
    path = str(written(tmp_path / "e.wav", WAV))
    media: list[Any] = [
        {"bytes": WAV, "path": None},
        {"bytes": None, "path": path},
        {"array": None, "path": path, "sampling_rate": None},
        path,
        WAV,
        {"bytes": None, "path": None},
        None,
    ]

    dataset = load_dataset(
        [{"id": str(n), "split": "RTD_OCR", "question_audio": value} for n, value in enumerate(media)]
    )

    assert [len(sample.prepare().pcm) for sample in dataset.samples] == [3200] * 5
    assert {i: "no media" in found for i, found in reasons(dataset).items()} == {"5": True, "6": True}


def test_rows_without_split_take_the_requested_one_and_others_are_filtered() -> None:
    rows = [
        row("1"),
        row("2", split="PR_correction"),
        row("3", task="event-reminder"),
        row("4", family="rtd"),
    ]

    assert names(load_dataset(rows, split="RTD_OCR")) == ["RTD_OCR/1", "RTD_OCR/4"]
    assert names(load_dataset(rows, split="PR_event_reminder")) == [
        "PR_event_reminder/1",
        "PR_event_reminder/3",
    ]


ALIASED: list[tuple[str, Callable[[Any], Any], Any]] = [
    ("subset", lambda s: s.split, "PR_x"),
    ("config", lambda s: s.split, "PR_x"),
    ("question", lambda s: s.question_text, "t"),
    ("instruction", lambda s: s.question_text, "t"),
    ("answer", lambda s: s.answer1, "t"),
    ("ground_answer", lambda s: s.answer1, "t"),
    ("duration", lambda s: s.video_duration_s, 4.5),
    ("reminder_1", lambda s: s.reminders_s, "9.0"),
]


@pytest.mark.parametrize(("column", "read", "value"), ALIASED, ids=[a[0] for a in ALIASED])
def test_fields_are_found_under_their_other_names(
    column: str, read: Callable[[Any], Any], value: Any
) -> None:
    rows = [{"split": "PR_y", **row("1"), column: value}]
    if column in ("subset", "config"):
        rows[0]["split"] = None

    assert read(load_dataset(rows).samples[0]) in (value, (9.0,))


@pytest.mark.parametrize("column", ["sample_id", "uid", "name"])
def test_the_id_is_found_under_its_other_names(column: str) -> None:
    rows = [{column: "x1", "id": None, "split": "RTD_OCR", "audio": WAV}]

    assert names(load_dataset(rows)) == ["RTD_OCR/x1"]


TASKS = [
    ({"split": "PR_correction"}, "pr", "correction"),
    ({"split": "PR_event_reminder"}, "pr", "proactive_reminder"),
    ({"split": "pr_post_event_mine"}, "pr", "post_event_reminder"),
    ({"split": "PR_mine"}, "pr", "proactive_reminder"),
    ({"split": "PR_mine", "type": "pr correction"}, "pr", "correction"),
    ({"task_type": "Post-Event Reminder"}, "pr", "post_event_reminder"),
    ({"split": "rtd_mine"}, "rtd", None),
    ({"split": "mine", "family": "RTD"}, "rtd", None),
    ({"split": "mine", "task": "proactive_reminder"}, "pr", "proactive_reminder"),
    ({"split": "RTD_OCR", "type": "Product video"}, "rtd", None),
]


@pytest.mark.parametrize(("columns", "family", "task"), TASKS)
def test_family_and_task_are_derived(columns: dict[str, str], family: str, task: str | None) -> None:
    sample = load_dataset([row("1", **columns)]).samples[0]

    assert (sample.family, sample.task) == (family, task)


UNCLEAR = [
    ({}, "no split, task None"),
    ({"split": "mine"}, "split 'mine'"),
    ({"split": "mine", "family": "pr"}, "no task: split 'mine'"),
    ({"split": "RTD_OCR", "family": "both"}, "family: found 'both'; allowed: rtd, pr"),
    ({"type": "Project"}, "no split, task 'Project'"),
]


@pytest.mark.parametrize(("columns", "found"), UNCLEAR)
def test_a_row_that_nothing_identifies_is_refused_and_never_defaults(
    columns: dict[str, str], found: str
) -> None:
    dataset = load_dataset([row("9", **columns), row("1", split="RTD_OCR")])

    assert found in reasons(dataset)["9"]
    assert names(dataset) == ["RTD_OCR/1"]


BAD_ROWS = [
    ({"id": None}, None, "no id"),
    ({"id": 1.5}, None, "id: found 1.5"),
    ({"id": True}, None, "id: found True"),
    ({"question_audio": {"array": [0.0], "sampling_rate": 1}}, "9", "no media"),
    ({"question_audio": 5}, "9", "question_audio: found int"),
    ({"video_duration": "long"}, "9", "video_duration: found 'long'"),
    ({"video_duration": 0}, "9", "video_duration: found 0"),
    ({"video_duration": 1e300}, "9", "video_duration: found 1e+300"),
    ({"video_duration": float("nan")}, "9", "video_duration: found nan"),
    ({"question": ["a"]}, "9", "question_text: found ['a']"),
]


@pytest.mark.parametrize(("columns", "sample_id", "found"), BAD_ROWS)
def test_a_row_that_cannot_be_used_is_listed_with_its_reason(
    columns: dict[str, Any], sample_id: str | None, found: str
) -> None:
    rows = [{**row("9", split="RTD_OCR"), **columns}, row("1", split="RTD_OCR")]

    dataset = load_dataset(rows)

    assert [(r.id, r.where, found in r.reason) for r in dataset.refused] == [(sample_id, "row 0", True)]
    assert (names(dataset), dataset.rows) == (["RTD_OCR/1"], 2)


def test_a_row_behind_the_limit_was_not_asked_for_and_is_not_refused() -> None:
    rows = [row("1", split="RTD_OCR"), row("2", split="RTD_OCR")]
    rows = [{"id": "bad-1", "split": "RTD_OCR"}, rows[0], {"id": "bad-2", "split": "RTD_OCR"}, rows[1]]

    assert [r.id for r in load_dataset(rows, limit=1).refused] == ["bad-1"]
    assert [r.id for r in load_dataset(rows).refused] == ["bad-1", "bad-2"]


def test_filters_work_in_order_split_family_ids_exclude_limit() -> None:
    rows = [
        row(str(n), split=s)
        for n, s in enumerate(["RTD_OCR", "PR_correction", "RTD_OCR", "RTD_OCR", "RTD_x"])
    ]

    assert names(load_dataset(rows, family="rtd", limit=2)) == ["RTD_OCR/0", "RTD_OCR/2"]
    assert names(load_dataset(rows, split="all", ids=["RTD_OCR/2", "1", "4"], family="rtd")) == [
        "RTD_OCR/2",
        "RTD_x/4",
    ]
    assert names(load_dataset(rows, split="RTD_OCR", exclude_ids=["0", "PR_correction/2"], limit=1)) == [
        "RTD_OCR/2"
    ]
    assert names(load_dataset(rows, split="RTD_OCR", ids=["1"])) == []


def test_refused_rows_pass_through_the_filters_too() -> None:
    rows = [row("1", split="RTD_OCR"), {"id": "2", "split": "RTD_OCR"}, {"id": "3", "split": "PR_correction"}]

    assert list(reasons(load_dataset(rows))) == ["2", "3"]
    assert list(reasons(load_dataset(rows, split="RTD_OCR"))) == ["2"]
    assert list(reasons(load_dataset(rows, exclude_ids=["2"]))) == ["3"]


def test_a_clip_without_question_is_kept_with_a_note() -> None:
    dataset = load_dataset([{"id": "1", "split": "RTD_OCR", "video": b"clip"}])

    assert (names(dataset), dataset.notes[0]) == (
        ["RTD_OCR/1"],
        "question_audio is null in 1 row(s) (RTD_OCR/1): silence of the clip's length is sent instead",
    )


def test_a_reminder_that_is_no_time_is_noted() -> None:
    dataset = load_dataset([row("1", split="PR_x", reminder1="soon", reminder2={"start": "4.5"})])

    assert (dataset.samples[0].reminders_s, "reminder1: found 'soon'" in dataset.notes[-1]) == ((4.5,), True)


def test_identity_can_be_read_without_media() -> None:
    assert names(load_dataset([{"id": "1", "split": "RTD_OCR"}], require_media=False)) == ["RTD_OCR/1"]


def test_two_samples_of_one_name_are_refused_with_both_places() -> None:
    rows = [row("1", split="RTD_OCR"), row("1", split="RTD_x"), row("1", split="RTD_OCR")]

    with pytest.raises(DatasetError, match="row 2: RTD_OCR/1 is there twice, also at row 0"):
        load_dataset(rows)


@pytest.mark.parametrize(("one", "other"), [("Cafe", "cafe"), ("caf\u00e9", "cafe\u0301")])
def test_names_that_some_file_systems_take_for_one_are_refused_with_both_places(one: str, other: str) -> None:
    rows = [row(one, split="RTD_OCR"), row("2", split="RTD_OCR"), row(other, split="RTD_OCR")]

    with pytest.raises(
        DatasetError, match=f"^row 2: RTD_OCR/{other} and RTD_OCR/{one} at row 0 name the same"
    ):
        load_dataset(rows)


@pytest.mark.parametrize("name", [".", "..", "a/b", "..\\x", "a\0b", "line\nbreak", "x" * 300])
def test_names_that_are_no_file_names_are_refused(name: str) -> None:
    for columns in ({"id": name, "split": "RTD_OCR"}, {"id": "1", "split": "RTD" + "/" + name}):
        with pytest.raises(DatasetError, match="cannot be a file name"):
            load_dataset([{**row("1"), **columns}])


def test_an_unsafe_row_can_be_left_out() -> None:
    rows = [row("../1", split="RTD_OCR"), row("2", split="RTD_OCR")]

    assert names(load_dataset(rows, exclude_ids=["../1"])) == ["RTD_OCR/2"]


BAD_SOURCES: list[tuple[str, Callable[[Path], Any], str]] = [
    ("not there", lambda t: t / "gone", "no such file or folder"),
    ("hub id", lambda t: "Owner/Dataset", "hf download --repo-type dataset Owner/Dataset"),
    ("empty folder", lambda t: t, "found an empty folder; expected data/<SPLIT>"),
    ("no dataset", lambda t: written(t / "a.txt", b"x"), "not a dataset"),
    ("no parquet", lambda t: written(t / "a.parquet", b"x" * 100), "cannot be read as parquet"),
    ("empty file", lambda t: written(t / "a.parquet", b""), "cannot be read as parquet"),
    ("no json", lambda t: written(t / "a.json", b"{"), "not JSON"),
    ("json text", lambda t: written(t / "a.json", b'"x"'), "found str; allowed: a list of rows"),
    ("json object", lambda t: written(t / "a.json", b'{"rows": []}'), "an object with ['rows']"),
    ("json without rows", lambda t: written(t / "a.json", b"[]"), "no rows"),
    ("bad line", lambda t: written(t / "a.jsonl", b'{"id": "1"}\n\nnope\n'), "a.jsonl line 3: not JSON"),
    ("line of a list", lambda t: written(t / "a.jsonl", b"[1]\n"), "a.jsonl line 1: found list"),
    (
        "no id column",
        lambda t: write_parquet(t / "a.parquet", [{"x": 1}]),
        "no column for the id; found ['x']",
    ),
    (
        "no media column",
        lambda t: write_parquet(t / "a.parquet", [{"id": "1"}]),
        "a.parquet: no column video and no column question_audio; found ['id']; needed: video (or video_path,",
    ),
    (
        "media of a wrong type",
        lambda t: write_parquet(t / "a.parquet", [{"id": "1", "video": 5, "audio": WAV}]),
        "column video: found int64; allowed: struct",
    ),
    ("no rows in memory", lambda t: [], "no rows"),
    ("rows of a wrong type", lambda t: [1], "row 0: found int"),
]


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(("make", "found"), [s[1:] for s in BAD_SOURCES], ids=[s[0] for s in BAD_SOURCES])
def test_a_source_that_cannot_be_read_names_what_is_wrong(
    tmp_path: Path, make: Callable[[Path], Any], found: str
) -> None:
    with pytest.raises(DatasetError) as caught:
        load_dataset(make(tmp_path))

    assert found in str(caught.value)


SOURCES: list[tuple[str, Callable[[Path, list[dict[str, Any]]], Path]]] = [
    ("parquet", lambda folder, listed: write_parquet(folder / "RTD_OCR-00000-of-00001.parquet", listed)),
    ("jsonl", lambda folder, listed: dumped(folder / "m.jsonl", "\n".join(map(json.dumps, listed)))),
    ("json", lambda folder, listed: dumped(folder / "m.json", json.dumps(listed))),
]


def dumped(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize(("kind", "make"), SOURCES, ids=[s[0] for s in SOURCES])
@pytest.mark.parametrize("absent", ["question_audio", "video"])
def test_a_column_that_is_not_there_is_an_error_and_one_that_is_null_is_not(
    tmp_path: Path, kind: str, make: Callable[[Path, list[dict[str, Any]]], Path], absent: str
) -> None:
    """A wrong export would be run as silence, sample for sample, and end as if all were well."""
    kept = "video" if absent == "question_audio" else "question_audio"
    rows = [{"id": str(n), "split": "RTD_OCR", kept: "file"} for n in range(7)]

    file = make(tmp_path, rows)
    with pytest.raises(DatasetError) as caught:
        load_dataset(file)
    told = str(caught.value)
    assert told.startswith(f"{file}: no column {absent}; found {sorted(rows[0])}; needed: {absent} (or ")
    assert len(load_dataset(file, require_media=False).samples) == 7

    dataset = load_dataset(make(tmp_path, [{**row, absent: None} for row in rows]))
    assert len(dataset.samples) == 7
    shown = ", ".join(f"RTD_OCR/{n}" for n in range(5))
    assert dataset.notes[0].startswith(f"{absent} is null in 7 row(s) ({shown}, ...): ")


def test_a_key_that_one_row_of_a_manifest_has_is_a_column(tmp_path: Path) -> None:
    rows = [
        {"id": "1", "split": "RTD_OCR", "audio": "q.wav"},
        {"id": "2", "split": "RTD_OCR", "video_path": "v"},
    ]

    dataset = load_dataset(dumped(tmp_path / "m.json", json.dumps(rows)))

    assert [(s.id, s.question_audio is None, s.video is None) for s in dataset.samples] == [
        ("1", False, True),
        ("2", True, False),
    ]


def test_options_out_of_range_are_refused() -> None:
    for options in ({"family": "both"}, {"limit": 0}, {"limit": -1}):
        with pytest.raises(DatasetError, match="allowed"):
            load_dataset([row("1", split="RTD_OCR")], **options)


def test_an_id_that_no_row_has_is_an_error() -> None:
    with pytest.raises(DatasetError, match="1 rows, and none has the id 7, 8"):
        load_dataset([row("1", split="RTD_OCR")], ids=["1", "8", "7"])


def test_an_iterable_is_read_once() -> None:
    def rows() -> Iterator[dict[str, Any]]:
        yield row("1", split="RTD_OCR")
        yield row("2", split="RTD_OCR")

    assert len(load_dataset(rows()).samples) == 2


def reported(shared_data: Path, case_id: str, existing_wav: Path) -> Any:
    cases = shared_data.parent / "cases" / "field_reports.json"
    if not cases.is_file():
        pytest.skip("the field reports are not here")
    text = cases.read_text().replace("{{existing_wav}}", str(existing_wav))
    case = next(c for c in json.loads(text) if c["id"] == case_id)
    for values in case["input"]["rows"]:
        audio = values.get("question_audio")
        if audio and isinstance(audio.get("bytes"), dict):
            audio["bytes"] = base64.b64decode(audio["bytes"]["$base64"])
    return case


@pytest.mark.shared_data
def test_reported_rows_get_their_task_from_split_or_task(shared_data: Path, tmp_path: Path) -> None:
    case = reported(shared_data, "fr18-task-from-split", tmp_path)

    dataset = load_dataset(case["input"]["rows"], require_media=False)

    tasks = {
        sample.id: (sample.task or sample.family).removeprefix("proactive_") for sample in dataset.samples
    }
    assert tasks == {i: t.removeprefix("event_") for i, t in case["checks"]["tasks"].items()}
    assert ([r.id for r in dataset.refused], dataset.rows) == (case["checks"]["refused"], 4)


@pytest.mark.shared_data
def test_reported_rows_with_null_media_are_told_apart(shared_data: Path, tmp_path: Path) -> None:
    existing = written(tmp_path / "e.wav", WAV)
    case = reported(shared_data, "fr34-null-media", existing)

    dataset = load_dataset(case["input"]["rows"])

    assert [sample.id for sample in dataset.samples] == case["checks"]["loaded"]
    assert [r.id for r in dataset.refused] == case["checks"]["refused"]
    assert all("no media" in r.reason for r in dataset.refused)
    assert all(sample.prepare().pcm for sample in dataset.samples)


@pytest.mark.shared_data
def test_the_real_samples_load_and_prepare(shared_data: Path) -> None:
    dataset = load_dataset(shared_data / "mini")

    lengths = {}
    for sample in dataset.samples:
        prepared = sample.prepare()
        lengths[sample.id] = (len(prepared.pcm) / 32_000, len(prepared.frames), prepared.video_duration_s)
    assert lengths == {
        "0": (4.0, 4, 4.004),
        "133": (15.0, 15, 15.0),
        "261": (6.4, 7, 6.4),
        "610": (10.0, 10, 10.0),
        "410": (15.0, 15, 15.0),
        "460": (4.0, 4, 4.004),
    }
