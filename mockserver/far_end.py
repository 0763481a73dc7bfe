"""What this machine's kernel knows of the other end of a connection, where that end is on this machine too.

A client that closes its socket while its peer reads nothing cannot say so: its FIN waits behind bytes that nobody
takes, and the socket of the peer stays established. That of the client tells (proc(5), /proc/net/tcp).
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

OPEN = (1, 8)
"""ESTABLISHED, and CLOSE_WAIT: its program has not closed it (tcp_states.h)."""
_TABLES = {socket.AF_INET: Path("/proc/net/tcp"), socket.AF_INET6: Path("/proc/net/tcp6")}


def far_end_closed(sock: socket.socket) -> bool:
    """Whether the program at the other end has closed its socket; False where the kernel does not say."""
    try:
        near, far = sock.getsockname(), sock.getpeername()
        lines = _TABLES[sock.family].read_text().splitlines()[1:]
    except (OSError, KeyError):
        return False
    wanted = [_told(sock.family, far), _told(sock.family, near)]
    found = [int(fields[3], 16) for fields in map(str.split, lines) if fields[1:3] == wanted]
    return bool(found) and not any(state in OPEN for state in found)


def _told(family: int, address: tuple[str, int]) -> str:
    """As the tables have it: words of four bytes in the machine's order, and the port."""
    packed = socket.inet_pton(family, address[0])
    words = (int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed), 4))
    return "".join(f"{word:08X}" for word in words) + f":{address[1]:04X}"
