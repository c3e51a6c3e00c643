"""Tasks beside the requests: one that fails is logged, counted and started again."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from rejoinder.serving.http.logs import logger, places

PAUSE = 30.0  # seconds until a task that has failed is started again
RECENT = 120.0  # seconds in which one that goes on failing does so again


class Background:
    """The tasks of a server that no request waits for.

    Args:
        observe: is told the name of a task whenever it has failed.
    """

    def __init__(self, observe: Callable[[str], object]) -> None:
        self.failures: Counter[str] = Counter()
        self._observe = observe
        self._reasons: dict[str, str] = {}
        self._failed_at: dict[str, float] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start a task, which works until it is stopped."""
        task = asyncio.get_running_loop().create_task(self._run(name, work))
        self._tasks[name] = task

    def stop(self, name: str) -> None:
        """Stop a task."""
        self._tasks.pop(name).cancel()

    @property
    def trouble(self) -> str | None:
        """Return what has failed of late, how often, and why the last time; None: nothing has."""
        since = time.monotonic() - RECENT
        failed = [
            f"{name} failed {count} times, at last by {self._reasons[name]}"
            for name, count in sorted(self.failures.items())
            if self._failed_at[name] > since
        ]
        return "; ".join(failed) or None

    async def _run(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 (it is started again)
                self.failures[name] += 1
                self._reasons[name] = type(error).__name__
                self._failed_at[name] = time.monotonic()
                self._observe(name)
                trace = [*getattr(error, "__notes__", ()), *places(error)]
                fields = {"task": name, "error": type(error).__name__, "trace": trace[:8]}
                # no message: it may hold what was said
                logger.error("a task beside the requests failed", extra={"fields": fields})
                await asyncio.sleep(PAUSE)
            else:
                return
