"""Connections to the database of an index, which are used again and again."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rejoinder.errors import InputError
from rejoinder.stores.postgres.address import Address
from rejoinder.stores.postgres.errors import named_errors
from rejoinder.stores.postgres.vectors import register_vectors

if TYPE_CHECKING:
    import psycopg

# seconds for a server to let a client in, which takes a slow one a second or two: a request waits
# no longer for one that hangs
PATIENCE = 5
# so that a server lets go of the locks of a client whose machine is gone
_KEEPALIVES = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
# What follows a lock sees what was before it. Names of tables are those of the index, and types
# those of pgvector, wherever it is. Whoever may act as the owner of the index does: what it makes
# is the owner's, with the rights that the owner gives others by default.
_ENTER = """SELECT set_config('default_transaction_isolation', 'read committed', false),
  set_config('search_path', concat_ws(', ', quote_ident(%(schema)s), 'public', 'extensions',
    (SELECT quote_ident(nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace
      WHERE extname = 'vector')), false),
  set_config('role', coalesce(
    (SELECT rolname FROM pg_namespace n
      LEFT JOIN pg_class c ON relnamespace = n.oid AND relname = 'manifest'
      JOIN pg_roles r ON r.oid = coalesce(relowner, nspowner)
      WHERE nspname = %(schema)s AND pg_has_role(r.oid, %(right)s)),
    current_setting('role')), false)"""


@contextlib.contextmanager
def pipelined(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Send statements in one round trip.

    Of several errors the first is raised: psycopg would log those that follow it, with the address.
    """
    from psycopg import Error

    first: BaseException | None = None
    try:
        with connection.pipeline():
            try:
                yield
            except BaseException as error:  # noqa: BLE001 (raised below)
                first = error
    except Error as error:
        first = first or error
    if first is not None:
        raise first


class _Pool:
    """Connections of this process to a database; idle ones have the schema that they are set to."""

    def __init__(self) -> None:
        self._connections: list[tuple[psycopg.Connection[Any], str]] = []
        self._used: list[psycopg.Connection[Any]] = []
        self.breaks = 0  # how often `break_off` was called
        self._process = os.getpid()
        self._lock = threading.Lock()

    def take(self, schema: str) -> tuple[psycopg.Connection[Any], str] | None:
        """Return one to use and its schema, this schema's before others; None: there is none."""
        with self._lock:
            if self._process != os.getpid():  # those are the parent process's
                self._connections = []
                self._used = []
                self._process = os.getpid()
            if not self._connections:
                return None
            own = [at for at, (_, theirs) in enumerate(self._connections) if theirs == schema]
            pair = self._connections.pop(own[-1] if own else -1)
            self._used.append(pair[0])
            return pair

    def use(self, connection: psycopg.Connection[Any]) -> None:
        """Count a new one as used."""
        with self._lock:
            self._used.append(connection)

    def drop(self, connection: psycopg.Connection[Any]) -> bool:
        """Close one that was used; return whether `break_off` has not met it."""
        with self._lock:  # `break_off` must not meet another socket of the same number
            connection.close()
            others = [other for other in self._used if other is not connection]
            is_own = len(others) < len(self._used)
            self._used = others
        return is_own

    def put(self, connection: psycopg.Connection[Any], schema: str) -> None:
        """Keep one that was used, unless it is closed."""
        with self._lock:
            self._used = [other for other in self._used if other is not connection]
            if not connection.closed:
                self._connections.append((connection, schema))

    def break_off(self) -> None:
        """Shut the sockets of those that are used: whoever waits for an answer gets an error.

        PostgreSQL may go on with a statement that it has got. What was not committed is undone.
        """
        from psycopg import Error

        with self._lock:
            self.breaks += 1
            for connection in self._used:
                with contextlib.suppress(Error, OSError):  # it has just been closed
                    own = socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM)
                    with own:
                        own.shutdown(socket.SHUT_RDWR)
            self._used = []

    def close(self) -> None:
        """Close all."""
        while (pair := self.take("")) is not None:
            self.drop(pair[0])


_pools: dict[str, _Pool] = {}


