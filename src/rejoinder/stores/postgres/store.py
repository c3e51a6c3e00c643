"""An index in PostgreSQL with pgvector.

Each index has a schema, in which its manifest and its files are rows, each segment is a table, and
the log of its use is a few more tables. Without an approximate index all vectors are read into the
memory of who searches, once for each segment, and searched there; with one, PostgreSQL names the
candidates; see `candidates`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rejoinder.arrays import FloatArray
from rejoinder.errors import BusyError, InputError
from rejoinder.progress import Track
from rejoinder.stores.database.candidates import check_method
from rejoinder.stores.manifest import ApproximateRecord, Manifest, Method, parse_manifest
from rejoinder.stores.names import CALIBRATION, free_name
from rejoinder.stores.postgres.address import Address
from rejoinder.stores.postgres.candidates import PostgresCandidates, build_graphs
from rejoinder.stores.postgres.connections import Connections, make_extension
from rejoinder.stores.postgres.log import PostgresLog
from rejoinder.stores.postgres.schema import check_format, make_schema
from rejoinder.stores.postgres.segments import SegmentTable, TableWriter
from rejoinder.stores.scan import Rows
from rejoinder.stores.segments import Segment
from rejoinder.stores.store import Store

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

_CHANGING = 2  # of two advisory locks: that of who changes the index
_MEND = "build the index again"
_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename LIKE 'segment-%%'"
_SWEPT = " UNION ALL ".join([_TABLES, "SELECT name FROM file WHERE name LIKE 'head-%%'"])


class PostgresStore(Store):
    """Keeps an index in a schema of a database."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._connections = Connections(address)
        self._own = threading.local()  # the connection that has the lock, and files written with it

    @classmethod
    def at(cls, address: str) -> PostgresStore:
        """Return the store of an address; nothing is opened yet."""
        return cls(Address.parse(address))

    def __str__(self) -> str:
        return self.address.shown

    def __reduce__(self) -> tuple[type[PostgresStore], tuple[Address]]:
        return type(self), (self.address,)

    @property
    def name(self) -> str:
        """The name of the index, without its database."""
        return self.address.index

    def private_names(self) -> Sequence[tuple[str, str]]:
        """Return what names the database, and what those see who need not know it."""
        shown = self.address.shown
        return [(f"the log of {shown}", "the log"), (f"{shown}: ", ""), (shown, "the index")]

    def is_same(self, other: Store) -> bool:
        """Return whether another store keeps the same index."""
        return isinstance(other, PostgresStore) and other.address == self.address

    def read_manifest(self) -> Manifest:
        """Read the manifest; one that is missing, altered or of a later version: InputError."""
        with self._connections.connected() as connection:
            text = self._manifest_text(connection)
        if text is None:
            raise InputError(
                f'no index {self}; `rejoinder index build MODEL REPLIES -o "{self}"` builds one'
            )
        return parse_manifest(text, f"the manifest of {self}", _MEND)

    def _manifest_text(self, connection: psycopg.Connection[Any]) -> str | None:
        text = self._of_manifest(connection, "content")
        return None if text is None else str(text)

    def _of_manifest(self, connection: psycopg.Connection[Any], column: str) -> object:
        """Return a column of the manifest's row; None: there is no index."""
        from psycopg import sql
        from psycopg.errors import UndefinedTable

        query = sql.SQL("SELECT {}, (SELECT max(number) FROM {}) FROM {}").format(
            sql.Identifier(column),
            *(sql.Identifier(self.address.schema, name) for name in ("format", "manifest")),
        )
        try:
            row = connection.execute(query).fetchone()
        except UndefinedTable:
            return None
        if row is None:
            return None
        check_format(int(row[1] or 0), self.address)
        return row[0]

    def write_manifest(self, manifest: Manifest) -> None:
        """Put a manifest in the place of the present one, at one instant."""
        with self._writing() as connection:
            connection.execute(
                "UPDATE manifest SET content = %s, stamp = stamp + 1", (manifest.to_json(),)
            )

    def check(self) -> None:
        """Raise what opening the index would raise now, without reading all of it."""
        there = set(self._tables())
        for record in self.read_manifest().segments:
            if record.name not in there:
                raise InputError(f"{self}: {record.name} is gone; {_MEND}")

    def stamp(self) -> Hashable:
        """Return what changes whenever the manifest or a file does; None: there is no index."""
        with self._connections.connected() as connection:
            stamp = self._of_manifest(connection, "stamp")
        return None if stamp is None else int(str(stamp))

    def is_changing(self, manifest: Manifest | None) -> bool:
        """Return whether somebody has replaced a manifest since it was read."""
        try:
            return self.read_manifest() != manifest
        except InputError:
            return False

    def open_segment(self, manifest: Manifest, number: int, *, verify: bool) -> Segment:
        """Open a segment; `verify` compares its content with its digests.

        One that is not searched by an approximate index is read now.
        """
        segment = SegmentTable(self._connections, manifest, number)
        return segment.opened(manifest, number, verify=verify)

    @contextlib.contextmanager
    def new_segment(self, name: str) -> Iterator[TableWriter]:
        """Take the content of a segment, whose table is kept whole or not at all."""
        with self._writing_rows() as connection:
            # They are on the disk when the manifest is that names them: it is logged after them.
            connection.execute("SET synchronous_commit = off")
            try:
                yield TableWriter(connection, name)
            except BaseException:
                with contextlib.suppress(Exception):  # the next sweep does it
                    connection.execute("RESET synchronous_commit")
                    connection.execute(_drop(name))
                raise
            connection.execute("RESET synchronous_commit")

    def free_name(self, name: str) -> str:
        """Return the name, or that with a number behind, that no segment has."""
        return free_name(name, set(self._tables()).__contains__)

    def _tables(self) -> list[str]:
        with self._connections.connected() as connection:
            rows = connection.execute(_TABLES, (self.address.schema,)).fetchall()
        return [row[0] for row in rows]

    def has_file(self, name: str) -> bool:
        """Return whether there is a file of this name."""
        with self._connections.connected() as connection:
            query = "SELECT EXISTS (SELECT FROM file WHERE name = %s)"
            row = connection.execute(query, (name,)).fetchone()
        return bool(row and row[0])

    def read_file(self, name: str) -> bytes:
        """Read a file; InputError if there is none."""
        with self._connections.connected() as connection:
            query = "SELECT content FROM file WHERE name = %s"
            row = connection.execute(query, (name,)).fetchone()
        if row is None:
            raise InputError(f"{self} has no {name}; {_MEND}")
        return bytes(row[0])

    def write_file(self, name: str, content: bytes) -> None:
        """Write a file, in the place of one of the same name."""
        written: set[str] | None = getattr(self._own, "files", None)
        if written is not None:
            written.add(name)
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO file VALUES (%s, %s) "
                "ON CONFLICT (name) DO UPDATE SET content = excluded.content",
                (name, content),
            )
            connection.execute("UPDATE manifest SET stamp = stamp + 1")

    def remove_file(self, name: str) -> None:
        """Remove a file, if it is there."""
        with self._writing() as connection:
            connection.execute("DELETE FROM file WHERE name = %s", (name,))
            connection.execute("UPDATE manifest SET stamp = stamp + 1")

    def size(self) -> int:
        """Return the number of bytes of all tables, the log's among them."""
        with self._connections.connected() as connection:
            row = connection.execute(
                "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c "
                "JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = %s AND relkind = 'r'",
                (self.address.schema,),
            ).fetchone()
        return int(row[0] or 0) if row else 0

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Keep others from changing the index, as long as this connection lasts.

        All that this thread writes meanwhile goes through it: who has lost it writes nothing.
        """
        with self._connections.connected() as connection:
            key = (_CHANGING, self.address.schema)
            row = connection.execute(
                "SELECT pg_try_advisory_lock(%s, hashtext(%s))", key
            ).fetchone()
            if row is None or not row[0]:
                raise BusyError(
                    f"{self} is being written by another process; wait until that is done, or stop "
                    "it"
                )
            self._own.connection = connection
            try:
                yield
            finally:
                self._own.connection = None
                if not connection.closed:
                    connection.execute("SELECT pg_advisory_unlock(%s, hashtext(%s))", key)

    @contextlib.contextmanager
    def _writing_rows(self) -> Iterator[psycopg.Connection[Any]]:
        """Yield a connection without a transaction: no manifest names the rows so far."""
        own = getattr(self._own, "connection", None)
        if own is None:
            with self._connections.connected() as connection:
                yield connection
        else:
            with self._connections.named_errors():
                yield own

    @contextlib.contextmanager
    def _writing(self) -> Iterator[psycopg.Connection[Any]]:
        """Yield a connection in a transaction: that of the lock, if this thread has it."""
        own = getattr(self._own, "connection", None)
        if own is None:
            with self._connections.transaction() as connection:
                yield connection
        else:
            with self._connections.named_errors(), own.transaction():
                yield own

    def sweep(self, manifest: Manifest) -> None:
        """Remove the tables and files that a manifest does not name."""
        names = {record.name for record in manifest.segments}
        self._keep(names, [manifest.head.file] if manifest.head else [])

    def _keep(self, names: Collection[str], files: Sequence[str]) -> None:
        with self._connections.connected() as connection:
            found = {name for (name,) in connection.execute(_SWEPT, (self.address.schema,))}
        if not (gone := found.difference(names, files)):
            return
        with self._writing() as connection:
            for name in sorted(gone):
                if name.startswith("head-"):
                    connection.execute("DELETE FROM file WHERE name = %s", (name,))
                else:
                    connection.execute(_drop(name))

    def check_free(self, *, overwrite: bool) -> None:
        """Refuse to build an index where there is one already, unless it may be overwritten."""
        with self._connections.connected() as connection:
            taken = self._manifest_text(connection) is not None
        if taken and not overwrite:
            raise InputError(
                f"{self} is an index already; take `rejoinder index add`, --overwrite, or another "
                "name"
            )

    @contextlib.contextmanager
    def create(self, *, overwrite: bool) -> Iterator[PostgresStore]:
        """Make the schema, and yield this store: the manifest that is written takes effect."""
        self.check_free(overwrite=overwrite)
        with self._connections.connected() as connection:
            make_extension(connection, self)
        with self._connections.transaction() as connection:
            make_schema(connection, self.address)
        with self.lock():
            self._own.files = set()
            try:
                yield self
                if CALIBRATION not in self._own.files:  # that of what stood there
                    self.remove_file(CALIBRATION)
            except BaseException:
                with contextlib.suppress(InputError, OSError):  # the next build does it
                    self._keep_what_counts()
                raise
            self._keep_what_counts()

    def _keep_what_counts(self) -> None:
        with self._connections.connected() as connection:
            text = self._manifest_text(connection)
        if text is None:
            self._keep((), ())
        else:
            self.sweep(parse_manifest(text, self, _MEND))

    def log(self) -> PostgresLog:
        """Return the tables in which the use of the index is logged."""
        return PostgresLog(Connections(self.address))

    def check_candidates(self) -> None:
        """pgvector is there."""

    def build_candidates(
        self,
        segments: Sequence[Rows],
        contexts: Sequence[FloatArray],
        recall: float,
        method: Method | None,
        track: Track,
    ) -> ApproximateRecord:
        """Make graphs (HNSW) in the database; see `Index.approximate`."""
        check_method(self, method)
        with self._writing_rows() as connection:
            return build_graphs(connection, self._connections, segments, contexts, recall, track)

    def open_candidates(self, record: ApproximateRecord) -> PostgresCandidates:
        """Open the graphs of the database."""
        return PostgresCandidates(self._connections, record)


def _drop(name: str) -> sql.Composed:
    from psycopg import sql

    return sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(name))
