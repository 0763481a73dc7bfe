"""Defects are rewrites of the current source that must fit exactly."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from conformance.defects.rewrite import Rewrite, RewriteError, applied

SOURCE = """
from __future__ import annotations

class Thing:
    async def ask(self, x: Unknown) -> int:
        y = await reply(x)
        return y + 1

    @staticmethod
    def number() -> int:
        return 1

async def reply(x):
    if x:
        x = x
        x = x
    return x
"""


@pytest.fixture
def victim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "rewrite_victim.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("rewrite_victim")
    sys.modules.pop("rewrite_victim", None)


def test_an_expression_is_replaced_while_the_block_lasts(victim: ModuleType) -> None:
    with applied((Rewrite("rewrite_victim:Thing.ask", "await reply(x)", "x * 100"),)):
        assert asyncio.run(victim.Thing().ask(3)) == 301

    assert asyncio.run(victim.Thing().ask(3)) == 4


def test_every_importer_of_the_function_gets_the_defect(victim: ModuleType) -> None:
    reply = victim.reply
    with applied((Rewrite("rewrite_victim:reply", "return x", "return x + 5"),)):
        assert asyncio.run(reply(1)) == 6


def test_a_static_method_can_be_rewritten(victim: ModuleType) -> None:
    with applied((Rewrite("rewrite_victim:Thing.number", "return 1", "return 2"),)):
        assert victim.Thing.number() == 2

    assert victim.Thing.number() == 1


def test_the_number_of_places_must_be_exact(victim: ModuleType) -> None:
    with (
        pytest.raises(RewriteError, match=r"occurs 2 time\(s\), expected 1"),
        applied((Rewrite("rewrite_victim:reply", "x = x", "pass"),)),
    ):
        pass


def test_a_defect_that_does_not_fit_changes_nothing(victim: ModuleType) -> None:
    fits = Rewrite("rewrite_victim:Thing.number", "return 1", "return 2")
    fits_not = Rewrite("rewrite_victim:reply", "return nothing", "pass")
    with pytest.raises(RewriteError, match="occurs 0 time"), applied((fits, fits_not)):
        pass

    assert victim.Thing.number() == 1


def test_a_function_that_is_gone_is_named(victim: ModuleType) -> None:
    with (
        pytest.raises(RewriteError, match=r"rewrite_victim:Thing\.gone: no function"),
        applied((Rewrite("rewrite_victim:Thing.gone", "a", "b"),)),
    ):
        pass


def test_two_rewrites_of_one_function_both_take_effect(victim: ModuleType) -> None:
    rewrites = (
        Rewrite("rewrite_victim:Thing.ask", "await reply(x)", "x * 100"),
        Rewrite("rewrite_victim:Thing.ask", "y + 1", "y + 2"),
    )
    with applied(rewrites):
        assert asyncio.run(victim.Thing().ask(3)) == 302