class Connections:
    """Connections to the schema of an index. Threads may share it."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._pool = _pools.setdefault(address.connection, _Pool())

    def __reduce__(self) -> tuple[type[Connections], tuple[Address]]:
        return type(self), (self.address,)

    @contextlib.contextmanager
    def connected(self) -> Iterator[psycopg.Connection[Any]]:
        """Yield a connection in autocommit mode, which no other thread has meanwhile."""
        with self.named_errors():
            connection = self._reused() or self._connect()
            try:
                yield connection
            except BaseException as error:
                if not isinstance(error, InputError) or not _is_idle(connection):
                    self._pool.drop(connection)
                raise
            finally:
                self._pool.put(connection, self.address.schema)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """Yield a connection in a transaction, which an exception undoes."""
        with self.connected() as connection, connection.transaction():
            yield connection

    @property
    def breaks(self) -> int:
        """How often all that waited for the database was ended by `break_off`."""
        return self._pool.breaks

    def named_errors(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which PostgreSQL's errors say what to do."""
        return named_errors(self.address.shown)

    def close(self) -> None:
        """Close what is idle; the next use connects again."""
        self._pool.close()

    def break_off(self) -> None:
        """End all that waits for the database in this process."""
        self._pool.break_off()

    def _reused(self) -> psycopg.Connection[Any] | None:
        """Return an idle connection that still works."""
        from psycopg import OperationalError

        while (pair := self._pool.take(self.address.schema)) is not None:
            connection, schema = pair
            if _has_been_told(connection):
                self._pool.drop(connection)
                continue
            try:
                has_types = connection.adapters.types.get("vector") is not None
                if schema != self.address.schema or not has_types:
                    self._enter(connection)
                if not has_types:  # they may have been made since
                    register_vectors(connection)
            except OperationalError:
                if not self._pool.drop(connection):
                    raise  # the next one would hang, too
                continue  # the server was started again meanwhile
            except BaseException:
                self._pool.drop(connection)
                raise
            return connection
        return None

    def _enter(self, connection: psycopg.Connection[Any]) -> None:
        """Let names of tables be those of the index, and the role that of its owner."""
        is_recent = connection.info.server_version >= 160_000
        values = {"schema": self.address.schema, "right": "SET" if is_recent else "MEMBER"}
        with pipelined(connection):
            connection.execute("RESET ROLE")  # that of another index
            connection.execute(_ENTER, values)

    def _connect(self) -> psycopg.Connection[Any]:
        import psycopg

        connection = psycopg.connect(
            self.address.connection,
            autocommit=True,
            connect_timeout=PATIENCE,
            application_name="rejoinder",
            keepalives_idle=10,
            keepalives_interval=5,
            keepalives_count=3,
        )
        self._pool.use(connection)
        options = connection.info.options  # of the address, a service file or PGOPTIONS
        own = {name for name in _KEEPALIVES if name in options.replace("-", "_")}
        try:
            with pipelined(connection):
                for name in _KEEPALIVES.keys() - own:
                    connection.execute(
                        "SELECT set_config(%s, %s, false)", (name, _KEEPALIVES[name])
                    )
                self._enter(connection)
            register_vectors(connection)
        except BaseException:
            self._pool.drop(connection)
            raise
        return connection


def _is_idle(connection: psycopg.Connection[Any]) -> bool:
    """Return whether a connection is outside any transaction."""
    from psycopg.pq import TransactionStatus

    return connection.info.transaction_status == TransactionStatus.IDLE


def _has_been_told(connection: psycopg.Connection[Any]) -> bool:
    """Return whether an idle connection's server has sent something: as a rule, that it ends."""
    with selectors.DefaultSelector() as selector:
        selector.register(connection.fileno(), selectors.EVENT_READ)
        return bool(selector.select(0))


def make_extension(connection: psycopg.Connection[Any], shown: object) -> None:
    """Make pgvector's types in a database, if they are not there and this role may.

    Raises:
        InputError: the server has no pgvector, or one without half-precision vectors; or this role
            may not.
    """
    from psycopg import Error

    reason = ""
    try:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
    except Error as error:
        reason = f" ({error.diag.message_primary})"
    query = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
    row = connection.execute(query).fetchone()
    version = tuple(int(part) for part in row[0].split(".")[:2]) if row else ()
    if version < (0, 8):
        had = f"pgvector {row[0]}" if row else "no pgvector"
        raise InputError(
            f"{shown} has {had}{reason}; it needs 0.8 or later: install it on the server, and let "
            "its administrator run CREATE EXTENSION vector (or ALTER EXTENSION vector UPDATE)"
        )
