"""Untrusted text made safe to show: one line, printable, of bounded length.

A server under test chooses its error messages, and they end up on a maintainer's terminal and in a CI
system's XML. So control characters (terminal escapes, carriage returns that overwrite a line), bidirectional
overrides, invisible characters and lone surrogates are shown as escapes, and everything has a longest length.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

LINE_LIMIT = 2_000
"""Characters of one shown line (count)."""
BLOCK_LIMIT = 200
"""Lines of one shown block, such as a stack (count)."""

_ESCAPED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Control, format (bidi, zero width), surrogate, private, unassigned, line and paragraph breaks."""
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def one_line(text: str, limit: int = LINE_LIMIT) -> str:
    """The text as one printable line.

    Args:
        text: anything, from anyone.
        limit: characters of `text` that are kept (count, 1 or more); the rest is counted, not shown.
    Returns: no control characters, no line breaks; what was escaped reads as `\\n`, `\\x1b` or `\\u202e`.
    """
    kept = "".join(_shown(char) for char in text[:limit])
    left = len(text) - limit
    return f"{kept}... (+{left} characters)" if left > 0 else kept


def block(texts: Iterable[str], *, limit: int = BLOCK_LIMIT) -> list[str]:
    """Texts of one or more lines each, as printable lines.

    Args:
        texts: each may hold line breaks, as a stack does; other control characters are escaped.
        limit: lines that are kept (count, 1 or more); the last lines win, for the end of a story tells why.
    Returns: printable lines, at most `limit` and one more that says how many were left out.
    """
    lines = [line for text in texts for line in text.split("\n")]
    left = len(lines) - limit
    shown = [one_line(line) for line in (lines[left:] if left > 0 else lines)]
    return [f"... ({left} earlier lines)", *shown] if left > 0 else shown


def _shown(char: str) -> str:
    if char.isprintable() or char == " ":
        return char
    if char in _NAMED:
        return _NAMED[char]
    if unicodedata.category(char) not in _ESCAPED_CATEGORIES:
        return char  # spaces of other widths, such as U+3000 in a transcript
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
