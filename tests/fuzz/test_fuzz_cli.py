"""The commands: a planted defect is found, kept, replayed, promoted, merged; bad input is told in one message."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from conformance import invariants
from conformance.commands import app
from conformance.defects.all import ALL_DEFECTS
from conformance.defects.rewrite import Rewrite, applied
from conformance.fuzz import campaign as campaigns
from conformance.fuzz.campaign import BLOCK, Group, Plan, Tally, run_campaign
from conformance.fuzz.case import Block, BlockResult, CasePlayer, CaseResult, Found
from conformance.fuzz.drawing import Kinds
from conformance.fuzz.files import text_of, write
from conformance.fuzz.replaying import FILL_IN
from conformance.fuzz.summary import write_summary
from conformance.invariants import INVARIANTS
from conformance.options import RunOptions
from conformance.outcome import Finding, Outcome
from conformance.runner import run_scenario
from conformance.session import alone_in
from mockserver.journal import Journal
from scenarios import load_catalogue, load_scenario

DEFECTS = {defect.name: defect for defect in ALL_DEFECTS}
PLAIN = {
    "title": "t",
    "about": "a",
    "requires": [],
    "clip": {"seconds": 1.4, "frames": False},
    "expect": {"finishes_within_s": 1000.0},
}
FUZZ = ["fuzz", "--cases", "6", "--seed", "3", "--jobs", "1", "--no-judge", "--no-media"]


def run(*arguments: str) -> tuple[int, str]:
    """Exit code, and all that was said."""
    done = CliRunner().invoke(app, arguments)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


@contextmanager
def defective(name: str) -> Iterator[None]:
    with applied(DEFECTS[name].rewrites):
        yield


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a campaign against a client that declares its padding to be speech."""
    folder = tmp_path_factory.mktemp("found")
    with defective("pad-as-speech"):
        code, said = run(*FUZZ, "--save", str(folder))
    assert code == 1, said
    assert re.search(r"wire-violation-[0-9a-f]{6}  R39  \d+ time\(s\), first in case \d+", said)
    assert f"  replay     conformance replay {finding_of(folder)}\n" in said
    return folder


