"""Candidates of a search that a database names by the graphs (HNSW) of its segments.

They are scored from the float32 vectors, as everywhere. Segments that were added since, and what a
database cannot be asked for, are scanned.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.errors import InputError
from rejoinder.progress import Track
from rejoinder.stores.database.segment import DatabaseSegment, StoredRow
from rejoinder.stores.manifest import ApproximateRecord, Method
from rejoinder.stores.runs import Positions
from rejoinder.stores.scan import Found, Rows, Scores, exact_scores, positions_of, search
from rejoinder.stores.tuning import CANDIDATES, MEASURED_AT, tuned

GRAPHS = "graphs"  # in place of a file's name
LEAST_EFFORT = 40
MOST_READ = 10_000  # rows that are read one by one, instead of a whole segment
MOST_LEFT_OUT = 10_000  # rows that a database is told to leave out by their numbers


@dataclass(frozen=True, slots=True)
class GraphQuestion:
    """A question to a segment's graph: for about `count` rows that pass, nearest to a vector."""

    segment: DatabaseSegment
    rows: Rows
    vector: FloatArray  # (d,)
    count: int


class DatabaseCandidates(ABC):
    """Searches by the graphs of a database; fulfils `candidates.CandidateSearch`."""

    most_effort: int  # that a database takes

    def __init__(self, record: ApproximateRecord) -> None:
        self.record = record

    @abstractmethod
    def _ask(
        self, questions: Sequence[GraphQuestion], effort: int
    ) -> list[Mapping[int, StoredRow]]:
        """Return the rows that answer each question, found with a search effort."""

    @abstractmethod
    def check(self, *, content: bool) -> None:
        """Refuse a database that has no graphs; they are in step with rows that never change."""

    def search(
        self,
        segments: Sequence[Rows],
        contexts: Sequence[FloatArray],
        k: int,
        minimum: float = -np.inf,
    ) -> Found:
        """Find what `scan.search` finds, or nearly; `segments` are those of the index."""
        asked = [rows for rows in segments if self._can_ask(rows)]
        scanned = [rows for rows in segments if not self._can_ask(rows)]
        by_scan: Found = [(np.zeros(0, np.int64), np.zeros(0))] * len(contexts)
        if scanned:
            by_scan = search(scanned, contexts, k)
        effort = math.ceil(self.record.effort * max(1, k / MEASURED_AT))
        whole = [rows for rows in asked if rows.present]
        questions = [
            _question(rows, vector, k)
            for context in contexts
            for rows in whole
            for vector in context
        ]
        answers = iter(self._ask(questions, min(max(effort, 1), self.most_effort)))
        results: Found = []
        for context, others in zip(contexts, by_scan, strict=True):
            parts = [_scored(rows, context, [next(answers) for _ in context], k) for rows in whole]
            results.append(_best(segments, [others, *parts], k, minimum))
        return results

    def _can_ask(self, rows: Rows) -> bool:
        """Return whether a segment has a graph, and the database can be told which rows pass."""
        is_told = rows.conditions is not None or rows.count - rows.present <= MOST_LEFT_OUT
        return rows.first < self.record.count and is_told


def _question(rows: Rows, vector: FloatArray, k: int) -> GraphQuestion:
    segment = rows.source
    assert isinstance(segment, DatabaseSegment)
    count = min(max(math.ceil(CANDIDATES * k), MEASURED_AT), rows.present)
    return GraphQuestion(segment, rows, vector, count)


def _scored(
    rows: Rows, context: FloatArray, answers: Sequence[Mapping[int, StoredRow]], k: int
) -> tuple[Positions, Scores]:
    """Return what a segment's graph named for a context's vectors, with the exact scores."""
    segment = rows.source
    assert isinstance(segment, DatabaseSegment)
    stored_rows = {row: stored for answer in answers for row, stored in answer.items()}
    if len(stored_rows) < min(k, rows.present):  # the graph led away from what passes
        return _scanned(segment, rows, context, k)
    segment.remember(stored_rows)
    numbers = np.array(sorted(stored_rows), dtype=np.int64)
    vectors = np.stack([stored_rows[row].vector for row in numbers.tolist()])
    return rows.first + numbers, exact_scores(context, vectors)


def _scanned(
    segment: DatabaseSegment, rows: Rows, context: FloatArray, k: int
) -> tuple[Positions, Scores]:
    """Score all rows that pass; read them alone if they are few."""
    if rows.present > MOST_READ:
        [result] = search([rows], [context], k)
        return result
    passing = np.flatnonzero(~rows.gone)
    return rows.first + passing, exact_scores(context, segment.vectors_of(passing))


def left_out(rows: Rows) -> Positions:
    """Return the rows that a database is told to leave out, beside those that fail conditions."""
    gone = rows.deleted if rows.conditions is None else rows.gone_before
    return np.zeros(0, np.int64) if gone is None else np.flatnonzero(gone)


def check_method(place: object, method: Method | None) -> None:
    """Refuse what a database does not have."""
    if method not in (None, "hnsw"):
        raise InputError(f"{place}: an index in a database has graphs alone; take hnsw")


def unmeasured(count: int, recall: float) -> ApproximateRecord:
    """Return the record of new graphs of so many replies, for a wanted recall."""
    return ApproximateRecord(GRAPHS, 0, "", "hnsw", count, 0, recall, 0.0, 0)


def measured(
    named: DatabaseCandidates,
    segments: Sequence[Rows],
    contexts: Sequence[FloatArray],
    track: Track,
) -> ApproximateRecord:
    """Return the record with the least effort that reaches the wanted recall; see `tuning`."""
    most = named.most_effort
    return tuned(named, segments, contexts, track, LEAST_EFFORT, per_doubling=4, most=most)


def _best(
    segments: Sequence[Rows], parts: Sequence[tuple[Positions, Scores]], k: int, minimum: float
) -> tuple[Positions, Scores]:
    """Return the best k of what several segments have."""
    numbers = np.concatenate([part for part, _ in parts])
    scores = np.concatenate([part for _, part in parts])
    order = np.lexsort((positions_of(segments, numbers), -scores))[:k]
    order = order[scores[order] >= minimum]
    return numbers[order], scores[order]
