"""The way into a command line: wrong usage is one line that says what was found and what is allowed.

The library's own message is a box under a usage text, and leaves out what was found.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Final, NoReturn, TextIO

import typer
from typer.exceptions import TyperException

BAD_INPUT: Final = 2
INTERRUPTED: Final = 130
LONGEST: Final = 80
"""Characters of what was found that are shown."""


def enter(app: typer.Typer, program: str) -> NoReturn:
    """Run the command line of this process and end it with the exit code.

    2 for wrong usage and for a standard output that cannot be written, 130 for Ctrl-C.
    """
    open_closed_streams()
    spell_out(sys.stdout)
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except SystemExit as ended:
        # The library ends a closed pipe by itself, with the code of a failure.
        if isinstance(ended.__context__, BrokenPipeError):
            end_without_output(program, ended.__context__)
        raise
    except OSError as error:
        if error.filename is not None:
            raise
        end_without_output(program, error)
    except TyperException as refusal:
        told = refusal_line(refusal)
        if told:  # without arguments the help has just been shown
            sys.stderr.write(f"{program}: {told}\n")
        sys.exit(BAD_INPUT)
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


def open_closed_streams() -> None:
    """A standard stream that was closed before the start leads nowhere: its number must not be taken by a file."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - it stays open


def spell_out(stream: TextIO) -> None:
    """What a terminal's encoding does not have is spelled out, as on standard error: no reason to end with a stack."""
    if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
        stream.reconfigure(errors="backslashreplace")


def end_without_output(program: str, error: OSError) -> NoReturn:
    """Standard output is gone or full: nothing more can be told there, and a trace would help nobody."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{program}: output cannot be written: {error.strerror or error}\n")
        sys.stderr.flush()
    os._exit(BAD_INPUT)  # the interpreter would try to flush the same stream again


def refusal_line(refusal: TyperException) -> str:
    """What was wrong: `--jobs: found '99'; allowed: less than or equal to 64`. Empty when nothing is to be told."""
    names = getattr(getattr(refusal, "param", None), "opts", None)
    errors = getattr(refusal.__cause__, "errors", None)
    if not names or not callable(errors):
        told = getattr(refusal, "format_message", refusal.__str__)()
        return " ".join(str(told).split())
    first = errors()[0]
    wanted = str(first["msg"]).removeprefix("Input should be ").split(", unable to parse")[0]
    if " is not one of " in wanted:
        wanted = wanted.split(" is not ", 1)[1].rstrip(".")
    return f"{max(names, key=len)}: found {str(first['input'])[:LONGEST]!r}; allowed: {wanted}"
