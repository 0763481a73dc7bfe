"""What the documents show is what happens: every command in a `console` block is run, its output compared.

A block holds lines that start with `$ ` (a trailing backslash goes on), each followed by the output it gives.
Output is compared line by line, in order, with runs of digits and of spaces taken as equal; a line of `...`
stands for any lines. A block without output only has to succeed. An HTML comment on the line before the fence
says more, its parts separated by `;`:

    <!-- run: exit 1 -->                       the exit code expected
    <!-- run: background until "listening" --> stays up until the document ends; the first port number in its
                                               output replaces PORT in later commands
    <!-- run: shared data -->                  needs the handed data beside the project
    <!-- run: not here -->                     only for what NOT_HERE allows, such as cloning

Commands run in a scratch folder where the project's files appear by name, so what they write is thrown away.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
DOCUMENTS = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted((PROJECT / "docs").glob("*.md"))]
LIMIT_S = 180
NOT_HERE = re.compile(r"(git clone|cd|pip install|python3? -m (venv|pip)|source|\.ci/run)\b.*")
"""What a document may show unrun: it needs a network, or would run these tests within themselves."""


@dataclass
class Command:
    """One `$ ` line with what the document says around it."""

    line: int
    text: str
    output: list[str] = field(default_factory=list)
    exit_code: int = 0
    until: str | None = None
    """Runs in the background until this text was printed."""
    shared_data: bool = False
    not_here: bool = False


def commands_in(document: str) -> Iterator[Command]:
    """Every command of every `console` block, in order.

    Raises ValueError: a shell block of another kind, an unknown marker, or a block without a command.
    """
    lines = document.splitlines()
    opened: tuple[int, str] | None = None
    for number, line in enumerate(lines, start=1):
        fence = re.match(r"^\s*```(.*)$", line)
        if not fence:
            continue
        if opened is None:
            opened = (number, fence[1].strip())
            if opened[1].split(" ")[0] in {"sh", "bash", "shell", "zsh"}:
                raise ValueError(f"line {number}: a block of commands is tagged `console`, so that it is run")
            continue
        start, kind = opened
        opened = None
        if kind == "console":
            yield from _block(lines[start : number - 1], start + 1, _marker(lines, start - 1))
    if opened is not None:
        raise ValueError(f"line {opened[0]}: the block is never closed")


def _marker(lines: list[str], fence: int) -> str:
    above = lines[fence - 1].strip() if fence else ""
    found = re.fullmatch(r"<!--\s*run:(.*)-->", above)
    return found[1].strip() if found else ""


def _block(lines: list[str], first: int, marker: str) -> Iterator[Command]:
    commands: list[Command] = []
    goes_on = False
    for number, line in enumerate(lines, start=first):
        if goes_on:
            commands[-1].text += line.strip().removesuffix("\\")
        elif line.startswith("$ "):
            commands.append(Command(number, line[2:].removesuffix("\\")))
        elif commands:
            commands[-1].output.append(line)
        elif line.strip():
            raise ValueError(f"line {number}: output before any command")
        goes_on = line.endswith("\\") and (goes_on or line.startswith("$ "))
    if not commands:
        raise ValueError(f"line {first}: a console block without a command")
    for part in filter(None, (part.strip() for part in marker.split(";"))):
        for command in commands:
            _apply(part, command)
    yield from commands


def _apply(part: str, command: Command) -> None:
    if found := re.fullmatch(r"exit (\d+)", part):
        command.exit_code = int(found[1])
    elif found := re.fullmatch(r'background until "(.+)"', part):
        command.until = found[1]
    elif part == "shared data":
        command.shared_data = True
    elif part == "not here":
        command.not_here = True
    else:
        raise ValueError(f"line {command.line}: unknown marker {part!r}")


def differs(shown: list[str], printed: str) -> str | None:
    """The first line shown that was not printed after those before it; None when all were."""
    have = iter([_alike(line) for line in printed.splitlines()])
    gap = False
    for line in [line.rstrip() for line in shown if line.strip()]:
        if line.strip() == "...":
            gap = True
            continue
        for candidate in have:
            if candidate == _alike(line):
                break
            if candidate and not gap:
                return line
        else:
            return line
        gap = False
    return None


def _alike(line: str) -> str:
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line)
    return re.sub(r"\s+", " ", re.sub(r"[0-9]+(\.[0-9]+)?", "#", plain)).strip()


class Shell:
    """Runs the commands of one document in a scratch folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port: str | None = None
        self._background: list[subprocess.Popen[bytes]] = []
        for path in PROJECT.iterdir():
            if path.name not in {".git", ".venv", "out", "conformance-out", "dist", "build"}:
                (folder / path.name).symlink_to(path)
        if (PROJECT.parent / "shared").is_dir():
            (folder.parent / "shared").symlink_to(PROJECT.parent / "shared")

    def run(self, command: Command) -> str | None:
        """Run one command; give what is wrong with it, or None."""
        if command.not_here:
            return None if NOT_HERE.fullmatch(command.text) else "may not be left out here"
        if "PORT" in command.text and self.port is None and command.until is None:
            return "names PORT, and nothing in the background has told one"
        text = command.text.replace("PORT", self.port or "PORT")
        if text.split()[0] == "make":
            text = text.replace("make", "make -n", 1)  # only that the target is there: `make test` runs this
        if command.until is not None:
            return self._start(text, command.until)
        try:
            done = subprocess.run(["bash", "-c", text], timeout=LIMIT_S, **self._settings())  # type: ignore[call-overload]
        except subprocess.TimeoutExpired as expired:
            return f"did not end in {LIMIT_S} s; printed {expired.stdout!r}"
        printed = done.stdout.decode(errors="replace")
        if done.returncode != command.exit_code:
            return f"exit {done.returncode}, expected {command.exit_code}; printed:\n{printed}"
        if text.startswith("make -n"):
            return None
        missing = differs(command.output, printed)
        return f"did not print {missing!r} where it should; printed:\n{printed}" if missing else None

    def close(self) -> None:
        """End what runs in the background, as Ctrl-C would, and then by force."""
        for process in self._background:
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(10)
            assert process.stdout is not None
            process.stdout.close()

    def _start(self, text: str, until: str) -> str | None:
        process = subprocess.Popen(["bash", "-c", text], start_new_session=True, **self._settings())  # type: ignore[call-overload]
        self._background.append(process)
        printed = b""
        ends_s = time.monotonic() + 30
        while until.encode() not in printed:
            left_s = ends_s - time.monotonic()
            if left_s <= 0 or not select.select([process.stdout], [], [], left_s)[0]:
                return f"did not print {until!r} in 30 s; printed {printed!r}"
            piece = os.read(process.stdout.fileno(), 65536)
            if not piece:
                return f"ended before it printed {until!r}; printed {printed!r}"
            printed += piece
        if found := re.search(rb":(\d{2,5})\b", printed):
            self.port = found[1].decode()
        return None

    def _settings(self) -> dict[str, object]:
        path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"
        environment = {**os.environ, "PATH": path, "CI": "true", "PYTHONUNBUFFERED": "1", "COLUMNS": "120"}
        environment.pop("PYTHONPATH", None)
        return {
            "cwd": self.folder,
            "env": environment,
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
        }


