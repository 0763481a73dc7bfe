"""What became of the samples of a client of others: by the wire, and by the files of evaluation.md 12."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.checks import matches
from conformance.invariants_stream import ALWAYS_IN_METADATA, sha
from conformance.observation import Observation, SampleFacts, diagnostics_of, read_json

if TYPE_CHECKING:
    from mockserver.app import ConnectionInfo

RUN_RESULT = "run_result.json"
_TEXT, _START, _END = (
    ("sentence", "text", "content"),
    ("start", "current_time", "time"),
    ("end", "current_time", "time"),
)
_NO_METADATA = "the client leaves no metadata for a sample that failed; evaluation.md 12.1 fixes none"
_NO_KEY = "no key of evaluation.md 12.1, and the client's metadata has none of that name"
_NO_DIAGNOSTICS = "the client leaves no files of failed attempts; evaluation.md 12.1 fixes none"


def answers_root(out: Path) -> Path:
    """Where the answers stand: `out`, or the one `run-*` folder in it (evaluation.md 12.1)."""
    runs = sorted(path for path in out.glob("run-*") if path.is_dir())
    return runs[0] if len(runs) == 1 else out


def account_for(observation: Observation) -> None:
    """Samples, run result and what is left unsaid, into the observation."""
    given = observation.out
    observation.out = answers_root(given)
    identify(observation)
    observation.document = run_document(observation.out, given)
    observation.samples = [_facts(observation, index) for index in range(len(observation.prepared))]
    observation.unsaid = dict(_unsaid(observation))


def run_document(*folders: Path) -> dict[str, Any] | None:
    """`run_result.json`, where the client wrote one; the block of evaluation.md 19 counts as its top level."""
    for folder in folders:
        document, _ = read_json(folder / RUN_RESULT)
        if isinstance(document, dict):
            block = document.get("omni_duplex_eval")
            return {**block, **document} if isinstance(block, dict) else document
    return None


def identify(observation: Observation) -> None:
    """Whose session each connection was: by the audio of its first append, where several samples were asked for."""
    if len(observation.prepared) == 1:
        return  # told as they came
    first: dict[int, tuple[int, object]] = {}
    for entry in observation.entries:
        if (entry.kind, entry.name) == ("received", "input_audio_buffer.append"):
            first.setdefault(
                entry.connection, (int(entry.data.get("audio_bytes", 0)), entry.data.get("audio_sha"))
            )
    seen: dict[tuple[str, str], int] = {}
    for connection in observation.connections:
        size, digest = first.get(connection.number, (0, None))
        fits = [(p.split, p.id) for p in observation.prepared if size and sha(p.pcm[:size]) == digest]
        connection.sample = fits[0] if len(fits) == 1 else None
        if connection.sample is not None:
            seen[connection.sample] = connection.attempt = seen.get(connection.sample, 0) + 1


def _facts(observation: Observation, index: int) -> SampleFacts:
    prepared = observation.prepared[index]
    base = observation.out / prepared.split
    answer, torn_answer = read_json(base / f"{prepared.id}.json")
    sentences, malformed = _sentences(answer)
    metadata, torn_meta = read_json(base / f"{prepared.id}.meta.json")
    metadata = metadata if isinstance(metadata, dict) else None
    diagnostics, torn_attempts = diagnostics_of(observation.out, prepared.split, prepared.id)
    mine = [c for c in observation.connections if c.sample == (prepared.split, prepared.id)]
    published = sentences is not None
    retries = (metadata or {}).get("retry_count")
    return SampleFacts(
        split=prepared.split,
        id=prepared.id,
        outcome="published" if published else "failed",
        attempts=len(mine),
        retry_count=retries if isinstance(retries, int) and not isinstance(retries, bool) else None,
        error="" if published else _error(observation.document, metadata, index, len(observation.prepared)),
        latency_s=_latency_s(observation.document, index, len(observation.prepared)),
        metadata=metadata,
        sentences=sentences,
        close=close_kind(mine[-1]) if mine else "none",
        diagnostics=diagnostics,
        torn="; ".join(t for t in (torn_answer, malformed, torn_meta, *torn_attempts) if t),
    )


def metadata_file(observation: Observation, facts: SampleFacts) -> Path:
    """Where the metadata of a sample stand, or would (evaluation.md 12.1)."""
    return observation.out / facts.split / f"{facts.id}.meta.json"


def _sentences(answer: Any) -> tuple[list[dict[str, Any]] | None, str]:
    """The sentences of an answer file as evaluation.md 11 reads them back, and what is wrong with it."""
    if isinstance(answer, dict):
        answer = answer.get("sentences", answer.get("chunks"))
    if answer is None:
        return None, ""
    if not isinstance(answer, list):
        return [], f"the answer is neither a list nor an object with one: {type(answer).__name__}"
    read = []
    for item in answer:
        text = _first(item, _TEXT) if isinstance(item, dict) else None
        if isinstance(text, str) and text.strip():
            start = _first(item, _START)
            read.append({"sentence": text, "start": start, "end": _first(item, _END) or start})
    return read, ""


def _first(item: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((item[name] for name in names if item.get(name) is not None), None)


def _error(
    document: Mapping[str, Any] | None, metadata: Mapping[str, Any] | None, index: int, samples: int
) -> str:
    """Why a sample failed: from the run result's list, in the order of the samples, else from the metadata."""
    errors = (document or {}).get("errors")
    if (
        isinstance(errors, list)
        and len(errors) == samples
        and isinstance(errors[index], str)
        and errors[index]
    ):
        return str(errors[index])
    said = (metadata or {}).get("error")
    return said if isinstance(said, str) else ""


