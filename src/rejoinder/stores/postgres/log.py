"""The log of an index in PostgreSQL: tables of the same schema."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rejoinder.errors import BusyError
from rejoinder.patterns import search_pattern
from rejoinder.stores.log.database import TIMEOUT, LogDatabase, LogError, Values
from rejoinder.stores.postgres.connections import Connections
from rejoinder.stores.postgres.schema import ANSWERS_SINCE, FORMAT, find_format, make_schema

if TYPE_CHECKING:
    import re

    import psycopg

_WRITING = 1  # of two advisory locks: that of the log's writers
_PLACES = search_pattern(r"\?|:([a-z]+)\b|%")
_TABLES = ("entry", "reply", "change", "request", "setting", "answer")


class PostgresLog(LogDatabase):
    """The log of an index in PostgreSQL."""

    is_shared = True

    def __init__(self, connections: Connections) -> None:
        self.connections = connections
        self._format = 0  # of the schema, as far as it is known

    @property
    def shown(self) -> str:
        """The address, without any password."""
        return f"the log of {self.connections.address.shown}"

    @functools.cached_property
    def salt(self) -> bytes:
        """The salt of digests of sources."""
        with self.connections.connected() as connection:
            row = connection.execute("SELECT value FROM setting WHERE name = 'salt'").fetchone()
        if row is None:
            raise LogError(f"{self.shown} is damaged: its settings are gone")
        return bytes.fromhex(row[0])

    def exists(self) -> bool:
        """Return whether the schema is there."""
        if self._format < FORMAT:
            with self.connections.connected() as connection:
                self._format = find_format(connection, self.connections.address) or 0
        return self._format > 0

    def keeps_answers(self) -> bool:
        """Return whether the schema has a table of answers; one of the first format has none."""
        return self.exists() and self._format >= ANSWERS_SINCE

    @contextlib.contextmanager
    def connected(self, *, create: bool = False) -> Iterator[LogConnection]:
        """Yield a connection, which no other thread has meanwhile.

        With `create` the schema is made, or brought to this version's format, first.
        """
        if create and not (self.exists() and self._format == FORMAT):
            with self.connections.transaction() as connection:
                make_schema(connection, self.connections.address)
        with self.connections.connected() as connection:
            yield LogConnection(connection)

    @contextlib.contextmanager
    def writing(self, *, create: bool = True) -> Iterator[LogConnection]:
        """Yield a connection in a transaction, which an exception undoes."""
        try:
            with self.connected(create=create) as connection, connection.transaction():
                connection.wait_for_writers(self.connections.address.schema)
                yield connection
        except (BusyError, OSError) as error:
            self.failure = error
            raise
        self.failure = None

    @contextlib.contextmanager
    def reading(self) -> Iterator[LogConnection]:
        """Yield a connection whose reads all see the same state, whatever others write."""
        with self.connected() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield connection

    def check(self) -> None:
        """Raise what a write would raise now."""
        if not self.exists():
            return
        with self.connected() as connection, connection.transaction():
            connection.wait_for_writers(self.connections.address.schema)
            connection.execute("UPDATE setting SET value = value WHERE name = 'salt'")
        self.failure = None

    def overwrite_deleted(self) -> None:
        """Write the tables anew, without what was deleted.

        The server's write-ahead log and its backups are its administrator's.
        """
        if not self.exists():
            return
        with self.connected() as connection:
            for table in _TABLES:
                connection.execute(f"VACUUM FULL {table}")

    def settle_deleted(self) -> None:
        """Leave it to the server, which vacuums by itself."""

    def close(self) -> None:
        """Close the connections; the next use opens them again."""
        self.connections.close()


class LogConnection:
    """A connection that takes the SQL of `log.database`."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def execute(self, query: str, values: Values = ()) -> psycopg.Cursor[Any]:
        """Run a statement, with `?` for each of the values, or `:name`."""
        from psycopg import ClientCursor

        # Bound by the client: the server could not tell the type of a value that is NULL.
        cursor = ClientCursor(self._connection)
        if isinstance(values, Mapping):
            parameters: Any = {name: _stored(value) for name, value in values.items()}
        else:
            parameters = [_stored(value) for value in values]
        return cursor.execute(_translated(query).encode(), parameters)

    def transaction(self) -> contextlib.AbstractContextManager[Any]:
        """Return the context of a transaction."""
        return self._connection.transaction()

    def wait_for_writers(self, schema: str) -> None:
        """Take the turn of a writer, until the transaction ends; BusyError: it does not come."""
        self._connection.execute(f"SET LOCAL lock_timeout = '{int(TIMEOUT * 1000)}ms'")
        self._connection.execute(
            "SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (_WRITING, schema)
        )


def _stored(value: Any) -> Any:
    """Return a value as PostgreSQL can keep it: its texts have no zero characters."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value


@functools.lru_cache(128)
def _translated(query: str) -> str:
    """Return a statement with psycopg's marks of values."""

    def mark(match: re.Match[str]) -> str:
        if match[0] == "%":
            return "%%"
        return f"%({match[1]})s" if match[1] else "%s"

    return _PLACES.sub(mark, query)
