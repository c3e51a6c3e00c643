"""The loading of an index that has changed, beside the searches: a database may hang."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from concurrent.futures import Future, wait

from rejoinder.retrieval.reader import IndexReader
from rejoinder.serving.http.logs import logger

PATIENCE = 5.0  # seconds for which searches wait; then they go on with the earlier replies
RETRY = 1.0  # seconds until an index that cannot be opened is tried again


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


class Follower:
    """Loads what others change in an open index, for the one thread that searches it.

    Args:
        index: as it was opened.
        stamp: of its store then.
    """

    def __init__(self, index: IndexReader, stamp: Hashable) -> None:
        self.stamp = stamp
        self._index = index
        self._loading: Loading | None = None
        self._retry_at = 0.0
        self._told = ""  # why it could not be opened, as the log has it

    def load(self, stamp: Hashable) -> bool:
        """Load the index, whose store has this `stamp` now; return whether it was loaded.

        One that cannot be opened, or takes longer than `PATIENCE`, stays as it was.
        """
        if time.monotonic() < self._retry_at:
            return False
        loading = self._loading or Loading(self._index, stamp)
        self._loading = loading
        if not loading.is_done():
            return False
        self._loading = None
        failure = loading.failure()
        if failure is not None:
            self._retry_at = time.monotonic() + RETRY
            self._tell(str(failure))
            return False
        self.stamp = loading.stamp
        self._told = ""
        return True

    def _tell(self, reason: str) -> None:
        """Log why the index cannot be opened, unless that was the reason the last time, too."""
        if reason != self._told:
            self._told = reason
            logger.warning(
                "the index has changed and cannot be opened; the earlier one goes on answering as"
                " far as it is in memory",
                extra={"fields": {"reason": reason}},
            )