def _latency_s(document: Mapping[str, Any] | None, index: int, samples: int) -> float | None:
    """Of the reported attempt, in seconds: `e2els` of the run result, in the order of the samples."""
    latencies = (document or {}).get("e2els")
    if not isinstance(latencies, list) or len(latencies) != samples:
        return None
    return latencies[index] if isinstance(latencies[index], int | float) else None


def close_kind(connection: ConnectionInfo) -> str:
    """How a connection ended, as the server saw it, in the words of a scenario (`CloseKind`)."""
    if connection.how == "refused":
        return "none"
    if connection.ended_by == "client" and connection.how in ("fin", "rst"):
        return "forced"
    if not connection.sent["session.closed"]:
        return "lost"
    return "by_peer" if connection.ended_by == "server" and connection.how == "tcp_end" else "clean"


def _unsaid(observation: Observation) -> Iterator[tuple[tuple[str, str | None], str]]:
    """Statements that this client's files do not answer, by check (or the first parts of its id) and sample."""
    document = observation.document
    for key in observation.scenario.expect.run:
        if document is None:
            yield (f"run.{key}", None), f"the client wrote no {RUN_RESULT}"
        elif key not in document:
            yield (f"run.{key}", None), f"the client's {RUN_RESULT} has no {key}"
    lost = any(connection.sample is None for connection in observation.connections)
    for facts in observation.samples:
        if observation.watchdog_fired:
            yield ("sample.close", facts.name), "the harness gave up on the client and ended it"
        if facts.latency_s is None:
            yield ("sample.latency_s", facts.name), "the run result has no e2els, one a sample"
        if lost:
            told = "a session ended before its first audio told whose it was"
            yield ("sample.attempts", facts.name), told
            yield ("sample.close", facts.name), told
        if not facts.diagnostics:
            expect = observation.scenario.expect
            wanted = expect.samples.get(facts.id, expect.sample)
            # That there is none holds of a client that leaves none, too.
            none_wanted = wanted is not None and matches(wanted.attempt_files, 0)
            for check in ("sample.attempt_files", "sample.first_attempt", "sample.last_attempt"):
                if check != "sample.attempt_files" or not none_wanted:
                    yield (check, facts.name), _NO_DIAGNOSTICS
        yield from _unsaid_in_metadata(facts)


def _unsaid_in_metadata(facts: SampleFacts) -> Iterator[tuple[tuple[str, str | None], str]]:
    published = facts.outcome == "published"
    if not published and not facts.error:
        yield ("sample.error", facts.name), "neither run result nor metadata say why the sample failed"
    if facts.metadata is None:
        why = "no metadata was written" if published else _NO_METADATA
        for check in ("sample.retry_count", "sample.response_done", "sample.late_text", "sample.anomalies"):
            yield (check, facts.name), why
        if not published:
            yield ("metadata", facts.name), why
        return
    for key, check in (("late_sentences", "sample.late_text"), ("anomalies", "sample.anomalies")):
        if key not in facts.metadata:
            yield (check, facts.name), _NO_KEY
    if facts.retry_count is None:
        yield ("sample.retry_count", facts.name), "the metadata have no retry_count"
    for key in OWN_KEYS - set(facts.metadata):
        yield (f"metadata.{key}", facts.name), _NO_KEY
    if not published:
        for key in set(ALWAYS_IN_METADATA) - set(facts.metadata):
            yield (f"metadata.{key}", facts.name), _NO_METADATA


OWN_KEYS = frozenset(
    {
        "anomalies",
        "close",
        "close_error",
        "error",
        "late_sentences",
        "missed_deadlines",
        "padding",
        "stream_timeout",
        "unknown",
    }
)
"""Metadata of our client that evaluation.md 12.1 does not name."""
