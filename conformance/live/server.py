"""The live server as named on the command line: what is contacted, with what, and what may be told of it."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from conformance.options import ConfigurationError
from mockserver.upstream import Behind

MASK = "***"
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FROM_ENVIRONMENT = "env:"


@dataclass(frozen=True)
class LiveServer:
    """Where sessions go."""

    url: str
    model: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of every request; never told."""
    ca_file: Path | None = None
    """Certificates to trust instead of the system's."""
    connect_s: float = 10.0
    """How long name resolution, TCP, TLS and the answer to a request may take, each."""

    @property
    def secure(self) -> bool:
        """wss."""
        return self.url.startswith("wss:")

    @property
    def host(self) -> str:
        """Name or address."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """Given, or the scheme's."""
        return urlsplit(self.url).port or (443 if self.secure else 80)

    @property
    def host_and_port(self) -> str:
        """For messages."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def tls(self) -> ssl.SSLContext | None:
        """For wss: trust as asked.

        Raises ConfigurationError: the CA file holds no certificate.
        """
        if not self.secure:
            return None
        return trust("--ca-file", self.ca_file, self.url) or ssl.create_default_context()

    def behind(self) -> Behind:
        """For the proxy."""
        return Behind(self.url, headers=self.headers, tls=self.tls(), connect_s=self.connect_s)

    def told(self) -> dict[str, object]:
        """The effective configuration without a secret in it."""
        parts = urlsplit(self.url)
        query = "&".join(f"{name}={MASK}" for name, _ in parse_qsl(parts.query, keep_blank_values=True))
        return {
            "url": f"{parts.scheme}://{parts.netloc}{parts.path}" + (f"?{query}" if query else ""),
            "model": self.model,
            "headers": dict.fromkeys(sorted(self.headers), MASK),
            "ca_file": str(self.ca_file) if self.ca_file is not None else None,
        }


def masked(text: str, headers: Mapping[str, str]) -> str:
    """A text without the values of headers: nothing that a peer echoes leaks."""
    for value in headers.values():
        for secret in (value, value.removeprefix("Bearer ")):
            if len(secret) >= 4:
                text = text.replace(secret, MASK)
    return text


def live_server(
    url: str | None,
    model: str,
    *,
    api_key_env: str | None = None,
    ca_file: Path | None = None,
    header: Sequence[str] = (),
    environment: Mapping[str, str],
) -> LiveServer:
    """What the command line says, checked; nothing is contacted.

    Raises ConfigurationError: names the option, what was found and what is allowed.
    """
    if url is None:
        raise ConfigurationError(
            "--url is missing: a live server is never guessed; ws://HOST:PORT/v1/realtime"
        )
    headers = dict(_header(item, environment) for item in header)
    if api_key_env is not None:
        headers["Authorization"] = f"Bearer {secret_of('--api-key-env', api_key_env, environment)}"
    if not model:
        raise ConfigurationError("--model: found nothing; the name that /v1/models lists")
    server = LiveServer(_checked(url), model, headers, ca_file)
    trust("--ca-file", ca_file, str(server.told()["url"]))
    return server


def trust(option: str, ca_file: Path | None, url: str) -> ssl.SSLContext | None:
    """The certificates of a file; None: the system's.

    Raises ConfigurationError: the file is not there or holds no certificate, or the URL has no TLS.
    """
    if ca_file is None:
        return None
    if not ca_file.is_file():
        raise ConfigurationError(f"{option} {ca_file}: no such file; expected certificates in PEM")
    if not url.startswith(("wss:", "https:")):
        raise ConfigurationError(f"{option} {ca_file}: {url} has no TLS; it goes with wss:// or https://")
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except OSError as error:  # an SSLError is one too
        raise ConfigurationError(
            f"{option} {ca_file}: {getattr(error, 'reason', None) or error}; expected certificates in PEM"
        ) from error


def secret_of(option: str, variable: str, environment: Mapping[str, str]) -> str:
    """A credential, from the environment and nowhere else.

    Raises ConfigurationError: unset, empty, or no single line of ASCII; the value is not told.
    """
    value = environment.get(variable, "")
    if not value:
        raise ConfigurationError(f"{option} {variable}: the variable is not set; export {variable}=…")
    if not (value.isascii() and value.isprintable()):
        raise ConfigurationError(f"{option} {variable}: holds control or non-ASCII characters")
    return value


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ConfigurationError(f"--url {url!r}: {error}") from None
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError("--url: holds credentials; give them by --api-key-env VAR or --header")
    if parts.scheme not in ("ws", "wss"):
        meant = {"http": "ws", "https": "wss"}.get(parts.scheme)
        hint = f"; did you mean {meant}://{parts.netloc}{parts.path or '/v1/realtime'}?" if meant else ""
        raise ConfigurationError(f"--url: scheme {parts.scheme!r}; allowed: ws, wss{hint}")
    if not parts.hostname or port == 0:
        raise ConfigurationError(
            f"--url: {parts.netloc!r} names no host and port; ws://HOST:PORT/v1/realtime"
        )
    return url if parts.path not in ("", "/") else f"{parts.scheme}://{parts.netloc}/v1/realtime"


def _header(item: str, environment: Mapping[str, str]) -> tuple[str, str]:
    name, colon, value = item.partition(":")
    name, value = name.strip(), value.strip()
    if not colon or not _HEADER_NAME.fullmatch(name):
        raise ConfigurationError("--header: expected 'NAME: VALUE' or 'NAME: env:VARIABLE' (value not shown)")
    if value.startswith(_FROM_ENVIRONMENT):
        value = secret_of(f"--header {name}", value.removeprefix(_FROM_ENVIRONMENT), environment)
    if not value or not (value.isascii() and value.isprintable()):
        raise ConfigurationError(
            f"--header {name}: the value is empty or holds control or non-ASCII characters"
        )
    return name, value
