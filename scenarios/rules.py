"""Rules between keys, which no type can say. Each yields what is broken and what is allowed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from scenarios.errors import Broken, impossible, known, shown
from scenarios.names import (
    PACED_PROFILES,
    REQUEST_METRICS_PROFILES,
    REQUIREMENTS,
    VERDICTS,
)

if TYPE_CHECKING:
    from scenarios.faults import FaultBase
    from scenarios.model import Clip, Expect, Reply, ServerSpec

SINGLE_SAMPLE_ID = "1"
"""Id of the only sample of a scenario whose `clip` is made from the seed."""
LONGEST_S = 86_400.0
"""A deadline or bound above this was meant in milliseconds."""
SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Ids become file names: no separator, no leading dot."""
_CLIP_FORMS = "give seconds (a made clip) or dataset, split and id"


def safe_id(value: str) -> str:
    """Refuse ids that cannot be file names."""
    if SAFE_ID.fullmatch(value) is None or value.endswith("."):
        allowed = "letters, digits and, inside, '_', '-', '.'; at most 64 characters"
        raise impossible([Broken((), f"{value!r} is no safe id", allowed)])
    return value


def seconds(value: float) -> float:
    """Refuse a deadline or bound that cannot be meant."""
    if not 0 < value <= LONGEST_S:
        allowed = "seconds > 0" if value <= 0 else f"seconds, at most {LONGEST_S:.0f} (a day)"
        raise impossible([Broken((), f"{value:.10g}", allowed)])
    return value


def clip_rules(clip: Clip) -> Iterable[Broken]:
    """A clip is made (`seconds`) or taken (`dataset`, `split`, `id`), and its speech lies inside."""
    given = clip.model_fields_set
    if clip.seconds is None and clip.dataset is None:
        yield Broken((), "neither `seconds` nor `dataset`", _CLIP_FORMS)
    elif clip.seconds is not None and clip.dataset is not None:
        yield Broken((), "both `seconds` and `dataset`", _CLIP_FORMS)
    elif clip.dataset is not None:
        for key in ("split", "id"):
            if getattr(clip, key) is None:
                yield Broken((key,), "missing", "a clip from a dataset names dataset, split and id")
        for key in ("speech", "frames", "frame_bytes"):
            if key in given:
                yield Broken((key,), "does not apply to a clip from a dataset", "only with seconds")
    else:
        for key in ("split", "id"):
            if getattr(clip, key) is not None:
                yield Broken((key,), "does not apply to a made clip", "only with dataset")
        if not clip.frames and "frame_bytes" in given:
            yield Broken(("frame_bytes",), "given without frames", "only with frames: true")
        yield from _speech_rules(clip.speech or [], clip.seconds or 0.0)


def _speech_rules(speech: list[float], seconds: float) -> Iterable[Broken]:
    if not speech:
        return
    if len(speech) != 2 or speech[0] < 0 or speech[0] >= speech[1]:
        yield Broken(("speech",), f"{speech}", "[from_s, to_s] with 0 <= from_s < to_s, or [] for silence")
    elif speech[1] > seconds:
        yield Broken(("speech",), f"{speech} ends after the clip", f"within the {seconds:g} s of the clip")


def reply_rules(replies: list[Reply]) -> Iterable[Broken]:
    """A reply begins after the one before has ended."""
    for index, (before, reply) in enumerate(pairwise(replies), start=1):
        free = before.starts_at_unit + before.units
        if not before.ends:
            yield Broken(
                ("reply", index), "begins after a reply that never ends", "no reply follows such a one"
            )
        elif reply.starts_at_unit < free:
            found = f"{reply.starts_at_unit}, before the previous reply has ended"
            yield Broken(("reply", index, "starts_at_unit"), found, f"a unit >= {free}")


def server_rules(server: ServerSpec) -> Iterable[Broken]:
    """The keys that change a profile fit it and each other."""
    given = server.model_fields_set
    paced = server.pace is not None and server.pace.rtf is not None
    if "decision_ms" in given and (paced or server.profile in PACED_PROFILES):
        found = (
            "given beside a real-time factor" if paced else f"given to {server.profile!r}, which has its own"
        )
        yield Broken(("decision_ms",), found, "leave it out, or give `pace.rtf` alone")
    if server.pace is not None and not server.pace.model_fields_set:
        yield Broken(("pace",), "an empty mapping", "rtf, first_token_ms, jitter_ms")
    if "request" in (server.metrics or ()) and server.profile not in REQUEST_METRICS_PROFILES:
        allowed = f"stage, or a profile that has them: {', '.join(sorted(REQUEST_METRICS_PROFILES))}"
        yield Broken(("metrics",), f"request metrics, which {server.profile!r} does not know", allowed)
    pieces = server.deltas_per_unit or 1
    for index, reply in enumerate(server.reply):
        if 0 < reply.audio_ms < pieces:
            found = f"{reply.audio_ms}, cut into {pieces} deltas"
            yield Broken(("reply", index, "audio_ms"), found, f"0, or at least {pieces}")


