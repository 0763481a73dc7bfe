"""Which client is under test: `builtin`, `python:MOD:FUNC` or `command:…`, as on the command line (design.md 9)."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from conformance.abilities import ALL, Abilities, Need
from conformance.errors import ConfigurationError

Kind = Literal["builtin", "python", "command"]
Shows = Literal["metadata", "answers"]
"""What a client leaves of its sessions: metadata beside every answer (evaluation.md 12.1), or the answers alone."""
SHOWS: tuple[Shows, ...] = get_args(Shows)

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
_NO_SETTINGS = "a client of others cannot be told"
_NO_SEAM = "a fault inside the client needs the client of this project"
_OWN_WORDS = "a client of others logs in its own words"
_NO_LOOP = "the client is a program of its own: its tasks cannot be seen"
_NO_METADATA = "the client is declared to show its answers alone"
NO_SOCKET = (
    "the client is a program of its own, and its socket takes megabytes before a stopped peer is felt: "
    "no network namespace is allowed here"
)
"""Why a stall cannot be shown with a program whose buffers nobody can make small."""


JOBS_IN_REAL_TIME = 8
"""Programs at once: they wait most of their time, and share the processors while they start."""


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
    shows: Shows | None = None
    """As declared on the command line; None: as its module declares, else metadata."""

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

    Raises ConfigurationError: none of the forms, no program of that name, or a field that is not known.
    """
    if text == "builtin":
        return BUILTIN
    kind, _, rest = text.partition(":")
    if kind == "python":
        module, colon, function = rest.rpartition(":")
        if not colon or not module or not function.isidentifier():
            raise ConfigurationError(
                f"--client {text!r}: expected python:MOD:FUNC, such as python:lab/client.py:run"
            )
        return ClientChoice("python", module=module, function=function)
    if kind == "command":
        return _command(text, rest)
    raise ConfigurationError(f"--client {text!r}: unknown; known: {_FORMS}")


def _command(text: str, line: str) -> ClientChoice:
    try:
        arguments = shlex.split(line)
    except ValueError as error:
        raise ConfigurationError(f"--client {text!r}: {error}") from error
    if not arguments:
        raise ConfigurationError(f'--client {text!r}: no program; expected command:"PROGRAM ARGUMENT …"')
    unknown = sorted({name for a in arguments for name in _FIELD.findall(a)} - set(FIELDS))
    if unknown:
        known = ", ".join(f"{{{name}}}" for name in FIELDS)
        raise ConfigurationError(f"--client {text!r}: {{{unknown[0]}}} is not known; known: {known}")
    if "{" not in arguments[0] and shutil.which(arguments[0]) is None:
        raise ConfigurationError(f"--client {text!r}: no program {arguments[0]!r} on PATH or at that path")
    return ClientChoice("command", arguments=tuple(arguments))


def abilities_of(choice: ClientChoice, network: Literal["own", "shared"] = "own") -> Abilities:
    """What can be seen of a client against the mock server; of a program's socket only in a network of its own."""
    if not choice.outside:
        return ALL
    seen = ALL.without(
        {Need.OBSERVER: _NO_STEPS, Need.SEAM: _NO_SEAM, Need.LOG: _OWN_WORDS, Need.SETTINGS: _NO_SETTINGS}
    )
    if choice.shows == "answers":
        seen = seen.without({Need.METADATA: _NO_METADATA})
    if choice.kind == "python":
        return seen
    hidden = {Need.LOOP: _NO_LOOP} | ({Need.TRANSPORT: NO_SOCKET} if network == "shared" else {})
    return seen.without(hidden)


def showing(choice: ClientChoice, asked: Shows | None) -> ClientChoice:
    """The client with what `--client-shows` says of it.

    Raises ConfigurationError: it is the client of this project, of which nothing has to be declared.
    """
    if asked is not None and not choice.outside:
        raise ConfigurationError(
            f"--client-shows {asked}: {choice.kind} shows all; it is for clients of others"
        )
    return replace(choice, shows=asked)


def clock_of(choice: ClientChoice, asked: Literal["virtual", "real"] | None) -> Literal["virtual", "real"]:
    """The clock of a run: that of the wall for a program, else what was asked for, else the virtual one.

    Raises ConfigurationError: a program in virtual time.
    """
    if choice.kind != "command":
        return asked or "virtual"
    if asked == "virtual":
        raise ConfigurationError(
            "--clock virtual: a program keeps its own time; command: runs on the real clock"
        )
    return "real"


def jobs_for(choice: ClientChoice) -> int:
    """Scenarios at once where nothing is asked for."""
    return JOBS_IN_REAL_TIME if choice.kind == "command" else os.cpu_count() or 1


def refuse_unheard(choice: ClientChoice, deadline_s: float | None, variables: Sequence[str]) -> None:
    """Raises ConfigurationError: an option that this client does not hear, or a variable that is not set."""
    if deadline_s is not None and not choice.outside:
        raise ConfigurationError(
            f"--client-deadline {deadline_s:g}: the builtin client has deadlines of its own; "
            "it is for clients of others"
        )
    for name in variables:
        if choice.kind != "command":
            raise ConfigurationError(
                f"--client-env {name}: {choice.kind} runs in this process and has its environment; "
                "it is for a command"
            )
        if name not in os.environ:
            raise ConfigurationError(f"--client-env {name}: the variable is not set; export {name}=…")


def network_of(choice: ClientChoice, asked: str) -> Literal["own", "shared"]:
    """The network of a run's client; `auto` is its own where this machine allows it.

    Raises ConfigurationError: one of its own is asked for and not allowed, or the client is no program.
    """
    if choice.kind != "command":
        if asked == "own":
            raise ConfigurationError(
                f"--network own: {choice.kind} runs in this process; a command can have its own"
            )
        return "shared"
    if asked == "shared":
        return "shared"
    from conformance.clients.network import refusal

    why_not = refusal()
    if why_not is None:
        return "own"
    if asked == "own":
        raise ConfigurationError(f"--network own: not allowed here: {why_not}")
    return "shared"
