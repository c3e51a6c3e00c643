"""Graphs (HNSW) of pgvector, of vectors in half precision, that name the candidates of a search.

The search effort is pgvector's `ef_search`. Where a filter lets many rows pass, pgvector goes on in
the graph until enough do; where it lets few pass, PostgreSQL finds them by the index of their
fields, and compares all of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rejoinder.arrays import FloatArray
from rejoinder.errors import InputError
from rejoinder.progress import Track
from rejoinder.stores.ann import EF_CONSTRUCTION
from rejoinder.stores.database.candidates import (
    DatabaseCandidates,
    left_out,
    measured,
    unmeasured,
)
from rejoinder.stores.database.segment import DatabaseSegment, StoredRow
from rejoinder.stores.manifest import ApproximateRecord
from rejoinder.stores.postgres.connections import Connections
from rejoinder.stores.postgres.segments import SegmentTable, field_key
from rejoinder.stores.postgres.vectors import packed
from rejoinder.stores.scan import Rows

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

LINKS = 32  # of a row in the graph; twice as many in its lowest layer
FEW = 20_000  # rows that pass a filter, which are then compared one by one
_MEMORY = (64 << 20, 4 << 30)  # bytes for making a graph, at least and at most
_MOST_NUMBERS = 4000  # of a vector in a graph of half precision
# Compiling a query (`jit`) takes longer than any search.
_SETTINGS = """SELECT set_config('hnsw.ef_search', %s, true),
  set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('jit', 'off', true)"""


class PostgresCandidates(DatabaseCandidates):
    """Searches by the graphs of an index's tables."""

    most_effort = 1000

    def __init__(self, connections: Connections, record: ApproximateRecord) -> None:
        super().__init__(record)
        self.connections = connections

    def check(self, *, content: bool) -> None:  # noqa: ARG002 (rows never change)
        """Refuse a schema that has no graphs."""
        address = self.connections.address
        query = "SELECT FROM pg_indexes WHERE schemaname = %s AND indexname LIKE '%%-graph' LIMIT 1"
        with self.connections.connected() as connection:
            found = connection.execute(query, (address.schema,)).fetchone()
        if found is None:
            raise InputError(
                f'{address.shown} has lost its graphs; `rejoinder index tune "{address.shown}"` '
                "makes them again, --method exact goes on without them"
            )

    @contextlib.contextmanager
    def _asking(self, effort: int) -> Iterator[psycopg.Connection[Any]]:
        """Yield a connection that searches by this effort."""
        with self.connections.connected() as connection, connection.pipeline():
            # In one transaction with the search, and in one round trip with its first statement.
            connection.execute(_SETTINGS, (str(effort),))
            yield connection

    def _nearest(
        self,
        asked: psycopg.Connection[Any],
        segment: DatabaseSegment,
        rows: Rows,
        vector: FloatArray,
        count: int,
    ) -> dict[int, StoredRow]:
        """Return about `count` rows that pass, nearest to a vector (d,)."""
        from psycopg import sql

        assert isinstance(segment, SegmentTable)
        [query] = packed(vector[None])
        values: dict[str, Any] = {"query": query, "count": count}
        conditions: list[sql.Composable] = [sql.SQL("true")]
        for number, (field, texts) in enumerate(rows.conditions or ()):
            name = f"keys{number}"
            conditions.append(sql.SQL("fields && {}").format(sql.Placeholder(name)))
            values[name] = [field_key(field, text) for text in texts]
        if len(gone := left_out(rows)):
            conditions.append(sql.SQL("row != ALL({})").format(sql.Placeholder("gone")))
            values["gone"] = gone.tolist()
        distance = sql.SQL("(vector::halfvec({size})) <#> (%(query)s::halfvec({size}))")
        if rows.conditions is not None and rows.present <= FEW:
            distance = sql.SQL("vector <#> %(query)s")  # there is no graph of these
        statement = sql.SQL(
            "SELECT row, line, vector, response FROM {table} WHERE {conditions} "
            "ORDER BY {distance} LIMIT %(count)s"
        ).format(
            table=sql.Identifier(segment.record.name),
            conditions=sql.SQL(" AND ").join(conditions),
            distance=distance.format(size=sql.Literal(segment.size)),
        )
        return segment.rows_from(asked.execute(statement, values, binary=True).fetchall())


def build_graphs(
    connection: psycopg.Connection[Any],
    connections: Connections,
    segments: Sequence[Rows],
    contexts: Sequence[FloatArray],
    recall: float,
    track: Track,
) -> ApproximateRecord:
    """Make the graphs of all segments, and measure the search; see `candidates.measured`."""
    count = sum(rows.count for rows in segments)
    with track("Building", count, "replies") as advance:
        for rows in segments:
            segment = rows.source
            assert isinstance(segment, SegmentTable)
            _build_graph(connection, segment)
            advance(rows.count)
    named = PostgresCandidates(connections, unmeasured(count, recall))
    return measured(named, segments, contexts, track)


def _build_graph(connection: psycopg.Connection[Any], segment: SegmentTable) -> None:
    from psycopg import sql

    size = segment.size
    if size > _MOST_NUMBERS:
        raise InputError(
            f"{segment.shown}: vectors of {size} numbers; a graph takes {_MOST_NUMBERS:,}"
        )
    table = sql.Identifier(segment.record.name)
    # a vector of half precision, 16 bytes a link in the lowest layer, and what holds them: a graph
    # that does not fit is finished on the disk, many times slower
    needed = segment.count * (2 * size + 16 * 2 * LINKS + 256) * 5 // 4
    memory = min(max(needed, _MEMORY[0]), _MEMORY[1])
    connection.execute(f"SET maintenance_work_mem = '{memory >> 10}kB'")
    graph = (
        f"hnsw ((vector::halfvec({size})) halfvec_ip_ops) "
        f"WITH (m = {LINKS}, ef_construction = {max(EF_CONSTRUCTION, 2 * LINKS)})"
    )
    for name, method in (("fields", "gin (fields)"), ("graph", graph)):
        index = sql.Identifier(f"{segment.record.name}-{name}")
        connection.execute(sql.SQL("DROP INDEX IF EXISTS {}").format(index))
        made = sql.SQL("CREATE INDEX {} ON {} USING {}")
        _execute_in_one_process_if_need_be(connection, made.format(index, table, sql.SQL(method)))
    connection.execute(sql.SQL("ANALYZE {}").format(table))
    connection.execute("RESET maintenance_work_mem")


def _execute_in_one_process_if_need_be(
    connection: psycopg.Connection[Any], statement: sql.Composed
) -> None:
    """Run a statement, again without parallel workers if these find no room in shared memory.

    A container of Docker has 64 MB of it unless `shm_size` says otherwise.
    """
    from psycopg.errors import DiskFull

    try:
        connection.execute(statement)
    except DiskFull as error:
        if "shared memory" not in (error.diag.message_primary or ""):
            raise
        connection.execute("SET max_parallel_maintenance_workers = 0")
        connection.execute(statement)
        connection.execute("RESET max_parallel_maintenance_workers")
