"""Faults that act on one write of a client in this process, or on its handle of the socket (`conformance/seams/`)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from scenarios.errors import Broken, impossible
from scenarios.faults_base import FaultBase, Layer, unknown_event
from scenarios.names import CLIENT_EVENTS


def known_write(write: str) -> None:
    """Refuse what is no event a client writes."""
    if write not in CLIENT_EVENTS:
        raise impossible([Broken(("write",), *unknown_event(write, CLIENT_EVENTS))])


class FailingWrite(FaultBase):
    """A write of the client raises, though the connection is in order."""

    name: ClassVar[str] = "failing_write"
    layer: ClassVar[Layer] = Layer.SEAM
    takes_trigger: ClassVar[bool] = False
    write: str = "playback.ack"
    """The client event whose write fails."""
    nth: Annotated[int, Field(ge=1)] = 1
    """Which write of that event on a connection, counted from 1; no other one fails."""
    raises: Literal["RuntimeError", "AttributeError", "OSError"] = "RuntimeError"
    """An ordinary error, or what a dead socket gives."""
    message: str = "scripted failure of a write"
    """The error's text."""

    @model_validator(mode="after")
    def _known_write(self) -> Self:
        known_write(self.write)
        return self


class SlowWrite(FaultBase):
    """A write of the client yields for a while before its bytes go out; other writes pass it."""

    name: ClassVar[str] = "slow_write"
    layer: ClassVar[Layer] = Layer.SEAM
    takes_trigger: ClassVar[bool] = False
    write: str = "input_audio_buffer.commit"
    """The client event whose write is slow."""
    nth: Annotated[int, Field(ge=1)] = 1
    """Which write of that event on a connection, counted from 1; no other one is slow."""
    delay_s: Annotated[float, Field(gt=0)]
    """Seconds until the bytes go out."""

    @model_validator(mode="after")
    def _known_write(self) -> Self:
        known_write(self.write)
        return self


class NoSocket(FaultBase):
    """The built-in client's connection finds no socket to abort, as after a rename of its own attribute."""

    name: ClassVar[str] = "no_socket"
    layer: ClassVar[Layer] = Layer.SEAM
    takes_trigger: ClassVar[bool] = False


def goes_by_file(fault: FaultBase, keys: str) -> None:
    """Refuse the scope of a connection for a fault that meets files; `keys` says what there is instead."""
    broken = [
        Broken((key,), "does not apply", f"this fault goes by file; use {keys}")
        for key in ("for_s", "attempt", "sample", "connection")
        if getattr(fault, key) is not None
    ]
    if broken:
        raise impossible(broken)


class DiskFault(FaultBase):
    """A fault of the disk: the files of the client below its response root that it meets."""

    layer: ClassVar[Layer] = Layer.SEAM
    takes_trigger: ClassVar[bool] = False
    file: str | None = None
    """Only files whose path below the response root fits this pattern, such as `*/610.json`; a file that is written
    beside its place and renamed goes by its place. None: every file."""
    count: Annotated[int, Field(ge=1)] | None = None
    """Only so many writes, the first that fit; None: every one."""

    @model_validator(mode="after")
    def _of_files(self) -> Self:
        goes_by_file(self, "`file` and `count`")
        return self


class SlowDisk(DiskFault):
    """Each write of the client below its response root takes its time, and its loop stands meanwhile."""

    name: ClassVar[str] = "slow_disk"
    delay_s: Annotated[float, Field(gt=0)]
    """Seconds a write takes, of the loop's own time."""


class FullDisk(DiskFault):
    """Writes of the client below its response root fail for lack of space (ENOSPC)."""

    name: ClassVar[str] = "full_disk"
    after_bytes: Annotated[int, Field(ge=0)] = 0
    """Bytes of the files that still fit; the write that crosses the line is cut there."""


class KillClient(FaultBase):
    """The run is killed (SIGKILL) at a write of the client, and begun again in the same folder."""

    name: ClassVar[str] = "kill_client"
    layer: ClassVar[Layer] = Layer.SEAM
    takes_trigger: ClassVar[bool] = False
    file: Annotated[str, Field(min_length=1)]
    """The file that is being written, by its path below the response root, or a pattern such as `*/610.json`; a file
    that is written beside its place and renamed goes by its place."""
    when: Literal["opened", "half_written", "before_rename", "after"] = "half_written"
    """opened: nothing of the write is on the disk. half_written: half of it is. before_rename: all of it is, beside its
    place. after: all of it is, in its place."""
    nth: Annotated[int, Field(ge=1)] = 1
    """Which write to such a file, counted from 1."""

    @model_validator(mode="after")
    def _of_files(self) -> Self:
        goes_by_file(self, "`file` and `nth`")
        return self
