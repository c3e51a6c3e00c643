"""A lock of the threads that share an index in memory."""

from __future__ import annotations

import threading


class ThreadLock:
    """Lets threads wait for each other; the one that has it may take it again. A copy is free."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[ThreadLock], tuple[()]]:
        return type(self), ()
