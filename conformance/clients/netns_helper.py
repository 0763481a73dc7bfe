"""Runs alone, before a program of others: makes a network of its own, hands out what listens in it, becomes it.

Started as `python -I -S netns_helper.py CHANNEL OWN COUNT WMEM`, with a Unix socket as descriptor CHANNEL. It imports
nothing of ours: it must start in milliseconds, and what it holds is left to the program.

0. It asks the kernel to be ended with its parent: a harness that is killed leaves no program behind.
1. With OWN 1: a user and a network namespace of its own, loopback up, `net.ipv4.tcp_wmem` as asked (bytes; 0: as is).
2. COUNT listening-to-be sockets and one of NETLINK_SOCK_DIAG, made inside, are sent over the channel (SCM_RIGHTS) with
   one line of JSON: `{"ok": true}`, or `{"error": why}` where that is not allowed.
3. One line of JSON comes back: `{"argv": [...], "env": {...}}`. The helper becomes that program; where it cannot, it
   says so on the channel and ends with status 127.
"""

import array
import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import sys

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
NETLINK_SOCK_DIAG = 4
PR_SET_PDEATHSIG = 1


def enter_namespace(wmem_bytes: int) -> None:
    """Raises OSError: the system does not allow it; the message says what was tried."""
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare: " + os.strerror(ctypes.get_errno()))
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(control, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))
    if wmem_bytes:
        with open("/proc/sys/net/ipv4/tcp_wmem", "w") as file:
            file.write(f"{wmem_bytes} {wmem_bytes} {wmem_bytes}")


def main() -> int:
    """The three steps."""
    number, own, count, wmem_bytes = (int(word) for word in sys.argv[1:])
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return 0  # it has gone already
    channel = socket.socket(fileno=number)
    channel.set_inheritable(False)  # its end tells that the program has begun
    try:
        if own:
            enter_namespace(wmem_bytes)
        made = [socket.socket(socket.AF_INET, socket.SOCK_STREAM) for _ in range(count)]
        try:
            made.append(socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_SOCK_DIAG))
        except OSError:
            if own:
                raise  # there a stall must be shown; elsewhere it then is not observable
    except OSError as error:
        channel.sendall(json.dumps({"error": error.strerror or str(error)}).encode() + b"\n")
        return 126
    numbers = array.array("i", [one.fileno() for one in made])
    channel.sendmsg([b'{"ok": true}\n'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)])
    for one in made:
        one.close()
    with channel.makefile("rb") as lines:
        line = lines.readline()
    if not line:
        return 0  # nothing was to be run
    asked = json.loads(line)
    try:
        os.execvpe(asked["argv"][0], asked["argv"], asked["env"])
    except OSError as error:
        channel.sendall(json.dumps({"error": f"{asked['argv'][0]}: {error.strerror}"}).encode() + b"\n")
        return 127


if __name__ == "__main__":
    sys.exit(main())
