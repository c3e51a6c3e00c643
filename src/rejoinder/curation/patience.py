"""Attempts at a change of an index that other processes are changing too."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from rejoinder.errors import BusyError

SECONDS = 10.0  # for which a change waits for another process
PAUSE = 0.02  # seconds between two attempts
T = TypeVar("T")


def retried(change: Callable[[], T], seconds: float | None = None) -> T:
    """Return the result of a change; try again while another process changes the same.

    Raises:
        BusyError: it has done so all the while.
    """
    end = time.monotonic() + (SECONDS if seconds is None else seconds)
    while True:
        try:
            return change()
        except BusyError:
            if time.monotonic() > end:
                raise
            time.sleep(PAUSE)
