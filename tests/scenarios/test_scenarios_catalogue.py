"""The catalogue as a whole: it loads, fast, and says of each scenario what it is for."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from scenarios import Scenario, ScenarioError, load_catalogue, load_scenario, load_scenarios, select
from scenarios import loader as loader_module
from scenarios.faults import FAULTS
from scenarios.names import (
    ANOMALIES,
    CLIENT_EVENTS,
    DEADLINES,
    DIAGNOSTIC_KEYS,
    DIALECT_SPELLINGS,
    FLOORS,
    METADATA_KEYS,
    REQUIREMENTS,
    RUN_KEYS,
    SERVER_EVENTS,
    VERDICTS,
)

PROJECT = Path(__file__).resolve().parents[2]
CATALOGUE = PROJECT / "scenarios" / "catalogue"
LOAD_150_S = 0.15
NOT_FOR_OUR_CLIENT = {"ignore_cancel"}
"""Faults that answer what our client never sends: it cancels no reply."""


@pytest.fixture(scope="module")
def catalogue() -> list[Scenario]:
    return load_catalogue()


def test_ids_and_titles_are_unique_and_sorted(catalogue: list[Scenario]) -> None:
    ids = [scenario.id for scenario in catalogue]

    assert ids == sorted(set(ids))
    assert len({scenario.title for scenario in catalogue}) == len(ids)
    assert len(ids) >= 40


def test_every_file_is_in_the_catalogue_under_its_path(catalogue: list[Scenario]) -> None:
    files = {path.relative_to(CATALOGUE).with_suffix("").as_posix() for path in CATALOGUE.rglob("*.yaml")}

    assert {scenario.id.split("[")[0] for scenario in catalogue} == files
    assert load_scenario(CATALOGUE / "close" / "no-transport.yaml").id == "close/no-transport"


def test_every_scenario_speaks_for_a_requirement_and_carries_tags(catalogue: list[Scenario]) -> None:
    """What fuzzing found may speak for a section of protocol.md instead, and says which."""
    dumb = [s for s in catalogue if not s.requires and s.probe is None]

    assert [s.id for s in catalogue if not s.tags] == []
    assert [s.id for s in dumb if not s.id.startswith("regressions/") or "protocol.md " not in s.about] == []


def test_probes_and_only_they_stand_under_probes_with_their_tag(catalogue: list[Scenario]) -> None:
    probes = {s.id for s in catalogue if s.probe is not None}

    assert len(probes) >= 10
    assert probes == {s.id for s in catalogue if s.id.startswith("probes/")}
    assert probes == {s.id for s in select(catalogue, tags=["probe"])}


def test_every_stall_sets_a_bound_in_time(catalogue: list[Scenario]) -> None:
    unbounded = [s.id for s in catalogue if "stall" in s.tags and s.expect.finishes_within_s is None]

    assert unbounded == []


def test_every_fault_is_used_by_a_scenario(catalogue: list[Scenario]) -> None:
    used = {fault.name for scenario in catalogue for fault in scenario.faults}

    assert set(FAULTS) - used == NOT_FOR_OUR_CLIENT


def test_clips_are_short_enough_to_run_quickly(catalogue: list[Scenario]) -> None:
    """A reminder's ten seconds, from end to end, do not fit into a short one; falling behind takes time as well."""
    made = [(s.id.split("[")[0], spec.clip.seconds or 0) for s in catalogue for spec in s.specs]

    assert {name for name, seconds in made if seconds > 6} == {"judge/reminder-ends", "pace/below-real-time"}
    assert max(seconds for _, seconds in made) <= 15


def test_the_catalogue_loads_in_time(catalogue: list[Scenario]) -> None:
    best_s = min(_load_s() for _ in range(3))

    assert best_s / len(catalogue) * 150 < LOAD_150_S


def _load_s() -> float:
    began = time.process_time()
    load_catalogue()
    return time.process_time() - began


def test_broken_files_of_the_catalogue_are_told_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (CATALOGUE / "close" / "no-transport.yaml").read_text("utf-8")
    for name, content in {
        "a/x.yaml": text,
        "a/y.yaml": text,
        "b/z.yaml": text.replace("forced", "gentle").replace("R13", "R99"),
        "b/notes.yml": text,
    }.items():
        file = tmp_path / "catalogue" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
    monkeypatch.setattr(loader_module, "files", lambda package: tmp_path)

    with pytest.raises(ScenarioError) as caught:
        load_catalogue()
    told = str(caught.value)
    assert "is the title of a/x as well" in told
    assert "z.yaml" in told
    assert "b/notes.yml is no .yaml file" in told


def test_the_catalogue_is_found_from_anywhere(tmp_path: Path) -> None:
    code = "import scenarios; print(len(scenarios.load_catalogue()))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env=_environment(),
    )

    assert int(done.stdout) >= 40


def _environment() -> dict[str, str]:
    return {"PYTHONPATH": str(PROJECT), "PATH": "/usr/bin:/bin"}


def test_deadline_names_are_those_of_the_client() -> None:
    from client.deadlines import Deadlines

    assert tuple(field.name for field in dataclasses.fields(Deadlines)) == DEADLINES


