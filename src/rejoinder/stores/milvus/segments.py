"""Segments in Milvus: each is a collection, whose rows are read as far as they are used."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.stores.database.segment import DatabaseSegment, StoredRow
from rejoinder.stores.manifest import REPLIES, Manifest
from rejoinder.stores.milvus.collections import MOST_AT_ONCE, Collections
from rejoinder.stores.milvus.values import condition, token_of, vector_of_text

_AT_ONCE = 1000  # rows
_PAGE_BYTES = 16 << 20


class Collected(DatabaseSegment):
    """An open segment in a collection."""

    def __init__(self, collections: Collections, manifest: Manifest, number: int) -> None:
        super().__init__(manifest, number, collections.folder)
        self._collections = collections

    @property
    def collection(self) -> str:
        """The name of its collection."""
        return self._collections.name_of(self.record.name)

    def rows_from(self, found: Sequence[Mapping[str, Any]]) -> dict[int, StoredRow]:
        """Return rows of what a query gave."""
        rows = {}
        for entity in found:
            vector = np.asarray(entity["vector"], np.float32)
            own = vector_of_text(entity["response"]) if self.has_responses else vector
            rows[int(entity["row"])] = StoredRow(entity["line"].encode(), vector, own)
        return rows

    @property
    def columns(self) -> list[str]:
        """The fields of a row."""
        return ["row", "line", "vector", *(["response"] if self.has_responses else [])]

    def _read_lines(self) -> list[bytes]:
        """Read what is stored of all replies."""
        size = self.record.files[REPLIES][0]
        return [line.encode() for line in self._column("line", size)]

    def _read_vectors(self, *, of_texts: bool) -> FloatArray:
        """Read the vectors of all replies, (n, d), or the encodings of their texts."""
        size = 4 * self.size * self.record.count
        rows = (
            [*map(vector_of_text, self._column("response", size))]
            if of_texts
            else self._column("vector", size)
        )
        return np.array(rows, dtype=np.float32).reshape(-1, self.size)

    def _column(self, name: str, size: int) -> list[Any]:
        """Read a column of all rows, of so many bytes together, in few pages: each costs a scan."""
        page = _PAGE_BYTES * self.record.count // max(1, size)
        options: dict[str, Any] = {
            "output_fields": ["row", name],
            "batch_size": min(max(page, _AT_ONCE), MOST_AT_ONCE),
        }
        values: dict[int, Any] = {}
        pages = self._collections.ask(
            "query_iterator", self.collection, filter="row >= 0", **options
        )
        with contextlib.closing(pages):
            while some := pages.next():
                values.update((entity["row"], entity[name]) for entity in some)
        return [values[row] for row in sorted(values)]

    def _fetch(self, rows: Sequence[int]) -> dict[int, StoredRow]:
        """Read some rows."""
        entities = self._collections.ask(
            "get", self.collection, list(rows), output_fields=self.columns
        )
        return self.rows_from(entities)

    def _find_having(self, name: str, wanted: Collection[str]) -> list[int] | None:
        """Return the rows with one of the texts in a field; None: no row has the field."""
        if not self._count(condition([token_of(name)])):
            return None
        having = condition([token_of(name, text) for text in wanted])
        options: dict[str, Any] = {"output_fields": ["row"], "batch_size": _AT_ONCE}
        pages = self._collections.ask("query_iterator", self.collection, filter=having, **options)
        rows: list[int] = []
        with contextlib.closing(pages):
            while some := pages.next():
                rows += [entity["row"] for entity in some]
        return rows

    def _count(self, what: str) -> int:
        [row] = self._collections.ask(
            "query", self.collection, filter=what, output_fields=["count(*)"]
        )
        return int(row["count(*)"])
