"""Ctrl-C and SIGTERM during a training: it stops after a step and can be continued."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rejoinder.training.display import Display


@contextmanager
def interrupts(display: Display) -> Iterator[threading.Event]:
    """Turn Ctrl-C and SIGTERM into an event that is looked at after each step; the second one stops at once."""
    stop = threading.Event()

    def listen(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        display.note("Stopping after this step; once more to stop at once")

    if threading.current_thread() is not threading.main_thread():
        yield stop  # signals go to the main thread
        return
    before = {number: signal.signal(number, listen) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
