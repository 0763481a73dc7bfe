"""The way into a command line: wrong usage is one line that says what was found and what is allowed.

The library's own message is a box under a usage text, and leaves out what was found.
"""

from __future__ import annotations

import sys
from typing import Final, NoReturn

import typer
from typer.exceptions import TyperException

BAD_INPUT: Final = 2
INTERRUPTED: Final = 130
LONGEST: Final = 80
"""Characters of what was found that are shown."""


def enter(app: typer.Typer, program: str) -> NoReturn:
    """Run the command line of this process and end it with the exit code: 2 for wrong usage, 130 for Ctrl-C."""
    try:
        code = app(standalone_mode=False)
    except TyperException as refusal:
        told = refusal_line(refusal)
        if told:  # without arguments the help has just been shown
            sys.stderr.write(f"{program}: {told}\n")
        sys.exit(BAD_INPUT)
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


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
