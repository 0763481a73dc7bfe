"""What is drawn of an ordinary session: clips, what the model says, what the client is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.fuzz.dice import Dice

Data = dict[str, Any]

SECONDS = (3.4, 2.4, 5.4, 1.0, 3.0, 0.4, 6.0, 8.2, 1.999, 12.6)
"""Lengths of clips: with a residual, exact, shorter than a unit. Few of them, so that media are made once."""
AUDIO_MS = (40, 960, 0, 200, 1000)
TEXTS = (
    "A cyclist passed.",
    "A cyclist passes. Another one follows.",
    "One. Two. Three. Four. Five. Six. Seven.",
    "No full stop at the end",
    "他走过来了。然后他坐下！真的吗？",
    "Mixed 中文 and English. 数字 3.14 是圆周率。",
    "A family 👨‍👩‍👧‍👦 waves 👋🏽. A flag 🇫🇷 flies.",
    "Cafe\u0301 au lait. Zoe\u0308 agrees.",
    "Ellipsis... and more?! Yes.",
    "Quotes \"inside\" and {'braces': 1}. </think> too.",
    "Line one.\nLine two.\tTabbed.",
    "e.g. Dr. Smith of the U.S.A. arrived at 5 p.m. on time.",
    "   spaces   around   ",
    "𝒜𝒷𝒸 astral 𐍈 letters. 🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "مرحبا بالعالم. שלום עולם.",
    ".",
    "word " * 60,
)
CUT_TEXTS = ("ok 👍🏽 done", "A family 👨‍👩‍👧‍👦 waves 👋🏽. A flag 🇫🇷 flies.", "👋🏽 👋🏽 👋🏽")
"""Texts that hold in every piece, or nearly, a character that people see as one and that can be cut in two."""
LETTERS = 'ab .?!。，\u0301👍🏽\u200d"\\{}0\u00a0\u2028é'
SPLITS = ("RTD_Omni", "RTD_OCR", "PR_correction", "PR_event_reminder", "PR_post_event_reminder")

EXPECTED_WITHIN_S = 86_400.0
"""The one expectation of a drawn scenario. What holds for it follows from the invariants and from what was seen
(conformance.fuzz.oracle); the schema wants a statement, and the watchdog is stricter."""


def text(dice: Dice) -> str:
    """What a reply says."""
    if dice.chance(15):
        drawn = dice.text(LETTERS, 30)
        return drawn if drawn.strip() else "blank."
    return dice.pick(TEXTS)


def clip(dice: Dice, *, media: bool) -> Data:
    """The input of a sample."""
    seconds = dice.pick(SECONDS)
    data: Data = {"seconds": seconds, "frames": media and dice.chance(50)}
    if data["frames"] and dice.chance(50):
        data["frame_bytes"] = dice.pick((400, 2_000, 70_000))
    speech = dice.weighted(((5, "all"), (2, "none"), (3, "part")))
    if speech == "none":
        data["speech"] = []
    elif speech == "part":
        data["speech"] = [round(seconds * 0.2, 3), round(seconds * 0.7, 3)]
    return data


def replies(dice: Dice, units: int, *, judged: bool, profile: str) -> list[Data]:
    """What the model says, in units counted from 0; `units` are those of the clip, the residual among them.

    Without an answer there is nothing to judge, so where that is the subject there mostly is one.
    """
    count = dice.weighted(((54, 1), (21, 2), (7, 0), (10, 3), (8, 5)))
    if judged and dice.chance(85):
        return [_answer(dice, units)]
    drawn: list[Data] = []
    free, late = 0, False
    for _ in range(count):
        # Several must follow each other closely to find room.
        crowded = count > 2 and dice.chance(85)
        where = "soon" if crowded else dice.weighted(((4, "early"), (3, "soon"), (4, "commit"), (1, "after")))
        start = {
            "early": dice.number(0, max(0, units - 1)),
            "soon": free + dice.number(0, 1),
            "commit": max(0, units - dice.number(0, 2)),
            "after": units + dice.number(1, 3),
        }[where]
        start = max(free, start)
        if not drawn and start >= units and dice.chance(80):
            start = units - 1  # a model that says nothing before the clip is over mostly says nothing at all
        if drawn and start >= units and dice.chance(80):
            if (late or (profile == "input-driven" and start > units)) and dice.chance(80):
                break  # with nothing open the silence ends: what is scripted behind it is mostly never said
            start, late = max(free, units), True
        lasts = 1 if crowded else dice.weighted(((5, 1), (4, 2), (3, 3), (2, 5), (1, 12)))
        reply: Data = {"starts_at_unit": start, "units": lasts, "text": text(dice)}
        if dice.chance(60):
            reply["audio_ms"] = dice.pick(AUDIO_MS)
        if dice.chance(6):
            reply["status"] = dice.pick(("failed", "cancelled", "incomplete"))
        drawn.append(reply)
        if dice.chance(5):
            reply["ends"] = False
            break
        free = start + lasts
    return drawn


def _answer(dice: Dice, units: int) -> Data:
    return {"starts_at_unit": dice.number(0, units - 1), "units": dice.number(1, 3), "text": text(dice)}


def server(dice: Dice, units: int, *, judged: bool = False) -> Data:
    """The scripted server."""
    profile = dice.weighted(((6, "july"), (3, "input-driven"), (2, "engine")))
    data: Data = {"profile": profile, "reply": replies(dice, units, judged=judged, profile=profile)}
    if dice.chance(25):
        data["decision_ms"] = dice.pick((0, 10, 200, 900, 1000, 1700))
    return data


DEADLINES: dict[str, tuple[float, ...]] = {
    "connect_s": (5.3, 1.0),
    "created_s": (5.7, 1.0),
    "write_s": (4.1, 10.0, 45.0),
    "ack_period_s": (0.25, 0.4, 1.0),
    "ack_s": (3.3, 25.0, 1.0),
    "close_s": (3.7, 1.0, 30.0),
    "grace_s": (1.1, 0.5, 12.0),
    "settle_s": (0.6, 1.0, 4.3),
}
"""Values a deadline may be given: most off the beat of units and acks, some on it, in every order to each other."""


def deadlines(dice: Dice) -> Data:
    """The client's deadlines; a request timeout that hangs for a quarter of an hour would only cost time."""
    data: Data = {"request_s": dice.weighted(((80, 120.0), (7, 40.3), (7, 15.0), (6, 6.1)))}
    if dice.chance(55):
        # Else a reply that never ends costs two minutes twice, and no drain ends before its session.
        data["drain_slack_s"] = dice.weighted(((3, 10.0), (2, 4.9), (1, 20.0)))
    if dice.chance(35):
        names = tuple(DEADLINES)
        for _ in range(dice.number(1, 4)):
            name = dice.pick(names)
            data[name] = dice.pick(DEADLINES[name])
    return data


