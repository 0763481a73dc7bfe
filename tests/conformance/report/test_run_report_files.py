"""The JUnit and JSON documents: valid, stable, whole, and safe whatever a server said."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from conformance.outcome import FaultReport, Outcome
from conformance.report import json_report, junit
from conformance.report.publish import publish

# Element -> (attributes that must be there, attributes allowed, children allowed): the common JUnit schema.
SCHEMA: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {"name", "tests", "failures", "errors", "time", "skipped"},
        {"properties", "testcase"},
    ),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, {"name", "value"}, set()),
    "testcase": ({"name"}, {"name", "classname", "time"}, {"failure", "error", "skipped", "system-out"}),
    "failure": (set(), {"type", "message"}, set()),
    "error": (set(), {"type", "message"}, set()),
    "skipped": (set(), {"type", "message"}, set()),
    "system-out": (set(), set(), set()),
}


def every_outcome(make: SimpleNamespace, text: str = "why") -> Any:
    others = [make.result(f"area/{outcome.value}", outcome, reason=text) for outcome in Outcome]
    return make.report(*others, make.failure(text))


def test_junit_keeps_to_the_schema(make: SimpleNamespace) -> None:
    root = ElementTree.fromstring(junit.render(every_outcome(make)))

    assert root.tag == "testsuites"
    for element in root.iter():
        required, allowed, children = SCHEMA[element.tag]
        assert required <= set(element.attrib) <= allowed, element.tag
        assert {child.tag for child in element} <= children, element.tag
        if "time" in element.attrib:
            assert re.fullmatch(r"[0-9]+(\.[0-9]{1,3})?", element.attrib["time"])


def test_junit_totals_match_its_cases(make: SimpleNamespace) -> None:
    suite = ElementTree.fromstring(junit.render(every_outcome(make)))[0]

    cases = suite.findall("testcase")
    counted = {
        tag: sum(case.find(tag) is not None for case in cases) for tag in ("failure", "error", "skipped")
    }
    assert counted == {
        "failure": int(suite.attrib["failures"]),
        "error": int(suite.attrib["errors"]),
        "skipped": int(suite.attrib["skipped"]),
    }
    assert counted == {"failure": 4, "error": 1, "skipped": 2}
    assert len(cases) == int(suite.attrib["tests"])


def test_junit_names_are_the_scenarios_own(make: SimpleNamespace) -> None:
    case = ElementTree.fromstring(junit.render(make.report(make.result("teardown/ack/stall")))).find(
        ".//testcase"
    )

    assert case is not None
    assert (case.attrib["classname"], case.attrib["name"]) == (
        "conformance.teardown.ack",
        "teardown/ack/stall",
    )


def test_junit_carries_the_run_and_the_failures_story(make: SimpleNamespace) -> None:
    root = ElementTree.fromstring(junit.render(make.report(make.failure("null")), {"R18": "No trace."}))

    properties = {entry.attrib["name"]: entry.attrib["value"] for entry in root.iter("property")}
    assert properties["seed"] == "7"
    assert properties["version.websockets"] == "17.4"
    (failed,) = root.iter("failure")
    assert failed.attrib["type"] == "metadata.close_timeout"
    assert failed.attrib["message"] == "metadata.close_timeout: expected set; actual null"
    assert "R18      No trace." in (failed.text or "")
    assert "reproduce  conformance run teardown/stall --seed 7" in (failed.text or "")


def test_hostile_text_cannot_break_the_xml(make: SimpleNamespace) -> None:
    document = junit.render(every_outcome(make, make.hostile))

    root = ElementTree.fromstring(document)
    (failed,) = [entry for entry in root.iter("failure") if entry.attrib["type"] == "metadata.close_timeout"]
    assert "\\x1b[2J" in failed.attrib["message"]
    assert len(list(root.iter("testcase"))) == len(Outcome) + 1


def test_the_json_document_has_the_documented_keys(make: SimpleNamespace) -> None:
    data = json.loads(json_report.dumps(make.report(make.failure())))

    documented = set(re.findall(r"^    (\w+) ", json_report.__doc__ or "", re.M))
    assert set(data) == documented
    nested = set(re.findall(r"^      (\w+)", json_report.__doc__ or "", re.M)) | {"title"}
    assert set(data["results"][0]) == nested
    assert data["results"][0]["findings"][0]["deadline"] == "close_s (20 s)"


def test_the_json_counts_match_the_results(make: SimpleNamespace) -> None:
    data = json.loads(json_report.dumps(every_outcome(make)))

    kinds = [entry["kind"] for entry in data["results"]]
    assert {kind: kinds.count(kind) for kind in ("passed", "failed", "skipped")} == {
        "passed": data["counts"]["passed"],
        "failed": data["counts"]["failed"],
        "skipped": data["counts"]["skipped"],
    }


def test_evidence_that_json_cannot_hold_becomes_text(make: SimpleNamespace) -> None:
    evidence = {
        "raw": b"\x00\xff",
        "since_s": float("inf"),
        "kinds": {"b", "a"},
        3: (1, 2.5, None, True),
        "where": Path("x"),
        "text": "\ud800a",
    }
    faulty = make.result(faults=(FaultReport("f", 0, None, "armed", evidence),))

    data = json.loads(json_report.dumps(make.report(faulty)))
    assert data["results"][0]["faults"][0]["evidence"] == {
        "raw": "00ff",
        "since_s": "inf",
        "kinds": ["a", "b"],
        "3": [1, 2.5, None, True],
        "where": "x",
        "text": "\ufffda",
    }


def test_the_json_text_is_ascii_and_the_same_twice(make: SimpleNamespace) -> None:
    first, second = (json_report.dumps(every_outcome(make, make.hostile)) for _ in range(2))

    assert first == second
    assert first.isascii()
    assert "\x1b" not in first


def test_a_file_that_cannot_be_written_leaves_the_old_one_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "report.json"
    target.write_bytes(b"old")

    def full(self: Path, other: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        publish(target, b"new")
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["report.json"]


def test_reports_are_written_into_folders_that_do_not_exist_yet(
    tmp_path: Path, make: SimpleNamespace
) -> None:
    junit.write(make.report(make.result()), tmp_path / "new" / "junit.xml")
    json_report.write(make.report(make.result()), tmp_path / "new" / "run.json")

    assert ElementTree.parse(tmp_path / "new" / "junit.xml").getroot().tag == "testsuites"
    assert json.loads((tmp_path / "new" / "run.json").read_text())["version"] == 1


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    publish(pipe, b"document")
    assert os.read(reader, 100) == b"document"
    os.close(reader)
