"""Segments in PostgreSQL: each large one is a table, whose rows are written once.

Small ones share a table, `added`; they are read whole, and searched in memory.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.stores.database.content import Content
from rejoinder.stores.database.segment import DatabaseSegment, StoredRow
from rejoinder.stores.manifest import Manifest
from rejoinder.stores.postgres.address import Address
from rejoinder.stores.postgres.connections import Connections
from rejoinder.stores.postgres.schema import check_owner
from rejoinder.stores.postgres.vectors import column_types, packed, unpacked
from rejoinder.stores.segments import Line, value_texts
from rejoinder.stores.store import StaleError

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

SMALL = 256  # rows of a small segment at most
LONGEST_KEY = 1000  # bytes; an entry of an index of PostgreSQL has 2,712 at most

_decode = msgspec.json.Decoder(Line).decode


class SegmentTable(DatabaseSegment):
    """An open segment in a table."""

    def __init__(self, connections: Connections, manifest: Manifest, number: int) -> None:
        super().__init__(manifest, number, connections.address.shown)
        self.connections = connections

    def read(self) -> None:
        """Read all that a search needs."""
        if not self.record.count:
            self.hold([], np.zeros((0, self.size), np.float32), None)
        elif self.record.count > SMALL or not self._read_added():
            super().read()

    def _read_added(self) -> bool:
        """Read the rows of a small segment; return whether it has no table of its own."""
        from psycopg import sql
        from psycopg.errors import UndefinedTable

        query = sql.SQL("SELECT line, vector, response FROM {} WHERE segment = %s ORDER BY row")
        table = added_to(self.connections.address)
        with self.connections.connected() as connection:
            try:
                cursor = connection.execute(query.format(table), (self.record.name,), binary=True)
            except UndefinedTable:  # of an earlier format
                return False
            fetched = cursor.fetchall()
        if not fetched:
            return False
        self._check_count(len(fetched))
        lines, vectors, responses = zip(*fetched, strict=True)
        own = self._numbers(responses) if self.has_responses else None
        self.hold([line.encode() for line in lines], self._numbers(vectors), own)
        return True

    def _numbers(self, rows: Iterable[bytes]) -> FloatArray:
        numbers = np.frombuffer(b"".join(rows), dtype="<f4").reshape(-1, self.size)
        return numbers.astype(np.float32)

    def rows_from(self, found: Iterable[Sequence[Any]]) -> dict[int, StoredRow]:
        """Return rows of what a statement gave: row, line, vector and response of each."""
        rows = {}
        for row, line, raw, response in found:
            vector = unpacked([raw], self.size)[0]
            own = vector if response is None else unpacked([response], self.size)[0]
            rows[row] = StoredRow(line.encode(), vector, own)
        return rows

    def _read_lines(self) -> list[bytes]:
        """Read what is stored of all replies."""
        return [line.encode() for line in self._column("line")]

    def _read_vectors(self, *, of_texts: bool) -> FloatArray:
        """Read the vectors of all replies, (n, d), or the encodings of their texts."""
        return unpacked(self._column("response" if of_texts else "vector"), self.size)

    def _fetch(self, rows: Sequence[int]) -> dict[int, StoredRow]:
        """Read some rows."""
        from psycopg import sql

        query = sql.SQL("SELECT row, line, vector, response FROM {} WHERE row = ANY(%s)")
        with self._reading() as connection:
            cursor = connection.execute(query.format(self._table()), (list(rows),), binary=True)
            return self.rows_from(cursor.fetchall())

    def _find_having(self, name: str, wanted: Collection[str]) -> list[int] | None:
        """Return the rows with one of the texts in a field; None: no row has the field."""
        from psycopg import sql

        query = sql.SQL("SELECT row FROM {} WHERE fields && %s").format(self._table())
        known = sql.SQL("SELECT EXISTS ({})").format(query)
        keys = [key for text in wanted for key in wanted_keys(name, text)]
        with self._reading() as connection:
            if connection.execute(known, ([field_key(name)],)).fetchone() == (False,):
                return None
            return [row for (row,) in connection.execute(query, (keys,), binary=True).fetchall()]

    @contextlib.contextmanager
    def _reading(self) -> Iterator[psycopg.Connection[Any]]:
        with (
            lost_named(self.connections, [self.record.name]),
            self.connections.connected() as connection,
        ):
            yield connection

    def _table(self) -> sql.Identifier:
        from psycopg import sql

        return sql.Identifier(self.record.name)

    def _column(self, column: str) -> list[Any]:
        """Read a column of all rows."""
        from psycopg import sql

        query = sql.SQL("COPY (SELECT {} FROM {} ORDER BY row) TO STDOUT (FORMAT BINARY)")
        with (
            self._reading() as connection,
            connection.cursor() as cursor,
            cursor.copy(query.format(sql.Identifier(column), self._table())) as copy,
        ):
            copy.set_types(column_types([column]))
            return [value for (value,) in copy.rows()]


class _Rows(NamedTuple):
    """Some rows of a segment."""

    first: int
    lines: Sequence[bytes]
    vectors: FloatArray  # (n, d)
    responses: FloatArray | None  # (n, d)

    @property
    def columns(self) -> list[str]:
        """Names of the columns that they fill."""
        columns = ["row", "line", "fields", "vector"]
        return columns if self.responses is None else [*columns, "response"]

    def values(self) -> Iterator[tuple[Any, ...]]:
        """Yield the values of each row."""
        parts: list[Iterable[Any]] = [
            range(self.first, self.first + len(self.lines)),
            (line.decode() for line in self.lines),
            (fields_of(_decode(line)) for line in self.lines),
            packed(self.vectors),
        ]
        if self.responses is not None:
            parts.append(packed(self.responses))
        return zip(*parts, strict=True)

    def raw_values(self) -> Iterator[tuple[int, str, bytes, bytes | None]]:
        """Yield number, line, vector and response of each row; numbers are float32."""
        vectors = self.vectors.astype("<f4")
        responses = None if self.responses is None else self.responses.astype("<f4")
        for row, line in enumerate(self.lines):
            own = None if responses is None else responses[row].tobytes()
            yield self.first + row, line.decode(), vectors[row].tobytes(), own


@contextlib.contextmanager
def lost_named(connections: Connections, tables: Sequence[str]) -> Iterator[None]:
    """Say of a table that is gone if the manifest in the database still names it.

    Raises:
        StaleError: a table is gone, as after each change, or lost.
    """
    try:
        yield
    except StaleError:
        if (lost := _lost(connections, tables)) is not None:
            raise StaleError(
                f"{connections.address.shown}: its table {lost} is gone; restore it from a backup, "
                "or build the index again"
            ) from None
        raise


def _lost(connections: Connections, tables: Sequence[str]) -> str | None:
    """Return a table that the manifest names and the database has not."""
    query = (
        "SELECT name FROM manifest, unnest(%s::text[]) name "
        "WHERE strpos(content, to_json(name)::text) > 0 AND to_regclass(quote_ident(name)) IS NULL"
    )
    with connections.connected() as connection:
        row = connection.execute(query, (list(tables),)).fetchone()
    return None if row is None else str(row[0])


def added_to(address: Address) -> sql.Identifier:
    """Return the name of the table of an index's small segments."""
    from psycopg import sql

    return sql.Identifier(address.schema, "added")


