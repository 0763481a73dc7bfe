"""Who may use the control API: programs on this host, and whoever has the token (protocol.md has nothing of this).

A page in a browser on this host is neither. It is known by its `Origin` or `Sec-Fetch-Site`, and, where a name of its
own was made to resolve to this host (DNS rebinding), by the `Host` that the browser sends.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
MAX_TOKEN_CHARS = 4096


def is_loopback(host: str) -> bool:
    """Whether an address that is bound can be reached from this host alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Denied:
    """Why a request is refused, and with which HTTP status."""

    status: int
    reason: str


@dataclass(frozen=True)
class Guard:
    """Judges requests by their headers alone.

    Args:
        host: the address that is bound.
        token: what `Authorization: Bearer …` must carry; None: nothing, which only loopback addresses allow.
    Raises ValueError: no token for an address that others can reach.
    """

    host: str
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.token is None and not is_loopback(self.host):
            raise ValueError(f"{self.host} can be reached from other hosts: a token is needed")

    def denied(self, headers: Mapping[str, str]) -> Denied | None:
        """Why these headers do not do; None: they do."""
        host = headers.get("Host", "")
        name = _name_of(host)
        if is_loopback(self.host) and name not in LOOPBACK_NAMES | {self.host.lower()}:
            return Denied(403, f"Host {host[:80]!r} is not this server's; use {self.host} or localhost")
        origin = headers.get("Origin")
        if origin is not None and origin.lower() != f"http://{host.lower()}":
            return Denied(403, f"Origin {origin[:80]!r}: pages of other origins may not use the control API")
        site = headers.get("Sec-Fetch-Site", "none").lower()
        if site not in ("none", "same-origin"):
            return Denied(403, f"Sec-Fetch-Site {site[:80]!r}: other sites may not use the control API")
        if self.token is not None and not self._has_token(headers.get("Authorization", "")):
            return Denied(401, "needs the token: Authorization: Bearer TOKEN")
        return None

    def _has_token(self, given: str) -> bool:
        """Compared in a time that does not tell how much of it was right."""
        assert self.token is not None
        scheme, _, told = given[: MAX_TOKEN_CHARS + 16].partition(" ")
        right = hmac.compare_digest(
            told.strip().encode("utf-8", "replace"), self.token.encode("utf-8", "replace")
        )
        return right and scheme.lower() == "bearer"


def _name_of(host: str) -> str | None:
    """The host's name in a `Host` header, without port and brackets; None where it is none."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None
