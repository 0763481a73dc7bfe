"""Credentials reach no log and no file: what is told of headers and addresses (design.md 10)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

MASK: Final = "***"
SHORTEST: Final = 4
"""Characters of a secret; anything shorter would be found by chance in every other text."""


def masked(text: str, headers: Mapping[str, str]) -> str:
    """`text` without the values of the request headers."""
    for value in headers.values():
        for secret in (value, value.rpartition(" ")[2]):
            if len(secret) >= SHORTEST:
                text = text.replace(secret, MASK)
    return text


def bare_url(url: str) -> str:
    """`url`, or whatever was given for one, without user, password, query and fragment: keys stand in each of them."""
    return re.sub(r"//[^/?#]*@", "//", re.split(r"[?#]", url)[0])
