"""A scenario told to a person."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from conformance.requirements import requirement_texts
from scenarios.model import Scenario


def show_lines(scenario: Scenario) -> Iterator[str]:
    """Title, story, requirements with their texts, and what is scripted and expected."""
    yield f"{scenario.id}: {scenario.title}"
    yield ""
    yield from textwrap.wrap(scenario.about.strip(), 100)
    yield ""
    texts = requirement_texts()
    for requirement in scenario.requires:
        yield f"{requirement:<5}{texts.get(requirement, '')}"
    if scenario.tags:
        yield "tags: " + ", ".join(scenario.tags)
    for title, part in (
        ("dataset", scenario.dataset),
        ("server", scenario.server),
        ("judge", scenario.judge),
        ("client", scenario.client),
        ("earlier", scenario.earlier),
        ("expect", scenario.expect),
    ):
        if part is None:
            continue
        yield f"{title}:"
        yield from (f"  {key}: {value}" for key, value in part.model_dump(exclude_defaults=True).items())
    for fault in scenario.faults:
        yield f"fault: {fault.name} {fault.model_dump(exclude_defaults=True)}"
    for sample in scenario.samples:
        yield f"sample: {sample.model_dump(exclude_defaults=True)}"
    if scenario.clip is not None:
        yield f"clip: {scenario.clip.model_dump(exclude_defaults=True)}"
