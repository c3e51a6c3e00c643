"""Connecting to a Ray cluster."""

from __future__ import annotations

import logging
import os
import socket
from typing import Any

from rejoinder.errors import InputError, reason_of

_CONNECT_TIMEOUT = 10.0  # seconds


def check_address(address: str | None) -> None:
    """Refuse an address where nothing listens with InputError: Ray itself would try for minutes."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        return  # "auto" and the like: Ray knows
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_TIMEOUT).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, error) from error


def connect(ray: Any, address: str | None) -> None:
    """Connect to the cluster of an address; see `RayEngine`. InputError: there is none."""
    check_address(address)
    # No warnings about results that nobody fetches since another task failed.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise _no_cluster(address, error) from error


def _no_cluster(address: str | None, error: BaseException) -> InputError:
    target = f"at {address}" if address else "of RAY_ADDRESS or on this machine"
    return InputError(
        f"no Ray cluster answers {target} ({reason_of(error)}); "
        "`ray start --head` starts one; --ray is auto, HOST:PORT or ray://HOST:PORT"
    )
