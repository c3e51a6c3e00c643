"""TCP connections of this process whose other end may be gone.

A host that loses its power, or that gives up a connection while a cable is out, tells nobody: the
connection stays open here, and who waits for an answer waits for ever.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

_DESCRIPTORS = Path("/proc/self/fd")


def probe_connections(hosts: Collection[str] | None = None, *, seconds: int) -> int:
    """Let the system probe open connections to other machines; return their number.

    A connection is closed after so many seconds in which the other machine has confirmed nothing,
    neither data nor a probe, or at once if it knows the connection no more. A sound one is not
    disturbed, even if the process at its other end is busy. Linux only: elsewhere nothing happens.

    Args:
        hosts: IP addresses. None: those of all other machines.
        seconds: at least 3.
    """
    if not _DESCRIPTORS.is_dir():
        return 0
    probed = 0
    for descriptor in _DESCRIPTORS.iterdir():
        with suppress(OSError):  # closed meanwhile, or not connected
            if descriptor.readlink().name.startswith("socket:"):
                probed += _probe(int(descriptor.name), hosts, seconds)
    return probed


def _probe(descriptor: int, hosts: Collection[str] | None, seconds: int) -> bool:
    with socket.socket(fileno=os.dup(descriptor)) as connection:
        if connection.family not in (socket.AF_INET, socket.AF_INET6):
            return False
        peer = connection.getpeername()[0].removeprefix("::ffff:")
        if ip_address(peer).is_loopback if hosts is None else peer not in hosts:
            return False
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, seconds // 3)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, seconds // 3)
        # of data that was sent; it replaces the number of probes, too
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * seconds)
        return True
