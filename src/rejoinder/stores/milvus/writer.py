"""The writer of a new segment in Milvus."""

from __future__ import annotations

from collections.abc import Sequence

from rejoinder.arrays import FloatArray
from rejoinder.stores.database.content import Content
from rejoinder.stores.milvus.collections import FLAT, Collections
from rejoinder.stores.milvus.values import (
    LONGEST,
    MOST_TOKENS,
    TOKEN_BYTES,
    stored_row,
    vector_to_text,
)

_LEAST_SIZE = 2  # of a vector, of a collection without replies


class CollectionWriter:
    """Takes the replies of a new segment; fulfils `store.SegmentWriter`."""

    def __init__(self, collections: Collections, collection: str) -> None:
        self.collection = collection
        self._collections = collections
        self._content = Content()

    def write(
        self, lines: Sequence[bytes], vectors: FloatArray, responses: FloatArray | None
    ) -> None:
        """Add replies as they are stored, their vectors, (n, d), and their texts' encodings."""
        first = self._content.rows
        if not first:
            self._create(vectors.shape[1], with_responses=responses is not None)
        rows = [stored_row(first + i, line) for i, line in enumerate(lines)]
        for i, row in enumerate(rows):
            row["vector"] = vectors[i]
            if responses is not None:
                row["response"] = vector_to_text(responses[i])
        self._collections.ask("insert", self.collection, rows)
        self._content.add(lines, vectors, responses)

    def files(self) -> dict[str, tuple[int, str]]:
        """Return the size and the SHA-256 of each part of the content, as of files in a folder."""
        return self._content.files()

    def flush(self) -> None:
        """Let what was written survive a crash; nothing is a collection, too.

        A server keeps what it has acknowledged in a log, and needs seconds to write a segment.
        """
        if not self._content.rows:
            self._create(_LEAST_SIZE, with_responses=True)
        if self._collections.is_embedded:
            self._collections.ask("flush", self.collection)

    def _create(self, size: int, *, with_responses: bool) -> None:
        from pymilvus import DataType

        client = self._collections.client
        schema = client.create_schema(auto_id=False)
        schema.add_field("row", DataType.INT64, is_primary=True)
        schema.add_field("line", DataType.VARCHAR, max_length=LONGEST)
        schema.add_field(
            "fields",
            DataType.ARRAY,
            element_type=DataType.VARCHAR,
            max_capacity=MOST_TOKENS,
            max_length=TOKEN_BYTES,
        )
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=size)
        if with_responses:  # nothing is searched for by these
            schema.add_field("response", DataType.VARCHAR, max_length=LONGEST)
        indexes = client.prepare_index_params()
        indexes.add_index("vector", metric_type="IP", **FLAT)
        options = {"schema": schema, "index_params": indexes, "consistency_level": "Strong"}
        self._collections.ask("create_collection", self.collection, **options)
