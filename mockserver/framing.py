"""Frames of a server (RFC 6455 5.2)."""

from __future__ import annotations

import struct


def frame(payload: bytes, opcode: int, *, first_bits: int = 0x80) -> bytes:
    """One unmasked, uncompressed frame of a server (RFC 6455 5.2).

    Args:
        first_bits: FIN and the reserved bits; FIN alone is a whole message.
    """
    return frame_header(len(payload), opcode, first_bits=first_bits) + payload


def frame_header(length: int, opcode: int, *, first_bits: int = 0x80) -> bytes:
    """The header of a frame whose payload has this length."""
    first = first_bits | opcode
    if length < 126:
        return struct.pack("!BB", first, length)
    if length < 1 << 16:
        return struct.pack("!BBH", first, 126, length)
    return struct.pack("!BBQ", first, 127, length)
