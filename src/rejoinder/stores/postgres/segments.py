"""Segments in PostgreSQL: each is a table, whose rows are written once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from rejoinder.arrays import FloatArray
from rejoinder.stores.database.content import Content
from rejoinder.stores.database.segment import DatabaseSegment, StoredRow
from rejoinder.stores.manifest import Manifest
from rejoinder.stores.postgres.connections import Connections
from rejoinder.stores.postgres.vectors import column_types, packed, unpacked
from rejoinder.stores.segments import Line, value_texts

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

_decode = msgspec.json.Decoder(Line).decode


class SegmentTable(DatabaseSegment):
    """An open segment in a table."""

    def __init__(self, connections: Connections, manifest: Manifest, number: int) -> None:
        super().__init__(manifest, number, connections.address.shown)
        self.connections = connections

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
        with self.connections.connected() as connection:
            found = connection.execute(query.format(self._table()), (list(rows),), binary=True)
            return self.rows_from(found.fetchall())

    def _find_having(self, name: str, wanted: Collection[str]) -> list[int] | None:
        """Return the rows with one of the texts in a field; None: no row has the field."""
        from psycopg import sql

        query = sql.SQL("SELECT row FROM {} WHERE fields && %s").format(self._table())
        known = sql.SQL("SELECT EXISTS ({})").format(query)
        keys = [field_key(name, text) for text in wanted]
        with self.connections.connected() as connection:
            if connection.execute(known, ([field_key(name)],)).fetchone() == (False,):
                return None
            return [row for (row,) in connection.execute(query, (keys,), binary=True).fetchall()]

    def _table(self) -> sql.Identifier:
        from psycopg import sql

        return sql.Identifier(self.record.name)

    def _column(self, column: str) -> list[Any]:
        """Read a column of all rows."""
        from psycopg import sql

        query = sql.SQL("COPY (SELECT {} FROM {} ORDER BY row) TO STDOUT (FORMAT BINARY)")
        with (
            self.connections.connected() as connection,
            connection.cursor() as cursor,
            cursor.copy(query.format(sql.Identifier(column), self._table())) as copy,
        ):
            copy.set_types(column_types([column]))
            return [value for (value,) in copy.rows()]


class TableWriter:
    """Takes the replies of a new segment; fulfils `store.SegmentWriter`."""

    def __init__(self, connection: psycopg.Connection[Any], name: str) -> None:
        self._connection = connection
        self._name = name
        self._content = Content()

    def write(
        self, lines: Sequence[bytes], vectors: FloatArray, responses: FloatArray | None
    ) -> None:
        """Add replies as they are stored, their vectors, (n, d), and their texts' encodings."""
        from psycopg import sql

        table = sql.Identifier(self._name)
        first = self._content.rows
        if not first:
            made = sql.SQL(
                "CREATE TABLE {} (row integer PRIMARY KEY, line text NOT NULL, fields text[] NOT "
                "NULL, vector vector({size}) NOT NULL, response vector({size}))"
            )
            self._connection.execute(made.format(table, size=sql.Literal(vectors.shape[1])))
        columns = ["row", "line", "fields", "vector"]
        parts: list[Iterator[Any]] = [
            iter(range(first, first + len(lines))),
            (line.decode() for line in lines),
            (fields_of(_decode(line)) for line in lines),
            packed(vectors),
        ]
        if responses is not None:
            columns.append("response")
            parts.append(packed(responses))
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        query = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(table, names)
        with self._connection.cursor() as cursor, cursor.copy(query) as copy:
            copy.set_types(column_types(columns))
            for values in zip(*parts, strict=True):
                copy.write_row(values)
        self._content.add(lines, vectors, responses)

    def files(self) -> dict[str, tuple[int, str]]:
        """Return the size and the SHA-256 of each part of the content, as of files in a folder."""
        return self._content.files()


def fields_of(line: Line) -> list[str]:
    """Return the names of a reply's fields, and each name with each of its values."""
    found = {field_key(name) for name in line.payload}
    for name, value in line.payload.items():
        found |= {field_key(name, text) for text in value_texts(value)}
    return sorted(found)


def field_key(*name_and_text: str) -> str:
    """Return what stands for a field, or for a field with a value."""
    return msgspec.json.encode(name_and_text).decode()
