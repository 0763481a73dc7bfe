"""Invariants of what a session streams: the clip, its padding, its acks, and what its metadata must say."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from conformance.abilities import Need
from conformance.invariants_base import invariant
from conformance.observation import Observation
from conformance.outcome import Finding
from scenarios.faults import FAULTS, Layer

if TYPE_CHECKING:
    from client.media import Prepared
    from mockserver.journal import Entry

PCM_BYTES_PER_MS = 32
UNIT_MS = 1000
"""Of a unit of the clip; less where the server declares a shorter chunk period."""
UNREAD = {"after_close", "ignored"}
"""What the journal says of an event that came when its session was over."""
ALWAYS_IN_METADATA = (
    "id",
    "split",
    "clock",
    "pace",
    "mix",
    "fps",
    "unit_ms",
    "model",
    "response_done",
    "drain_timeout",
    "close_timeout",
    "ack_timeout",
    "server_errors",
    "retry_count",
    "ref_audio_sha256",
)
"""Keys of evaluation.md 12.1."""


def metadata_incomplete(observation: Observation) -> Iterator[Finding]:
    """The metadata of a sample that had a session hold every key of evaluation.md 12.1."""
    for facts in observation.samples:
        if facts.outcome != "published":
            continue
        if facts.metadata is None:
            wanted = "every key of evaluation.md 12.1"
            yield Finding("metadata-incomplete", ("R20",), wanted, "no metadata was written", facts.name)
            continue
        missing = [key for key in ALWAYS_IN_METADATA if key not in facts.metadata]
        if missing:
            told = f"without {', '.join(missing)}"
            yield Finding(
                "metadata-incomplete", ("R20",), "every key of evaluation.md 12.1", told, facts.name
            )


def clip_altered(observation: Observation) -> Iterator[Finding]:
    """The clip arrives as it was prepared: unit by unit, each with its picture, its duration and the media clock."""
    prepared = {(p.split, p.id): p for p in observation.prepared}
    for number, appends in _appends(observation, committed=False).items():
        sample = prepared.get(_sample_of(observation, number) or ("", ""))
        if sample is None:
            continue
        at = 0
        told = ""
        riding = _riding(sample, len(appends), min(UNIT_MS, observation.period_ms(number)))
        for k, append in enumerate(appends):
            told = told or _unit_differs(sample, k, at, append, None if observation.outside else riding[k])
            at += int(append.data.get("audio_bytes", 0))
        if not told and observation.outside:
            told = _pictures_differ(sample, appends)
        if told:
            yield Finding(
                "clip-altered", ("R51",), "the units of the clip, in order", told, _name(observation, number)
            )


def _riding(sample: Prepared, units: int, unit_ms: int) -> list[list[int]]:
    """Which picture rides which unit, at most one: the next one, once its time is within the unit (evaluation.md 2)."""
    riding: list[list[int]] = []
    upcoming = 0
    for unit in range(units):
        due = upcoming < len(sample.frames) and round(sample.frames[upcoming].t_s * 1e6) <= (
            (unit + 1) * unit_ms * 1000
        )
        riding.append([upcoming] if due else [])
        upcoming += due
    return riding


def _unit_differs(
    sample: Prepared, k: int, at_bytes: int, append: Entry, pictures: Sequence[int] | None
) -> str:
    """What is wrong with the k-th append of a clip, which begins at so many bytes, in words.

    The last unit's length is another invariant's.

    Args:
        pictures: which ride it; None: they are not compared.
    """
    size = int(append.data.get("audio_bytes", 0))
    if append.data.get("audio_sha") != _piece_sha(sample.pcm, at_bytes, size):
        return f"append {k + 1} holds other audio than the clip at {at_bytes // PCM_BYTES_PER_MS} ms"
    end_ms = (at_bytes + size) // PCM_BYTES_PER_MS
    if (
        append.data.get("audio_end_ms") != end_ms
        or append.data.get("duration_ms") != size // PCM_BYTES_PER_MS
    ):
        said = f"duration_ms {append.data.get('duration_ms')}, audio_end_ms {append.data.get('audio_end_ms')}"
        return f"append {k + 1} says {said}, and ends at {end_ms} ms"
    frames = [frame.get("sha") for frame in append.data.get("frames") or ()]
    if pictures is not None and frames != [sha(sample.frames[index].jpeg) for index in pictures]:
        wanted = f"picture {pictures[0] + 1} of {len(sample.frames)}" if pictures else "none"
        return f"append {k + 1} carries {len(frames)} picture(s), not {wanted}"
    return ""


def _pictures_differ(sample: Prepared, appends: list[Entry]) -> str:
    """A client of others decodes the clip's video itself, or sends sound alone: pictures are counted, not compared."""
    counts = [len(append.data.get("frames") or ()) for append in appends]
    extra = next((k for k, count in enumerate(counts) if count > 1), None)
    if extra is not None:
        return f"append {extra + 1} carries {counts[extra]} pictures, at most one a unit"
    if sum(counts) > len(sample.frames):
        return f"{sum(counts)} pictures of a clip with {len(sample.frames)}"
    return ""


