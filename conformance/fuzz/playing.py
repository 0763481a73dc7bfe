"""Blocks of cases played in one process: scenarios against a client, or hostile clients against the server."""

from __future__ import annotations

import os
import time
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from conformance.fuzz.case import Block, BlockResult, CasePlayer, CaseResult, Found
from conformance.fuzz.drawing import draw
from conformance.fuzz.server_case import ServerCasePlayer
from conformance.pool import freeze
from conformance.scratch import scratch_folder


class Player(Protocol):
    """Plays cases of one seed, and looks again at what was found."""

    def case(self, number: int, data: dict[str, Any]) -> CaseResult: ...
    def valid(self, data: dict[str, Any]) -> bool: ...
    def check(self, found: Found, data: dict[str, Any]) -> tuple[Found, ...]: ...


def player_for(data: dict[str, Any], seed: int, scratch: Path) -> Player:
    """The player of such a case: a hostile client is steps, a scenario is not."""
    return ServerCasePlayer(seed) if "steps" in data else CasePlayer(seed, scratch)


def play_block(block: Block) -> BlockResult:
    """Draw and play the cases of a block; a module-level function, so that it can be sent to a worker."""
    began_s = time.process_time()
    _made_ready(os.getpid())
    with scratch_folder() as scratch:
        cases = []
        for number in block.numbers:
            data = draw(block.kinds, block.seed, number)
            cases.append(player_for(data, block.seed, scratch).case(number, data))
    return BlockResult(tuple(cases), time.process_time() - began_s)


@lru_cache(maxsize=1)
def _made_ready(pid: int) -> None:
    """Once a process, before its first case: the collection after each then has its own objects alone to look at."""
    freeze()
