"""Faults that act on a client in this process, one a file (design.md section 6, layer `client seam`).

A seam is installed before the client starts and released when it has returned. It changes the websockets library as
the client meets it, or what Python's files do, not the client: the client under test stays the shipped one.
`no_socket` alone hides something of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from conformance.seams.base import Seam, SeamContext
from conformance.seams.failing_write import FailingWriteSeam
from conformance.seams.full_disk import FullDiskSeam
from conformance.seams.kill_client import KillClientSeam
from conformance.seams.no_socket import NoSocketSeam
from conformance.seams.no_transport import NoTransportSeam
from conformance.seams.slow_disk import SlowDiskSeam
from conformance.seams.slow_write import SlowWriteSeam
from conformance.seams.swallow_cancellation import SwallowCancellationSeam
from scenarios.faults import (
    FaultBase,
    Layer,
    NoTransport,
    SwallowCancellation,
)
from scenarios.faults_seam import FailingWrite, FullDisk, KillClient, NoSocket, SlowDisk, SlowWrite

__all__ = ["SEAMS", "Seam", "SeamContext", "build_seams"]

SEAMS: tuple[str, ...] = (
    SwallowCancellation.name,
    NoTransport.name,
    FailingWrite.name,
    SlowWrite.name,
    NoSocket.name,
    SlowDisk.name,
    FullDisk.name,
    KillClient.name,
)
"""Names of the seams that have a file here."""


def build_seams(faults: Sequence[FaultBase], context: SeamContext) -> list[Seam]:
    """Make the seams of a scenario, in the order of its faults.

    Args:
        faults: all faults of the scenario; those of other layers are left to the server.
        context: what the seams may ask of the runner.
    """
    seams: list[Seam] = []
    for index, fault in enumerate(faults):
        if fault.layer is not Layer.SEAM:
            continue
        if isinstance(fault, SwallowCancellation):
            seams.append(SwallowCancellationSeam(fault, index, context))
        elif isinstance(fault, NoTransport):
            seams.append(NoTransportSeam(fault, index, context))
        elif isinstance(fault, FailingWrite):
            seams.append(FailingWriteSeam(fault, index, context))
        elif isinstance(fault, SlowWrite):
            seams.append(SlowWriteSeam(fault, index, context))
        elif isinstance(fault, NoSocket):
            seams.append(NoSocketSeam(fault, index, context))
        elif isinstance(fault, SlowDisk):
            seams.append(SlowDiskSeam(fault, index, context))
        elif isinstance(fault, FullDisk):
            seams.append(FullDiskSeam(fault, index, context))
        elif isinstance(fault, KillClient):
            if context.kill == index:  # only the process that is to end has it
                seams.append(KillClientSeam(fault, index, context))
        else:
            raise NotImplementedError(f"no seam for fault {fault.name!r}")
    return seams
