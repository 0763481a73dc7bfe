"""The judging of one scenario: judge and evaluation side by side in its loop, and what they left behind."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.clients import judging as builtin
from conformance.outcome import FaultReport
from conformance.targets.judge import judge_fault_positions, make_judge
from conformance.trace import Recorder
from mockserver.judge import JudgedSample
from scenarios.judging import JudgeSpec

if TYPE_CHECKING:
    from client.judge.evaluation import EvaluationResult
    from client.judge.settings import JudgeSettings
    from client.judge.subject import Subject
    from mockserver.judge_ledger import JudgeRequest
    from scenarios.model import Scenario

SUMMARY = "evaluation_summary.json"


@dataclass(frozen=True)
class JudgedFacts:
    """What the judging of one sample left: files alone say it, so any client can be asked."""

    split: str
    id: str
    score: Mapping[str, Any] | None
    """The score file; None: there is none."""
    trace: tuple[Mapping[str, Any], ...]
    """Lines of the trace."""
    requests: tuple[JudgeRequest, ...]
    """What the judge read for it."""
    reason: str
    """What `errors` of the accuracy object says of it; empty: nothing."""
    task: str | None = None
    """Canonical task of a PR sample."""
    references: tuple[str, ...] = ()
    """answer1 and answer2, as the sample has them."""
    torn: str = ""
    """Which file does not parse, and why."""
    earlier: tuple[JudgeRequest, ...] = ()
    """What the judge read for it in runs that were killed."""

    @property
    def all_requests(self) -> tuple[JudgeRequest, ...]:
        """What the judge read for it in all runs; trace and score are of all of them."""
        return (*self.earlier, *self.requests)

    def may_be_two(self, judgement: int) -> bool:
        """Whether a chat judgement may be two: both events of a reminder may show the same words (evaluation.md 18).

        The ledger begins a new one only behind a verdict. Where the judge gave none, a question put afresh behind a
        re-ask is the second event's, or the first's once more: nothing tells them apart, and no one is blamed.
        """
        asked = [
            r.reask for r in self.requests if (r.kind, r.judgement) == ("chat", judgement) and not r.repeats
        ]
        return self.task != "correction" and True in asked and False in asked[asked.index(True) :]

    @property
    def name(self) -> str:
        """`split/id`."""
        return f"{self.split}/{self.id}"


@dataclass
class Judged:
    """All of the judging, as facts."""

    spec: JudgeSpec
    ledger: Sequence[JudgeRequest] = ()
    accuracy: Mapping[str, Any] = field(default_factory=dict)
    """`evaluation_summary.json`; empty: there is none."""
    samples: list[JudgedFacts] = field(default_factory=list)
    script_left: int = 0
    """Scripted replies that nobody asked for."""
    finished: bool = False
    """The evaluation returned by itself."""


class JudgeStage:
    """The judge of one performance, and the evaluation that asks it."""

    def __init__(
        self,
        scenario: Scenario,
        spec: JudgeSpec,
        subjects: Sequence[Subject],
        out: Path,
        recorder: Recorder,
        behind: JudgeSettings | None = None,
        stretched: bool = False,
    ) -> None:
        """Args:
        behind: the judge that answers; None: the scenario scripts it.
        stretched: the script is played for another answer than the scripted one.
        """
        if behind is not None:
            # A judge that opens no files is shown frames; one that does takes frames as well.
            frames = behind.video_mode == "frame-sample"
            mode = {"video_mode": behind.video_mode} if frames else {}
            spec = spec.model_copy(update={"model": behind.model, **mode})
        self.spec = spec
        self._scenario = scenario
        self._subjects = list(subjects)
        self._out = out
        self._recorder = recorder
        known = [JudgedSample(s.split, s.id, s.instruction) for s in subjects]
        self.server = make_judge(scenario, known, self._on_judge, behind=behind, stretched=stretched)
        self._finished = False

    async def evaluate(self, subjects: Sequence[Subject] | None = None) -> EvaluationResult:
        """The client's part: judge what it has published. Runs as a task of the client.

        Args: subjects: as the client itself has read them from a dataset; None: as the scenario says.
        """
        self._recorder.add("", "harness", "phase", {"name": "judging"})
        evaluation = builtin.make_evaluation(
            self.spec, subjects or self._subjects, self._out, self.server.url
        )
        result = await evaluation.run()
        self._finished = True
        return result

    def fault_reports(self) -> list[FaultReport]:
        """What the judge's faults did, by their position in the scenario."""
        positions = judge_fault_positions(self._scenario)
        return [
            FaultReport(r.name, positions[r.index], None, r.state, self._recorder.relative(r.evidence))
            for r in self.server.fault_reports()
        ]

    def facts(self, out: Path, earlier: Sequence[JudgeRequest] = ()) -> Judged:
        """What is on the disk, below the response root `out`, and in the ledger.

        Args: earlier: what the judges of killed runs had read.
        """
        folder = out / builtin.SCORE_FOLDER
        accuracy, _ = _read(folder / SUMMARY)
        accuracy = accuracy if isinstance(accuracy, dict) else {}
        return Judged(
            spec=self.spec,
            ledger=self.server.ledger.entries,
            accuracy=accuracy,
            samples=[self._sample(folder, s, accuracy, earlier) for s in self._subjects],
            script_left=self.server.script.left,
            finished=self._finished,
        )

    def _sample(
        self, folder: Path, subject: Subject, accuracy: Mapping[str, Any], earlier: Sequence[JudgeRequest]
    ) -> JudgedFacts:
        split, sample_id = subject.split, subject.id
        score, torn_score = _read(folder / split / f"{sample_id}.json")
        trace, torn_trace = _read_lines(folder / split / f"{sample_id}.judge.jsonl")
        told = f"{split}/{sample_id}.json: "
        errors = accuracy.get("errors")
        mine = (
            [e for e in errors if isinstance(e, str) and e.startswith(told)]
            if isinstance(errors, list)
            else []
        )
        return JudgedFacts(
            split=split,
            id=sample_id,
            score=score if isinstance(score, dict) else None,
            trace=tuple(trace),
            requests=tuple(self.server.ledger.of((split, sample_id))),
            reason="; ".join(e.removeprefix(told) for e in mine),
            task=subject.task,
            references=tuple(subject.references),
            torn="; ".join(t for t in (torn_score, torn_trace) if t),
            earlier=tuple(entry for entry in earlier if entry.sample == (split, sample_id)),
        )

    def _on_judge(self, event: str, data: Mapping[str, Any]) -> None:
        if event == "fault":
            told = {key: value for key, value in data.items() if key != "name"}
            self._recorder.add("judge", "fault", str(data["name"]), self._recorder.relative(told))
        else:
            self._recorder.add("judge", "server", f"judge {event}", data)


def _read(path: Path) -> tuple[Any, str]:
    if not path.exists():
        return None, ""
    try:
        return json.loads(path.read_text(encoding="utf-8")), ""
    except (ValueError, OSError) as error:
        return None, f"{path.name}: {error}"


def _read_lines(path: Path) -> tuple[list[Mapping[str, Any]], str]:
    """JSON lines; only a line feed ends one."""
    if not path.exists():
        return [], ""
    lines: list[Mapping[str, Any]] = []
    try:
        for number, text in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
            if text.strip():
                line = json.loads(text)
                if not isinstance(line, dict):
                    return lines, f"{path.name}: line {number} is no object"
                lines.append(line)
    except (ValueError, OSError) as error:
        return lines, f"{path.name}: {error}"
    return lines, ""
