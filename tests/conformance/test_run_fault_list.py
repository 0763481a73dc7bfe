"""`conformance faults` and docs/faults.md tell every fault from the code, and nothing else does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from conformance import fault_list
from conformance.commands import app
from conformance.exits import Exit
from conformance.fault_list import as_markdown, told_faults
from mockserver.faults import latency
from scenarios.faults import FAULTS, Layer

PAGE = Path(__file__).resolve().parents[2] / "docs" / "faults.md"


def _command(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["faults", *arguments])


def test_the_page_is_current() -> None:
    """Write it anew with `conformance faults --markdown > docs/faults.md`."""
    assert PAGE.read_text("utf-8") == _command("--markdown").output


def test_every_fault_is_told_with_all_its_parameters() -> None:
    told = {fault.name: fault for fault in told_faults()}

    assert set(told) == set(FAULTS)
    assert all(fault.summary and fault.wire and fault.survive for fault in told.values())
    for name, fault in told.items():
        shared = set(fault_list.SHARED)
        if FAULTS[name].layer is Layer.JUDGE:
            continue
        assert {p.name for p in fault.parameters} == set(FAULTS[name].model_fields) - shared
        assert all(p.text and p.kind for p in fault.parameters)


def test_what_measures_something_has_a_unit() -> None:
    parameters = {p.name: p.unit for fault in told_faults() for p in fault.parameters}

    assert parameters["delay_s"] == "seconds"
    assert parameters["bytes_per_s"] == "bytes a second"
    assert parameters["audio_ms"] == "milliseconds"
    assert parameters["buffer_bytes"] == "bytes"
    assert parameters["rate_hz"] == "hertz"
    assert parameters["text"] == ""


def test_json_gives_one_object_a_fault() -> None:
    told = json.loads(_command("--json", "latency").output)

    assert [fault["name"] for fault in told] == ["latency"]
    assert told[0]["parameters"][0] == {
        "name": "latency_s",
        "kind": "number > 0",
        "unit": "seconds",
        "default": "required",
        "text": "Seconds each write is held back.",
    }


def test_a_few_faults_are_told_in_full_and_all_of_them_in_short() -> None:
    assert "survive:" in _command("latency").output
    assert "survive:" not in _command().output
    assert [line for line in _command().output.splitlines() if not line.startswith(" ")] == [
        f"{layer.value}:" for layer in Layer
    ]


def test_an_unknown_name_is_a_usage_error_that_tells_the_known_ones() -> None:
    result = _command("latencies")

    assert result.exit_code == Exit.USAGE
    assert "'latencies'" in result.output
    assert "latency" in result.output


def test_two_forms_at_once_are_a_usage_error() -> None:
    assert _command("--json", "--markdown").exit_code == Exit.USAGE


def test_a_docstring_without_its_parts_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency.Latency, "__doc__", "It is late.\n\nWire: late.")

    with pytest.raises(ValueError, match=r"mockserver\.faults\.latency"):
        told_faults(["latency"])


def test_a_changed_docstring_makes_the_page_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    before = as_markdown(told_faults(["latency"]))
    monkeypatch.setattr(latency.Latency, "__doc__", f"{latency.Latency.__doc__} Or not at all.")

    assert as_markdown(told_faults(["latency"])) != before
