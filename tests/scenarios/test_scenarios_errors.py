"""Every way to write a scenario wrongly is told with file, line, key, what stands there and what may."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from scenarios import ScenarioError, load_scenario, load_scenarios

GOOD = """\
title: A rule
about: A story.
requires: [R2]
clip: {seconds: 3.4, speech: [0.2, 1.8]}
server: {reply: [{starts_at_unit: 1, units: 2, text: "Hello."}]}
faults: [no_session_closed]
client: {deadlines: {request_s: 120}}
expect: {close: forced}
"""
LINES = {line.split(":")[0]: line for line in GOOD.splitlines()}
SAMPLES = "samples: [{id: a, clip: {seconds: 1}}, {id: b, clip: {seconds: 1}}]"


class Wrong(NamedTuple):
    """A replacement of one line, and what the error says of it."""

    section: str
    text: str
    key: str
    found: str
    allowed: str


TABLE = {
    "unknown section": Wrong("about", "abuot: x", "abuot", "unknown key 'abuot'", "did you mean 'about'?"),
    "missing section": Wrong("expect", "tags: [x]", "expect", "missing", "required"),
    "empty title": Wrong("title", 'title: " "', "title", "empty", "tell it in words"),
    "empty about": Wrong("about", 'about: ""', "about", "empty", "tell it in words"),
    "title of two lines": Wrong("title", 'title: "a\\nb"', "title", "several lines", "one line"),
    "title that is no text": Wrong(
        "title", "title: 3", "title", "3", "text (numbers and true/false in quotes)"
    ),
    "requirement above R63": Wrong("requires", "requires: [R2, R64]", "requires[1]", "'R64'", "R1 to R63"),
    "requirement that is none": Wrong("requires", "requires: [X]", "requires[0]", "'X'", "R1 to R63"),
    "requirement as a number": Wrong("requires", "requires: [30]", "requires[0]", "30", "did you mean R30?"),
    "requirement that is a list": Wrong(
        "requires", "requires: [[R2]]", "requires[0]", "a list of 1", "R1 to R63"
    ),
    "requirement in small letters": Wrong(
        "requires", "requires: [r19]", "requires[0]", "'r19'", "did you mean R19?"
    ),
    "requirement twice": Wrong("requires", "requires: [R2, R2]", "requires[1]", "stands twice", "each once"),
    "requirements that are no list": Wrong("requires", "requires: R2", "requires", "'R2'", "a list"),
    "anomaly that nobody counts": Wrong(
        "expect",
        "expect: {sample: {anomalies: {duplicat_event: 0}}}",
        "expect.sample.anomalies.duplicat_event",
        "unknown anomaly 'duplicat_event'",
        "did you mean 'duplicate_event'?",
    ),
    "bounds that exclude each other": Wrong(
        "expect",
        "expect: {sample: {attempts: {at_least: 3, at_most: 1}}}",
        "expect.sample.attempts",
        "at_least 3 and at_most 1",
        "at_least is not above at_most",
    ),
    "failed without an error": Wrong(
        "expect",
        'expect: {sample: {outcome: failed, error: ""}}',
        "expect.sample.error",
        "no error of a sample that failed",
        "`set`, text",
    ),
    "count below nothing": Wrong(
        "expect",
        "expect: {sample: {attempts: -1}}",
        "expect.sample.attempts",
        "-1",
        "a whole number from 0 up",
    ),
    "count in a mapping below nothing": Wrong(
        "expect", "expect: {wire: {aborts: {at_most: -1}}}", "expect.wire.aborts.at_most", "-1", "at least 0"
    ),
    "count in words": Wrong(
        "expect", "expect: {sample: {attempts: one}}", "expect.sample.attempts", "'one'", "a whole number"
    ),
    "count among words": Wrong(
        "expect",
        "expect: {judge: {requests: {one_of: [1, two]}}}",
        "expect.judge.requests.one_of[1]",
        "'two'",
        "a whole number",
    ),
    "count that contains": Wrong(
        "expect",
        "expect: {sample: {attempts: {contains: one}}}",
        "expect.sample.attempts.contains",
        "'contains' cannot be met here",
        "at_least, at_most, one_of",
    ),
    "flag in words": Wrong(
        "expect",
        "expect: {sample: {response_done: yes}}",
        "expect.sample.response_done",
        "'yes'",
        "true, false or null",
    ),
    "text as a number": Wrong(
        "expect", "expect: {sample: {text: 3}}", "expect.sample.text", "3", "text, or null"
    ),
    "the word for what is not checked": Wrong(
        "expect", "expect: {sample: {text: unchecked}}", "expect.sample.text", "'unchecked'", "is left out"
    ),
    "deadline in milliseconds": Wrong(
        "client",
        "client: {deadlines: {request_s: 120000}}",
        "client.deadlines.request_s",
        "120000",
        "at most 86400 (a day)",
    ),
    "bound in milliseconds": Wrong(
        "expect", "expect: {finishes_within_s: 90000}", "expect.finishes_within_s", "90000", "(a day)"
    ),
    "clip of nothing": Wrong("clip", "clip: {}", "clip", "neither `seconds` nor `dataset`", "give seconds"),
    "clip made and taken": Wrong(
        "clip",
        "clip: {seconds: 1, dataset: mini, split: s, id: x}",
        "clip",
        "both `seconds` and `dataset`",
        "or dataset",
    ),
    "dataset clip without id": Wrong(
        "clip", "clip: {dataset: mini, split: s}", "clip.id", "missing", "names dataset, split and id"
    ),
    "dataset clip with speech": Wrong(
        "clip",
        'clip: {dataset: mini, split: s, id: "1", speech: [0, 1]}',
        "clip.speech",
        "does not apply",
        "seconds",
    ),
    "made clip with id": Wrong(
        "clip", 'clip: {seconds: 1, id: "1"}', "clip.id", "does not apply", "with dataset"
    ),
    "id that is a number": Wrong(
        "clip", "clip: {dataset: m, split: s, id: 610}", "clip.id", "610", "in quotes"
    ),
    "speech after the clip": Wrong(
        "clip",
        "clip: {seconds: 2, speech: [1, 3]}",
        "clip.speech",
        "[1.0, 3.0] ends after the clip",
        "within the 2 s",
    ),
    "speech backwards": Wrong(
        "clip", "clip: {seconds: 2, speech: [1, 1]}", "clip.speech", "[1.0, 1.0]", "from_s < to_s"
    ),
    "speech of one number": Wrong(
        "clip", "clip: {seconds: 2, speech: [1]}", "clip.speech", "[1.0]", "from_s < to_s"
    ),
    "clip of no length": Wrong("clip", "clip: {seconds: 0}", "clip.seconds", "0", "more than 0"),
    "frames too small": Wrong(
        "clip", "clip: {seconds: 1, frame_bytes: 3}", "clip.frame_bytes", "3", "at least 400"
    ),
    "frame size without frames": Wrong(
        "clip",
        "clip: {seconds: 1, frames: false, frame_bytes: 500}",
        "clip.frame_bytes",
        "without frames",
        "frames: true",
    ),
    "no input": Wrong(
        "clip", "tags: []", "", "neither `clip` nor `samples`", "give the clip, or several samples"
    ),
    "two inputs": Wrong(
        "tags", SAMPLES, "samples", "both `clip` and `samples`", "give the clip, or several samples"
    ),
    "sample id twice": Wrong(
        "clip",
        "samples: [{id: a, clip: {seconds: 1}}, {id: a, clip: {seconds: 1}}]",
        "samples[1].id",
        "'a' stands twice",
        "ids of a scenario differ",
    ),
    "sample id with a separator": Wrong(
        "clip",
        "samples: [{id: a/b, clip: {seconds: 1}}]",
        "samples[0].id",
        "'a/b' is no safe id",
        "letters, digits",
    ),
    "sample id that climbs": Wrong(
        "clip",
        'samples: [{id: "..", clip: {seconds: 1}}]',
        "samples[0].id",
        "'..' is no safe id",
        "letters, digits",
    ),
    "split that climbs": Wrong(
        "clip",
        "samples: [{id: a, split: ../x, clip: {seconds: 1}}]",
        "samples[0].split",
        "no safe id",
        "letters, digits",
    ),
    "unknown profile": Wrong(
        "server",
        "server: {profile: juli}",
        "server.profile",
        "'juli'",
        "one of 'july', 'input-driven', 'engine', 'below-real-time', 'interim' or 'input-clock'",
    ),
    "pace below its range": Wrong(
        "server", "server: {pace: {rtf: 0.3}}", "server.pace.rtf", "0.3", "at least 0.4"
    ),
    "pace above its range": Wrong("server", "server: {pace: {rtf: 3}}", "server.pace.rtf", "3", "at most 2"),
    "pace with an unknown key": Wrong(
        "server",
        "server: {pace: {first_token_s: 1}}",
        "server.pace.first_token_s",
        "unknown key",
        "first_token_ms",
    ),
    "pace of nothing": Wrong(
        "server", "server: {pace: {}}", "server.pace", "an empty mapping", "rtf, first_token_ms, jitter_ms"
    ),
    "fixed time beside a factor": Wrong(
        "server",
        "server: {decision_ms: 50, pace: {rtf: 1}}",
        "server.decision_ms",
        "beside a real-time factor",
        "leave it out",
    ),
    "fixed time for a paced profile": Wrong(
        "server",
        "server: {profile: below-real-time, decision_ms: 50}",
        "server.decision_ms",
        "'below-real-time', which has its own",
        "leave it out",
    ),
    "jitter of half a millisecond": Wrong(
        "server", "server: {pace: {jitter_ms: 0.5}}", "server.pace.jitter_ms", "0.5", "a whole number"
    ),
    "metrics that July lacks": Wrong(
        "server",
        "server: {metrics: [request]}",
        "server.metrics",
        "request metrics, which 'july' does not know",
        "engine",
    ),
    "more deltas than milliseconds": Wrong(
        "server",
        "server: {deltas_per_unit: 4, reply: [{starts_at_unit: 0, units: 1, text: x, audio_ms: 3}]}",
        "server.reply[0].audio_ms",
        "3, cut into 4 deltas",
        "at least 4",
    ),
    "no slot at all": Wrong("server", "server: {max_sessions: 0}", "server.max_sessions", "0", "at least 1"),
    "reply inside a reply": Wrong(
        "server",
        "server: {reply: [{starts_at_unit: 1, units: 2, text: a}, {starts_at_unit: 2, units: 1, text: b}]}",
        "server.reply[1].starts_at_unit",
        "2, before the previous reply has ended",
        "a unit >= 3",
    ),
    "reply after an endless one": Wrong(
        "server",
        "server: {reply: [{units: 2, starts_at_unit: 1, ends: false, text: a},{starts_at_unit: 5, units: 1, text: b}]}",
        "server.reply[1]",
        "begins after a reply that never ends",
        "no reply follows",
    ),
    "reply of nothing": Wrong(
        "server",
        'server: {reply: [{starts_at_unit: 1, units: 2, text: "", audio_ms: 0}]}',
        "server.reply[0].text",
        "no text and no audio",
        "says or plays something",
    ),
    "units in quotes": Wrong(
        "server",
        'server: {reply: [{starts_at_unit: 1, units: "2", text: a}]}',
        "server.reply[0].units",
        "'2'",
        "a whole number",
    ),
    "faults that are a mapping": Wrong(
        "faults", "faults: {no_pong: {}}", "faults", "a mapping", "a list of `- name:"
    ),
    "unknown fault": Wrong(
        "faults",
        "faults: [stop_readng: {at_s: 1}]",
        "faults[0].stop_readng",
        "unknown fault",
        "did you mean 'stop_reading'?",
    ),
    "fault of two keys": Wrong(
        "faults", "faults: [{never_done: {}, no_transport: {}}]", "faults[0]", "a mapping", "a list of"
    ),
    "unknown parameter": Wrong(
        "faults",
        "faults: [late_session_closed: {delay_s: 1, delay: 2}]",
        "faults[0].late_session_closed.delay",
        "unknown key 'delay'",
        "did you mean 'delay_s'?",
    ),
    "missing parameter": Wrong(
        "faults",
        "faults: [late_session_closed]",
        "faults[0].late_session_closed.delay_s",
        "missing",
        "required",
    ),
    "two triggers": Wrong(
        "faults",
        "faults: [never_done: {at_s: 1, on: {sent: response.done}}]",
        "faults[0].never_done.at_s",
        "both `on` and `at_s`",
        "one trigger",
    ),
    "a trigger too many": Wrong(
        "faults",
        "faults: [no_transport: {at_s: 1}]",
        "faults[0].no_transport.at_s",
        "takes no trigger",
        "leave it out",
    ),
    "trigger of two directions": Wrong(
        "faults",
        "faults: [reset_peer: {on: {sent: error, received: session.close}}]",
        "faults[0].reset_peer.on",
        "both `received` and `sent`",
        "exactly one of received, sent",
    ),
    "trigger of no direction": Wrong(
        "faults",
        "faults: [reset_peer: {on: {nth: 2}}]",
        "faults[0].reset_peer.on",
        "neither `received`",
        "exactly one of",
    ),
    "unknown event": Wrong(
        "faults",
        "faults: [reset_peer: {on: {received: input_audio_buffer.comit}}]",
        "faults[0].reset_peer.on.received",
        "unknown event 'input_audio_buffer.comit'",
        "did you mean 'input_audio_buffer.commit'? known: barge_in,",
    ),
    "one dialect's event": Wrong(
        "faults",
        "faults: [reset_peer: {on: {sent: response.audio.delta}}]",
        "faults[0].reset_peer.on.sent",
        "one dialect's spelling",
        "'audio.delta'",
    ),
    "event of the other side": Wrong(
        "faults",
        "faults: [reset_peer: {on: {received: response.done}}]",
        "faults[0].reset_peer.on.received",
        "other way",
        "`sent`",
    ),
    "unknown stubborn write": Wrong(
        "faults",
        "faults: [swallow_cancellation: {write: playback.akc}]",
        "faults[0].swallow_cancellation.write",
        "unknown event",
        "did you mean 'playback.ack'?",
    ),
    "fault of an unknown sample": Wrong(
        "faults",
        "faults: [never_done: {sample: x}]",
        "faults[0].never_done.sample",
        "unknown sample 'x'",
        "known: 1",
    ),
    "unknown deadline": Wrong(
        "client",
        "client: {deadlines: {reqest_s: 1}}",
        "client.deadlines.reqest_s",
        "unknown deadline 'reqest_s'",
        "did you mean 'request_s'? known: ack_period_s,",
    ),
    "deadline of nothing": Wrong(
        "client", "client: {deadlines: {write_s: 0}}", "client.deadlines.write_s", "0", "seconds > 0"
    ),
    "unknown pace": Wrong(
        "client", "client: {pace: fast}", "client.pace", "'fast'", "'realtime' or 'as-fast-as-possible'"
    ),
    "nothing expected": Wrong("expect", "expect: {}", "expect", "nothing is expected", "at least one thing"),
    "nothing expected of a sample": Wrong(
        "expect", "expect: {sample: {}}", "expect.sample", "nothing is expected", "at least"
    ),
    "unknown outcome": Wrong(
        "expect",
        "expect: {sample: {outcome: lost}}",
        "expect.sample.outcome",
        "'lost'",
        "'published', 'failed', 'cancelled' or 'skipped_finished'",
    ),
    "unknown floor": Wrong(
        "client",
        "client: {gates: {floors: {rtd.mean_content: 1.8}}}",
        "client.gates.floors.rtd.mean_content",
        "unknown mean",
        "did you mean 'rtd.mean_content_score'?",
    ),
    "floors without a judge": Wrong(
        "client",
        "client: {gates: {floors: {rtd.mean_content_score: 1.8}}}",
        "client.gates.floors",
        "floors without a judge",
        "give a `judge` section",
    ),
    "unknown verdict": Wrong(
        "expect",
        "expect: {verdicts: {gard: passed}}",
        "expect.verdicts.gard",
        "unknown verdict",
        "did you mean 'guard'?",
    ),
    "a verdict on nothing": Wrong(
        "expect",
        "expect: {verdicts: {guard: passed}}",
        "expect.verdicts.guard",
        "no gate gives this verdict",
        "none",
    ),
    "unknown expectation": Wrong(
        "expect",
        "expect: {sample: {attemps: 1}}",
        "expect.sample.attemps",
        "unknown key",
        "did you mean 'attempts'?",
    ),
    "unknown matcher": Wrong(
        "expect",
        "expect: {sample: {attempts: {atleast: 1}}}",
        "expect.sample.attempts.atleast",
        "unknown matcher 'atleast'",
        "did you mean 'at_least'?",
    ),
    "matcher of the wrong type": Wrong(
        "expect",
        "expect: {wire: {appends: {at_most: many}}}",
        "expect.wire.appends.at_most",
        "'many'",
        "a number",
    ),
    "matcher that matches all": Wrong(
        "expect",
        'expect: {sample: {error: {contains: ""}}}',
        "expect.sample.error.contains",
        "empty",
        "not empty",
    ),
    "log matcher of a number": Wrong("expect", "expect: {log: [3]}", "expect.log[0]", "3", "a whole message"),
    "unknown metadata key": Wrong(
        "expect",
        "expect: {metadata: {ack_timout: null}}",
        "expect.metadata.ack_timout",
        "unknown key 'ack_timout'",
        "did you mean 'ack_timeout'?",
    ),
    "unknown run key": Wrong(
        "expect", "expect: {run: {publishd: 1}}", "expect.run.publishd", "unknown key", "'published'"
    ),
    "metadata stated twice": Wrong(
        "expect",
        "expect: {metadata: {fps: 1}, sample: {metadata: {fps: 1}}}",
        "expect.metadata.fps",
        "under sample.metadata as well",
        "once",
    ),
    "close stated twice": Wrong(
        "expect",
        "expect: {close: clean, sample: {close: clean}}",
        "expect.close",
        "under sample.close as well",
        "once",
    ),
    "unknown close": Wrong(
        "expect", "expect: {close: gentle}", "expect.close", "'gentle'", "'clean', 'by_peer', 'forced'"
    ),
    "expectation of an unknown sample": Wrong(
        "expect",
        "expect: {samples: {x: {attempts: 1}}}",
        "expect.samples.x",
        "unknown sample 'x'",
        "known: 1",
    ),
    "tag twice": Wrong("tags", "tags: [a, a]", "tags[1]", "'a' stands twice", "each once"),
    "key twice": Wrong("tags", "title: Another", "title", "stands twice, first on line 1", "each key once"),
    "alias": Wrong("about", "about: &a x\ntags: [*a]", "tags[0]", "alias *a", "write the value out"),
    "tag of Python": Wrong(
        "title", "title: !!python/object/apply:os.system [x]", "title", "tag tag:yaml.org", "not allowed"
    ),
}


def errors_of(folder: Path, text: str) -> ScenarioError:
    file = folder / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioError) as caught:
        load_scenarios(file)
    return caught.value


def test_a_wrong_deadline_is_told_beside_an_unknown_one(tmp_path: Path) -> None:
    lines = {**LINES, "client": "client: {deadlines: {request_s: 120s, close_ms: 1}}"}

    found = errors_of(tmp_path, "\n".join(lines.values())).problems

    assert [p.key for p in found] == ["client.deadlines.close_ms", "client.deadlines.request_s"]


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ("title: [a,\nabout: b\n", 3, "flow sequence that begins on line 1, column 8"),
        (
            "title: a\nexpect: {sample: {x: 1}\n  y: {z: null}\n",
            3,
            "flow mapping that begins on line 2, column 9",
        ),
        ("title: a\nexpect:\n\tsample: {}\n", 3, "the line is indented with a tab"),
    ],
    ids=["bracket", "brace", "tab"],
)
def test_what_is_no_yaml_is_told_with_what_began_it(text: str, line: int, found: str, tmp_path: Path) -> None:
    (problem,) = errors_of(tmp_path, text).problems

    assert problem.line == line
    assert found in problem.found


@pytest.mark.parametrize("wrong", TABLE.values(), ids=TABLE.keys())
def test_an_error_names_file_line_key_found_and_allowed(wrong: Wrong, tmp_path: Path) -> None:
    lines = {**LINES, wrong.section: wrong.text}
    text = "\n".join(lines.values())

    problems = [
        p for p in errors_of(tmp_path, text).problems if p.key == wrong.key and wrong.found in p.found
    ]
    assert len(problems) == 1
    assert problems[0].file == str(tmp_path / "mine.yaml")
    assert wrong.allowed in problems[0].allowed
    if wrong.found != "missing" and wrong.key:
        last = wrong.key.split(".")[-1].split("[")[0]
        assert last in text.splitlines()[problems[0].line - 1]


def test_the_text_the_table_changes_is_good(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(GOOD, encoding="utf-8")

    assert load_scenario(file).id == "mine"


def test_all_problems_of_a_file_are_told_at_once_in_its_order(tmp_path: Path) -> None:
    wrong = ["title", "requires", "clip", "server", "faults", "client", "expect"]
    picked = ["empty title", "requirement above R63", "clip of no length", "unknown profile", "unknown fault"]
    picked += ["unknown deadline", "unknown metadata key"]
    lines = {**LINES, **{section: TABLE[name].text for section, name in zip(wrong, picked, strict=True)}}

    error = errors_of(tmp_path, "\n".join(lines.values()))
    assert [p.key for p in error.problems] == [TABLE[name].key for name in picked]
    assert [p.line for p in error.problems] == [1, 3, 4, 5, 6, 7, 8]
    assert str(error).count("\n") == len(picked) - 1


def test_an_error_carries_its_first_problem(tmp_path: Path) -> None:
    error = errors_of(tmp_path, GOOD.replace("forced", "gentle"))

    assert (error.line, error.key, error.found) == (8, "expect.close", "'gentle'")
    assert error.file.endswith("mine.yaml")
    assert str(error).startswith(f"{error.file}:8: expect.close: 'gentle'; one of 'clean'")


def test_the_lines_of_a_block_are_those_of_its_keys(tmp_path: Path) -> None:
    text = GOOD.replace(
        LINES["faults"], "faults:\n  - no_transport\n  - stop_reading:\n      on:\n        sent: nothing\n"
    )

    assert errors_of(tmp_path, text).line == 10


def test_short_forms_are_for_the_only_sample(tmp_path: Path) -> None:
    text = GOOD.replace(LINES["clip"], SAMPLES)

    problem = errors_of(tmp_path, text).problems[0]
    assert (problem.key, problem.line) == ("expect.close", 8)
    assert "sample.close" in problem.allowed


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b"", "an empty file"),
        (b"- 1\n", "a list of 1"),
        (b"title: [", "not YAML"),
        (b"a: b: c", "not YAML"),
        (b"title: a\n---\ntitle: b\n", "a second document"),
        (b"title: \xff", "byte 7 is not UTF-8"),
        (b"title: \x00", "not YAML"),
        (b"? [a]\n: b\n", "a key that is not text"),
        (b"'': b\n", "key ''"),
    ],
)
def test_what_is_no_yaml_mapping_is_told(raw: bytes, found: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_bytes(raw)

    with pytest.raises(ScenarioError, match=r"mine\.yaml") as caught:
        load_scenarios(file)
    assert found in str(caught.value)


@pytest.mark.parametrize(
    ("raw", "line"), [(b"a: 1\nb: c: d\ne: 1\n", 2), (b"a: 1\nb: \xff\n", 2), (b"a: 1\n---\nb: 1\n", 2)]
)
def test_a_syntax_error_names_its_line(raw: bytes, line: int, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_bytes(raw)

    with pytest.raises(ScenarioError) as caught:
        load_scenarios(file)
    assert caught.value.line == line


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"nowhere.yaml: no such file"):
        load_scenarios(tmp_path / "nowhere.yaml")
    with pytest.raises(ScenarioError, match=r"a folder; give the path of a \.yaml file"):
        load_scenarios(tmp_path)
