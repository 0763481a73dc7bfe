"""Which client is under test: `builtin`, `python:MOD:FUNC` or `command:…`, as the command line says it (design.md 9)."""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import dataclass
from typing import Literal

from conformance.abilities import ALL, Abilities, Need

Kind = Literal["builtin", "python", "command"]

FIELDS = (
    "url",
    "host",
    "port",
    "model",
    "ref_audio",
    "samples",
    "out",
    "deadline_s",
    "judge_url",
    "judge_model",
)
"""What stands in braces in a command and is filled in."""
_FIELD = re.compile(r"\{([a-z_]+)\}")
_FORMS = 'builtin, python:MOD:FUNC, command:"PROGRAM ARGUMENT …"'

_NO_STEPS = "a client of others tells neither its steps nor its deadlines"
_NO_SEAM = "a fault inside the client needs the client of this project"
_OWN_WORDS = "a client of others logs in its own words"
_NO_LOOP = "the client is a program of its own: its tasks cannot be seen"
NO_SOCKET = (
    "the client is a program of its own, and its socket takes megabytes before a stopped peer is felt: "
    "no network namespace is allowed here"
)
"""Why a stall cannot be shown with a program whose buffers nobody can make small."""


class ClientError(ValueError):
    """A client that cannot be used as asked; the message says what was found and what is allowed."""


@dataclass(frozen=True)
class ClientChoice:
    """The client under test."""

    kind: Kind = "builtin"
    module: str = ""
    """python: a path to a .py file, or a dotted name."""
    function: str = ""
    """python: the name of the coroutine function."""
    arguments: tuple[str, ...] = ()
    """command: program and arguments, `{…}` not yet filled."""

    @property
    def told(self) -> str:
        """As given on the command line."""
        if self.kind == "python":
            return f"python:{self.module}:{self.function}"
        return f"command:{shlex.join(self.arguments)}" if self.kind == "command" else "builtin"

    @property
    def outside(self) -> bool:
        """It is not the client of this project."""
        return self.kind != "builtin"

    def fill(self, fields: dict[str, str]) -> list[str]:
        """Program and arguments with every `{…}` filled."""
        return [_FIELD.sub(lambda found: fields[found[1]], argument) for argument in self.arguments]


BUILTIN = ClientChoice()


def parse_client(text: str) -> ClientChoice:
    """What `--client` says.

    Raises ClientError: none of the forms, no program of that name, or a field that is not known.
    """
    if text == "builtin":
        return BUILTIN
    kind, _, rest = text.partition(":")
    if kind == "python":
        module, colon, function = rest.rpartition(":")
        if not colon or not module or not function.isidentifier():
            raise ClientError(f"--client {text!r}: expected python:MOD:FUNC, such as python:lab/client.py:run")
        return ClientChoice("python", module=module, function=function)
    if kind == "command":
        return _command(text, rest)
    raise ClientError(f"--client {text!r}: unknown; known: {_FORMS}")


def _command(text: str, line: str) -> ClientChoice:
    try:
        arguments = shlex.split(line)
    except ValueError as error:
        raise ClientError(f"--client {text!r}: {error}") from error
    if not arguments:
        raise ClientError(f"--client {text!r}: no program; expected command:\"PROGRAM ARGUMENT …\"")
    unknown = sorted({name for a in arguments for name in _FIELD.findall(a)} - set(FIELDS))
    if unknown:
        known = ", ".join(f"{{{name}}}" for name in FIELDS)
        raise ClientError(f"--client {text!r}: {{{unknown[0]}}} is not known; known: {known}")
    if "{" not in arguments[0] and shutil.which(arguments[0]) is None:
        raise ClientError(f"--client {text!r}: no program {arguments[0]!r} on PATH or at that path")
    return ClientChoice("command", arguments=tuple(arguments))


def abilities_of(choice: ClientChoice) -> Abilities:
    """What can be seen of a client against the mock server; a command's socket is another matter, told by `NO_SOCKET`
    where it holds."""
    if not choice.outside:
        return ALL
    seen = ALL.without({Need.OBSERVER: _NO_STEPS, Need.SEAM: _NO_SEAM, Need.LOG: _OWN_WORDS})
    return seen.without({Need.LOOP: _NO_LOOP}) if choice.kind == "command" else seen