def requirement(name: Any) -> Any:
    """Refuse what is no id of docs/requirements.yaml."""
    if not isinstance(name, str) or name not in REQUIREMENTS:
        meant = f"R{name}" if isinstance(name, int) else str(name).upper()
        hint = f"did you mean {meant}? " if meant in REQUIREMENTS else ""
        raise impossible([Broken((), f"unknown requirement {shown(name)}", f"{hint}known: R1 to R63")])
    return name


def distinct(names: list[str]) -> list[str]:
    """Refuse a list that says a thing twice."""
    broken = [
        Broken((index,), f"{shown(name)} stands twice", "each once")
        for index, name in enumerate(names)
        if name in names[:index]
    ]
    if broken:
        raise impossible(broken)
    return names


def expect_rules(expect: Expect) -> Iterable[Broken]:
    """Something is expected, and each thing is stated once."""
    if not any(getattr(expect, field) not in (None, {}, []) for field in expect.model_fields_set):
        yield Broken((), "nothing is expected", "state at least one thing that can fail")
    if expect.sample is None:
        return
    for key in expect.metadata:
        if key in expect.sample.metadata:
            yield Broken(("metadata", key), "stands under sample.metadata as well", "state it once")
    if expect.close is not None and expect.sample.close is not None:
        yield Broken(("close",), "stands under sample.close as well", "state it once")


def cross_rules(parts: Mapping[str, Any]) -> Iterable[Broken]:
    """The rules between the sections of a scenario.

    Args:
        parts: valid sections by name; a section that is itself broken is left out, and the rules that need it
            are not asked.
    """
    for key in ("title", "about"):
        if key in parts and not parts[key].strip():
            yield Broken((key,), "empty", "tell it in words")
    if "\n" in parts.get("title", "").strip():
        yield Broken(("title",), "several lines", "one line")
    for index, fault in enumerate(parts.get("faults", [])):
        yield from _trigger_rules(index, fault)
    yield from _kill_rules(parts)
    yield from _gate_rules(parts)
    yield from _judge_rules(parts)
    if "clip" not in parts or "samples" not in parts:
        return
    if parts["clip"] is None and not parts["samples"]:
        yield Broken((), "neither `clip` nor `samples`", "give the clip, or several samples")
    elif parts["clip"] is not None and parts["samples"]:
        yield Broken(("samples",), "both `clip` and `samples`", "give the clip, or several samples")
    elif parts["clip"] is not None:
        yield from _sample_rules(parts, [parts["clip"].id or SINGLE_SAMPLE_ID])
    else:
        yield from _sample_rules(parts, [spec.id for spec in parts["samples"]])


def _sample_rules(parts: Mapping[str, Any], ids: list[str]) -> Iterable[Broken]:
    for index, sample_id in enumerate(ids):
        if sample_id in ids[:index]:
            yield Broken(("samples", index, "id"), f"{sample_id!r} stands twice", "ids of a scenario differ")
    for index, fault in enumerate(parts.get("faults", [])):
        if fault.sample is not None and fault.sample not in ids:
            path = ("faults", index, fault.name, "sample")
            yield Broken(path, f"unknown sample {fault.sample!r}", known(fault.sample, ids))
    expect = parts.get("expect")
    if expect is None:
        return
    named: list[tuple[tuple[str, ...], str]] = [(("samples",), name) for name in expect.samples]
    named += [(("judge", "samples"), name) for name in (expect.judge.samples if expect.judge else ())]
    for section, name in named:
        if name not in ids:
            yield Broken(("expect", *section, name), f"unknown sample {name!r}", known(name, ids))
    judge = parts.get("judge")
    for index, reply in enumerate(judge.replies if judge else ()):
        if reply.sample is not None and reply.sample not in ids:
            where = ("judge", "replies", index, "sample")
            yield Broken(where, f"unknown sample {reply.sample!r}", known(reply.sample, ids))
    for key in ("metadata", "close"):
        if len(ids) > 1 and key in expect.model_fields_set:
            allowed = f"with several samples, use sample.{key} (all of them) or samples"
            yield Broken(("expect", key), "is short for the only sample", allowed)


