"""Exactly equal examples: the first one stays, however many there are.

Each chunk of examples brings a sorted list of 16-byte digests, none twice. A bucket is a range of digests, so many
buckets that one fits the memory; the lists of all chunks within a range are put together, sorted, and what equals its
predecessor is a copy.
"""

from __future__ import annotations

import bisect
import hashlib
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rejoinder.corpora.example import SPLITS, Example, Split
from rejoinder.errors import InputError
from rejoinder.files import atomic_file

DIGEST_BYTES = 16
_PAIR = np.dtype([("high", "<u8"), ("low", "<u8"), ("row", "<u4")])
_COPY = np.dtype([("chunk", "<u4"), ("row", "<u4")])
_SPLIT_BITS = 2


def pair_digest(example: Example) -> bytes:
    """What equal examples have in common: context and response, and the candidates where there are any.

    Two different examples share a digest with a probability of about n² / 2^129 for n examples.

    Raises:
        InputError: a text holds half of a surrogate pair, which no file can hold.
    """
    texts = (*example.context, example.response, *example.candidates)
    try:
        data = "".join(texts).encode()
    except UnicodeEncodeError:
        name = example.id or "without id"
        raise InputError(f"example {name}: a text holds half of a surrogate pair, which is no character") from None
    # With lengths, so that ("a", "b") and ("ab",) differ.
    digest = hashlib.blake2b(array("Q", [len(example.candidates), *map(len, texts)]), digest_size=DIGEST_BYTES)
    digest.update(data)
    return digest.digest()


class PairList:
    """The digests of a chunk of examples, none twice."""

    def __init__(self) -> None:
        self._rows: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, digest: bytes, split: Split, row: int) -> bool:
        """Add an example that is to be this row of this split of the chunk; False if an equal one is there."""
        mine = row << _SPLIT_BITS | SPLITS.index(split)
        before = len(self._rows)
        self._rows.setdefault(digest, mine)
        return len(self._rows) > before

    def save(self, path: Path) -> None:
        """Write them sorted."""
        halves = np.frombuffer(b"".join(self._rows), "<u8").reshape(-1, 2)
        order = np.lexsort((halves[:, 1], halves[:, 0]))
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
    order = np.lexsort((pairs["low"], pairs["high"]))  # stable: equal ones stay in the order of the chunks
    high, low = pairs["high"][order], pairs["low"][order]
    copies = order[1:][(high[1:] == high[:-1]) & (low[1:] == low[:-1])]
    found = np.empty(len(copies), _COPY)
    found["chunk"], found["row"] = chunks[copies], pairs["row"][copies]
    found.sort(order=["chunk", "row"])
    with atomic_file(path) as part, part.open("wb") as file:
        np.save(file, found, allow_pickle=False)
    keys, counts = np.unique(found["chunk"].astype(np.int64) * 4 + (found["row"] & 3), return_counts=True)
    return [(int(key) >> 2, SPLITS[key & 3], int(count)) for key, count in zip(keys, counts, strict=True)]


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
