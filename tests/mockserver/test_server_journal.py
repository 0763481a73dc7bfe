"""The journal hands on what it is told to forget."""

from __future__ import annotations

from mockserver.journal import Entry, Journal


def test_a_journal_that_keeps_nothing_still_numbers_and_hands_on() -> None:
    handed: list[Entry] = []
    journal = Journal(sink=handed.append, keep=False)
    for name in ("a", "b"):
        journal.add(1.0, 1, "received", name, {})

    assert [(entry.seq, entry.name) for entry in handed] == [(1, "a"), (2, "b")]
    assert journal.entries == []


def test_a_journal_keeps_its_entries_unless_told_otherwise() -> None:
    journal = Journal()
    journal.add(1.0, 1, "received", "a", {})

    assert [entry.name for entry in journal.of("received")] == ["a"]
