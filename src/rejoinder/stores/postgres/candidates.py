"""Graphs (HNSW) of pgvector, of vectors in half precision, that name the candidates of a search.

The search effort is pgvector's `ef_search`. Where a filter lets many rows pass, pgvector goes on in
the graph until enough do; where it lets few pass, PostgreSQL finds them by the index of their
fields, and compares all of them.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rejoinder.arrays import FloatArray
from rejoinder.errors import InputError
from rejoinder.progress import Track
from rejoinder.stores.database.candidates import (
    DatabaseCandidates,
    GraphQuestion,
    left_out,
    measured,
    unmeasured,
)
from rejoinder.stores.database.segment import StoredRow
from rejoinder.stores.manifest import ApproximateRecord
from rejoinder.stores.postgres.connections import Connections, pipelined
from rejoinder.stores.postgres.segments import (
    SegmentTable,
    lost_named,
    make_own_table,
    wanted_keys,
)
from rejoinder.stores.postgres.vectors import packed
from rejoinder.stores.scan import Rows
from rejoinder.stores.store import UnreachableError

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

LINKS = 24  # of a row in the graph; twice as many in its lowest layer
# rows from which its links are chosen: 32 links of 128 take as long to make and more room, and a
# search with as much recall sees a tenth more rows
EF_CONSTRUCTION = 192
FEW = 20_000  # rows that pass a filter, which are then compared one by one
TOGETHER = 4  # connections of one search at most: a message is searched for by its parts
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
            row = connection.execute(query, (address.schema,)).fetchone()
        if row is None:
            raise InputError(
                f'{address.shown} has lost its graphs; `rejoinder index tune "{address.shown}"` '
                "makes them again, --method exact goes on without them"
            )

    def _ask(
        self, questions: Sequence[GraphQuestion], effort: int
    ) -> list[Mapping[int, StoredRow]]:
        """Ask; once more if connections break meanwhile, which a later one may not."""
        opened: list[psycopg.Connection[Any]] = []
        breaks = self.connections.breaks
        try:
            return self._ask_once(questions, effort, opened)
        except UnreachableError:
            if not opened or self.connections.breaks != breaks:  # it is away, or it hangs
                raise
            return self._ask_once(questions, effort, [])

    def _ask_once(
        self,
        questions: Sequence[GraphQuestion],
        effort: int,
        opened: list[psycopg.Connection[Any]],
    ) -> list[Mapping[int, StoredRow]]:
        """Ask all at once, by several connections: PostgreSQL answers each in a process.

        Those that could be opened are added to `opened`.
        """
        if not questions:
            return []
        tables = [question.segment.record.name for question in questions]
        with lost_named(self.connections, tables), contextlib.ExitStack() as stack:
            connections = self._several(stack, min(len(questions), TOGETHER))
            opened += connections
            for connection in connections:
                stack.enter_context(pipelined(connection))
                # in one transaction with the questions, and in one round trip with the first
                connection.execute(_SETTINGS, (str(effort),))
            cursors = [
                connection.execute(*_statement(question), binary=True)
                for question, connection in zip(questions, itertools.cycle(connections))
            ]
            return [
                _table(question).rows_from(cursor.fetchall())
                for question, cursor in zip(questions, cursors, strict=True)
            ]

    def _several(self, stack: contextlib.ExitStack, count: int) -> list[psycopg.Connection[Any]]:
        """Return so many connections, or as many as the server lets in."""
        connections = [stack.enter_context(self.connections.connected())]
        with contextlib.suppress(UnreachableError):
            while len(connections) < count:
                connections.append(stack.enter_context(self.connections.connected()))
        return connections


def _table(question: GraphQuestion) -> SegmentTable:
    assert isinstance(question.segment, SegmentTable)
    return question.segment


def _statement(question: GraphQuestion) -> tuple[sql.Composed, dict[str, Any]]:
    """Return the statement that answers a question, and its values."""
    from psycopg import sql

    rows = question.rows
    [query] = packed(question.vector[None])
    values: dict[str, Any] = {"query": query, "count": question.count}
    conditions: list[sql.Composable] = [sql.SQL("true")]
    for number, (field, texts) in enumerate(rows.conditions or ()):
        name = f"keys{number}"
        conditions.append(sql.SQL("fields && {}").format(sql.Placeholder(name)))
        values[name] = [key for text in texts for key in wanted_keys(field, text)]
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
        table=sql.Identifier(question.segment.record.name),
        conditions=sql.SQL(" AND ").join(conditions),
        distance=distance.format(size=sql.Literal(question.segment.size)),
    )
    return statement, values


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
            if rows.count:
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
    make_own_table(connection, segment)
    table = sql.Identifier(segment.record.name)
    # a vector of half precision, 16 bytes a link in the lowest layer, and what holds them: a graph
    # that does not fit is finished on the disk, many times slower
    needed = segment.count * (2 * size + 16 * 2 * LINKS + 256) * 5 // 4
    memory = min(max(needed, _MEMORY[0]), _MEMORY[1])
    connection.execute(f"SET maintenance_work_mem = '{memory >> 10}kB'")
    graph = (
        f"hnsw ((vector::halfvec({size})) halfvec_ip_ops) "
        f"WITH (m = {LINKS}, ef_construction = {EF_CONSTRUCTION})"
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
