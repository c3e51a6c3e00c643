"""The stamp of a store, looked at by a thread of its own: no request waits for a database."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Hashable

from rejoinder.errors import InputError
from rejoinder.stores.folder.store import FolderStore
from rejoinder.stores.store import Store

EVERY = 0.25  # seconds


class Stamps:
    """A stamp that changes whenever an index does; of a folder it is read each time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._latest = store.stamp()
        self._is_quick = isinstance(store, FolderStore)
        self._is_closed = threading.Event()
        if not self._is_quick:
            threading.Thread(target=self._watch, daemon=True).start()

    def latest(self) -> Hashable:
        """Return the stamp as it was last seen, `EVERY` seconds ago at most."""
        if self._is_quick:
            self.look()
        return self._latest

    def look(self) -> None:
        """Look at the store; one that does not answer leaves the stamp as it was."""
        with contextlib.suppress(InputError, OSError):
            self._latest = self._store.stamp()

    def close(self) -> None:
        """End the thread."""
        self._is_closed.set()

    def _watch(self) -> None:
        while not self._is_closed.wait(EVERY):
            self.look()
