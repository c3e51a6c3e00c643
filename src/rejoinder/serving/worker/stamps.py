"""The stamp of a store, looked at by a thread of its own: no request waits long for a database."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Hashable

from rejoinder.errors import InputError
from rejoinder.stores.folder.store import FolderStore
from rejoinder.stores.store import Store, UnreachableError

EVERY = 0.25  # seconds
HANGING = 4.0
"""Seconds after which a store that has not told its stamp hangs, and nobody waits for it. They are
counted in looks of a thread, so that they do not pass while this process stands still.

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
        self._looks = 0  # begun by the thread that watches
        self._is_looking = False
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
            self._looks += 1
            self._is_looking = True
            self._ask()
            self._is_looking = False

    def _ask(self) -> None:
        with contextlib.suppress(InputError, OSError):
            self._latest = self._store.stamp()
            self.is_hanging = False

    def _break_off(self) -> None:
        """End what waits for a store that hangs."""
        look = 0
        waited = 0.0
        while not self._is_closed.wait(EVERY):
            is_same = self._is_looking and self._looks == look
            look = self._looks
            waited = waited + EVERY if is_same else 0.0
            if waited > HANGING:
                self.is_hanging = True
                self._store.break_off()
