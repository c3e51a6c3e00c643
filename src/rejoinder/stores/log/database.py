"""The database in which the use of an index is logged.

It takes the SQL that SQLite and PostgreSQL have in common, and `json_each` of SQLite for lists.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

from rejoinder.errors import InputError

Values: TypeAlias = Sequence[Any] | Mapping[str, Any]
TIMEOUT = 10.0  # seconds for which a write waits for another process


class LogError(InputError):
    """The log of an index is damaged, of another program or of a later version."""


class Cursor(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int:
        """The number of rows that it has changed."""

    def fetchone(self) -> Any:
        """Return the next row; None: there are no more."""

    def fetchall(self) -> list[Any]:
        """Return all rows that are left."""

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection to the database of a log."""

    def execute(self, query: str, values: Values = (), /) -> Cursor:
        """Run a statement, with `?` for each of the values, or `:name`."""


class LogDatabase(ABC):
    """The database of a log, which is made when something is first written. Threads may share it.

    All of its methods raise

        LogError: it is damaged, of another program or of a later version.
        BusyError: another process keeps it locked.
        OSError: it cannot be reached or written.
    """

    failure: Exception | None = None  # of the last write, or of a file that is damaged
    is_shared = False  # by servers that share no files; see `curation.shared_answers`

    @property
    @abstractmethod
    def shown(self) -> object:
        """Its name in errors, without any password."""

    @property
    @abstractmethod
    def salt(self) -> bytes:
        """The salt of digests of sources, once a connection is open."""

    @abstractmethod
    def exists(self) -> bool:
        """Return whether something was ever written."""

    def keeps_answers(self) -> bool:
        """Return whether it has a table of answers; see `curation.shared_answers`."""
        return False

    @abstractmethod
    def connected(self, *, create: bool = False) -> AbstractContextManager[Connection]:
        """Yield a connection, which no other thread has meanwhile."""

    @abstractmethod
    def writing(self, *, create: bool = True) -> AbstractContextManager[Connection]:
        """Yield a connection in a transaction, which an exception undoes.

        Without `create` one that servers share stays in an earlier format.
        No two processes write at once: entries are numbered in the order in which they appear.
        """

    @abstractmethod
    def reading(self) -> AbstractContextManager[Connection]:
        """Yield a connection whose reads all see the same state, whatever others write."""

    def rows(self, query: str, values: Values = ()) -> list[Any]:
        """Return the rows of a query; none where nothing was ever written."""
        if not self.exists():
            return []
        with self.connected() as connection:
            return connection.execute(query, values).fetchall()

    @abstractmethod
    def check(self) -> None:
        """Raise what a write would raise now; where the last one failed, write."""

    @abstractmethod
    def overwrite_deleted(self) -> None:
        """Leave no byte of what was deleted in the tables.

        Raises:
            BusyError: another process has been reading for so long that bytes are left.
        """

    @abstractmethod
    def settle_deleted(self) -> None:
        """Do the same as far as nobody is reading; the next time does the rest."""

    @abstractmethod
    def close(self) -> None:
        """Close the database; the next use opens it again."""
