"""Whose program is at the other end of a connection from this machine: a link is of no use to other users."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import sys

Address = tuple[str, int]

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


def owner(peer: Address, here: Address) -> int | None:
    """The user id that the socket at `peer`, connected to us at `here`, belongs to; None where that can't be told."""
    wanted = (_hexadecimal(peer), _hexadecimal(here))
    for table in _TABLES:
        with contextlib.suppress(OSError), open(table, encoding="ascii") as lines:
            for line in lines:
                fields = line.split()
                if len(fields) > 7 and (fields[1], fields[2]) == wanted and fields[7].isdigit():
                    return int(fields[7])
    return None


def is_stranger(peer: Address | None, here: Address | None) -> bool:
    """Whether another user of this machine is known to be at the other end."""
    if peer is None or here is None:
        return False
    found = owner(peer, here)
    return found not in (None, 0, os.geteuid())


def _hexadecimal(address: Address) -> str:
    """As the kernel writes it: words of four bytes in the machine's order."""
    packed = ipaddress.ip_address(address[0]).packed
    words = [packed[at : at + 4] for at in range(0, len(packed), 4)]
    if sys.byteorder == "little":
        words = [word[::-1] for word in words]
    return f"{b''.join(words).hex().upper()}:{address[1]:04X}"
