"""The seams of the disk: they meet the client's files alone, as a file system would, and leave nothing behind."""

from __future__ import annotations

import asyncio
import builtins
import contextvars
import errno
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance.clock import SIDE, RealLoop, VirtualLoop, run_virtual
from conformance.seams import Seam, SeamContext, build_seams
from scenarios.errors import ScenarioError
from scenarios.faults import FAULTS
from scenarios.loader import load_scenario


def seam_of(name: str, root: Path, spend: Callable[[float], None] | None = None, **values: Any) -> Seam:
    context = SeamContext(lambda: None, lambda name, state, evidence: None, root, spend)
    (seam,) = build_seams([FAULTS[name].model_validate(values)], context)
    return seam


def as_client(act: Callable[[], Any]) -> Any:
    context = contextvars.copy_context()
    context.run(SIDE.set, "client")
    return context.run(act)


@pytest.fixture
def installed() -> Any:
    """installed(seam): in place for this test."""
    seams: list[Seam] = []

    def install(seam: Seam) -> Seam:
        seam.install()
        seams.append(seam)
        return seam

    original = io.open, builtins.open
    yield install
    for seam in seams:
        seam.release()
        seam.remove()
    assert (io.open, builtins.open) == original


def test_a_full_disk_refuses_a_write_below_the_root(tmp_path: Path, installed: Any) -> None:
    seam = installed(seam_of("full_disk", tmp_path))
    with pytest.raises(OSError, match="No space left") as caught:
        as_client(lambda: (tmp_path / "a.json").write_bytes(b"12345"))

    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename is None
    assert (tmp_path / "a.json").read_bytes() == b""
    report = seam.report()
    assert report.state == "observed"
    assert report.evidence == {"file": "a.json", "failed": 1, "asked_bytes": 5, "wrote_bytes": 0}


def test_what_fits_is_written_and_the_write_that_crosses_the_line_is_cut(
    tmp_path: Path, installed: Any
) -> None:
    installed(seam_of("full_disk", tmp_path, after_bytes=7))
    file = tmp_path / "a.json"
    as_client(lambda: file.write_bytes(b"12345"))
    with pytest.raises(OSError, match="No space left"):
        as_client(lambda: file.write_bytes(b"12345"))
    assert file.read_bytes() == b"12"


def test_a_raw_write_that_is_cut_tells_how_much_went_out(tmp_path: Path, installed: Any) -> None:
    installed(seam_of("full_disk", tmp_path, after_bytes=3))

    def act() -> int:
        with (tmp_path / "lines").open("a+b", buffering=0) as file:
            return int(file.write(b"12345"))

    assert as_client(act) == 3
    assert (tmp_path / "lines").read_bytes() == b"123"


def test_files_of_others_and_elsewhere_and_reads_are_left_alone(tmp_path: Path, installed: Any) -> None:
    root = tmp_path / "answers"
    root.mkdir()
    (root / "old").write_text("there")
    seam = installed(seam_of("full_disk", root))

    (root / "harness").write_text("mine")
    as_client(lambda: (tmp_path / "elsewhere").write_text("there"))
    assert as_client(lambda: (root / "old").read_text()) == "there"
    assert seam.report().state == "armed"


def test_a_pattern_means_the_place_of_a_file_and_not_its_part(tmp_path: Path, installed: Any) -> None:
    (tmp_path / "RTD_Omni").mkdir()
    installed(seam_of("full_disk", tmp_path, file="*/610.json"))
    as_client(lambda: (tmp_path / "RTD_Omni" / "611.json.part").write_text("x"))
    with pytest.raises(OSError, match="No space left"):
        as_client(lambda: (tmp_path / "RTD_Omni" / "610.json.part").write_text("x"))


def test_a_count_ends_the_fault(tmp_path: Path, installed: Any) -> None:
    installed(seam_of("full_disk", tmp_path, count=1))
    with pytest.raises(OSError, match="No space left"):
        as_client(lambda: (tmp_path / "a").write_text("x"))
    as_client(lambda: (tmp_path / "a").write_text("x"))


def test_a_released_disk_is_in_order(tmp_path: Path, installed: Any) -> None:
    installed(seam_of("full_disk", tmp_path)).release()
    as_client(lambda: (tmp_path / "a").write_text("x"))


def test_a_watched_file_is_otherwise_the_file_itself(tmp_path: Path, installed: Any) -> None:
    installed(seam_of("full_disk", tmp_path, file="nothing"))

    def act() -> tuple[int, list[str], str]:
        with (tmp_path / "a").open("w+") as file:
            file.write("one\ntwo\n")
            file.seek(0)
            return file.tell(), list(file), file.name

    assert as_client(act) == (0, ["one\n", "two\n"], str(tmp_path / "a"))


def test_a_slow_disk_takes_its_time_of_the_loop(tmp_path: Path, installed: Any) -> None:
    async def main() -> tuple[float, list[str]]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        seam = installed(seam_of("slow_disk", tmp_path, loop.spend, delay_s=3.0))
        since_s = loop.time()
        late: list[str] = []
        loop.call_later(1, late.append, "one")
        loop.call_later(2, late.append, "two")
        as_client(lambda: (tmp_path / "a").write_text("x"))
        assert late == []
        spent_s = loop.time() - since_s
        await asyncio.sleep(0.001)
        assert seam.report().evidence == {"file": "a", "writes": 1, "waited_s": 3.0}
        return spent_s, late

    assert run_virtual(main) == (3.0, ["one", "two"])


# -- the clock's part


def test_the_virtual_clock_spends_time_in_another_thread_too() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        since_s = loop.time()
        await asyncio.to_thread(loop.spend, 5.0)
        await asyncio.sleep(0)
        return loop.time() - since_s

    assert run_virtual(main) == pytest.approx(5.0)


def test_the_virtual_clock_does_not_go_back() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        seen = [loop.time()]
        for seconds in (0.5, 2.0, 1.5):
            loop.call_later(seconds, lambda: seen.append(loop.time()))
        loop.spend(1.0)
        await asyncio.sleep(3)
        assert seen == sorted(seen)
        assert seen[1:] == pytest.approx([seen[0] + s for s in (1.0, 1.5, 2.0)])
        with pytest.raises(ValueError, match="0 seconds or more"):
            loop.spend(-1.0)

    run_virtual(main)


def test_the_real_clock_spends_real_time() -> None:
    loop = RealLoop()
    try:
        since_s = loop.time()
        loop.spend(0.01)
        assert loop.time() - since_s >= 0.01
    finally:
        loop.close()


# -- the scenario's part


@pytest.mark.parametrize(
    ("fault", "key"),
    [
        ("{slow_disk: {}}", "faults[0].slow_disk.delay_s"),
        ("{full_disk: {after_bytes: -1}}", "faults[0].full_disk.after_bytes"),
        ('{full_disk: {sample: "1"}}', "faults[0].full_disk.sample"),
        ("{full_disk: {at_s: 1}}", "faults[0].full_disk.at_s"),
    ],
)
def test_a_disk_fault_written_wrongly_is_told(tmp_path: Path, fault: str, key: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "title: A rule\nabout: A story.\nrequires: [R20]\nclip: {seconds: 1.4}\n"
        f"faults: [{fault}]\nexpect: {{close: clean}}\n"
    )
    with pytest.raises(ScenarioError) as caught:
        load_scenario(file)
    assert key in [problem.key for problem in caught.value.problems]