def padded_unit(observation: Observation) -> Iterator[Finding]:
    """A padded unit is silence of one period, no speech, no picture, its media clock one period on (R39)."""
    for number, appends in _appends(observation, committed=True).items():
        before: object = None
        period_ms = observation.period_ms(number)
        silence = sha(bytes(period_ms * PCM_BYTES_PER_MS))
        for append in appends:
            data = append.data
            end_ms = data.get("audio_end_ms")
            right = (
                data.get("audio_sha") == silence
                and data.get("is_speech") is False
                and not data.get("frames")
                and data.get("duration_ms") == period_ms
                and (not isinstance(before, int) or end_ms == before + period_ms)
            )
            if not right:
                told = f"at {append.t_s:.3f} s: {dict(data)}"
                wanted = (
                    f"{period_ms} ms of zeros, is_speech false, no picture, audio_end_ms {period_ms} more"
                )
                yield Finding("padded-unit", ("R39",), wanted, told[:400], _name(observation, number))
                break
            before = end_ms


def ack_position(observation: Observation) -> Iterator[Finding]:
    """A playback ack says how much audio had come: a position the reply had really reached by then.

    Reached is what the bytes of its audio amount to at the session's rate, and what the server says of them.
    """
    # What a fault changes on its way is not what the client got.
    altered = {
        r.connection for r in observation.faults if FAULTS[r.name].layer in (Layer.SESSION, Layer.RESPONSE)
    }
    reached: dict[tuple[int, object], _Heard] = {}
    rates_hz: dict[int, int] = {}
    for entry in observation.entries_in_time:
        key = (entry.connection, entry.data.get("response_id"))
        if entry.connection in altered:
            continue
        if entry.kind == "sent" and entry.name.endswith("audio.delta"):
            rate_hz = entry.data.get("sample_rate_hz")
            if isinstance(rate_hz, int) and rate_hz > 0:
                rates_hz[entry.connection] = rate_hz  # holds for the whole session (protocol.md 14)
            rate_hz = rates_hz.get(entry.connection, DEFAULT_RATE_HZ)
            reached.setdefault(key, _Heard()).take(entry, rate_hz)
        elif entry.kind == "received" and entry.name == "playback.ack":
            played_ms = entry.data.get("played_ms")
            positions = reached.get(key, _Heard()).positions_ms
            if played_ms not in positions:
                told = f"played_ms {played_ms} at {entry.t_s:.3f} s; reached: {positions[-3:]} ms"
                yield Finding(
                    "ack-position",
                    (),
                    "audio received so far, at the rate of its deltas (evaluation.md 5)",
                    told,
                    _name(observation, entry.connection),
                )
                return


DEFAULT_RATE_HZ = 24_000
"""Of reply audio, until the server says another (protocol.md 7.4)."""


@dataclass
class _Heard:
    """The audio of one reply, as it was sent."""

    audio_bytes: int = 0
    positions_ms: list[int] = field(default_factory=lambda: [0])

    def take(self, delta: Entry, rate_hz: int) -> None:
        """One more delta; a position may be told either way."""
        size = delta.data.get("audio_bytes")
        self.audio_bytes += size if isinstance(size, int) else 0
        said_ms = delta.data.get("audio_duration_ms")
        counted_ms = self.audio_bytes * 1000 // (rate_hz * 2)
        self.positions_ms += [said_ms, counted_ms] if isinstance(said_ms, int) else [counted_ms]


BEAT_TOLERANCE = 0.25
"""Part of the period by which a padded unit may come early or late and still be on the beat."""


LATE_TO_READ = frozenset({"stop_reading", "slow_reading", "latency", "bandwidth", "slicer"})
"""Faults under which one end sees later what the other did: neither beat nor an open reply are the same for both."""


def padding_off_beat(observation: Observation) -> Iterator[Finding]:
    """Padded units come one a chunk period: never sooner, and not later while a reply is open.

    A connection whose socket was stalled is left out: what it delivers, it delivers late. A pause with nothing
    open is the client's right, for it stops padding when nothing is awaited.
    """
    if any(report.name in ("slow_disk", "slow_write") for report in observation.faults):
        # The clock goes on by a whole write to a disk at once: what is on its way arrives with the next. And a unit
        # that is held up on its way out comes late, on a connection that a seam does not always know.
        return
    stalled = {report.connection for report in observation.faults if report.name in LATE_TO_READ}
    previous: dict[int, float] = {}
    committed: set[int] = set()
    open_since: dict[int, float] = {}
    for entry in observation.entries_in_time:
        number = entry.connection
        if number in stalled:
            continue
        if entry.kind == "sent" and entry.name == "response.created":
            open_since[number] = entry.t_s
        elif entry.kind == "sent" and entry.name == "response.done":
            open_since.pop(number, None)
        elif entry.kind == "received" and entry.name == "input_audio_buffer.commit":
            committed.add(number)
        elif entry.kind == "received" and entry.name == "input_audio_buffer.append" and number in committed:
            before = previous.get(number)
            previous[number] = entry.t_s
            if before is None:
                continue
            gap_s, period_s = entry.t_s - before, observation.period_ms(number) / 1000
            early = gap_s < period_s * (1 - BEAT_TOLERANCE)
            late = gap_s > period_s * (1 + BEAT_TOLERANCE) and open_since.get(number, entry.t_s) <= before
            if early or late:
                yield Finding(
                    "padding-off-beat",
                    ("R39",),
                    f"one padded unit every {period_s:g} s",
                    f"{gap_s:.3f} s between two",
                    _name(observation, number),
                )
                return


