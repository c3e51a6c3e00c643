"""Nomination: a file of FAISS names some replies, which the exact float32 vectors then score and order.

It is a graph, HNSW (Malkov and Yashunin 2018), as in ACL19; the cells of a k-means (IVF); or a scan, which looks at
every reply. All hold 8 bits for each number of a vector; those of a scan are whole numbers, and so are its queries,
since FAISS multiplies these in integers, exactly and in a third of the time of float32. What a search may cost, its
*effort*, is how many replies it keeps in sight in the graph (efSearch), how many cells it visits (nprobe), or how many
replies the scan nominates. It grows with k, and but for a scan with the share of replies that were deleted or do not
pass a filter. Where the float32 vectors of all replies take no longer, those are searched, as they always are of
replies that were added after the file was made.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.errors import InputError, MissingExtraError
from rejoinder.files import file_digest, is_within
from rejoinder.retrieval.manifest import ApproximateRecord, Method
from rejoinder.retrieval.scan import Found, Rows, rescore, search

FILE = "approximate-*.faiss"
MEASURED_AT = 30  # ACL19 gives the recall of the best 30
LINKS = 32  # of a reply in the graph (M); twice as many in its lowest layer
NOMINATED = 1.5  # replies that each vector of a context nominates for each one wanted: 8 bits misplace some
SCANNED = 12  # vectors of contexts from which on one product with all float32 rows is faster than scans one by one
TRAINED_ON = 64  # rows for each cell; FAISS wants 39 at least
SMALL = 32 << 20  # bytes up to which a file is compared with its digest when it is opened: a tenth of a second
_FEATURE = "approximate search (`rejoinder index -o INDEX --exact` goes back to the exact one)"


class Nominator:
    """Searches with a file of FAISS that `approximate` made."""

    def __init__(self, folder: Path, record: ApproximateRecord) -> None:
        self.folder, self.record = folder, record

    def search(
        self, segments: Sequence[Rows], contexts: Sequence[FloatArray], k: int, minimum: float = -np.inf
    ) -> Found:
        """Find what `search.search` finds, or nearly; `segments` are those of the index."""
        covered = [rows for rows in segments if rows.first < self.record.count]
        passing = sum(rows.present for rows in covered)
        effort = self._effort(k, passing, sum(map(len, contexts)))
        if effort is None:
            return search(segments, contexts, k, minimum)
        queries = np.concatenate(contexts)
        nominated = max(math.ceil(NOMINATED * k), MEASURED_AT)
        if self.record.method == "scan":
            nominated, queries = effort, whole_numbers(queries, np.abs(queries).max(axis=1, keepdims=True))
        options = self._options(effort, covered if passing < self.record.count else [])
        _, positions = self.file.search(queries, nominated, params=options)
        rest = segments[len(covered) :]
        newer = search(rest, contexts, k) if rest else [(np.zeros(0, np.int64), np.zeros(0))] * len(contexts)
        found: Found = []
        end = 0
        for context, (more, _) in zip(contexts, newer, strict=True):
            chosen = np.unique(positions[end : (end := end + len(context))])
            chosen = chosen[np.searchsorted(chosen, 0) :]  # -1 where there are no more
            if len(chosen) < min(k, passing):  # the graph led away from what passes
                found += search(segments, [context], k, minimum)
                continue
            best, scores = rescore(segments, context, np.concatenate([chosen, np.sort(more)]), k)
            found.append((best[scores >= minimum], scores[scores >= minimum]))
        return found

    @functools.cached_property
    def file(self) -> Any:
        """The index of FAISS, memory-mapped where the system can."""
        faiss = library()
        path = self.check(content=self.record.size <= SMALL)
        for flags in (faiss.IO_FLAG_MMAP_IFC, 0):
            with contextlib.suppress(RuntimeError):
                return faiss.read_index(str(path), flags)
        raise InputError(self._damaged)

    def check(self, *, content: bool) -> Path:
        """Return the file's path, or raise InputError if it is not the one that was made."""
        path = self.folder / self.record.file
        if not is_within(path, self.folder) or not path.is_file() or path.stat().st_size != self.record.size:
            raise InputError(self._damaged)
        if content and file_digest(path) != self.record.digest:
            raise InputError(self._damaged)
        return path

    @property
    def _damaged(self) -> str:
        return (
            f"{self.folder / self.record.file} is missing or damaged; open the index again if it was just changed; "
            f"else `rejoinder index -o {self.folder} --approximate` makes the file again, --exact goes on without it"
        )

    def _effort(self, k: int, passing: int, vectors: int) -> int | None:
        """Return the effort of a search for k of those that pass; None: the float32 vectors of all cost no more."""
        scan = self.record.method == "scan"
        if not passing or (scan and vectors >= SCANNED):
            return None
        more = max(1, k / MEASURED_AT) * (1 if scan else self.record.count / passing)
        effort = math.ceil(self.record.effort * more)
        return effort if effort * cost(self.record.method, self.record.count) < self.record.count else None

    def _options(self, effort: int, filtered: Sequence[Rows]) -> Any:
        faiss = library()
        chosen: dict[str, Any] = {}
        if filtered:
            gone = [np.zeros(len(rows.vectors), bool) if rows.deleted is None else rows.deleted for rows in filtered]
            chosen["sel"] = faiss.IDSelectorBitmap(np.packbits(~np.concatenate(gone), bitorder="little"))
        if self.record.method == "hnsw":
            return faiss.SearchParametersHNSW(efSearch=effort, **chosen)
        if self.record.method == "ivf":
            return faiss.SearchParametersIVF(nprobe=effort, **chosen)
        return faiss.SearchParameters(**chosen)


def library() -> Any:
    """Return FAISS."""
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError(_FEATURE, "ann") from error
    return faiss


def cells(count: int) -> int:
    """Return into how many cells so many replies are divided."""
    return max(1, min(round(4 * math.sqrt(count)), count // TRAINED_ON))


def cost(method: Method, count: int) -> float:
    """Return how many products one step of effort costs, about: a reply's neighbours, a cell, an exact score."""
    return {"hnsw": 2 * LINKS, "ivf": count / cells(count), "scan": 8}[method]


def whole_numbers(vectors: FloatArray, largest: float | FloatArray) -> FloatArray:
    """Return vectors as whole numbers from -127 to 127, which stands for the `largest`, in float32."""
    return np.rint(vectors * (np.float32(127) / np.maximum(largest, np.float32(1e-30))))
