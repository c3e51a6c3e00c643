"""The latest known answer to a question, within a moment: a database may take long to answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")

MOMENT = 0.8  # seconds; probes of Kubernetes wait for 1


class Latest(Generic[T]):
    """The latest result of a question that may take long; at most one is asked at a time."""

    value: T

    def __init__(self, ask: Callable[[], Awaitable[T]], value: T) -> None:
        self.value = value
        self._ask = ask
        self._asked: asyncio.Future[T] | None = None

    async def refresh(self) -> bool:
        """Ask again, unless an earlier answer is awaited; return whether one came in a moment."""
        if self._asked is not None and self._asked.done():  # too late for whoever asked
            late = self._asked
            self._asked = None
            if late.exception() is None:
                self.value = late.result()
        asked = self._asked or asyncio.ensure_future(self._ask())
        self._asked = asked
        await asyncio.wait({asked}, timeout=MOMENT)
        if not asked.done():
            return False
        if self._asked is asked:  # others may have waited for the same one
            self._asked = None
        self.value = asked.result()
        return True
