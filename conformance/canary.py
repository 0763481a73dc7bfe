"""The secret that every scenario hands to its client as API key, to see whether it turns up anywhere."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

SECRET: Final = "sk-canary-5b1fe0c94d7a4e62"
"""No credential of anybody; a client gets it as its API key for the server and for the judge."""


_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
_SHORTEST = 8
"""Characters; what is shorter would be found in any text."""


def secrets_of(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The values of variables whose names say that they are secret."""
    return tuple(
        value
        for name, value in sorted(environment.items())
        if _SECRET_NAME.search(name) and len(value) >= _SHORTEST
    )


@lru_cache(maxsize=8)
def forms(secret: str) -> tuple[str, ...]:
    """The secret as it is, and in base64 at each of the three places it can have in a longer text."""
    raw = secret.encode()
    cut = (base64.b64encode(bytes(before) + raw).decode() for before in range(3))
    # What depends on the bytes before and after is left out.
    return (secret, *(text[4 if before else 0 : -4] for before, text in enumerate(cut)))
