"""Exactly equal examples: the first one stays, however many there are.

Each chunk of examples brings a sorted list of 16-byte digests, none twice. A bucket is a range of digests, so many
buckets that one fits the memory; the lists of all chunks within a range are put together, sorted, and what equals its
predecessor is a copy.
"""

from __future__ import annotations

import bisect
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rejoinder.corpora.example import SPLITS, Split
from rejoinder.files import atomic_file

DIGEST_BYTES = 16
_PAIR = np.dtype([("high", "<u8"), ("low", "<u8"), ("row", "<u4")])
_COPY = np.dtype([("chunk", "<u4"), ("row", "<u4")])
_SPLIT_BITS = 2
_BYTES = pa.list_(pa.large_binary())


def pair_digests(rows: pa.RecordBatch) -> list[bytes]:
    """What equal examples have in common, of each: context and response, and the candidates where there are any.

    Two different examples share a digest with a probability of about n² / 2^129 for n examples.
    """
    # The bytes between the texts are in none of them, since UTF-8 does not use them: ("a", "b") and ("ab",) differ.
    lists = [rows[name].cast(_BYTES) for name in ("context", "candidates") if name in rows.schema.names]
    context, *candidates = [pc.binary_join(list_, pa.scalar(b"\xff", pa.large_binary())) for list_ in lists]
    parts = [context, rows["response"].cast(pa.large_binary()), *candidates]
    texts = pc.binary_join_element_wise(*parts, pa.scalar(b"\xfe", pa.large_binary()))
    return [hashlib.blake2b(text, digest_size=DIGEST_BYTES).digest() for text in texts.to_pylist()]


class PairList:
    """The digests of a chunk of examples, none twice."""

    def __init__(self) -> None:
        self._rows: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, digests: Sequence[bytes], splits: Sequence[int], counts: list[int]) -> npt.NDArray[np.bool_]:
        """Add examples.

        Args:
            digests: of each.
            splits: place in `SPLITS` of the split of each.
            counts: the number of rows that each split of the chunk has; the new ones follow. It is changed.

        Returns:
            Of each example, whether no equal one is there.
        """
        rows, new = self._rows, np.ones(len(digests), np.bool_)
        for place, (digest, split) in enumerate(zip(digests, splits, strict=True)):
            if digest in rows:
                new[place] = False
            else:
                rows[digest] = counts[split] << _SPLIT_BITS | split
                counts[split] += 1
        return new

    def save(self, path: Path) -> None:
        """Write them sorted."""
        halves = np.frombuffer(b"".join(self._rows), "<u8").reshape(-1, 2)
        order = _order(halves[:, 0], halves[:, 1])
        pairs = np.empty(len(order), _PAIR)
        pairs["high"], pairs["low"] = halves[order, 0], halves[order, 1]
        pairs["row"] = np.fromiter(self._rows.values(), np.uint32, len(order))[order]
        np.save(path, pairs, allow_pickle=False)


def find_copies(lists: Sequence[Path], bucket: int, buckets: int, path: Path) -> list[tuple[int, Split, int]]:
    """Find the copies of one bucket.

    Args:
        lists: the digests of all chunks, in the order of the job.
        bucket: number of the bucket, from 0.
        buckets: how many buckets there are.
        path: where the rows of the copies go, for `copies_of`.

    Returns:
        Chunk, split and the number of copies, for those that have any.
    """
    ranges = [_range(list_, bucket, buckets) for list_ in lists]
    pairs = np.concatenate(ranges)
    chunks = np.repeat(np.arange(len(ranges), dtype=np.uint32), [len(range_) for range_ in ranges])
    order = _order(pairs["high"], pairs["low"])  # equal ones stay in the order of the chunks
    high, low = pairs["high"][order], pairs["low"][order]
    copies = order[1:][(high[1:] == high[:-1]) & (low[1:] == low[:-1])]
    found = np.empty(len(copies), _COPY)
    found["chunk"], found["row"] = chunks[copies], pairs["row"][copies]
    found.sort(order=["chunk", "row"])
    with atomic_file(path) as part, part.open("wb") as file:
        np.save(file, found, allow_pickle=False)
    keys, counts = np.unique(found["chunk"].astype(np.int64) * 4 + (found["row"] & 3), return_counts=True)
    return [(int(key) >> 2, SPLITS[key & 3], int(count)) for key, count in zip(keys, counts, strict=True)]


def _order(high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """The order that sorts digests by both halves and leaves equal ones in theirs.

    Most differ in their first half, so it is sorted alone, by a method that is fast and not stable; then again what is
    equal in it.
    """
    order = np.argsort(high)
    same = np.flatnonzero(high[order[1:]] == high[order[:-1]])
    if len(same):
        places = np.union1d(same, same + 1)
        rows = np.sort(order[places])
        order[places] = rows[np.lexsort((low[rows], high[rows]))]
    return order


def copies_of(files: Sequence[Path], chunk: int, split: Split) -> npt.NDArray[np.int64]:
    """Rows of a split of a chunk that are copies, from what `find_copies` wrote for each bucket."""
    rows = []
    for file in files:
        found = np.load(file, mmap_mode="r")
        start, end = (bisect.bisect_left(found["chunk"], number) for number in (chunk, chunk + 1))
        here = np.array(found["row"][start:end], dtype=np.int64)
        rows.append(here[here & 3 == SPLITS.index(split)] >> _SPLIT_BITS)
    return np.concatenate(rows)


def _range(list_: Path, bucket: int, buckets: int) -> npt.NDArray[Any]:
    """The digests of a chunk that fall into a bucket."""
    pairs = np.load(list_, mmap_mode="r")
    # By bisection of the file: numpy's own search would read all of it.
    start, end = (bisect.bisect_left(pairs["high"], number * 2**64 // buckets) for number in (bucket, bucket + 1))
    return np.array(pairs[start:end])
