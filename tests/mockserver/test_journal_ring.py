"""The last lines of the journal: numbered, bounded, and always JSON."""

from __future__ import annotations

import json
from typing import Any

from mockserver.journal_ring import MAX_LINE_BYTES, JournalRing, line_of


def filled(count: int, **bounds: int) -> JournalRing:
    ring = JournalRing(**bounds)
    for number in range(1, count + 1):
        ring.add({}, line_of({"name": f"line {number}"}, {}))
    return ring


def asked(ring: JournalRing, since: int, limit: int) -> tuple[list[int], dict[str, Any]]:
    told = json.loads(ring.since(since, limit))
    return [entry["number"] for entry in told.pop("entries")], told


def test_lines_are_told_from_a_number_on() -> None:
    ring = filled(5)

    assert asked(ring, 0, 2) == ([1, 2], {"next": 2, "missed": 0, "last": 5})
    assert asked(ring, 2, 10) == ([3, 4, 5], {"next": 5, "missed": 0, "last": 5})
    assert asked(ring, 5, 10) == ([], {"next": 5, "missed": 0, "last": 5})
    assert asked(ring, 99, 10) == ([], {"next": 99, "missed": 0, "last": 5})


def test_the_oldest_lines_go_and_are_counted_as_missed() -> None:
    ring = filled(10, max_entries=3)

    assert ring.oldest == 8
    assert asked(ring, 0, 10) == ([8, 9, 10], {"next": 10, "missed": 7, "last": 10})
    assert asked(ring, 8, 1) == ([9], {"next": 9, "missed": 0, "last": 10})


def test_lines_are_bounded_in_bytes_too() -> None:
    ring = filled(100, max_bytes=200)

    assert 1 <= 101 - ring.oldest <= 7


def test_a_long_line_leaves_its_data_out() -> None:
    ring = JournalRing()
    ring.add({"name": "x"}, line_of({"name": "x"}, {"text": "y" * MAX_LINE_BYTES}))

    (entry,) = json.loads(ring.since(0, 1))["entries"]
    assert entry["name"] == "x"
    assert list(entry["data"]) == ["left_out"]


def test_what_json_cannot_hold_is_named() -> None:
    deep: Any = []
    for _ in range(2_000):
        deep = [deep]

    assert "unwritable" in json.loads(line_of({"name": "x"}, {"deep": deep}))["data"]


def test_forgotten_lines_keep_their_numbers() -> None:
    ring = filled(4)
    ring.clear()
    ring.add({}, line_of({}, {}))

    assert asked(ring, 0, 10) == ([5], {"next": 5, "missed": 4, "last": 5})
    assert asked(JournalRing(), 0, 10) == ([], {"next": 0, "missed": 0, "last": 0})
