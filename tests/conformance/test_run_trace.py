"""A trace is one time line, the same for the same seed."""

from __future__ import annotations

import gc
import json
import threading
import time
from pathlib import Path

import pytest

from conformance.pool import spread
from conformance.trace import Record, Recorder, comparable, last_of_both_sides, write_ndjson


class _Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def _recorder() -> tuple[Recorder, _Clock]:
    clock = _Clock()
    return Recorder(clock, 1000.0), clock


def test_records_are_ordered_by_time_then_session_then_sequence() -> None:
    recorder, clock = _recorder()
    clock.now_s = 1001.0
    recorder.add("b", "client", "sent", {"n": 1})
    recorder.add("a", "client", "sent", {"n": 2})
    recorder.add("a", "server", "received", {"n": 3})
    clock.now_s = 1000.5
    recorder.add("c", "client", "sent", {"n": 4})

    assert [r.data["n"] for r in recorder.ordered()] == [4, 2, 3, 1]


def test_order_across_sessions_at_one_instant_is_no_difference() -> None:
    first, _ = _recorder()
    second, _ = _recorder()
    first.add("a", "client", "sent", {})
    first.add("b", "client", "sent", {})
    second.add("b", "client", "sent", {})
    second.add("a", "client", "sent", {})

    assert comparable(first.ordered()) == comparable(second.ordered())


def test_socket_byte_counts_and_ports_are_no_difference_but_events_are() -> None:
    def trace(port: int, event: str) -> list[str]:
        recorder, _ = _recorder()
        recorder.add("a", "server", "open", {"port": port, "event": event})
        return comparable(recorder.ordered())

    assert trace(1, "x") == trace(2, "x")
    assert trace(1, "x") != trace(1, "y")


def test_a_busy_side_does_not_push_the_other_out_of_the_last_events() -> None:
    recorder, _ = _recorder()
    recorder.add("a", "server", "received update", {})
    for number in range(50):
        recorder.add("a", "client", f"sent {number}", {})

    lines = last_of_both_sides(recorder, 10)

    assert len(lines) == 11
    assert "received update" in lines[0]


def test_ndjson_holds_one_object_a_line(tmp_path: Path) -> None:
    recorder, _ = _recorder()
    recorder.add("a", "client", "sent", {"event": "line\nbreak"})
    write_ndjson(tmp_path / "deep" / "trace.ndjson", recorder.ordered())

    lines = (tmp_path / "deep" / "trace.ndjson").read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["line\nbreak"]


def test_a_field_called_as_one_of_a_records_own_hides_neither(tmp_path: Path) -> None:
    recorder, _ = _recorder()
    recorder.add("a", "server", "received session.update", {"session": {"model": "m"}, "what": "x"})
    write_ndjson(tmp_path / "trace.ndjson", recorder.ordered())

    line = json.loads((tmp_path / "trace.ndjson").read_text())
    assert (line["session"], line["what"]) == ("a", "received session.update")
    assert (line["data.session"], line["data.what"]) == ({"model": "m"}, "x")
    assert Record.from_json(line) == recorder.records[0]


def _double(number: int) -> int:
    return number * 2


def test_jobs_keep_their_order_over_processes() -> None:
    assert list(spread(_double, range(7), 2)) == [0, 2, 4, 6, 8, 10, 12]
    assert list(spread(_double, range(3), 1)) == [0, 2, 4]


def _doze(number: int) -> int:
    time.sleep(0.01)
    return number


def test_jobs_that_are_given_up_half_way_leave_no_trace_of_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool's own thread finds workers that were ended, and jobs that were cancelled, in one moment."""
    threads = threading.enumerate()
    told: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda what: told.append(str(what.exc_value)))

    for _ in range(3):
        results = spread(_doze, range(40), 2)
        next(results)
        results.close()
        for thread in set(threading.enumerate()).difference(threads):
            thread.join(1.0)

    assert told == []


_HELD: list[object] = []


def _collected(_: int) -> bool:
    return any(known is _HELD[0] for known in gc.get_objects())


def test_workers_do_not_collect_what_the_parent_has_made_since_the_first_of_them() -> None:
    assert list(spread(_double, range(2), 2)) == [0, 2]
    _HELD[:] = [[]]
    assert _collected(0)
    assert list(spread(_collected, range(2), 2)) == [False, False]
