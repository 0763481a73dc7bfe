"""What a run prints, on a terminal and in plain lines."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from conformance.outcome import Finding, Outcome, RunReport
from conformance.report.console import ConsoleReport, is_terminal

REQUIREMENTS = {"R18": "The close failure left no trace. Right: `close_timeout` in metadata."}


def printed(report: RunReport, *, terminal: bool = False, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    console = ConsoleReport(stream, requirements=REQUIREMENTS, terminal=terminal, width=100)
    for number, result in enumerate(report.results, start=1):
        console.scenario_started(result.id, number=number, total=len(report.results))
        console.scenario_finished(result, number=number, total=len(report.results))
    console.run_finished(report)
    stream.flush()
    return raw.getvalue().decode(encoding)


def test_a_clean_run_prints_progress_the_table_and_the_counts(make: SimpleNamespace) -> None:
    lines = printed(make.report(make.result("clean/residual"), make.result("clean/listens"))).splitlines()

    assert lines == [
        "[1/2] pass           clean/residual",
        "[2/2] pass           clean/listens",
        "",
        "scenario        outcome  virtual   real",
        "clean/residual  pass      65.0 s  42 ms",
        "clean/listens   pass      65.0 s  42 ms",
        "",
        "target mock, client builtin, virtual clock, seed 7, 0.50 s: 2 pass",
        "2 passed, 0 failed",
    ]


def test_a_failure_shows_all_that_a_reader_needs(make: SimpleNamespace) -> None:
    text = printed(make.report(make.failure("null")))

    story = text[text.index("\nFAIL ") + 1 : text.index("\n\nscenario ")].splitlines()
    assert story == [
        "FAIL teardown/stall: A stall costs the teardown, not the sample",
        "  finding    metadata.close_timeout (R18)",
        "  sample     RTD_Omni/610",
        "  expected   set",
        "  actual     null",
        "  deadline   close_s (20 s) should have acted",
        "    | null",
        "  broken requirements",
        "    R18      The close failure left no trace. Right: `close_timeout` in metadata.",
        "  faults",
        '    stop_reading #0, connection 1: observed; {"note": "null", "unsent_bytes": 4096}',
        "  last events, both sides",
        "    | 1012.000 server sent null",
        "    | 1012.050 client deadline close_s",
        "  trace      out/trace.ndjson",
        "  reproduce  conformance run teardown/stall --seed 7",
    ]


def test_a_requirement_that_many_findings_name_is_told_once(make: SimpleNamespace) -> None:
    one = make.failure()
    twice = make.result(outcome=Outcome.FAIL, findings=one.findings * 2)

    assert printed(make.report(twice)).count("The close failure left no trace.") == 1


def test_the_requirement_of_the_narrowest_finding_is_told_first(make: SimpleNamespace) -> None:
    wide = Finding("deadlines", ("R1", "R5", "R18"), "[]", "['playback.ack']")
    narrow = Finding("metadata.close_timeout", ("R18",), "set", "None")
    failed = replace(make.failure(), findings=(wide, narrow))

    told = printed(make.report(failed))

    shown = told[told.index("broken requirements") :].splitlines()
    assert [line.split()[0] for line in shown[1:4]] == ["R18", "R1", "R5"]


def test_a_stack_as_reason_shows_what_happened_first(make: SimpleNamespace) -> None:
    stack = "Traceback (most recent call last):\n  File x, line 1\nValueError: odd bytes\n"
    broken = make.result(outcome=Outcome.HARNESS_ERROR, reason=stack)

    text = printed(make.report(broken))
    assert "  reason     ValueError: odd bytes\n    | Traceback" in text


def test_an_inert_scenario_names_its_reason_and_its_requirements(make: SimpleNamespace) -> None:
    inert = make.result(outcome=Outcome.INERT, reason="stop_reading was armed and never triggered")

    text = printed(make.report(inert))
    assert "INERT teardown/stall: " in text
    assert "  reason     stop_reading was armed and never triggered" in text
    assert "  what the scenario requires\n    R2\n    R13\n" in text
    assert text.endswith("\n0 passed, 1 failed\n")


@pytest.mark.parametrize("terminal", [False, True])
def test_the_counts_are_alone_on_the_last_line(make: SimpleNamespace, terminal: bool) -> None:
    report = make.report(make.result(), make.failure(), make.result(outcome=Outcome.SKIPPED, reason="x"))

    last = printed(report, terminal=terminal).rstrip("\n").rsplit("\n", 1)[1]
    assert re.sub("\x1b\\[[0-9;]*m", "", last) == "1 passed, 1 failed, 1 skipped"


@pytest.mark.parametrize("terminal", [False, True])
def test_hostile_text_cannot_move_the_cursor_style_or_fake_a_line(
    make: SimpleNamespace, terminal: bool
) -> None:
    text = printed(make.report(make.failure(make.hostile, "hostile/\x1b[2Jid")), terminal=terminal)

    own = re.sub("\x1b\\[[0-9;]*m|\r\x1b\\[2K", "", text)
    assert all(char == "\n" or char.isprintable() for char in own)
    assert "[bold red]x[/]" in own
    assert [line for line in own.splitlines() if re.match(r"\d+ passed", line)] == ["0 passed, 1 failed"]


def test_a_huge_error_text_stays_within_bounds(make: SimpleNamespace) -> None:
    text = printed(make.report(make.failure("x" * 3_000_000 + "\n" * 100_000)))

    assert len(text) < 20_000


def test_a_terminal_keeps_lines_of_progress_only_for_what_did_not_pass(make: SimpleNamespace) -> None:
    text = printed(make.report(make.result("clean/one"), make.failure()), terminal=True)

    kept = [line.rsplit("\r\x1b[2K", 1)[-1] for line in text.split("\n")]
    assert not any("[1/2]" in line for line in kept)
    assert sum("[2/2]" in line for line in kept) == 1
    assert any("clean/one" in line for line in kept)


def test_a_c_locale_shows_escapes_instead_of_failing(make: SimpleNamespace) -> None:
    text = printed(make.report(make.failure("句")), encoding="ascii")

    assert "\\u53e5" in text


def test_what_did_not_run_is_named_with_its_reason(make: SimpleNamespace) -> None:
    skipped = make.result(outcome=Outcome.SKIPPED, reason="needs the dataset folder 'mini'")

    text = printed(make.report(skipped))
    assert (
        "\nskipped teardown/stall: needs the dataset folder 'mini'\n0 passed, 0 failed, 1 skipped\n" in text
    )


def test_an_interrupted_run_says_so_and_still_counts(make: SimpleNamespace) -> None:
    text = printed(make.report(make.result(), interrupted=True))

    assert "\ninterrupted: only what is listed above ran\n1 passed, 0 failed\n" in text


def test_a_run_of_nothing_says_so() -> None:
    text = printed(RunReport((), seed=1, target="mock", clock="virtual", client="builtin", real_s=0.0))

    assert "nothing ran" in text
    assert text.endswith("0 passed, 0 failed\n")


@pytest.mark.parametrize(
    ("tty", "environment", "expected"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"CI": "true"}, False),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_colour_is_for_terminals_that_a_person_looks_at(
    tty: bool, environment: dict[str, str], expected: bool
) -> None:
    class Stream(io.StringIO):
        def isatty(self) -> bool:
            return tty

    assert is_terminal(Stream(), environment) is expected
