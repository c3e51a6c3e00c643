"""The stamp of a store, looked at by a thread of its own: no request waits long for a database."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Hashable

from rejoinder.errors import InputError
from rejoinder.stores.folder.store import FolderStore
from rejoinder.stores.store import Store, UnreachableError

EVERY = 0.25  # seconds
HANGING = 4.0
"""Seconds after which a store that has not told its stamp hangs, and nobody waits for it.

The stamp is one row that no change locks: it takes a millisecond, and a slow database tells it in
time while a large change takes it a minute. Failovers and snapshots of a machine stop a database
for up to two or three seconds. Clients wait for ten, most proxies for 30 or more.
"""


class Stamps:
    """A stamp that changes whenever an index does; of a folder it is read each time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._latest = store.stamp()
        self._is_quick = isinstance(store, FolderStore)
        self._is_closed = threading.Event()
        self._asked_at: float | None = None  # when the thread began to look; None: it does not
        self.is_hanging = False
        if not self._is_quick:
            for work in (self._watch, self._break_off):
                threading.Thread(target=work, daemon=True).start()

    def latest(self) -> Hashable:
        """Return the stamp as it was last seen, `EVERY` seconds ago at most."""
        if self._is_quick:
            self.look()
        return self._latest

    def look(self) -> None:
        """Look at the store, unless it hangs; where it does not answer, the stamp stays."""
        if not self.is_hanging:
            self._ask()

    def check(self) -> None:
        """Raise UnreachableError while the store hangs."""
        if self.is_hanging:
            raise UnreachableError(
                f"{self._store}: the database has not answered for {HANGING:g} seconds; try again,"
                " and look after the database if that goes on"
            )

    def close(self) -> None:
        """End the threads."""
        self._is_closed.set()

    def _watch(self) -> None:
        while not self._is_closed.wait(EVERY):
            self._asked_at = time.monotonic()
            self._ask()
            self._asked_at = None

    def _ask(self) -> None:
        with contextlib.suppress(InputError, OSError):
            self._latest = self._store.stamp()
            self.is_hanging = False

    def _break_off(self) -> None:
        """End what waits for a store that hangs."""
        while not self._is_closed.wait(EVERY):
            asked_at = self._asked_at
            if asked_at is not None and time.monotonic() - asked_at > HANGING:
                self.is_hanging = True
                self._store.break_off()