@pytest.fixture
def left_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings stay as they were drawn: what a test is about is the same for small ones, which take time."""
    monkeypatch.setattr(campaigns, "shrink", lambda found, player: found)


def finding_of(folder: Path) -> Path:
    return next(folder.glob("wire-violation-*.yaml"))


def test_a_clean_client_gives_no_finding_and_the_states_that_were_missed() -> None:
    code, said = run(*FUZZ)

    assert code == 0, said
    assert "never reached: " in said
    assert re.search(r"seed 3, 6 cases \(.*pass\)", said)
    assert said.rstrip().endswith("0 finding(s)")


def test_a_finding_is_a_small_scenario_that_says_how_it_was_found(found: Path) -> None:
    file = finding_of(found)
    text = file.read_text()

    assert text.startswith(f"# conformance finding 1\n# finding: {file.stem}\n# requires: R39\n")
    assert "# seed: 3\n" in text
    assert re.search(
        r"^# drawn: conformance fuzz --seed 3 --no-media --no-judge --case \d$", text, re.MULTILINE
    )
    assert "# versions: duplex-conformance " in text
    assert f"# replay: conformance replay {file.name}" in text
    scenario = load_scenario(file)
    assert scenario.faults == []
    assert scenario.requires == ["R39"]
    summary = json.loads((found / "campaign.json").read_text())
    assert summary["cases"] == 6
    assert file.stem in [finding["key"] for finding in summary["findings"]]


def test_a_replay_fails_while_the_finding_is_there_and_says_so_when_it_is_not(found: Path) -> None:
    file = finding_of(found)

    with defective("pad-as-speech"):
        code, said = run("replay", str(file))
    assert (code, "speech-after-commit" in said) == (1, True), said

    code, said = run("replay", str(file))
    assert code == 3
    assert f"{file.stem} does not reproduce; found now: nothing" in said


def test_what_is_told_to_see_a_finding_again_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Journal.add

    def doubles(self: Journal, *given: Any) -> None:
        right(self, *given)
        self.entries.append(self.entries[-1])

    monkeypatch.setattr(Journal, "add", doubles)
    code, said = run("fuzz", "--server", "--cases", "1", "--seed", "4", "--jobs", "1")
    assert code == 1, said
    again = re.search(r"^  again      conformance (fuzz .*) --save DIR$", said, re.MULTILINE)
    assert again is not None, said
    assert again[1] == "fuzz --seed 4 --server --case 0"

    code, said = run(*again[1].split())

    assert code == 1, said
    assert "never reached" not in said, "what one case did not reach says nothing"
    assert "journal-invalid" in said


def test_a_trace_is_replayed_line_by_line(found: Path) -> None:
    trace = finding_of(found).with_suffix(".trace.ndjson")

    with defective("pad-as-speech"):
        code, said = run("replay", str(trace))
    assert code == 0, said
    assert "the same trace" in said

    code, said = run("replay", str(trace))
    assert code == 3
    assert "the trace differs" in said


def test_promoting_fills_in_what_is_known_and_asks_for_a_title(found: Path, tmp_path: Path) -> None:
    file = finding_of(found)

    with defective("pad-as-speech"):
        code, said = run("promote", str(file), "padding-says-speech", "--catalogue", str(tmp_path))
        taken = run("promote", str(file), "padding-says-speech", "--catalogue", str(tmp_path))
    assert code == 0, said
    place = tmp_path / "regressions" / "padding-says-speech.yaml"
    data = yaml.safe_load(place.read_text())
    assert re.match(
        r"# From `conformance fuzz --seed 3 --no-media --no-judge --case \d`\.\n", place.read_text()
    )
    assert data["requires"] == ["R39"]
    assert data["title"].startswith("FILL IN")
    assert taken[0] == 2
    assert "is there already" in taken[1]

    code, said = run("promote", str(file), "too-late", "--catalogue", str(tmp_path))
    assert code == 2
    assert "is not seen any more (found now: nothing)" in said


NEGATIVE_ACK = Rewrite("client.session:ClientSession.acks", "r.played_ms", "-1")


@pytest.mark.usefixtures("left_large")
def test_a_section_of_the_protocol_explains_as_well_as_a_requirement(tmp_path: Path) -> None:
    with applied([NEGATIVE_ACK]):
        run(*FUZZ, "--save", str(tmp_path))
        file = finding_of(tmp_path)
        assert "# requires: none named\n" in file.read_text()
        code, said = run("promote", str(file), "acks-below-zero", "--catalogue", str(tmp_path))
    assert code == 0, said
    data = yaml.safe_load((tmp_path / "regressions" / "acks-below-zero.yaml").read_text())
    assert data["requires"] == []
    assert data["tags"] == ["regression"]
    assert "protocol.md 8.1" in data["about"]


UNBOUNDED = {
    **PLAIN,
    "server": {"reply": [{"starts_at_unit": 0, "units": 1, "text": "A cyclist passed."}]},
    "faults": [{"swallow_cancellation": {}}],
}
LATE = {**PLAIN, "client": {"cancel_at_s": 5.0}}


@pytest.mark.parametrize(
    ("defect", "data", "bound_s"),
    [("ack-join-unbounded", UNBOUNDED, 69.6), ("drain-resets-forever", LATE, 4.7)],
    ids=["teardown", "drain"],
)
def test_what_takes_too_long_is_promoted_with_how_long_it_may_take(
    tmp_path: Path, defect: str, data: dict[str, Any], bound_s: float
) -> None:
    with defective(defect):
        played = CasePlayer(3, tmp_path).case(0, data)
        found = next(one for one in played.found if one.finding.id == "finishes_within_s")
        file = write(found, tmp_path, Kinds())
        code, said = run("promote", str(file), "too-long", "--catalogue", str(tmp_path))
        assert code == 0, said
        promoted = load_scenario(tmp_path / "regressions" / "too-long.yaml")
        failed = run_scenario(promoted, RunOptions())

    assert promoted.expect.finishes_within_s == bound_s
    assert (failed.outcome, "finishes_within_s" in {f.id for f in failed.findings}) == (Outcome.FAIL, True)
    assert run_scenario(promoted, RunOptions()).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("against", "ties", "reason"),
    [
        ("chunks", None, "was found by comparing two performances"),
        ("", 11, "shows with simultaneous events in order 11 alone"),
        ("", None, "nothing that `expect` can say of itself finds sample.text (R1 of old)"),
    ],
)
def test_what_would_pass_in_the_catalogue_is_refused_with_the_true_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, against: str, ties: int | None, reason: str
) -> None:
    found = Found(Finding("sample.text", ("R1",), "R1 of old", "another"), 3, 0, PLAIN, ties, against)
    monkeypatch.setattr(CasePlayer, "check", lambda self, saved, data: (found,))

    code, said = run("promote", str(write(found, tmp_path, Kinds())), "passes", "--catalogue", str(tmp_path))

    assert code == 2
    assert "as a scenario of the catalogue it would pass: " in said
    assert reason in said


def test_what_nothing_explains_is_not_promoted(
    found: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unexplained(observation: object) -> Iterator[Finding]:
        yield Finding("wire-violation", (), "something else", "speech-after-commit", "")

    one = next(invariant for invariant in INVARIANTS if invariant.id == "wire-violation")
    vague = replace(one, check=unexplained)
    monkeypatch.setattr(
        invariants, "INVARIANTS", tuple(vague if each is one else each for each in INVARIANTS)
    )
    file = tmp_path / "vague.yaml"
    found_now = Found(Finding("wire-violation", (), "", "speech-after-commit"), 3, 0, PLAIN)
    file.write_text(text_of(found_now, file, Kinds()))

    code, said = run("promote", str(file), "unexplained", "--catalogue", str(tmp_path))

    assert code == 2
    assert "names no requirement and no section of protocol.md" in said
    code, said = run("promote", str(finding_of(found)), "No Id", "--catalogue", str(tmp_path))
    assert code == 2
    assert "'No Id' is no id" in said


@pytest.mark.usefixtures("left_large")
def test_shards_are_disjoint_and_merge_to_the_whole(tmp_path: Path) -> None:
    with defective("pad-as-speech"):
        for part in ("1/2", "2/2"):
            run(*FUZZ, "--shard", part, "--save", str(tmp_path / part[0]))
        run(*FUZZ, "--save", str(tmp_path / "whole"))

    code, said = run("merge", str(tmp_path / "1"), str(tmp_path / "2"), "--save", str(tmp_path / "all"))
    whole = json.loads((tmp_path / "whole" / "campaign.json").read_text())
    assert code == 1
    assert "2 shard(s), 6 cases" in said
    for finding in whole["findings"]:
        assert f"{finding['key']}  {' '.join(finding['requirements'])}  {finding['count']} time(s)" in said
        assert (tmp_path / "all" / f"{finding['key']}.yaml").exists()


def test_an_older_campaign_in_the_folder_is_told_and_its_findings_stay(tmp_path: Path) -> None:
    write_summary(Plan(7, cases=6, kinds=Kinds(server=True)), Tally(), tmp_path)
    (tmp_path / "task-leak-000000.yaml").touch()

    code, said = run("fuzz", "--cases", "1", "--seed", "3", "--jobs", "1", "--save", str(tmp_path))

    assert code == 0, said
    assert said.startswith(
        f"note: {tmp_path} holds `conformance fuzz --seed 7 --server --cases 6`: its 1 finding(s) stay, "
    )
    assert (tmp_path / "task-leak-000000.yaml").exists()
    now = json.loads((tmp_path / "campaign.json").read_text())
    assert (now["seed"], now["interrupted"], now["cases"]) == (3, False, 1)


@pytest.mark.usefixtures("left_large")
def test_the_case_that_is_asked_for_is_played_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[Block] = []
    found = Found(Finding("task-leak", ("R9",), "none", "one"), 7, 11, PLAIN)

    def finds(block: Block) -> BlockResult:
        played.append(block)
        return BlockResult((CaseResult(11, Outcome.FAIL, (found,), frozenset(), 1.0, 0),), 0.1)

    monkeypatch.setattr(campaigns, "play_block", finds)

    code, said = run("fuzz", "--seed", "7", "--case", "11", "--no-judge")

    assert code == 1
    assert played == [Block(7, (11,), Kinds(judge=False))]
    assert "  again      conformance fuzz --seed 7 --no-judge --case 11 --save DIR\n" in said


def test_a_folder_is_tried_before_anything_is_played_and_tells_of_a_campaign_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "campaign.json").write_text("{}")
    seen: list[Any] = []

    def looks(block: Block) -> BlockResult:
        seen.append(json.loads((tmp_path / "campaign.json").read_text()))
        return BlockResult((), 0.1)

    monkeypatch.setattr(campaigns, "play_block", looks)

    for option in (("--save", "/proc/nothing"), ("--json", "/proc/nothing/told.json")):
        assert run("fuzz", "--cases", "1", "--jobs", "1", *option)[0] == 2
        assert seen == []
    code, said = run("fuzz", "--cases", "1", "--jobs", "1", "--save", str(tmp_path))
    assert (code, seen[0]["interrupted"], seen[0]["planned"]["cases"]) == (0, True, 1)
    assert said.startswith(f"note: {tmp_path} holds an older campaign: its 0 finding(s) stay, ")


def test_what_cannot_be_written_is_no_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Found(Finding("task-leak", ("R9",), "none", "one"), 1, 0, PLAIN)
    case = CaseResult(0, Outcome.FAIL, (found,), frozenset(), 1.0, 0)
    monkeypatch.setattr(campaigns, "play_block", lambda block: BlockResult((case,), 0.1))
    (tmp_path / f"{found.key}.yaml").mkdir()

    code, said = run("fuzz", "--cases", "1", "--jobs", "1", "--save", str(tmp_path))

    assert code == 2
    assert f"found {found.key} in case 0" in said
    assert f"conformance: {tmp_path / found.key}.yaml: cannot be written: Is a directory\n" in said


def test_an_interrupt_keeps_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from conformance.fuzz.case import Found
    from conformance.outcome import Finding

    data = {
        "title": "t",
        "about": "a",
        "requires": [],
        "clip": {"seconds": 1.0},
        "expect": {"finishes_within_s": 9.0},
    }
    found = Found(Finding("task-leak", ("R9",), "none", "one"), 1, 0, data)

    def interrupted(blocks: Iterator[Block], play: object, jobs: int) -> Iterator[BlockResult]:
        yield BlockResult((CaseResult(0, Outcome.FAIL, (found,), frozenset(), 1.0, 0),), 0.1)
        raise KeyboardInterrupt

    monkeypatch.setattr(campaigns.executors, "local", interrupted)
    tally = run_campaign(Plan(1, cases=10), save=tmp_path, on_block=lambda tally, fresh: None)

    assert tally.interrupted
    assert (tmp_path / f"{found.key}.yaml").exists()

    def cut_short(tally: Tally, fresh: list[Group]) -> None:
        raise KeyboardInterrupt

    run_campaign(Plan(1, cases=10), save=tmp_path / "at once", on_block=cut_short)

    assert (tmp_path / "at once" / f"{found.key}.yaml").exists(), "the summary tells of it"


def test_two_campaigns_do_not_write_to_one_folder(tmp_path: Path) -> None:
    with alone_in(tmp_path):
        code, said = run(*FUZZ, "--save", str(tmp_path))

    assert (code, said) == (2, f"conformance: {tmp_path}: another run writes there; name another folder\n")
    assert list(tmp_path.iterdir()) == []


def test_a_campaign_that_has_no_time_plays_one_block_all_the_same() -> None:
    assert [len(block.numbers) for block in Plan(1, for_s=0.001).blocks(time.monotonic() - 1)] == [BLOCK]


def test_no_promoted_scenario_waits_for_its_title() -> None:
    assert [s.id for s in load_catalogue() if s.title.startswith(FILL_IN)] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fuzz", "--cases", "0"], "--cases 0: at least 1"),
        (["fuzz", "--cases", "5", "--for", "1m"], "give one of the two"),
        (["fuzz", "--for", "soon"], "--for 'soon': a time such as 90s, 10m or 1h"),
        (["fuzz", "--for", "0s"], "--for '0s'"),
        (["fuzz", "--shard", "3/2"], "--shard '3/2': K/N with 1 <= K <= N"),
        (
            ["fuzz", "--cases", "3", "--shard", "4/5"],
            "--shard 4/5 of 3 case(s): nothing to play there; at most 3",
        ),
        (["fuzz", "--executor", "slurm"], "--executor 'slurm': local, ray or ray:ADDRESS"),
        (["fuzz", "--save", "/proc/nothing"], "/proc/nothing: cannot be written"),
        (["fuzz", "--save", ""], "--save '': the name of a folder is wanted"),
        (["merge", "x", "--save", " "], "--save ' ': the name of a folder is wanted"),
        (
            ["fuzz", "--case", "3", "--cases", "5"],
            "--case 3 plays that case alone, here: it takes no --cases\n",
        ),
        (
            ["fuzz", "--case", "3", "--for", "1m", "--shard", "1/2", "--executor", "ray", "--jobs", "2"],
            "--for, --shard, --executor, --jobs\n",
        ),
        (["replay", "no/such.yaml"], "no/such.yaml"),
        (["replay", str(Path(__file__).parent)], "fuzz: a folder; give one file of it"),
        (
            ["promote", "no/such.yaml", "x", "--catalogue", __file__],
            "test_fuzz_cli.py: a file; give the folder",
        ),
        (["promote", "no/such.yaml", "x", "--catalogue", "/proc/x"], "--catalogue /proc/x: no such folder"),
    ],
)
def test_bad_input_is_one_message_and_exit_2(arguments: list[str], message: str) -> None:
    code, said = run(*arguments)

    assert code == 2
    assert message in said
    assert said.startswith("conformance: ")


HEAD = "# conformance finding 1\n# finding: x\n# seed: 1\n# case: 1\n"
HOSTILE = "profile: july\nquery: ''\nreads: true\nsteps:\n- {raw: '8180'}\nend: wait\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title: t\n", "is no finding; wanted `# conformance finding 1`"),
        ("# conformance finding 7\n# seed: 1\ntitle: t\n", "a finding of format '7'; this version reads 1"),
        ("# conformance finding 1\n# seed: 1\ntitle: t\n", "the line `# finding: ...` is missing"),
        (
            "# conformance finding 1\n# finding: x\n# seed: many\n# case: 1\ntitle: t\n",
            "a whole number is wanted",
        ),
        ("# conformance finding 1\n# finding: x\n# seed: 1\n# case: 1\ntitle: t\n", "missing"),
        (HEAD + "title: t\nabout: a\nrequires: []\nclip: {seconds: -1}\n", "finding.yaml:8: clip.seconds: "),
        (HEAD + "title: t\ncases: {one: {}}\n", "finding.yaml:6: cases: several scenarios; a finding is one"),
        (HEAD + "title: [\n", "finding.yaml:6: not YAML"),
        (HEAD + HOSTILE.replace("reads: true\n", ""), "finding.yaml:5: reads: missing; a hostile client has"),
        (HEAD + HOSTILE + "extra: 1\n", "finding.yaml:11: extra: unknown key; "),
        (HEAD + HOSTILE.replace("july", "august"), "finding.yaml:5: profile: 'august'; one of july, "),
        (
            HEAD + HOSTILE.replace("wait\n", "nope\n"),
            "finding.yaml:10: end: 'nope'; one of wait, close, abort, fin",
        ),
        (HEAD + HOSTILE.replace("true", "7"), "finding.yaml:7: reads: 7; true or false"),
        (HEAD + HOSTILE.replace("''", "[]"), "finding.yaml:6: query: a list of 0; text that UTF-8 can hold"),
        (HEAD + HOSTILE.replace("steps:", "stapes:"), "finding.yaml:8: stapes: unknown key; "),
        (HEAD + HOSTILE.replace("\n- {raw: '8180'}", " 5"), "finding.yaml:8: steps: 5; a list of steps"),
        (HEAD + HOSTILE.replace("{raw: '8180'}", "5"), "finding.yaml:9: steps[0]: 5; a mapping with one of"),
        (HEAD + HOSTILE.replace("raw:", "rew:"), "finding.yaml:9: steps[0].rew: unknown key; "),
        (HEAD + HOSTILE.replace("'8180'", "zz"), "finding.yaml:9: steps[0].raw: 'zz'; bytes in hexadecimal"),
        (
            HEAD + HOSTILE.replace("raw: '8180'", "times: 2"),
            "steps[0]: nothing to do; exactly one of event, ",
        ),
        (HEAD + HOSTILE.replace("'8180'", "'8180', wait_s: 1"), "steps[0]: raw and wait_s; exactly one of"),
        (
            HEAD + HOSTILE.replace("'8180'", "'8180', times: 0"),
            "steps[0].times: 0; a whole number from 1 to ",
        ),
        (
            HEAD + HOSTILE.replace("raw: '8180'", "wait_s: .inf"),
            "steps[0].wait_s: '.inf'; seconds from 0 to 3600",
        ),
        (
            HEAD + HOSTILE.replace("raw: '8180'", "append_ms: -1"),
            "steps[0].append_ms: -1; a whole number from 0",
        ),
        (HEAD + HOSTILE.replace("raw: '8180'", "binary_bytes: 1e9"), "steps[0].binary_bytes: "),
        (
            HEAD + HOSTILE.replace("raw: '8180'", "event: []"),
            "steps[0].event: a list of 0; a mapping, sent as JSON",
        ),
        (HEAD + HOSTILE.replace("raw: '8180'", "text: 7"), "steps[0].text: 7; text that UTF-8 can hold"),
    ],
)
def test_a_file_that_is_no_finding_of_this_version_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "finding.yaml"
    file.write_text(text)

    code, said = run("replay", str(file))

    assert code == 2
    assert message in said


TRACED = {"conformance-trace": 2, "seed": 1, "case": 0, "ties": None, "scenario": PLAIN}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x.trace.ndjson: empty; a trace begins with the scenario that gave it"),
        ("{\n", "x.trace.ndjson:1: '{' is no line of a trace"),
        ("[" * 50_000, "x.trace.ndjson:1: "),
        (json.dumps({**TRACED, "seed": "one"}), "x.trace.ndjson:1: seed: 'one'; a whole number from 0"),
        (json.dumps({**TRACED, "case": None}), "x.trace.ndjson:1: case: missing; a whole number from 0"),
        (json.dumps({**TRACED, "ties": "any"}), "x.trace.ndjson:1: ties: 'any'; a whole number from 0"),
        (json.dumps({**TRACED, "scenario": {"title": 3}}), "x.trace.ndjson:1: title: "),
        (json.dumps({**TRACED, "scenario": 5}), "x.trace.ndjson:1: 5; a mapping with a title"),
        (json.dumps(TRACED) + '\n{"t_s": "soon"}', "x.trace.ndjson:2: no record of a trace"),
    ],
)
def test_a_trace_that_cannot_be_played_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "x.trace.ndjson"
    file.write_text(text)

    code, said = run("replay", str(file))

    assert (code, message in said) == (2, True), said
