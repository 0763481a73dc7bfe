"""A hostile file costs little and runs nothing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from scenarios import ScenarioError, load_scenarios
from scenarios.source import MAX_FILE_BYTES, MAX_NODES, parse_source

LAUGHS = "\n".join([f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 10)])
HOSTILE = {
    "billion laughs": (f"l0: &l0 lol\n{LAUGHS}\n", "alias *l0"),
    "alias of itself": ("a: &a [*a]\n", "alias *a"),
    "python object": ("a: !!python/object/apply:os.system ['touch owned']\n", "tags are not allowed"),
    "python name": ("a: !!python/name:os.system\n", "tags are not allowed"),
    "merge key": ("a: &a {b: 1}\nc: {<<: *a}\n", "alias *a"),
    "deep flow": ("a: " + "[" * 50_000, "not YAML"),
    "deep block": ("- " * 500 + "a", "nested deeper than 20"),
    "many values": ("a: [" + "1, " * (MAX_NODES + 5) + "1]", "more than"),
    "long number": ("a: " + "9" * 5_000, "a number of 5000 characters"),
    "infinite number": ("a: 1e999", "a finite number"),
    "large file": ("a: " + "x" * (10 * 1024 * 1024), "file too large"),
}


@pytest.mark.parametrize(("text", "told"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_file_is_refused_in_time(
    text: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "hostile.yaml"
    file.write_text(text, encoding="utf-8")
    began = time.process_time()

    with pytest.raises(ScenarioError) as caught:
        load_scenarios(file)
    assert told in str(caught.value)
    assert time.process_time() - began < 1.0
    assert not (tmp_path / "owned").exists()


def test_an_endless_file_is_not_read() -> None:
    with pytest.raises(ScenarioError, match="no regular file"):
        load_scenarios("/dev/zero")


def test_a_file_of_the_largest_size_is_read() -> None:
    raw = b"a: " + b"x" * (MAX_FILE_BYTES - 3)

    assert len(parse_source(raw, "f").data["a"]) == MAX_FILE_BYTES - 3
    with pytest.raises(ScenarioError, match="too large"):
        parse_source(raw + b"x", "f")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"),
        ("yes", "yes"),
        ("No", "No"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("3", 3),
        ("-3.5", -3.5),
        ("1e3", 1000.0),
        ("'3'", "3"),
        ("0x10", "0x10"),
        ("1:30", "1:30"),
        ("2026-01-01", "2026-01-01"),
        (".inf", ".inf"),
    ],
)
def test_plain_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    source = parse_source(f"on: {text}\n".encode(), "f")

    assert source.data == {"on": value}
    assert type(source.data["on"]) is type(value)
    assert source.lines[("on",)] == 1
