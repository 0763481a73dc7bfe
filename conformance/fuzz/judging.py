"""What is drawn of the judge: scripts, replies in every disguise, faults of the endpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from conformance.fuzz.dice import Dice

Data = dict[str, Any]

FIELDS: dict[str, dict[str, tuple[float, ...]]] = {
    "temporal": {"temporal_score": (3, 0, 1, 2), "is_relevant": (1, 0)},
    "content": {"content_score": (2.5, 0, 3, 1.25)},
    "chat": {"success_score": (1, 0)},
}
KINDS = tuple(FIELDS)
NUMBERS = (
    "3",
    "2.5",
    "0",
    "1",
    "-1",
    "9",
    '"3"',
    "true",
    "null",
    "NaN",
    "1e0",
    "[1]",
    "3.00",
    "03",
    "2,5",
    "{}",
)
QUOTED = (
    '"2.0"',
    '"1"',
    '"1e0"',
    '" 2 "',
    '"+2"',
    '"0_1"',
    '"\N{FULLWIDTH DIGIT ONE}"',
    '"2/3"',
    '"three"',
    '"NaN"',
    '"-0"',
    '".5"',
    '"1."',
    '"0x1"',
    '"1,0"',
    '"true"',
    '""',
)
"""Numbers in quotes (evaluation.md 16.5), some of them in doubt and some none."""
WRAPPINGS = (
    "{}",
    "Here is my verdict: {} I hope it helps.",
    "```json\n{}\n```",
    "```\n{}\n```\nDone.",
    "<think>Perhaps {} ?</think>\n{}",
    "<think>{}</think> Rather good.",
    "<think>never closed {}",
    '{"verdict": {}}',
    "[{}]",
    "{}\n{}",
    "“{}”",
    "\ufeff{}",
    "{} trailing }}} braces",
)


def _number(dice: Dice, scores: Sequence[float]) -> str:
    """What stands in a field: mostly a score that can be given, with quotes now and then."""
    how = dice.weighted(((75, "plain"), (12, "odd"), (5, "quoted"), (8, "in doubt")))
    if how == "odd":
        return dice.pick(NUMBERS)
    if how == "in doubt":
        return dice.pick(QUOTED)
    score = str(dice.pick(scores))
    return f'"{score}"' if how == "quoted" else score


def verdict(dice: Dice, kind: str) -> str:
    """Text of a verdict: mostly one that holds, with a field now and then missing, doubled or in disguise."""
    parts = []
    for name, scores in FIELDS[kind].items():
        if dice.chance(12):
            continue
        parts.append(f'"{name}": {_number(dice, scores)}')
        if dice.chance(5):
            parts.append(f'"{name}": {dice.pick(NUMBERS)}')
    if dice.chance(40):
        parts.insert(0, '"reason": "It says {\\"content_score\\": 1} in a string, ünïcode 好"')
    return "{" + ", ".join(parts) + "}"


def reply_text(dice: Dice, kind: str) -> str:
    """What the judge says, word for word."""
    if dice.chance(15):
        return dice.pick(
            ("Rather good.", "3", "score: 3/3", "content_score = 2", " ", "I cannot help with that.")
        )
    wrapping = dice.pick(WRAPPINGS)
    out = wrapping.replace("{}", verdict(dice, kind), 1).replace("{}", verdict(dice, kind))
    if dice.chance(10):
        out = out[: dice.number(1, len(out))]
    return out


def kinds_of(samples: Sequence[Data]) -> tuple[str, ...]:
    """Kinds of questions that are asked about these samples (evaluation.md 18); of a clip without pictures none is."""
    found: dict[str, None] = {}
    for sample in samples:
        if not sample["split"].startswith("RTD"):
            found["chat"] = None
        elif sample["clip"]["frames"]:
            found |= dict.fromkeys(("content", "temporal"))
    return tuple(found) or KINDS


def _kind(dice: Dice, kinds: Sequence[str]) -> str:
    """One that is asked for, but for a few."""
    return dice.pick(KINDS if dice.chance(8) else kinds)


def reply(dice: Dice, kinds: Sequence[str]) -> Data:
    """One scripted reply."""
    kind = _kind(dice, kinds)
    if dice.chance(35):
        return {name: dice.pick(scores) for name, scores in FIELDS[kind].items()}
    data: Data = {"kind": kind, "text": reply_text(dice, kind)}
    if dice.chance(15):
        data["finish_reason"] = dice.pick(("length", None, "content_filter", "tool_calls"))
    if dice.chance(30):
        data["request"] = dice.number(1, 2)
    return data


def judge(dice: Dice, kinds: Sequence[str]) -> Data:
    """The judge section for questions of these kinds. Its script may run out: then it says something plausible."""
    data: Data = {"timeout_s": 30.0}
    if dice.chance(60):
        data["replies"] = [reply(dice, kinds) for _ in range(dice.number(1, 6))]
        data["mode"] = "heuristic"
    if dice.chance(25):
        data["video_mode"] = "frame-sample"
        if dice.chance(50):
            data["frame_overflow"] = "reduce"
    if dice.chance(25):
        data["workers"] = dice.number(2, 3)
    return data


def _http_status(dice: Dice) -> Data:
    data: Data = {"status": dice.pick((500, 429, 503, 400, 401, 404, 502))}
    if dice.chance(30):
        data["retry_after_s"] = dice.pick((0, 1, 40))
    if dice.chance(30):
        data["body"] = "html"
    if data["status"] == 400 and dice.chance(60):
        data["code"] = "context_length_exceeded"
    return data


def _invalid(dice: Dice) -> Data:
    return {"value": dice.pick((9, -1, "3", "good", None, [3], True, 2.555, 1e300, "2.0", "1e0", "2/3"))}


PARAMETERS: dict[str, Callable[[Dice], Data]] = {
    "prose": lambda dice: {},
    "fenced": lambda dice: {},
    "think_block": lambda dice: {"verdict": dice.pick(("after", "inside", "in_field"))},
    "missing_field": lambda dice: {},
    "invalid_field": _invalid,
    "truncated": lambda dice: {"keep_characters": dice.number(0, 12)} if dice.chance(50) else {},
    "empty": lambda dice: {"content": dice.pick(("text", "null"))},
    "http_status": _http_status,
    "stall": lambda dice: {"delay_s": dice.pick((3.0, 29.0, 31.0))} if dice.chance(60) else {},
    "choices_empty": lambda dice: {"choices": dice.pick(("empty", "null"))},
    "tool_call": lambda dice: {},
    "refusal": lambda dice: {},
}
NAMES = tuple(PARAMETERS)


def judge_faults(dice: Dice, count: int, kinds: Sequence[str]) -> list[Data]:
    """Faults of the judge, each on some of its requests.

    A second request of a judgement is mostly one that another fault has caused, on the first.
    """
    drawn: list[Data] = []
    for _ in range(count):
        name = dice.pick(NAMES)
        data = PARAMETERS[name](dice)
        if dice.chance(50):
            data["kind"] = _kind(dice, kinds)
        if dice.chance(25):
            data["request"] = 2 if drawn and dice.chance(85) else dice.number(1, 2) if dice.chance(20) else 1
        if data.get("request") == 2 and drawn:
            (before,) = drawn[0].values()
            before["request"] = 1
            data.pop("kind", None)
            if "kind" in before:
                data["kind"] = before["kind"]
        if dice.chance(20):
            data["count"] = dice.number(1, 3)
        drawn.append({name: data})
    return drawn
