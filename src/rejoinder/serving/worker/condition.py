"""Watching the condition of an open index and its log."""

from __future__ import annotations

import errno
import time
from typing import NamedTuple

from rejoinder.curation.feedback import FeedbackLog
from rejoinder.errors import BusyError, InputError
from rejoinder.retrieval.index import Index
from rejoinder.serving.worker.stamps import Stamps
from rejoinder.stores.database.candidates import GRAPHS
from rejoinder.stores.store import DeniedError, UnreachableError

RETRY = 1.0  # seconds until the condition of an index is looked at again

REPLACED = (
    "the index was built again with another model, and this server has the earlier one: reload it"
    " (SIGHUP, or POST /admin/reload)"
)
READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)


class Condition(NamedTuple):
    """The condition of an index: whether it can be opened, and its log be written."""

    trouble: str | None = None  # None: both can be done
    searches: bool = False  # whether all requests that only search are answered nevertheless


class ConditionWatch:
    """Watch of the condition of an open index."""

    def __init__(self, index: Index, log: FeedbackLog, stamps: Stamps) -> None:
        self._index = index
        self._log = log
        self._stamps = stamps
        self._found = Condition()
        self._until = 0.0  # when it is looked at again

    def current(self) -> Condition:
        """Return the condition; look again if it was found more than `RETRY` seconds ago."""
        if time.monotonic() > self._until:
            self._found = self._find()
            self._until = time.monotonic() + RETRY
        return self._found

    def _find(self) -> Condition:
        """Find the condition now.

        A server may well have an index that it may only read. While a database does not answer, an
        exact search goes on in memory.
        """
        searches = self._index.manifest.approximate is None
        try:
            self._stamps.check()
            self._index.store.check()
            if self._is_replaced():
                return Condition(REPLACED, self._has_all())
            self._log.database.check()
        except DeniedError:
            pass
        except UnreachableError as error:
            return Condition(str(error), searches)
        except BusyError as error:  # somebody writes, or a backup keeps the log locked
            return Condition(str(error), searches=True)
        except InputError as error:
            return Condition(str(error))
        except OSError as error:
            if error.errno not in READ_ONLY:
                return Condition(str(error))
        return Condition(None, searches)

    def _is_replaced(self) -> bool:
        """Return whether the index in the store is of another model than the one that is open."""
        present = self._index.store.read_manifest().model
        return present.fingerprint != self._index.manifest.model.fingerprint

    def _has_all(self) -> bool:
        """Return whether the index can be searched without its store: all is in memory or files."""
        approximate = self._index.manifest.approximate
        return approximate is None or approximate.file != GRAPHS
