"""What a live run costs: device time by scenario and sample, what it went for, and what may still be spent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from scenarios.model import Scenario

For = Literal["success", "failure", "retry", "interrupted", "refused"]
PURPOSES: tuple[For, ...] = get_args(For)
TAIL_S = 6.0
"""What a session takes beside its clip where nothing is known: reply, quiet, close."""


@dataclass(frozen=True)
class DeviceUse:
    """One session on the server."""

    sample: str
    """`split/id`, or the connection where nobody could tell."""
    attempt: int
    device_s: float
    spent_on: For


def estimate_s(scenario: Scenario, sessions: int) -> float:
    """Device seconds that a scenario will take: its sessions, each as long as its clip and what waits behind it."""
    specs = scenario.specs
    each = sum((spec.clip.seconds or 30.0) + TAIL_S for spec in specs)
    bound_s = scenario.expect.finishes_within_s
    if bound_s is not None:
        at_once = max(1, min(scenario.client.concurrency, sessions))
        each = max(each, bound_s * min(at_once, len(specs)))
    return each


def ordered(scenarios: Iterable[Scenario], sessions: int) -> list[Scenario]:
    """Cheapest and most telling first: device time for each requirement that a scenario speaks for."""
    return sorted(scenarios, key=lambda s: (estimate_s(s, sessions) / (1 + len(s.requires)), s.id))


@dataclass
class Purse:
    """Device time that may be spent; None: as much as it takes."""

    budget_s: float | None
    spent_s: float = 0.0
    promised: dict[str, float] = field(default_factory=dict)
    """Estimates of what runs, by scenario."""
    left_out: list[str] = field(default_factory=list)

    def take(self, scenario: Scenario, cost_s: float) -> bool:
        """Whether it may begin; otherwise it is left out."""
        asked_s = self.spent_s + sum(self.promised.values()) + cost_s
        if self.budget_s is not None and asked_s > self.budget_s:
            self.left_out.append(scenario.id)
            return False
        self.promised[scenario.id] = cost_s
        return True

    def paid(self, scenario_id: str, uses: Iterable[DeviceUse]) -> None:
        """It is over, and cost this."""
        self.promised.pop(scenario_id, None)
        self.spent_s += sum(use.device_s for use in uses)


def bill(uses: Sequence[tuple[str, DeviceUse]], purse: Purse) -> dict[str, Any]:
    """The whole account, in device minutes.

    Args:
        uses: (scenario, session) of everything that ran.
    """
    by_scenario: dict[str, float] = defaultdict(float)
    by_purpose: dict[str, float] = dict.fromkeys(PURPOSES, 0.0)
    for scenario, use in uses:
        by_scenario[scenario] += use.device_s
        by_purpose[use.spent_on] += use.device_s
    total_s = sum(by_scenario.values())
    refused = sum(use.spent_on == "refused" for _, use in uses)
    return {
        "device_minutes": round(total_s / 60, 2),
        "sessions": len(uses) - refused,
        "refused": refused,
        "budget_minutes": None if purse.budget_s is None else round(purse.budget_s / 60, 2),
        "spent_on": {name: round(seconds / 60, 2) for name, seconds in by_purpose.items()},
        "next_time_minutes": round((total_s - by_purpose["retry"]) / 60, 2),
        "by_scenario": {
            name: round(seconds / 60, 3)
            for name, seconds in sorted(by_scenario.items(), key=lambda item: (-item[1], item[0]))
        },
        "by_session": [{"scenario": scenario, **asdict(use)} for scenario, use in uses],
        "left_out": list(purse.left_out),
    }


def bill_lines(account: dict[str, Any]) -> list[str]:
    """For a reader."""
    spent = account["spent_on"]
    lines = [
        f"device time: {account['device_minutes']:g} min in {account['sessions']} session(s): "
        f"{spent['success']:g} on success, {spent['failure']:g} on failures, {spent['retry']:g} on retries"
        + (f", {spent['interrupted']:g} on what was interrupted" if spent["interrupted"] else "")
        + (
            f"; {account['refused']} more were asked for and refused: no free slot"
            if account["refused"]
            else ""
        ),
        f"the same again, without retries: {account['next_time_minutes']:g} min",
    ]
    dearest = list(account["by_scenario"].items())[:5]
    if dearest:
        lines.append("dearest: " + ", ".join(f"{name} {minutes:g} min" for name, minutes in dearest))
    if account["left_out"]:
        left = account["left_out"]
        lines.append(
            f"left out by the budget of {account['budget_minutes']:g} min: {len(left)} scenario(s): "
            + ", ".join(left[:10])
            + (" …" if len(left) > 10 else "")
        )
    return lines
