"""Settings of a run, handed down from the command line; nothing below reads the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from conformance.abilities import ALL, Abilities
from conformance.clients.choice import BUILTIN, ClientChoice
from conformance.errors import ConfigurationError

if TYPE_CHECKING:
    from conformance.clients.calibration import Figure
    from conformance.targets.live import LiveTarget

__all__ = ["ConfigurationError", "RunOptions"]


@dataclass(frozen=True)
class RunOptions:
    """How scenarios are run."""

    clock: Literal["virtual", "real"] = "virtual"
    seed: int = 1
    """Seed of media, ids and jitter; the same seed gives the same trace."""
    out: Path | None = None
    """Folder for traces and the client's files; None: a temporary folder, kept for no one."""
    datasets: Mapping[str, Path] = field(default_factory=dict)
    """Dataset folders by the name scenarios use."""
    ref_audio: Path | None = None
    """Reference voice; None: one made from the seed."""
    deadlines: Mapping[str, float] = field(default_factory=dict)
    """Overrides of the client's deadlines for every scenario, after the scenario's own."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """Files of scenarios that are not of the catalogue, by id; for the command that reproduces a result."""
    client: ClientChoice = BUILTIN
    """The client under test."""
    client_env: Mapping[str, str] = field(default_factory=dict)
    """The environment of a program, without its job."""
    network: Literal["own", "shared"] = "shared"
    """Where a program runs: in a network of its own, or in this machine's."""
    client_deadline_s: float | None = None
    """When the harness gives up on it, in seconds of its clock; None: by what its waits add up to."""
    model: str = "openbmb/MiniCPM-o-4_5"
    """Name of the model that sessions ask for."""
    figure: Figure | None = None
    """How much a program's socket takes, where that had to be measured."""
    abilities: Abilities = ALL
    """What can be seen of this client on this target."""
    live: LiveTarget | None = None
    """The live server that is spoken to; None: the mock."""
    tie_seed: int | None = None
    """Events of one instant of the virtual clock happen in an order drawn from it; None: in the order they were asked
    for. What a right client publishes does not depend on it."""
    keep_trace: bool = False
    """Write the trace of every scenario, not only of those that did not pass."""
