"""Readiness and warm-up: whole sessions before the timed window, of which nothing is kept (evaluation.md 12.3, 14)."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from client.media import Prepared
from client.retry import RequestOutput, request_sample
from client.run_settings import RunSettings, told

log = logging.getLogger(__name__)


async def warm_up(prepared: Prepared, settings: RunSettings) -> str:
    """One session to see that the server is ready, then the warm-ups, as many at a time as in the run.

    They pass the same gate as samples do; no file is written, nothing is counted.

    Returns: why the server is not ready; empty when it is, or was not asked. A warm-up that fails is only logged.
    """
    if settings.readiness:
        output = await rehearse(prepared, settings, "readiness")
        if not output.success:
            return (
                f"the server at {told(settings)['url']} is not ready: {output.error.strip().splitlines()[-1]}"
            )
    for first in range(0, settings.warmups, settings.concurrency):
        numbers = range(first + 1, min(first + settings.concurrency, settings.warmups) + 1)
        await asyncio.gather(*(rehearse(prepared, settings, str(number)) for number in numbers))
    return ""


async def rehearse(prepared: Prepared, settings: RunSettings, name: str) -> RequestOutput:
    """One session outside the run, under a name that no sample has."""
    log.info("warm-up %s", name)
    return await request_sample(replace(prepared, split="(warm-up)", id=name), settings.session)
