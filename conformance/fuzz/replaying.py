"""A finding seen again from its file, and taken over into the catalogue."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

from conformance.fuzz.case import HARNESS_ERROR, CasePlayer, Found
from conformance.fuzz.files import Saved, dumped, read, versions, wanted_file
from conformance.fuzz.playing import player_for
from conformance.fuzz.strategies import build
from conformance.options import ConfigurationError, RunOptions
from conformance.outcome import Finding
from conformance.scratch import scratch_folder
from conformance.trace import comparable, write_ndjson
from scenarios import ScenarioError
from scenarios.errors import shown
from scenarios.loader import build_scenarios
from scenarios.source import Source

FILL_IN = "FILL IN"
"""Begins the title of a promoted scenario until somebody has said in words what it shows."""
TRACE_HEAD = "conformance-trace"
TRACE_FORMAT = 2
_ID = re.compile(r"[a-z0-9][a-z0-9._-]*")
_SECTION = re.compile(r"\bprotocol\.md \d")
"""What explains a finding where no requirement does."""


@dataclass(frozen=True)
class Replay:
    """What a file gave when it was played again."""

    saved: Saved
    again: tuple[Found, ...]
    """Everything found now."""

    @property
    def same(self) -> Found | None:
        """The finding of the file, if it is there again."""
        return next((one for one in self.again if one.key == self.saved.key), None)

    @property
    def other_versions(self) -> bool:
        """Whether it was found with other versions than these."""
        return self.saved.versions not in ("", versions())


def replay(file: Path) -> Replay:
    """Play a saved finding again.

    Raises ConfigurationError: the file is no finding of this version, or what it would play is broken.
    """
    saved = read(file)
    found = _as_found(saved)
    with scratch_folder() as scratch:
        return Replay(saved, player_for(saved.data, saved.seed, scratch).check(found, saved.data))


def _as_found(saved: Saved) -> Found:
    finding = Finding(saved.key, saved.requirements, "", "")
    return Found(finding, saved.seed, saved.case, saved.data, saved.ties, saved.against)


def write_trace(found: Found, file: Path) -> None:
    """The trace of a finding, headed by the scenario that gave it, so that it can be replayed."""
    head = {
        TRACE_HEAD: TRACE_FORMAT,
        "seed": found.seed,
        "case": found.number,
        "ties": found.ties,
        "versions": versions(),
        "scenario": found.data,
    }
    with scratch_folder() as scratch:
        player = CasePlayer(found.seed, scratch, trace=True)
        records = player.play(found.data, found.number, ties=found.ties).records
    write_ndjson(file, records)
    file.write_bytes(json.dumps(head).encode() + b"\n" + file.read_bytes())


@dataclass(frozen=True)
class TraceReplay:
    """A trace beside the one that its scenario gives now."""

    records: int
    first_difference: tuple[int, str, str] | None
    """Line of the file, what stands there, what came now; None: they are the same."""


def replay_trace(file: Path) -> TraceReplay:
    """Play the scenario of a trace again and compare line by line.

    Raises ConfigurationError: it is no trace with a scenario at its head, or one of another version.
    """
    wanted_file(file)
    try:
        texts = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file}: cannot be read as a trace: {error}") from None
    if not texts:
        raise ConfigurationError(f"{file}: empty; a trace begins with the scenario that gave it")
    head, *old = [_json(text, file, number) for number, text in enumerate(texts, start=1)]
    if not isinstance(head, dict) or TRACE_HEAD not in head:
        raise ConfigurationError(
            f"{file}: no scenario at its head; traces that `conformance fuzz --save` writes can be replayed"
        )
    if head[TRACE_HEAD] != TRACE_FORMAT:
        raise ConfigurationError(
            f"{file}: a trace of format {head[TRACE_HEAD]}; this version reads {TRACE_FORMAT}"
        )
    seed, case = _whole(head, "seed", file), _whole(head, "case", file)
    ties = None if head.get("ties") is None else _whole(head, "ties", file)
    scenario: dict[str, Any] = head.get("scenario", {})
    try:
        build_scenarios(Source(str(file), scenario), file.stem)
    except ScenarioError as error:
        raise ConfigurationError(str(error)) from None
    with scratch_folder() as scratch:
        records = CasePlayer(seed, scratch, trace=True).play(scenario, case, ties=ties).records
    new = comparable(records)
    for number, (was, now) in enumerate(zip(_comparable_lines(file, old), new, strict=False), start=2):
        if was != now:
            return TraceReplay(len(new), (number, was, now))
    if len(old) != len(new):
        return TraceReplay(len(new), (min(len(old), len(new)) + 2, f"{len(old)} lines", f"{len(new)} lines"))
    return TraceReplay(len(new), None)


def _json(text: str, file: Path, number: int) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{file}:{number}: {text[:40]!r} is no line of a trace: {error}") from None


def _whole(head: Mapping[str, Any], key: str, file: Path) -> int:
    value = head.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        found = "missing" if value is None else shown(value)
        raise ConfigurationError(f"{file}:1: {key}: {found}; a whole number from 0")
    return value


def _comparable_lines(file: Path, lines: Sequence[Any]) -> list[str]:
    from conformance.trace import Record

    records = []
    for number, line in enumerate(lines, start=2):
        try:
            record = Record.from_json(line)
            if not isinstance(record.t_s, int | float) or not isinstance(record.seq, int):
                raise ValueError("t_s and seq are numbers")
            records.append(record)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConfigurationError(f"{file}:{number}: no record of a trace: {error}") from None
    return comparable(records)


def promote(file: Path, name: str, catalogue: Path | None) -> Path:
    """Take a finding over into the catalogue, below `regressions/`.

    Args:
        file: as `conformance fuzz --save` writes it.
        name: id of the scenario, with or without `regressions/`.
        catalogue: its folder; None: that of this installation.
    Returns: the new file. Its title is to be filled in.
    Raises ConfigurationError: a bad name, one that is taken, a finding that is not there any more, or one that names
        neither a requirement nor a section of protocol.md and so explains nothing.
    """
    name = name.removeprefix("regressions/")
    if _ID.fullmatch(name) is None:
        raise ConfigurationError(f"{name!r} is no id; lower-case letters, digits, '.', '_', '-'")
    root = catalogue or Path(str(package_files("scenarios") / "catalogue"))
    if not root.is_dir():
        what = "a file" if root.exists() else "no such folder"
        raise ConfigurationError(f"--catalogue {root}: {what}; give the folder of a catalogue")
    place = root / "regressions" / f"{name}.yaml"
    if place.exists():
        raise ConfigurationError(f"{place} is there already; give another id")
    played = replay(file)
    same = played.same
    if same is None:
        now = ", ".join(one.finding.id for one in played.again) or "nothing"
        raise ConfigurationError(f"{file}: {played.saved.key} is not seen any more (found now: {now})")
    if same.finding.id == HARNESS_ERROR:
        raise ConfigurationError(f"{file}: an error of the harness is no regression of a client; fix it here")
    if not same.finding.requirements and _SECTION.search(same.finding.expected) is None:
        raise ConfigurationError(
            f"{file}: {same.finding.id} names no requirement and no section of protocol.md, so nothing says what is "
            "broken; add the requirement to the check that found it"
        )
    data = _of_catalogue(same)
    if not _fails_by_itself(same, data):
        raise ConfigurationError(
            f"{file}: as a scenario of the catalogue it would pass: {_why_it_passes(same)}"
        )
    try:
        place.parent.mkdir(exist_ok=True)
        place.write_text(_promoted(same, data, played.saved.drawn), encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{place}: cannot be written: {error.strerror}") from None
    return place


def _why_it_passes(found: Found) -> str:
    add = "say what must hold under `expect` and add it by hand"
    if found.against:
        return f"{found.finding.id} was found by comparing two performances; {add}"
    if found.ties is not None:
        return f"{found.finding.id} shows with simultaneous events in order {found.ties} alone; {add}"
    return (
        f"nothing that `expect` can say of itself finds {found.finding.id} ({found.finding.expected}); {add}"
    )


def _promoted(found: Found, data: Mapping[str, Any], drawn: str) -> str:
    told = {
        **data,
        "title": f"{FILL_IN}: what must hold (found as {found.finding.id})",
        "about": f"Expected: {found.finding.expected}. Seen when it was found: {found.finding.actual}"[:400],
        "tags": ["regression"],
    }
    origin = f"# From `{drawn}`.\n"
    if not drawn:
        origin = f"# From `conformance fuzz --seed {found.seed}`, case {found.number}.\n"
    return origin + dumped(told)


def _of_catalogue(found: Found) -> dict[str, Any]:
    """The scenario with what it must expect in the catalogue, where the model of fuzzing does not look."""
    from conformance.fuzz.oracle import statement

    expect = statement(found.finding) or found.data.get("expect", {})
    if found.finding.id == "finishes_within_s":
        expect = {"finishes_within_s": _longest_right_s(found)}
    return {**found.data, "requires": list(found.finding.requirements), "expect": expect}


def _longest_right_s(found: Found) -> float:
    from conformance.clients.builtin import prepare
    from conformance.fuzz.attempts import attempts_of
    from conformance.fuzz.oracle import longest_right_s
    from conformance.runner import perform

    scenario, options = build(found.data, "promoted"), RunOptions(seed=found.seed)
    with scratch_folder() as scratch:
        observation = perform(scenario, options, scratch, prepare(scenario, options))
        return longest_right_s(observation, attempts_of(observation))


def _fails_by_itself(found: Found, data: dict[str, Any]) -> bool:
    """Whether an ordinary run of the scenario, with its new expectation, shows the same finding."""
    from conformance.runner import run_scenario

    result = run_scenario(build(data, "promoted"), RunOptions(seed=found.seed))
    return any(finding.id == found.finding.id for finding in result.findings)