def _trigger_rules(index: int, fault: FaultBase) -> Iterable[Broken]:
    for key in ("on", "at_s"):
        if not fault.takes_trigger and getattr(fault, key) is not None:
            path = ("faults", index, fault.name, key)
            yield Broken(path, "this fault takes no trigger", "it acts at its own moment; leave it out")


def _kill_rules(parts: Mapping[str, Any]) -> Iterable[Broken]:
    """A run that is killed cannot be cancelled as well, and only where one is killed has another finished samples."""
    kills = any(fault.name == "kill_client" for fault in parts.get("faults", []))
    client, expect = parts.get("client"), parts.get("expect")
    if kills and client is not None and client.cancel_at_s is not None:
        allowed = "one of the two: the run is killed, or it is cancelled"
        yield Broken(("client", "cancel_at_s"), "given with the fault kill_client", allowed)
    yield from _earlier_rules(parts, kills=kills)
    if kills or parts.get("earlier") is not None or "faults" not in parts or expect is None:
        return
    named = [(("samples", name), one) for name, one in expect.samples.items()]
    for path, one in [(("sample",), expect.sample), *named]:
        if one is not None and one.outcome == "skipped_finished":
            allowed = "published, failed or cancelled; nothing was finished before"
            found = "'skipped_finished' without kill_client or earlier"
            yield Broken(("expect", *path, "outcome"), found, allowed)


def _earlier_rules(parts: Mapping[str, Any], *, kills: bool) -> Iterable[Broken]:
    """A run before stands alone, leaves something else behind than this one would, and is of these samples."""
    earlier, expect = parts.get("earlier"), parts.get("expect")
    if earlier is None:
        if "earlier" in parts and expect is not None and "refused" in expect.model_fields_set:
            allowed = "give an `earlier` section: in a new folder nothing is refused"
            yield Broken(("expect", "refused"), "expected without an earlier run", allowed)
        return
    for key in ("dataset", "probe"):
        if parts.get(key) is not None:
            yield Broken(("earlier",), f"given with `{key}`", "one of the two")
    if kills:
        yield Broken(("earlier",), "given with the fault kill_client", "one of the two")
    if earlier.judge_model is not None and "judge" in parts and parts["judge"] is None:
        yield Broken(("earlier", "judge_model"), "a judge's model without a judge", "give a `judge` section")
    if "clip" in parts and "samples" in parts and (parts["clip"] or parts["samples"]):
        clip = parts["clip"]
        ids = [clip.id or SINGLE_SAMPLE_ID] if clip is not None else [s.id for s in parts["samples"]]
        for index, name in enumerate(earlier.again):
            if name not in ids:
                yield Broken(("earlier", "again", index), f"unknown sample {name!r}", known(name, ids))


def _gate_rules(parts: Mapping[str, Any]) -> Iterable[Broken]:
    """A floor needs a mean, and a verdict something that it is the verdict on."""
    client, expect = parts.get("client"), parts.get("expect")
    gates = client.gates if client is not None else None
    if gates is not None and gates.floors and "judge" in parts and parts["judge"] is None:
        yield Broken(("client", "gates", "floors"), "floors without a judge", "give a `judge` section")
    if expect is None or client is None:
        return
    named = set() if gates is None else {f"floor {name}" for name in gates.floors}
    if gates is not None and gates.guard != "off":
        named |= {"guard"}
    if gates is not None and gates.guard == "strict":
        named |= {name for name in VERDICTS if name.startswith("strict: ")}
    if gates is not None and gates.max_retries is not None:
        named |= {"retries"}
    for name in expect.verdicts:
        if name in VERDICTS and name not in named:
            allowed = f"verdicts that client.gates asks for: {', '.join(sorted(named)) or 'none'}"
            yield Broken(("expect", "verdicts", name), "no gate gives this verdict", allowed)


def _judge_rules(parts: Mapping[str, Any]) -> Iterable[Broken]:
    """Without a judge nothing of it can fail or be expected."""
    if "judge" not in parts or parts["judge"] is not None:
        return
    allowed = "give a `judge` section; `judge: {}` is one with plausible verdicts"
    for index, fault in enumerate(parts.get("faults", [])):
        if fault.layer == "judge":
            yield Broken(("faults", index, fault.name), "a fault of the judge without one", allowed)
    expect = parts.get("expect")
    for key in ("judge", "accuracy"):
        if expect is not None and key in expect.model_fields_set:
            yield Broken(("expect", key), "expected without a judge", allowed)
