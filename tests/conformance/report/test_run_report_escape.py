"""Untrusted text is shown printable, on one line, bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.report.escape import block, one_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("\u2028", "\\u2028"),
        ("\ud800", "\\ud800"),
        ("\uffff", "\\uffff"),
        ("\x9b2J", "\\x9b2J"),
        ("\U000e0041", "\\U000e0041"),
        ("句子。\u3000é😀", "句子。\u3000é😀"),
        ("[bold]<b>&", "[bold]<b>&"),
    ],
)
def test_what_cannot_be_seen_is_escaped_and_the_rest_is_left_alone(text: str, shown: str) -> None:
    assert one_line(text) == shown


@given(st.text(st.characters(), max_size=60))
def test_any_text_becomes_one_printable_line(text: str) -> None:
    shown = one_line(text)

    assert shown.splitlines() in ([], [shown])
    assert all(char.isprintable() or char.isspace() for char in shown)
    assert not any(ord(char) < 0x20 or 0x7F <= ord(char) <= 0x9F for char in shown)


def test_long_text_is_cut_and_says_how_much_is_missing() -> None:
    assert one_line("x" * 1_000_000, limit=5) == "xxxxx... (+999995 characters)"


def test_a_block_keeps_line_breaks_and_escapes_the_rest() -> None:
    assert block(["one\ntwo", "\x1b[0m"]) == ["one", "two", "\\x1b[0m"]


def test_a_long_block_keeps_its_end_and_says_how_much_is_missing() -> None:
    lines = block([str(number) for number in range(10)], limit=3)

    assert lines == ["... (7 earlier lines)", "7", "8", "9"]
