"""The options of `conformance serve`, checked: profile and pace, the scenario, the token of the control API."""

from __future__ import annotations

import os
import secrets
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from conformance.options import ConfigurationError
from conformance.targets.mock import server_faults
from mockserver.arming import provable
from mockserver.control_guard import MAX_TOKEN_CHARS, Guard, is_loopback
from mockserver.faults import check_played
from mockserver.profiles import PROFILES, Profile, scripted
from scenarios import load_catalogue, select
from scenarios.errors import key_text, known
from scenarios.explain import problems_of
from scenarios.faults import FaultBase, Layer
from scenarios.model import Reply, Scenario, ServerSpec

DEFAULT_REPLIES = (
    Reply(
        starts_at_unit=1,
        units=3,
        text="I can see the scene. Something is moving in it. Now it is quiet again.",
    ),
)
"""What the model says when no scenario is given."""
MIN_TOKEN_CHARS = 16


@dataclass(frozen=True)
class ServeOptions:
    """As on the command line."""

    scenario: str | None = None
    profile: str | None = None
    """None: the scenario's, or `july`."""
    pace: Sequence[str] = ()
    """KEY=VALUE each."""
    max_sessions: int | None = None
    host: str = "127.0.0.1"
    port: int = 0
    judge_port: int = 0
    journal: Path | None = None
    token_env: str | None = None
    tls_cert: Path | None = None
    """With `tls_key`: sessions by wss."""
    tls_key: Path | None = None
    api_key_env: str | None = None
    """Variable of the key that sessions need."""
    seed: int = 1


@dataclass(frozen=True)
class Served:
    """What is served, and where."""

    options: ServeOptions
    profile: Profile
    replies: Sequence[Reply]
    decision_ms: int
    guard: Guard
    token_told: bool
    """The token was made here, so it must be told once."""
    faults: Sequence[FaultBase] = ()
    tls: ssl.SSLContext | None = None
    api_key: str | None = field(default=None, repr=False)
    scenario: Scenario | None = None
    """Scripts the judge; None: its verdicts are plausible."""


def served(options: ServeOptions, environment: Mapping[str, str] | None = None) -> Served:
    """What the options ask for.

    Args:
        environment: where a token is looked up; None: that of this process.
    Raises ConfigurationError: an unknown profile, a pace out of its range, no usable token, no address.
    Raises ScenarioError: the scenario does not load.
    """
    if not options.host.strip():
        raise ConfigurationError("--host: empty, which would be every address; name one, such as 127.0.0.1")
    script = None if options.scenario is None else one_scenario(options.scenario)
    spec = _server_spec(options, script)
    environment = os.environ if environment is None else environment
    token, made = _token(options, environment)
    tls = _tls(options)
    faults = [] if script is None else [provable(fault) for fault in server_faults(script)]
    try:
        for fault in faults:
            check_played(fault, tls=tls is not None)
    except ValueError as error:
        raise ConfigurationError(f"--scenario {options.scenario!r}: {error}") from None
    return Served(
        options=options,
        profile=scripted(spec),
        replies=DEFAULT_REPLIES if script is None else spec.reply,
        decision_ms=spec.decision_ms,
        guard=Guard(options.host, token),
        token_told=made,
        faults=faults,
        tls=tls,
        api_key=_api_key(options, environment),
        scenario=script,
    )


def _tls(options: ServeOptions) -> ssl.SSLContext | None:
    """Certificate and key of the sessions' port; None: neither is given."""
    cert, key = options.tls_cert, options.tls_key
    if cert is None and key is None:
        return None
    if cert is None or key is None:
        given, other = ("--tls-cert", "--tls-key") if key is None else ("--tls-key", "--tls-cert")
        raise ConfigurationError(f"{given} needs {other}: a certificate and its key go together")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert, key)
    except OSError as error:  # an SSLError is one too
        why = getattr(error, "reason", None) or error.strerror or error
        raise ConfigurationError(
            f"--tls-cert {cert}, --tls-key {key}: {why}; expected a certificate and its key in PEM"
        ) from None
    return context


def _api_key(options: ServeOptions, environment: Mapping[str, str]) -> str | None:
    if options.api_key_env is None:
        return None
    key = environment.get(options.api_key_env, "")
    if not key or not key.isascii() or not key.isprintable():
        raise ConfigurationError(
            f"--api-key-env {options.api_key_env}: not set, empty or no plain text; the variable holds the key"
        )
    return key


def one_scenario(pattern: str) -> Scenario:
    """What `--scenario` means.

    Raises ConfigurationError: not exactly one, or one that acts on a client in the same process.
    Raises ScenarioError: it does not load.
    """
    chosen = select(load_catalogue(), [pattern], [])
    if len(chosen) != 1:
        raise ConfigurationError(f"--scenario {pattern!r}: selects {len(chosen)} scenarios, expected one")
    seams = [fault.name for fault in chosen[0].faults if fault.layer is Layer.SEAM]
    if seams:
        raise ConfigurationError(
            f"--scenario {pattern!r}: {', '.join(seams)} act on a client in the same process; a server cannot play "
            "them; `conformance run` can"
        )
    return chosen[0]


def _server_spec(options: ServeOptions, script: Scenario | None) -> ServerSpec:
    """The scenario's `server` section, or an empty one, with what the options put in its place."""
    asked: dict[str, Any] = {} if script is None else script.server.model_dump(exclude_unset=True)
    if options.profile is not None:
        if options.profile not in PROFILES:
            raise ConfigurationError(
                f"--profile {options.profile!r}: unknown; {known(options.profile, PROFILES)}"
            )
        asked["profile"] = options.profile
    pace = dict(_pace_of(text) for text in options.pace)
    if pace:
        asked["pace"] = {**(asked.get("pace") or {}), **pace}
    if "rtf" in pace or options.profile is not None:
        asked.pop("decision_ms", None)
    if options.max_sessions is not None:
        asked["max_sessions"] = options.max_sessions
    try:
        return ServerSpec.model_validate(asked, strict=True)
    except ValidationError as error:
        path, found, allowed = next(iter(problems_of(error, (), ServerSpec)))
        option = {"pace": "--pace", "max_sessions": "--max-sessions"}.get(
            str(path[0]) if path else "", "--profile"
        )
        raise ConfigurationError(f"{option}: {key_text(path)}: {found}; {allowed}") from None


def _pace_of(text: str) -> tuple[str, float | int]:
    name, equals, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        equals = ""
    if not equals:
        raise ConfigurationError(
            f"--pace {text!r}: expected KEY=NUMBER, such as rtf=1.3 or first_token_ms=800"
        )
    whole = number.is_integer() and name != "rtf"
    return name, int(number) if whole else number


def _token(options: ServeOptions, environment: Mapping[str, str]) -> tuple[str | None, bool]:
    """The token of the control API, and whether it was made here."""
    if options.token_env is None:
        return (None, False) if is_loopback(options.host) else (secrets.token_urlsafe(32), True)
    token = environment.get(options.token_env, "")
    if not MIN_TOKEN_CHARS <= len(token) <= MAX_TOKEN_CHARS or not token.isascii() or not token.isprintable():
        found = f"{len(token)} characters" if token else "not set, or empty"
        raise ConfigurationError(
            f"--token-env {options.token_env}: {found}; the variable holds a token of {MIN_TOKEN_CHARS} to "
            f"{MAX_TOKEN_CHARS} printable ASCII characters"
        )
    return token, False
