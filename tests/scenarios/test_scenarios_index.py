"""The list of the catalogue is made without building it, and says the same."""

from __future__ import annotations

import pytest

import scenarios
from scenarios import load_catalogue, load_index, select


def test_the_index_says_what_the_catalogue_says() -> None:
    built = [(s.id, s.title, tuple(s.tags), tuple(s.requires)) for s in load_catalogue()]

    assert [(s.id, s.title, s.tags, s.requires) for s in load_index()] == built


def test_a_selection_picks_the_same_from_both() -> None:
    for patterns, tags in ((["close/*"], []), ([], ["teardown"]), (["commit/stall-at-commit"], ["teardown"])):
        from_index = [s.id for s in select(load_index(), patterns, tags)]

        assert from_index
        assert from_index == [s.id for s in select(load_catalogue(), patterns, tags)]


def test_every_name_of_the_package_is_there_when_asked_for() -> None:
    for name in scenarios.__all__:
        assert getattr(scenarios, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        scenarios.nothing  # noqa: B018
