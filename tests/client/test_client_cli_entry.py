"""Wrong usage is one line with what was found and what is allowed, and exit code 2."""

from __future__ import annotations

import enum
import errno
import io
import os
import sys
from typing import Annotated

import pytest
import typer

from client.cli_entry import enter, open_closed_streams, spell_out


class Pace(enum.StrEnum):
    REALTIME = "realtime"
    FAST = "as-fast-as-possible"


def _app(ended_by: BaseException | None = None) -> typer.Typer:
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)

    @app.command()
    def run(
        jobs: Annotated[int, typer.Option(min=0, max=64)] = 0,
        pace: Annotated[Pace, typer.Option()] = Pace.REALTIME,
        dataset: Annotated[str, typer.Option()] = "mini",
    ) -> None:
        if ended_by is not None:
            raise ended_by

    @app.command()
    def other(name: str) -> None:
        """A second command, so that the first has a name."""

    return app


def _enter(
    monkeypatch: pytest.MonkeyPatch, line: str, ended_by: BaseException | None = None
) -> int | str | None:
    monkeypatch.setattr("sys.argv", ["program", *line.split()])
    with pytest.raises(SystemExit) as ended:
        enter(_app(ended_by), "program")
    return ended.value.code


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("run --jobs 99", "program: --jobs: found '99'; allowed: less than or equal to 64"),
        ("run --jobs many", "program: --jobs: found 'many'; allowed: a valid integer"),
        (
            "run --pace slow",
            "program: --pace: found 'slow'; allowed: one of 'realtime', 'as-fast-as-possible'",
        ),
        ("other", "program: Missing argument 'name'."),
        ("nosuch", "program: No such command 'nosuch'."),
    ],
)
def test_wrong_usage_is_told_in_one_line(
    line: str, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _enter(monkeypatch, line) == 2
    assert capsys.readouterr().err == told + "\n"


def test_a_found_value_is_shown_in_part_when_it_is_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _enter(monkeypatch, "run --jobs " + "9x" * 1000) == 2
    assert len(capsys.readouterr().err) < 200


@pytest.mark.parametrize(
    ("ended_by", "code"), [(None, 0), (typer.Exit(4), 4), (typer.Abort(), 130), (KeyboardInterrupt(), 130)]
)
def test_the_command_decides_its_exit_code(
    ended_by: BaseException | None, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _enter(monkeypatch, "run", ended_by) == code


@pytest.mark.parametrize("number", [errno.EPIPE, errno.ENOSPC])
def test_an_output_that_cannot_be_written_is_no_failed_sample(
    number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The library ends a closed pipe with code 1, which says that something failed."""

    def ended(code: int) -> None:
        raise RuntimeError(f"process ended by {code}")

    monkeypatch.setattr(os, "_exit", ended)
    monkeypatch.setattr("sys.argv", ["program", "run"])
    monkeypatch.setattr(sys, "stdout", sys.stdout)  # the library wraps both
    monkeypatch.setattr(sys, "stderr", sys.stderr)
    with pytest.raises(RuntimeError, match="ended by 2"):
        enter(_app(OSError(number, os.strerror(number))), "program")

    assert capsys.readouterr().err == f"program: output cannot be written: {os.strerror(number)}\n"


def test_what_the_terminal_cannot_show_is_spelled_out() -> None:
    plain, careful = io.BytesIO(), io.BytesIO()
    terminal = io.TextIOWrapper(plain, "latin-1", "strict", write_through=True)
    other = io.TextIOWrapper(careful, "latin-1", "replace", write_through=True)

    for stream in (terminal, other):
        spell_out(stream)
        stream.write("\u4ed6.")

    assert (plain.getvalue(), careful.getvalue()) == (b"\\u4ed6.", b"?.")


def test_a_stream_that_was_closed_before_the_start_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    open_closed_streams()

    print("unheard")
    assert sys.stdout.name == os.devnull
    sys.stdout.close()