def client(dice: Dice, samples: int, *, judged: bool) -> Data:
    """What the client is told. Answers sent as fast as possible have no times to be judged by."""
    data: Data = {"deadlines": deadlines(dice)}
    if judged and dice.chance(85):
        data["deadlines"]["request_s"] = 120.0
    if not judged and dice.chance(8):
        data["pace"] = "as-fast-as-possible"
    if dice.chance(12):
        data["defer_artifacts"] = False
    if samples > 1 and dice.chance(70):
        data["concurrency"] = dice.number(2, 3)
    if dice.chance(5):
        data["cancel_at_s"] = dice.number(1, 300) / 10
    return data


def samples(dice: Dice, count: int, one_clip: Callable[[], Data], *, judged: bool, media: bool) -> list[Data]:
    """Several samples; with a judge they mostly have what a judge needs to be asked about."""
    splits = SPLITS if media or dice.chance(20) else SPLITS[2:]
    drawn: list[Data] = []
    for number in range(count):
        sample: Data = {"id": "abc"[number], "split": dice.pick(splits) if judged else "RTD_Omni"}
        sample["clip"] = one_clip()
        if judged and media and sample["split"].startswith("RTD") and dice.chance(80):
            sample["clip"]["frames"] = True  # without pictures there is nothing to show a judge
        if judged:
            sample["answer1"] = dice.pick(("A cyclist passes.", "他走过来了。"))
            if "reminder" in sample["split"]:
                # Mostly within the clip, where what is said falls into its window.
                latest = 8 if dice.chance(25) else min(8, int(sample["clip"]["seconds"]))
                sample["reminder1"] = dice.number(0, latest) / 2
                if dice.chance(40):
                    sample["reminder2"] = dice.number(0, 16) / 2
        drawn.append(sample)
    return drawn