def make_own_table(connection: psycopg.Connection[Any], segment: SegmentTable) -> None:
    """Give a small segment a table of its own, if it has none."""
    if segment.record.count > SMALL:
        return
    query = "SELECT EXISTS (SELECT FROM added WHERE segment = %s)"
    if connection.execute(query, (segment.record.name,)).fetchone() != (True,):
        return
    segment.read()
    lines = [segment.line(row) for row in range(segment.count)]
    responses = np.asarray(segment.responses) if segment.has_responses else None
    with connection.transaction():
        writer = TableWriter(connection, segment.record.name)
        writer.write(lines, np.asarray(segment.vectors), responses)
        writer.copy()
        writer.close()
        connection.execute("DELETE FROM added WHERE segment = %s", (segment.record.name,))


class TableWriter:
    """Takes the replies of a new segment; fulfils `store.SegmentWriter`.

    The first `SMALL` rows wait: as a rule there are no others, and they are written to the table of
    small segments, in one transaction with the manifest that names them. Where more come, all are
    copied to a table of their own: they are on the disk when the manifest is, which is logged after
    them.
    """

    def __init__(self, connection: psycopg.Connection[Any], name: str) -> None:
        self._connection = connection
        self._table = name
        self._content = Content()
        self._waiting: list[_Rows] = []
        self._is_copied = False

    @property
    def waits(self) -> bool:
        """Return whether nothing is written yet."""
        return not self._is_copied

    def write(
        self, lines: Sequence[bytes], vectors: FloatArray, responses: FloatArray | None
    ) -> None:
        """Add replies as they are stored, their vectors, (n, d), and their texts' encodings."""
        rows = _Rows(self._content.rows, lines, vectors, responses)
        self._content.add(lines, vectors, responses)
        self._waiting.append(rows)
        if self._content.rows > SMALL:
            self.copy()

    def copy(self) -> None:
        """Copy the rows that wait to the segment's own table."""
        if not self._is_copied:
            check_owner(self._connection)
            self._connection.execute("SET synchronous_commit = off")
            self._is_copied = True
            self._connection.execute(self._made(self._waiting[0]))
        for part in self._waiting:
            self._copy(part)
        self._waiting = []

    def close(self) -> None:
        """End what `copy` began."""
        if self._is_copied:
            self._connection.execute("RESET synchronous_commit")

    def insert(self, connection: psycopg.Connection[Any]) -> None:
        """Write the rows that wait to the table of small segments."""
        rows = [(self._table, *values) for part in self._waiting for values in part.raw_values()]
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO added VALUES (%s, %s, %s, %s, %s)", rows)

    def fill(self, segment: SegmentTable) -> SegmentTable:
        """Give a segment the rows that wait, which no statement finds yet; return it."""
        if not self._waiting:
            segment.read()
            return segment
        lines = [line for part in self._waiting for line in part.lines]
        own = [part.responses for part in self._waiting if part.responses is not None]
        vectors = np.concatenate([part.vectors for part in self._waiting])
        segment.hold(lines, vectors, np.concatenate(own) if own else None)
        return segment

    def _made(self, rows: _Rows) -> sql.Composed:
        from psycopg import sql

        made = sql.SQL(
            "CREATE TABLE {} (row integer PRIMARY KEY, line text NOT NULL, fields text[] NOT "
            "NULL, vector vector({size}) NOT NULL, response vector({size}))"
        )
        size = sql.Literal(rows.vectors.shape[1])
        return made.format(sql.Identifier(self._table), size=size)

    def _copy(self, rows: _Rows) -> None:
        from psycopg import sql

        query = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(
            sql.Identifier(self._table), sql.SQL(", ").join(map(sql.Identifier, rows.columns))
        )
        with self._connection.cursor() as cursor, cursor.copy(query) as copy:
            copy.set_types(column_types(rows.columns))
            for values in rows.values():
                copy.write_row(values)

    def files(self) -> dict[str, tuple[int, str]]:
        """Return the size and the SHA-256 of each part of the content, as of files in a folder."""
        return self._content.files()


def fields_of(line: Line) -> list[str]:
    """Return the names of a reply's fields, and each name with each of its values."""
    names = {field_key(name) for name in line.payload}
    for name, value in line.payload.items():
        names |= {_short(field_key(name, text)) for text in value_texts(value)}
    return sorted(names)


def wanted_keys(name: str, text: str) -> list[str]:
    """Return what may stand for a field with a value: earlier versions shortened no key."""
    key = field_key(name, text)
    return list(dict.fromkeys([_short(key), key]))


def _short(key: str) -> str:
    """Return a key, or its digest where an index of PostgreSQL would not take it."""
    raw = key.encode()
    return key if len(raw) <= LONGEST_KEY else f"sha256 {hashlib.sha256(raw).hexdigest()}"


def field_key(*name_and_text: str) -> str:
    """Return what stands for a field, or for a field with a value."""
    return msgspec.json.encode(name_and_text).decode()
