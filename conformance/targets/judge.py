"""The judge of this project, in this process, on a loopback port of its own for each scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from client.judge.settings import JudgeSettings, completions_url
from mockserver.judge import JudgedSample, JudgeServer
from mockserver.judge_proxy import JudgeProxy
from scenarios.faults import FaultBase, Layer
from scenarios.judging import JudgeSpec
from scenarios.model import Scenario


def judge_faults(scenario: Scenario | None) -> list[FaultBase]:
    """The faults that the judge plays."""
    faults = scenario.faults if scenario is not None else []
    return [fault for fault in faults if fault.layer is Layer.JUDGE]


def judge_fault_positions(scenario: Scenario) -> list[int]:
    """Where each of them stands in the scenario's list."""
    return [index for index, fault in enumerate(scenario.faults) if fault.layer is Layer.JUDGE]


def make_judge(
    scenario: Scenario | None,
    samples: Sequence[JudgedSample],
    sink: Callable[[str, Mapping[str, Any]], None] | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    behind: JudgeSettings | None = None,
    stretched: bool = False,
    keep: int | None = None,
) -> JudgeServer:
    """A judge scripted as the scenario says, not yet started; without one its verdicts are plausible.

    Args:
        samples: what may be judged.
        sink: hears of each request and each change of a fault.
        behind: a judge of one's own that answers in its place.
        stretched: the answers judged are not the scripted ones: what the script has no reply left for gets the last one
            that fits once more.
        keep: how many requests its ledger remembers, twice as many at most; None: all.
    """
    spec = (scenario.judge if scenario is not None else None) or JudgeSpec()
    if behind is not None:
        return JudgeProxy(
            completions_url(behind.base_url),
            headers={"Authorization": f"Bearer {behind.api_key}"},
            timeout_s=behind.timeout_s,
            tls=behind.tls,
            faults=judge_faults(scenario),
            samples=samples,
            model=behind.model,
            host=host,
            port=port,
            sink=sink,
        )
    return JudgeServer(
        replies=spec.replies,
        fall_back=stretched or not spec.is_scripted,
        again=stretched,
        faults=judge_faults(scenario),
        samples=samples,
        model=spec.model,
        answers_after_s=spec.answers_after_ms / 1000,
        host=host,
        port=port,
        sink=sink,
        keep=keep,
    )