def test_run_and_metadata_keys_are_those_of_the_client() -> None:
    from client.generate import metadata_of
    from client.run_result import RunResult

    written = set(re.findall(r'^        "(\w+)":', inspect.getsource(metadata_of), flags=re.M))
    assert len(written) > 15
    assert written <= METADATA_KEYS
    assert set(RunResult("", {}).to_json()) == RUN_KEYS


def test_anomalies_are_those_the_client_counts_and_the_document_tells() -> None:
    """Every name that the client's code counts under, read off its source."""
    from client.vocabulary import oddity
    from client.wire import HARMLESS_ERRORS

    counted: set[str] = set(HARMLESS_ERRORS)
    for file in sorted((PROJECT / "client").glob("*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        assigned = {
            target.id: node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.AugAssign) and "anomalies[" in ast.unparse(node.target):
                assert isinstance(node.target, ast.Subscript)
                index = node.target.slice
                value = assigned.get(index.id, index) if isinstance(index, ast.Name) else index
                options = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
                counted |= {str(one.value) for one in options if isinstance(one, ast.Constant)}
    strange = [oddity({"type": "no.such"}), oddity({"type": "session.closed", "no_such": 1})]
    counted |= {found[0] for found in strange if found is not None}

    assert counted == ANOMALIES
    told = re.findall(r"^\| `(\w+)` \|", (PROJECT / "docs" / "writing-scenarios.md").read_text("utf-8"), re.M)
    assert sorted(ANOMALIES) == [name for name in told if name in ANOMALIES]


def test_floors_and_verdicts_are_the_clients() -> None:
    from client.gates import Gates, gate
    from client.run_result import RunResult
    from client.summary import REFERENCE_FLOORS

    result = RunResult("", {})
    gates = Gates(guard="strict", floors=REFERENCE_FLOORS, max_retries=0)
    result.accuracy = {}
    given = {verdict.name for verdict in gate(result, gates)}

    assert tuple(REFERENCE_FLOORS) == FLOORS
    assert given == VERDICTS


def test_diagnostic_keys_are_those_of_the_client() -> None:
    from client.diagnostics import AttemptDiagnostics

    assert {field.name for field in dataclasses.fields(AttemptDiagnostics)} == DIAGNOSTIC_KEYS


def test_event_names_stand_in_the_protocol() -> None:
    text = (PROJECT / "docs" / "protocol.md").read_text("utf-8")
    logical = set(DIALECT_SPELLINGS.values())
    spelt = (CLIENT_EVENTS | SERVER_EVENTS) - logical
    missing = {name for name in spelt if f"`{name}`" not in text and f'"{name}"' not in text}

    assert missing - _grouped_names(text) == set()
    assert all(f"`{name}`" in text for name in DIALECT_SPELLINGS)


def _grouped_names(text: str) -> set[str]:
    """Names the protocol writes short: `a.delta` / `.done`, and a bare `error` or `barge_in`."""
    short = {f"{stem}{tail}" for stem, tail in re.findall(r"`([a-z_.]+)\.delta` / `(\.done)`", text)}
    return short | {"error", "barge_in"}


def test_every_requirement_has_a_text_and_a_status() -> None:
    rows = yaml.safe_load((PROJECT / "docs" / "requirements.yaml").read_text("utf-8"))["requirements"]

    assert [row["id"] for row in rows] == [f"R{n}" for n in range(1, 64)]
    assert {row["id"] for row in rows} == REQUIREMENTS
    assert {row["status"] for row in rows} <= {"must", "decided", "open", "process"}
    assert all(len(row["text"]) > 20 for row in rows)


def test_the_example_of_the_guide_is_a_scenario(tmp_path: Path) -> None:
    guide = (PROJECT / "docs" / "writing-scenarios.md").read_text("utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", guide, flags=re.S)
    file = tmp_path / "example.yaml"

    def loaded(word: str, before: str = "") -> list[Scenario]:
        (block,) = (block for block in blocks if word in block)
        file.write_text(before + block, encoding="utf-8")
        return load_scenarios(file)

    head = "title: A part\nabout: As in the guide.\nrequires: [R20]\n"
    several = "samples: [{id: '1', clip: {seconds: 1.4}}, {id: '3', clip: {seconds: 1.4}}]\n"
    whole = blocks[0].replace("  close: forced\n", "")
    (example,) = loaded("title:")
    (killed,) = loaded("kill_client:", head + several)
    (second,) = loaded("earlier:", f"{head}clip: {{seconds: 1.4}}\n")
    (judged,) = loaded("judge:\n", head)
    (from_dataset,) = loaded("dataset:\n", head)
    (gated,) = loaded("gates:", head + several + "judge: {}\n")

    assert example.faults[0].name == "stop_reading"
    assert killed.faults[0].name == "kill_client"
    assert from_dataset.dataset is not None
    assert second.earlier is not None
    assert gated.client.gates is not None
    assert judged.judge is not None
    assert judged.judge.is_scripted
    assert [s.id for s in loaded("cases:", whole)] == ["example[july]", "example[input-driven]"]


def test_a_stall_is_picked_by_tag_across_areas(catalogue: list[Scenario]) -> None:
    areas = {scenario.id.split("/")[0] for scenario in select(catalogue, tags=["stall"])}

    assert {"close", "commit", "drain", "reply", "retry"} <= areas
