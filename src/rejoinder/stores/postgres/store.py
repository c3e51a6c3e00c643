"""An index in PostgreSQL with pgvector.

Each index has a schema, in which its manifest and its files are rows, each large segment is a
table, all small ones are one, and the log of its use is a few more tables. Without an approximate
index all vectors are read into the memory of who searches, once for each segment, and searched
there; with one, PostgreSQL names the candidates; see `candidates`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rejoinder.arrays import FloatArray
from rejoinder.errors import BusyError, InputError
from rejoinder.patterns import search_pattern
from rejoinder.progress import Track
from rejoinder.stores.database.candidates import check_method
from rejoinder.stores.manifest import ApproximateRecord, Manifest, Method, parse_manifest
from rejoinder.stores.names import CALIBRATION, free_name
from rejoinder.stores.postgres.address import Address
from rejoinder.stores.postgres.candidates import PostgresCandidates, build_graphs
from rejoinder.stores.postgres.connections import Connections, make_extension, pipelined
from rejoinder.stores.postgres.log import PostgresLog
from rejoinder.stores.postgres.schema import FORMAT, check_format, make_schema
from rejoinder.stores.postgres.segments import SegmentTable, TableWriter, added_to
from rejoinder.stores.scan import Rows
from rejoinder.stores.segments import Segment
from rejoinder.stores.store import PATIENCE, Store

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

_CHANGING = 2  # of two advisory locks: that of who changes the index
_MEND = "build the index again"
_WORDS = search_pattern(r" \([^()]*\)")
_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename LIKE 'segment-%%'"
_SWEEPABLE = ("segment-", "head-")  # how names begin of what goes when no manifest names it
_SWEPT = " UNION ALL ".join([_TABLES, "SELECT name FROM file WHERE name LIKE 'head-%%'"])


@dataclass
class HeldLock:
    """The state of a thread that holds the lock of an index."""

    connection: psycopg.Connection[Any]
    manifest: str | None  # as it stands; None: it must be read
    names: set[str]  # of segments' tables, heads' files, and files that were written
    files: set[str] = field(default_factory=set)  # that were written
    waiting: dict[str, TableWriter] = field(default_factory=dict)
    """Small segments, which are written with the manifest that names them."""


class PostgresStore(Store):
    """Keeps an index in a schema of a database."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._connections = Connections(address)
        self._own = threading.local()  # the lock that this thread has
        # the manifest that was read or written last
        self._known: tuple[str, Manifest] | None = None

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
        return [
            (f"the log of {shown}", "the log"),
            (f"no index {shown}", "the index is gone"),
            (f'-o "{shown}"', "-o INDEX"),
            (f"{shown}: ", ""),
            (shown, "the index"),
        ]

    def hide_place(self, text: str) -> str:
        """Return an error's text without the place of the index, nor words of PostgreSQL.

        These name host, port, role and database. They stand in parentheses; see `errors`.
        """
        before, place, after = text.partition(self.address.shown)
        return super().hide_place(before + place + _WORDS.sub("", after))

    def is_same(self, other: Store) -> bool:
        """Return whether another store keeps the same index."""
        return isinstance(other, PostgresStore) and other.address == self.address

    def read_manifest(self) -> Manifest:
        """Read the manifest; one that is missing, altered or of a later version: InputError."""
        text = self._manifest_text()
        if text is None:
            raise InputError(self._missing())
        known = self._known
        if known is None or known[0] != text:
            known = (text, parse_manifest(text, f"the manifest of {self}", _MEND))
            self._known = known
        return known[1]

    @property
    def _held(self) -> HeldLock | None:
        held: HeldLock | None = getattr(self._own, "held", None)
        return held

    def _manifest_text(self) -> str | None:
        if self._held is not None and self._held.manifest is not None:
            return self._held.manifest
        text = self._of_manifest("content")
        return None if text is None else str(text)

    def _of_manifest(self, column: str) -> object:
        """Return a column of the manifest's row; None: there is no index."""
        from psycopg.errors import UndefinedTable

        with self._connections.connected() as connection:
            try:
                row = connection.execute(self._manifest_query(column)).fetchone()
            except UndefinedTable:
                return None
        return self._checked(row)

    def _manifest_query(self, column: str) -> sql.Composed:
        from psycopg import sql

        return sql.SQL("SELECT {}, (SELECT max(number) FROM {}) FROM {}").format(
            sql.Identifier(column),
            *(sql.Identifier(self.address.schema, name) for name in ("format", "manifest")),
        )

    def _checked(self, row: Any) -> object:
        """Return what `_manifest_query` found, of a format that this version reads."""
        if row is None:
            return None
        check_format(int(row[1] or 0), self.address)
        return row[0]

    def write_manifest(self, manifest: Manifest) -> None:
        """Put a manifest in the place of the present one, at one instant."""
        text = manifest.to_json()
        names = {record.name for record in manifest.segments}
        held = self._held
        waiting: dict[str, TableWriter] = {}
        if held is not None:
            held.manifest = None  # unknown, if this fails
            waiting = {name: held.waiting[name] for name in held.waiting.keys() & names}
        with self._writing() as connection:
            for writer in waiting.values():
                writer.insert(connection)
            connection.execute("UPDATE manifest SET content = %s, stamp = stamp + 1", (text,))
            connection.execute("DELETE FROM added WHERE segment != ALL(%s)", ([*names],))
        self._known = (text, manifest)
        if held is not None:
            held.manifest = text
            for name in waiting:
                del held.waiting[name]

    def check(self) -> None:
        """Raise what opening the index would raise now, without reading all of it."""
        present = set(self._tables()) | set(self._small())
        for record in self.read_manifest().segments:
            if record.count and record.name not in present:
                raise InputError(f"{self}: {record.name} is gone; {_MEND}")

    def stamp(self) -> Hashable:
        """Return what changes whenever the manifest or a file does; None: there is no index."""
        stamp = self._of_manifest("stamp")
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
        held = self._held
        if held is not None and segment.record.name in held.waiting:
            return held.waiting[segment.record.name].fill(segment)
        return segment.opened(manifest, number, verify=verify)

    @contextlib.contextmanager
    def new_segment(self, name: str) -> Iterator[TableWriter]:
        """Take the content of a segment, which is kept whole or not at all.

        A small one is written with the manifest that names it, if this thread has the lock.
        """
        held = self._held
        with self._writing_rows() as connection:
            writer = TableWriter(connection, name)
            try:
                yield writer
            except BaseException:
                with contextlib.suppress(Exception):  # the next sweep does it
                    writer.close()
                    connection.execute(_drop(name))
                raise
            if writer.waits and held is not None:
                held.waiting[name] = writer
                return
            if writer.waits:
                writer.copy()
            writer.close()
            if held is not None:
                held.names.add(name)

    def free_name(self, name: str) -> str:
        """Return the name, or that with a number behind, that no segment has."""
        held = self._held
        if held is None:
            taken = {*self._tables(), *self._small()}
        else:
            taken = {*held.names, *held.waiting, *self._named()}
        return free_name(name, taken.__contains__)

    def _tables(self) -> list[str]:
        with self._connections.connected() as connection:
            rows = connection.execute(_TABLES, (self.address.schema,)).fetchall()
        return [row[0] for row in rows]

    def _named(self) -> set[str]:
        """Return the names of the segments of the manifest, if there is one."""
        if self._manifest_text() is None:
            return set()
        return {record.name for record in self.read_manifest().segments}

    def _small(self) -> list[str]:
        """Return the names of small segments, which have no table of their own."""
        from psycopg import sql
        from psycopg.errors import UndefinedTable

        query = sql.SQL("SELECT DISTINCT segment FROM {}").format(added_to(self.address))
        with self._connections.connected() as connection:
            try:
                rows = connection.execute(query).fetchall()
            except UndefinedTable:  # of an earlier format
                return []
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
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO file VALUES (%s, %s) "
                "ON CONFLICT (name) DO UPDATE SET content = excluded.content",
                (name, content),
            )
            connection.execute("UPDATE manifest SET stamp = stamp + 1")
        if self._held is not None:
            self._held.names.add(name)
            self._held.files.add(name)

    def remove_file(self, name: str) -> None:
        """Remove a file, if it is there."""
        with self._writing() as connection:
            connection.execute("DELETE FROM file WHERE name = %s", (name,))
            connection.execute("UPDATE manifest SET stamp = stamp + 1")
        if self._held is not None:
            self._held.names.discard(name)

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
    def _alone(self, seconds: float) -> Iterator[None]:
        """Keep others from changing the index, as long as this connection lasts.

        All that this thread writes meanwhile goes through it: who has lost it writes nothing.
        """
        with self._connections.connected() as connection:
            try:
                held = self._locked(connection, seconds)
            except BaseException:
                connection.close()  # it may have the lock
                raise
            if held is None:
                raise BusyError(
                    f"{self} is being written by another process, or another thread of this one;"
                    " wait until that is done, or stop it"
                )
            self._own.held = held
            try:
                yield
            finally:
                self._own.held = None
                if not connection.closed:
                    key = (_CHANGING, self.address.schema)
                    connection.execute("SELECT pg_advisory_unlock(%s, hashtext(%s))", key)

    def _locked(self, connection: psycopg.Connection[Any], seconds: float) -> HeldLock | None:
        """Take the lock, and read what nobody else changes from then on; None: another has it.

        A schema of an earlier format is brought to this one.
        """
        from psycopg.errors import LockNotAvailable, UndefinedTable

        key = (_CHANGING, self.address.schema)
        wait = f"{max(1, round(1000 * seconds))}ms"  # 0 is for ever
        try:
            with pipelined(connection):  # a statement sees what was before it
                connection.execute("BEGIN")
                connection.execute("SELECT set_config('lock_timeout', %s, true)", (wait,))
                # the role's own, which may be shorter
                connection.execute("SET LOCAL statement_timeout = 0")
                connection.execute("SELECT pg_advisory_lock(%s, hashtext(%s))", key)
                connection.execute("COMMIT")
                manifest = connection.execute(self._manifest_query("content"))
                names = connection.execute(_SWEPT, (self.address.schema,))
        except LockNotAvailable:
            connection.rollback()
            return None
        except UndefinedTable:
            raise InputError(self._missing()) from None
        content, number = manifest.fetchone() or (None, FORMAT)
        check_format(int(number or 0), self.address)
        if int(number or 0) < FORMAT:
            with connection.transaction():
                make_schema(connection, self.address)
        return HeldLock(connection, content, {name for (name,) in names.fetchall()})

    def _missing(self) -> str:
        return f'no index {self}; `rejoinder index build MODEL REPLIES -o "{self}"` builds one'

    @contextlib.contextmanager
    def _writing_rows(self) -> Iterator[psycopg.Connection[Any]]:
        """Yield a connection without a transaction: no manifest names the rows so far."""
        held = self._held
        if held is None:
            with self._connections.connected() as connection:
                yield connection
        else:
            with self._connections.named_errors():
                yield held.connection

    @contextlib.contextmanager
    def _writing(self) -> Iterator[psycopg.Connection[Any]]:
        """Yield a connection in a transaction: that of the lock, if this thread has it.

        Its statements, whose results nobody reads, are sent in one round trip.
        """
        with self._writing_rows() as connection:
            try:
                # psycopg's own transaction would wait for its beginning and for its end
                with pipelined(connection):
                    connection.execute("BEGIN")
                    yield connection
                    connection.execute("COMMIT")
            except BaseException:
                if not connection.closed:
                    connection.rollback()
                raise

    def sweep(self, manifest: Manifest) -> None:
        """Remove the tables and files that a manifest does not name."""
        names = {record.name for record in manifest.segments}
        self._keep(names, [manifest.head.file] if manifest.head else [])

    def _keep(self, names: Collection[str], files: Sequence[str]) -> None:
        held = self._held
        if held is None:
            with self._connections.connected() as connection:
                stored = {name for (name,) in connection.execute(_SWEPT, (self.address.schema,))}
        else:
            stored = {name for name in held.names if name.startswith(_SWEEPABLE)}
        if not (gone := stored.difference(names, files)):
            return
        with self._writing() as connection:
            for name in sorted(gone):
                if name.startswith("head-"):
                    connection.execute("DELETE FROM file WHERE name = %s", (name,))
                else:
                    connection.execute(_drop(name))
        if held is not None:
            held.names -= gone

    def check_free(self, *, overwrite: bool) -> None:
        """Refuse to build an index where there is one already, unless it may be overwritten."""
        if self._manifest_text() is not None and not overwrite:
            raise InputError(
                f"{self} is an index already; take `rejoinder index add`, --overwrite, or another "
                "name"
            )

    @contextlib.contextmanager
    def create(self, *, overwrite: bool) -> Iterator[PostgresStore]:
        """Make the schema, and yield this store: the manifest that is written takes effect."""
        self.check_free(overwrite=overwrite)
        # a build does not wait for one that makes what is not there: it would overwrite it
        seconds = 0.0 if self._manifest_text() is None else PATIENCE
        with self._connections.connected() as connection:
            make_extension(connection, self)
        with self._connections.transaction() as connection:
            make_schema(connection, self.address)
        with self.lock(seconds):
            held = self._held
            assert held is not None
            try:
                yield self
                if CALIBRATION not in held.files:  # that of what stood there
                    self.remove_file(CALIBRATION)
            except BaseException:
                with contextlib.suppress(InputError, OSError):  # the next build does it
                    self._keep_what_counts()
                raise
            self._keep_what_counts()

    def _keep_what_counts(self) -> None:
        text = self._manifest_text()
        if text is None:
            self._keep((), ())
        else:
            self.sweep(parse_manifest(text, self, _MEND))

    def break_off(self) -> None:
        """End all that waits for the database in this process: it raises UnreachableError."""
        self._connections.break_off()

    def log(self) -> PostgresLog:
        """Return the tables in which the use of the index is logged."""
        return PostgresLog(Connections(self.address))

    def check_candidates(self) -> None:
        """Do nothing: PostgreSQL makes the graphs, which takes no other extra."""

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
            record = build_graphs(connection, self._connections, segments, contexts, recall, track)
        if self._held is not None:  # small ones have tables of their own now
            self._held.names.update(self._tables())
        return record

    def open_candidates(self, record: ApproximateRecord) -> PostgresCandidates:
        """Open the graphs of the database."""
        return PostgresCandidates(self._connections, record)


def _drop(name: str) -> sql.Composed:
    from psycopg import sql

    return sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(name))
