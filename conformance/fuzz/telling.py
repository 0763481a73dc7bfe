"""What a campaign says while it runs and at its end, in plain lines."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from conformance.fuzz import files
from conformance.fuzz.campaign import Group, Plan, Tally, outcome_words
from conformance.fuzz.drawing import Kinds
from conformance.fuzz.merging import Merged
from conformance.fuzz.states import missing, told, unreachable, wanted
from conformance.fuzz.summary import SUMMARY, read_summary
from conformance.options import ConfigurationError

EVERY_S = 5.0
"""Between two lines of progress."""


class Progress:
    """A line now and then, and one for each finding as it comes."""

    def __init__(self, out: TextIO, kinds: Kinds) -> None:
        self._out = out
        self._kinds = kinds
        self._next_s = time.monotonic() + EVERY_S

    def on_block(self, tally: Tally, fresh: list[Group]) -> None:
        """Called after each block."""
        for group in fresh:
            finding = group.found.finding
            self._say(f"found {group.found.key} in case {group.first_case}: {finding.actual[:140]}")
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + EVERY_S
            self._say(progress_line(tally, self._kinds))

    def _say(self, line: str) -> None:
        print(" ".join(line.split()), file=self._out, flush=True)


def progress_line(tally: Tally, kinds: Kinds) -> str:
    """Cases a second, states, findings."""
    rate = tally.cases / tally.real_s if tally.real_s else 0.0
    states = len(wanted(kinds)) - len(unreachable(tally.states, kinds))
    reached = states - len(missing(tally.states, kinds))
    return (
        f"{tally.cases} cases, {rate:.0f} a second, {reached} of {states} states reached, "
        f"{len(tally.groups)} finding(s)"
    )


def older_lines(save: Path | None) -> list[str]:
    """What is to be said of an older campaign in the folder: a CI that runs again is not stopped, and told."""
    if save is None or not (save / SUMMARY).exists():
        return []
    try:
        whose = f"`{read_summary(save).command}`"
    except ConfigurationError:  # of another version, say: it is about to be replaced, and its findings stay
        whose = "an older campaign"
    older = len(list(save.glob("*.yaml")))
    return [
        f"note: {save} holds {whose}: its {older} finding(s) stay, {SUMMARY} will tell of this campaign alone"
    ]


def finished_lines(plan: Plan, tally: Tally, save: Path | None, *, states: bool) -> list[str]:
    """The end of a campaign: states, findings, and one line that says it all."""
    if plan.case is None:
        lines = state_lines(tally.states, plan.kinds, every=states)
    else:  # that one case did not reach the others says nothing
        lines = [told(state) for state in wanted(plan.kinds) if states and tally.states.get(state)]
    for key, group in sorted(tally.groups.items()):
        finding = group.found.finding
        lines += [
            "",
            f"{key}  {' '.join(finding.requirements)}  {group.count} time(s), first in case {group.first_case}",
            f"  expected   {finding.expected}",
            f"  actual     {finding.actual}",
        ]
        if save is not None:
            lines.append(f"  replay     conformance replay {save / f'{key}.yaml'}")
        else:
            again = files.drawn_by(plan.seed, group.first_case, plan.kinds)
            lines.append(f"  again      {again} --save DIR")
    rate = tally.cases / tally.cpu_s if tally.cpu_s else 0.0
    lines += [
        "",
        f"seed {plan.seed}, {tally.cases} cases ({outcome_words(tally)}), {tally.runs} performances, "
        f"{tally.virtual_s / 3600:.1f} h of virtual time in {tally.real_s:.1f} s, {rate:.0f} cases a core second",
        f"{len(tally.groups)} finding(s)" + (", interrupted" if tally.interrupted else ""),
    ]
    return lines


def state_lines(states: Mapping[str, int], kinds: Kinds, *, every: bool) -> list[str]:
    """The table of states; what was never reached is always told."""
    lines = []
    if every:
        width = max(len(told(state)) for state in wanted(kinds))
        lines = [f"{told(state):<{width}}  {states.get(state, 0):>7}" for state in wanted(kinds)]
    never = [told(state) for state in missing(states, kinds)]
    lines.append("never reached: " + ("; ".join(never) if never else "nothing"))
    lines += [f"cannot be reached: {state}" for state in unreachable(states, kinds)]
    return lines


def merged_lines(merged: Merged, *, states: bool) -> list[str]:
    """The end of a merge."""
    lines = state_lines(merged.states, merged.first.kinds, every=states)
    for key, finding in sorted(merged.findings.items()):
        file = merged.file_of(key)
        lines += [
            "",
            f"{key}  {' '.join(finding.requirements)}  {finding.count} time(s), first in case {finding.first_case}",
            f"  actual     {finding.actual}",
            f"  replay     conformance replay {file}"
            if file
            else f"  again      {merged.drawn_by(finding)} --save DIR",
        ]
    counts = ", ".join(f"{count} {name}" for name, count in sorted(merged.outcomes.items()))
    lines += [
        "",
        f"seed {merged.first.seed}, {len(merged.folders)} shard(s), {merged.cases} cases ({counts})",
    ]
    if merged.missing:
        lines.append(f"missing shard(s): {merged.missing}")
    if merged.unfinished:
        lines.append(f"unfinished shard(s): {', '.join(merged.unfinished)}")
    lines.append(f"{len(merged.findings)} finding(s)")
    return lines
