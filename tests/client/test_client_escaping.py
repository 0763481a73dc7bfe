"""Escape sequences of a server reach no terminal and no log line."""

from __future__ import annotations

import logging

import pytest

from client.cli_options import complain, hear_logs
from client.escaping import LONGEST, escaped
from client.progress import ending, in_short
from client.run_result import SampleRecord

HOSTILE = "busy \x1b]0;owned\x07\x1b[2J \x9b31m \u202eevil"


def is_tame(told: str) -> bool:
    return not any(mark in told for mark in "\x1b\x07\x9b\u202e") and "\\x1b[2J" in told and "evil" in told


def test_reasons_of_samples_are_escaped_and_the_record_keeps_them() -> None:
    record = SampleRecord("RTD_Omni", "1", "failed", error=HOSTILE, close="lost")

    assert is_tame(ending(record))
    assert is_tame(in_short(record))
    assert record.error == HOSTILE


def test_complaints_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    complain(HOSTILE)

    assert is_tame(capsys.readouterr().err)


def test_log_lines_are_escaped_and_stay_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("client")
    before = list(logger.handlers)
    try:
        hear_logs()
        logging.getLogger("client.teardown").warning("%s: closing: %s", "a/1", HOSTILE + "\nforged: line")
    finally:
        logger.handlers[:] = before

    (line,) = capsys.readouterr().err.splitlines()
    assert is_tame(line)
    assert line.endswith("\\nforged: line")


def test_a_text_of_megabytes_is_cut() -> None:
    assert escaped("x" * (LONGEST + 1)) == "x" * (LONGEST - 1) + "…"
