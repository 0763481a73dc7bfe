"""The run as one JSON document, for programs.

The document is one object. Keys are added over time; none is renamed, removed or given another meaning
without a new `version`.

    format        "duplex-conformance/run-report"
    version       1
    target        "mock" or "live"
    clock         "virtual" or "real"
    client        the client under test, as given
    seed          integer
    real_s        wall time of the run, seconds
    interrupted   true when the run was ended early; `results` then holds what ran
    stopped_early why scenarios that were chosen did not run, or ""
    complaints    what fails the run beside its results: stale expected failures, expired flakes
    environment   name -> version, of Python and the libraries in use
    counts        passed, failed, expected, skipped, and by_outcome: every outcome -> count, zeros included
    results       a list, in the order of the report:
      id, title     of the scenario
      requires      requirement ids
      outcome       pass, fail, inert, not-observable, indeterminate, harness-error or skipped
      kind          passed, failed, expected or skipped: how `counts` counts it
      reason        why it is none of pass and fail, or ""
      virtual_s     loop time, seconds (wall time under the real clock)
      real_s        wall time, seconds
      findings      list of {id, requirements, expected, actual, sample, deadline, details}
      faults        list of {name, index, connection, state, evidence}
      expected      why its failure is expected, a text each
      warnings      like findings; they fail nothing
      unobserved    list of {id, what, need, reason, sample}: what could not be seen of this client here
      last_events   lines, for what did not pass
      reproduce     one command, or ""
      trace_path    path, or null
      facts         of a probe: name -> value (docs/probes.md)
      device        on a live server, a list of {sample, attempt, device_s, spent_on}
      injected      on a live server, what was played in a peer's place beside the faults, a text each
      no_slot       on a live server, in what words it refused a session for want of a slot, or ""
      unconfirmed   on a live server, sessions whose end it never confirmed (count)
      answers       on a live server, what it left unanswered and since when, a text a session
    live          of a run on a live server: configuration, measured, bill, metrics (docs/live.md); else null

Text is escaped by JSON's own rules to plain ASCII, so the document may be printed on any terminal; lone
surrogates become U+FFFD. Evidence that JSON cannot hold is written as text: bytes in hex, "inf", "nan".
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from conformance.outcome import RunReport, ScenarioResult, kind_of
from conformance.report.publish import publish
from conformance.report.tally import tally

FORMAT = "duplex-conformance/run-report"
VERSION = 1


def document(report: RunReport) -> dict[str, Any]:
    """The document as plain data (see the module's text for its keys); safe for any JSON writer."""
    counts = tally(report.results)
    data: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "target": report.target,
        "clock": report.clock,
        "client": report.client,
        "seed": report.seed,
        "real_s": report.real_s,
        "interrupted": report.interrupted,
        "stopped_early": report.stopped_early,
        "complaints": list(report.complaints),
        "environment": report.environment,
        "counts": {
            "passed": counts.passed,
            "failed": counts.failed,
            "expected": counts.expected,
            "skipped": counts.skipped,
            "by_outcome": counts.by_outcome,
        },
        "results": [_result(result) for result in report.results],
        "live": report.live,
    }
    plain = _plain(data)
    assert isinstance(plain, dict)
    return plain


def dumps(report: RunReport) -> str:
    """The document as text that ends with a line break."""
    return json.dumps(document(report), indent=2, allow_nan=False) + "\n"


def write(report: RunReport, path: Path) -> None:
    """Write the document; the file appears whole or not at all.

    Raises OSError: the folder cannot be made or written.
    """
    publish(path, dumps(report).encode("ascii"))


def _result(result: ScenarioResult) -> dict[str, Any]:
    return {
        "id": result.id,
        "title": result.title,
        "requires": list(result.requires),
        "outcome": result.outcome.value,
        "kind": kind_of(result),
        "reason": result.reason,
        "virtual_s": result.virtual_s,
        "real_s": result.real_s,
        "findings": [asdict(finding) for finding in result.findings],
        "faults": [asdict(fault) for fault in result.faults],
        "expected": list(result.expected),
        "warnings": [asdict(warning) for warning in result.warnings],
        "unobserved": [asdict(told) for told in result.unobserved],
        "last_events": list(result.last_events),
        "reproduce": result.reproduce,
        "trace_path": result.trace_path,
        "facts": dict(result.facts),
        "device": [dict(use) for use in result.device],
        "injected": list(result.injected),
        "no_slot": result.no_slot,
        "unconfirmed": result.unconfirmed,
        "answers": list(result.answers),
    }


def _plain(value: Any) -> Any:
    """The value with only what JSON has; anything else becomes its text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, str):
        return str(value).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, Mapping):
        return {str(_plain(str(key))): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(entry) for entry in value), key=str)
    return _plain(str(value))
