"""Addresses at which a verb listens."""

from __future__ import annotations

import ipaddress
import os
import socket
from typing import NoReturn

from rejoinder.errors import InputError

UNSENT = 128 << 10  # bytes of a connection that the system keeps beside those on their way


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; InputError: the address is not available."""
    reserved = reserve(host, port)
    begin_to_listen(reserved)
    return reserved


def reserve(host: str, port: int) -> socket.socket:
    """Return a socket at an address, which refuses connections as yet.

    So a balancer sends nothing to a server that is still opening its index.

    Raises:
        InputError: the address is not available.
    """
    is_ipv6 = ":" in host
    reserved = socket.socket(socket.AF_INET6 if is_ipv6 else socket.AF_INET)
    if is_ipv6:
        reserved.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    if os.name == "posix":  # elsewhere it means that others may take the address, too
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        # Connections have it from here. By default some megabytes are kept of each, and a server
        # does not see for a minute that a slow client reads.
        reserved.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT)
    try:
        reserved.bind((host, port))
    except (OSError, UnicodeError) as error:
        reserved.close()
        _refuse(host, port, error)
    return reserved


def begin_to_listen(reserved: socket.socket) -> None:
    """Let connections come; InputError: another process has begun to do so at the same address."""
    try:
        reserved.listen(1024)
    except OSError as error:
        host, port, *_ = reserved.getsockname()
        _refuse(host, port, error)


def _refuse(host: str, port: int, error: Exception) -> NoReturn:
    number = getattr(error, "errno", None)
    reason = error if number is None or number < 0 else os.strerror(number)
    raise InputError(
        f"cannot listen at {host}, port {port}: {reason}; take another --port or --host"
    ) from None