def run_document(text: str, folder: Path) -> list[str]:
    """Run all commands of a document in order; give what is wrong, each with its line."""
    shell = Shell(folder)
    have_shared_data = (PROJECT.parent / "shared" / "data").is_dir()
    try:
        wrong = []
        for command in commands_in(text):
            if command.shared_data and not have_shared_data:
                continue
            if complaint := shell.run(command):
                wrong.append(f"line {command.line}: $ {command.text}: {complaint}")
        return wrong
    finally:
        shell.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


@pytest.mark.slow
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_of_the_document_runs_as_shown(document: Path, folder: Path) -> None:
    assert run_document(document.read_text("utf-8"), folder) == []


def test_the_readme_shows_both_commands() -> None:
    shown = {command.text for command in commands_in((PROJECT / "README.md").read_text("utf-8"))}

    assert {"make run", "make test"} <= shown


# The machinery itself ------------------------------------------------------------------------------------


def block(*lines: str, marker: str = "") -> str:
    return "\n".join(["text", *([f"<!-- run: {marker} -->"] if marker else []), "```console", *lines, "```"])


@pytest.mark.parametrize(
    "document",
    [
        block("$ true"),
        block("$ echo one 17.5", "one 3"),
        block("$ printf 'a\\nb\\nc\\n'", "a", "...", "c"),
        block("$ printf 'a\\nb\\n'", "a"),
        block("$ printf '\\na   b\\n\\n'", "a b"),
        block("$ echo one \\", "    two", "one two"),
        block("$ false", marker="exit 1"),
        block("$ test -e pyproject.toml && touch made-here"),
        block("$ git clone somewhere", marker="not here"),
        block("$ make run", "anything at all"),
        block("$ echo listening at x:8091; exec sleep 60", marker='background until "listening"')
        + "\n"
        + block("$ echo PORT | grep -x 8091"),
        "```yaml\n$ false\n```",
    ],
)
def test_a_document_that_tells_the_truth_is_accepted(document: str, folder: Path) -> None:
    assert run_document(document, folder) == []
    assert not (PROJECT / "made-here").exists()


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        (block("$ false"), "exit 1, expected 0"),
        (block("$ true", marker="exit 1"), "exit 0, expected 1"),
        (block("$ echo one", "two"), "did not print 'two'"),
        (block("$ printf 'a\\nx\\nb\\n'", "a", "b"), "did not print 'b'"),
        (block("$ printf 'b\\na\\n'", "...", "a", "...", "b"), "did not print 'b'"),
        (block("$ no-such-program"), "exit 127"),
        (block("$ conformance run", marker="not here"), "may not be left out"),
        (block("$ echo PORT"), "names PORT"),
        (block("$ make no-such-target"), "exit 2"),
        (block("$ true", marker='background until "listening"'), "ended before it printed"),
    ],
)
def test_a_document_that_does_not_is_refused(document: str, complaint: str, folder: Path) -> None:
    (wrong,) = run_document(document, folder)

    assert complaint in wrong


@pytest.mark.parametrize(
    "document",
    [
        "```bash\ntrue\n```",
        block("only output"),
        block(),
        block("$ true", marker="whenever"),
        "```console\n$ true",
    ],
)
def test_a_block_that_would_not_be_run_is_an_error(document: str) -> None:
    with pytest.raises(ValueError, match="line "):
        list(commands_in(document))


def test_a_command_is_quoted_as_a_shell_would(folder: Path) -> None:
    assert run_document(block(f"$ test {shlex.quote('a  b')} = 'a  b'"), folder) == []
