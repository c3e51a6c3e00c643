"""The loading of an index that has changed, beside the searches: a database may hang."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from concurrent.futures import Future, wait

from rejoinder.retrieval.reader import IndexReader
from rejoinder.serving.http.logs import logger

PATIENCE = 5.0  # seconds for which searches wait; then they go on with the earlier replies


class Loading:
    """The loading of a changed index, whose store has this `stamp`."""

    def __init__(self, index: IndexReader, stamp: Hashable) -> None:
        self.stamp = stamp
        self._index = index
        self._waits_until = time.monotonic() + PATIENCE
        self._is_late = False
        self._failure: Future[Exception | None] = Future()
        threading.Thread(target=self._run, daemon=True).start()

    def is_done(self) -> bool:
        """Return whether it is done; wait for that until `PATIENCE` seconds after its beginning."""
        wait([self._failure], max(0.0, self._waits_until - time.monotonic()))
        if self._failure.done():
            return True
        if not self._is_late:
            self._is_late = True
            logger.warning(
                "the index has changed and takes long to open; the earlier one goes on answering"
            )
        return False

    def failure(self) -> Exception | None:
        """Return why the index cannot be opened; None: it is open."""
        return self._failure.result()

    def _run(self) -> None:
        try:
            self._failure.set_result(self._index.try_refresh())
        except Exception as error:  # noqa: BLE001 (`failure` raises it)
            self._failure.set_exception(error)