def padding_after_settle(observation: Observation) -> Iterator[Finding]:
    """Once the residual is decided and every reply done nothing is padded any more, unless a new reply opens.

    Only where the client got what the server sent, and in time: no fault changed or delayed its events.
    """
    if any(r.name in ("slow_write", "slow_disk") for r in observation.faults):
        return  # a unit of the clip may come behind the commit, and a clock that stood still behind everything
    altered = {
        r.connection for r in observation.faults if FAULTS[r.name].layer not in (Layer.SEAM, Layer.JUDGE)
    }
    drains: dict[int, _Drain] = {}
    for entry in observation.entries_in_time:
        drain = drains.setdefault(entry.connection, _Drain())
        padded = drain.committed and (entry.kind, entry.name) == ("received", "input_audio_buffer.append")
        if padded and drain.since_s is not None and entry.connection not in altered:
            late_s = entry.t_s - drain.since_s
            if late_s > BEAT_TOLERANCE * observation.period_ms(entry.connection) / 1000:
                told = f"padded {late_s:.3f} s later, at {entry.t_s:.3f} s"
                wanted = "no padding after the residual is decided and every reply done"
                yield Finding(
                    "padding-after-settle", ("R44",), wanted, told, _name(observation, entry.connection)
                )
                return
        drain.take(entry)


@dataclass
class _Drain:
    """What keeps a session from being settled, as the server's journal tells it (evaluation.md 7)."""

    committed: bool = False
    decided: bool = False
    open: set[object] = field(default_factory=set)
    deferred: frozenset[object] = frozenset()
    since_s: float | None = None
    """Since when nothing is awaited; None: something is."""

    def take(self, entry: Entry) -> None:
        """One more entry of the connection."""
        if entry.kind != "sent":
            return
        response = entry.data.get("response_id")
        if entry.name == "input_audio_buffer.committed":
            self.committed, self.deferred = True, frozenset(self.open)
        elif entry.name == "response.created":
            self.open.add(response)
        elif entry.name == "response.done":
            self.open.discard(response)
            cancelled = entry.data.get("status") == "cancelled"  # of which nobody can say what it answered
            self.decided |= self.committed and response not in self.deferred and not cancelled
        elif entry.name == "response.listen":
            self.decided |= self.committed
        settled = self.committed and self.decided and not self.open
        self.since_s = (entry.t_s if self.since_s is None else self.since_s) if settled else None


STREAM_INVARIANTS = (
    invariant(metadata_incomplete, Need.FILES, Need.METADATA),
    invariant(clip_altered, Need.WIRE),
    invariant(padded_unit, Need.WIRE),
    invariant(ack_position, Need.WIRE),
    invariant(padding_off_beat, Need.WIRE),
    invariant(padding_after_settle, Need.WIRE),
)
"""In the order their findings are told."""


def sha(data: bytes) -> str:
    """The first 16 digits of a SHA-256, as the server's journal names media."""
    return hashlib.sha256(data).hexdigest()[:16]


_KEPT_BYTES = 1 << 18
"""Sound that is short is played often: a fuzzer's clips are few."""


def _piece_sha(pcm: bytes, at_bytes: int, size_bytes: int) -> str:
    if len(pcm) > _KEPT_BYTES:
        return sha(pcm[at_bytes : at_bytes + size_bytes])
    return _kept_piece_sha(pcm, at_bytes, size_bytes)


@lru_cache(maxsize=64)
def _kept_piece_sha(pcm: bytes, at_bytes: int, size_bytes: int) -> str:
    return sha(pcm[at_bytes : at_bytes + size_bytes])


def _appends(observation: Observation, *, committed: bool) -> dict[int, list[Entry]]:
    """Appends of each connection before or after its commit, in order, without what came when all was released.

    One that crosses the end of its session is left out: the server that ended it reads no media any more.
    """
    found: dict[int, list[Entry]] = {}
    seen: set[int] = set()
    for entry in observation.entries_in_time:
        if entry.kind != "received":
            continue
        if entry.name == "input_audio_buffer.commit":
            seen.add(entry.connection)
        elif entry.data.keys() & UNREAD:
            continue
        elif entry.name == "input_audio_buffer.append" and (entry.connection in seen) is committed:
            found.setdefault(entry.connection, []).append(entry)
    return found


def _sample_of(observation: Observation, number: int) -> tuple[str, str] | None:
    return next((c.sample for c in observation.connections if c.number == number), None)


def _name(observation: Observation, number: int) -> str | None:
    sample = _sample_of(observation, number)
    return "/".join(sample) if sample else None
