"""Vectors as pgvector sends and takes them: raw float32 in network order, behind four bytes.

The library of that name makes an object of each; a segment is read as one array here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rejoinder.arrays import FloatArray

if TYPE_CHECKING:
    import psycopg

_HEADER = 4  # bytes: the number of dimensions, and two that are 0


class Packed(bytes):
    """A vector in pgvector's binary form."""


def packed(vectors: FloatArray) -> Iterator[Packed]:
    """Return vectors (n, d) in pgvector's binary form."""
    header = struct.pack(">HH", vectors.shape[1], 0)
    for row in vectors.astype(">f4"):
        yield Packed(header + row.tobytes())


def unpacked(rows: Iterable[bytes], size: int) -> FloatArray:
    """Return what a query gave of a column of vectors as one array, (n, size)."""
    raw = np.frombuffer(b"".join(rows), dtype=">f4")
    return raw.reshape(-1, size).astype(np.float32)


def register_vectors(connection: psycopg.Connection[Any]) -> None:
    """Let a connection give vectors as bytes, and take `Packed` ones; both in binary form alone."""
    from psycopg.adapt import Dumper, Loader
    from psycopg.pq import Format
    from psycopg.types import TypeInfo

    info = TypeInfo.fetch(connection, "vector")
    if info is None:
        return
    number = info.oid

    class VectorLoader(Loader):
        format = Format.BINARY

        def load(self, data: Any) -> bytes:
            return bytes(data[_HEADER:])

    class VectorDumper(Dumper):
        format = Format.BINARY
        oid = number

        def dump(self, obj: Packed) -> Packed:
            return obj

    info.register(connection)
    connection.adapters.register_loader(number, VectorLoader)
    connection.adapters.register_dumper(Packed, VectorDumper)


def column_types(columns: Sequence[str]) -> list[str]:
    """Return the types that a binary COPY needs of columns of a segment."""
    kinds = {"row": "int4", "line": "text", "fields": "text[]"}
    return [kinds.get(column, "vector") for column in columns]
