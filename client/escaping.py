"""A server's text for people: no escape sequence reaches a terminal or a log line. Files keep the text as it is."""

from __future__ import annotations

import logging
from typing import Final

LONGEST: Final = 20_000
"""Characters of one line; a flood of errors makes reasons of megabytes."""
_CONTROL: Final = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in (9, 10)
} | {
    code: f"\\u{code:04x}"
    for code in (*range(0x200E, 0x2010), *range(0x2028, 0x202F), *range(0x2066, 0x206A))
}
"""C0, C1 and what reorders or breaks a line, but tab and line feed."""


def escaped(text: str) -> str:
    """`text` with its control characters spelled out, cut where it is very long."""
    text = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    return text.translate(_CONTROL)


class EscapingFormatter(logging.Formatter):
    """The library's, with control characters spelled out, and line feeds too where no stack follows."""

    def format(self, record: logging.LogRecord) -> str:
        """One record."""
        told = escaped(super().format(record))
        return told if record.exc_info or record.stack_info else told.replace("\n", "\\n")
