"""Command lines as they may be told: without the values of headers and of the queries of URLs."""

from __future__ import annotations

import re
import shlex

AGAIN = frozenset(
    {
        "--url",
        "--api-key-env",
        "--ca-file",
        "--header",
        "--judge-url",
        "--judge-model",
        "--judge-api-key-env",
        "--judge-ca-file",
        "--judge-video-mode",
        "--max-sessions",
    }
)
"""Options with a value that say where and how a scenario is played on a live server."""


def again(arguments: list[str]) -> str:
    """Of a live run's command line, what plays one scenario there again, masked as `masked_command` does."""
    kept = ["--target", "live"]
    following = iter(shown_arguments(arguments))
    for argument in following:
        name, equals, _ = argument.partition("=")
        if name in AGAIN:
            kept += [argument] if equals else [argument, next(following, "")]
        elif argument == "--inject":
            kept.append(argument)
    return shlex.join(kept)


def masked_command(arguments: list[str]) -> str:
    """A command line as it may be told: values of headers, and of the queries of URLs, do not stand in it."""
    return shlex.join(["conformance", *shown_arguments(arguments)])


def shown_arguments(arguments: list[str]) -> list[str]:
    """The arguments of a command line, masked."""
    shown: list[str] = []
    for argument in arguments:
        before = shown[-1] if shown else ""
        if before == "--header" or argument.startswith("--header="):
            name, _, value = argument.partition(":")
            argument = argument if value.strip().startswith("env:") else f"{name}: ***"
        before_query, mark, query = argument.partition("?")
        if mark and "://" in before_query:
            argument = before_query + mark + re.sub(r"=[^&]*", "=***", query)
        shown.append(argument)
    return shown
