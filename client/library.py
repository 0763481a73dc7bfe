"""What the client needs of the websockets library, looked at once, at start (design.md 4, defects.md `fake-drift`).

A library that has moved on must say so in one line before a sample is spent, not as an AttributeError in a teardown.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

SUPPORTED: Final = "websockets 16.x and 17.x"

METHODS: Final = (
    "send",
    "recv",
    "close",
    "connection_made",
    "connection_lost",
    "send_context",
    "send_data",
    "process_event",
)
"""Of a client connection, called or overridden by us, or called by the loop."""
ATTRIBUTES: Final = ("state",)
"""Of its class."""
KEPT: Final = {"transport": "connection_made", "recv_messages": "connection_made", "paused": "pause_writing"}
"""Of an instance, each with the method in which it shows."""
CONNECT_OPTIONS: Final = (
    "additional_headers",
    "compression",
    "proxy",
    "open_timeout",
    "ping_interval",
    "ping_timeout",
    "close_timeout",
    "max_size",
    "create_connection",
)


class UnsupportedLibrary(ImportError):
    """The installed websockets cannot carry this client. The text names what is missing."""


def missing(connection: type, connect: Callable[..., Any], closed: type) -> list[str]:
    """What the client needs and these do not have, each in a few words.

    Args:
        connection: the class of a client connection.
        connect: what opens one.
        closed: the exception of one that has ended.
    """
    lacks = [
        f"{connection.__name__}.{name}()" for name in METHODS if not callable(getattr(connection, name, None))
    ]
    lacks += [f"{connection.__name__}.{name}" for name in ATTRIBUTES if not hasattr(connection, name)]
    if not lacks and "text" not in parameters(connection.send):  # type: ignore[attr-defined]
        lacks.append(f"{connection.__name__}.send(text=)")
    for attribute, method in KEPT.items():
        if not keeps(connection, method, attribute):
            lacks.append(f"{connection.__name__}.{attribute}")
    if not callable(getattr(connect, "process_redirect", None)):
        lacks.append("connect.process_redirect()")
    lacks += [f"connect({name}=)" for name in CONNECT_OPTIONS if name not in parameters(connect)]
    return lacks + [
        f"{closed.__name__}.{name}" for name in ("rcvd", "sent") if name not in parameters(closed)
    ]


def check(version: str, connection: type, connect: Callable[..., Any], closed: type) -> None:
    """Raises UnsupportedLibrary: something is missing; one line with the version, what lacks and what is supported."""
    lacks = missing(connection, connect, closed)
    if lacks:
        raise UnsupportedLibrary(
            f"websockets {version} cannot be used: it has no {', no '.join(lacks)}; supported: {SUPPORTED}"
        )


def parameters(function: Callable[..., Any]) -> frozenset[str]:
    """Names of the parameters; none where the signature is not to be had."""
    try:
        return frozenset(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return frozenset()


def keeps(owner: type, method: str, attribute: str) -> bool:
    """Whether a method of the class or of a parent works with an attribute of its instance, which only lives there."""
    codes = [getattr(vars(base).get(method), "__code__", None) for base in owner.__mro__]
    return hasattr(owner, attribute) or any(code is not None and attribute in code.co_names for code in codes)
