"""Numbers of the command line: one line that says what was found and what is allowed, as for all bad input.

The library's own message is a box under a usage text, and leaves out what was found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

import typer

BAD_INPUT: Final = 2


def whole(option: str, least: int) -> Callable[[str | int], int]:
    """A reader of whole numbers from `least` on, for `typer.Option(parser=...)`. A default comes as a number."""

    def read(given: str | int) -> int:
        try:
            number = int(given)
        except ValueError:
            number = least - 1
        if number < least:
            _refuse(option, given, f"a whole number, {least} or more")
        return number

    return read


def number(option: str, allowed: str) -> Callable[[str | float], float]:
    """A reader of numbers. What range they must lie in is for those to say who use them.

    Args: allowed: told to who gives no number.
    """

    def read(given: str | float) -> float:
        try:
            return float(given)
        except ValueError:
            _refuse(option, given, allowed)

    return read


def whole_option(option: str, help: str, least: int) -> Any:
    """A `typer.Option` of a whole number."""
    return typer.Option(option, help=help, parser=whole(option, least), metavar="INTEGER")


def number_option(option: str, help: str, allowed: str) -> Any:
    """A `typer.Option` of a number."""
    return typer.Option(option, help=help, parser=number(option, allowed), metavar="NUMBER")


def _refuse(option: str, given: object, allowed: str) -> NoReturn:
    typer.echo(f"error: {option}: found {str(given)[:80]!r}; allowed: {allowed}", err=True)
    raise typer.Exit(BAD_INPUT)
