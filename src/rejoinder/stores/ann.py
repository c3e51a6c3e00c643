"""Approximate search: FAISS names candidates, which the exact float32 vectors then score and order.

A file of FAISS is a graph, HNSW (Malkov and Yashunin 2018), as in ACL19; the clusters of a k-means
(IVF); or a scan, which looks at every reply. All hold 8 bits for each number of a vector; those of
a scan are whole numbers, and so are its queries, since FAISS multiplies these in integers, exactly
and in a third of the time of float32.

The *search effort* is how many replies a search keeps in sight in the graph (efSearch), how many
clusters it visits (nprobe), or how many candidates the scan names. It grows with k, and but for a
scan with the share of replies that were deleted or do not pass a filter. Where a full scan of the
float32 vectors costs no more, it is one; replies that were added after the file was made are always
scanned.
"""

from __future__ import annotations

import contextlib
import functools
import math
import secrets
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.digests import file_digest
from rejoinder.errors import InputError, MissingExtraError
from rejoinder.files import atomic_file
from rejoinder.paths import is_within
from rejoinder.progress import Track
from rejoinder.stores.manifest import ApproximateRecord, Method
from rejoinder.stores.names import FAISS_FILE
from rejoinder.stores.scan import Found, Rows, rescore, search
from rejoinder.stores.tuning import CANDIDATES, MEASURED_AT, tuned

MEASURED_ON = 1000  # texts of replies, where no contexts are given
MOST_IN_GRAPH = 5_000_000
LINKS = 32  # of a reply in the graph (M); twice as many in its lowest layer
EF_CONSTRUCTION = 40  # of the graph: more takes longer and finds no more
LEAST_EFFORT = {"hnsw": 32, "ivf": 1, "scan": 64}
# vectors of contexts from which one product with all float32 rows is faster than scans in turn
SCANNED = 12
TRAINED_ON = 64  # rows for each cluster; FAISS wants 39 at least
ROWS_AT_ONCE = 1 << 12
# bytes up to which a file is compared with its digest when it is opened: a tenth of a second
SMALL = 32 << 20
_FEATURE = (
    "approximate search (`rejoinder index tune INDEX --method exact` goes back to the exact one)"
)


class FaissIndex:
    """Searches with a file of FAISS that `build_file` made."""

    def __init__(self, folder: Path, record: ApproximateRecord) -> None:
        self.folder = folder
        self.record = record

    def search(
        self,
        segments: Sequence[Rows],
        contexts: Sequence[FloatArray],
        k: int,
        minimum: float = -np.inf,
    ) -> Found:
        """Find what `scan.search` finds, or nearly; `segments` are those of the index."""
        covered = [rows for rows in segments if rows.first < self.record.count]
        passing = sum(rows.present for rows in covered)
        search_effort = self._search_effort(k, passing, sum(map(len, contexts)))
        if search_effort is None:
            return search(segments, contexts, k, minimum)
        queries = np.concatenate(contexts)
        count = max(math.ceil(CANDIDATES * k), MEASURED_AT)
        if self.record.method == "scan":
            count = search_effort
            queries = whole_numbers(queries, np.abs(queries).max(axis=1, keepdims=True))
        parameters = self._parameters(search_effort, covered if passing < self.record.count else [])
        _, positions = self.file.search(queries, count, params=parameters)
        rest = segments[len(covered) :]
        newer = (
            search(rest, contexts, k)
            if rest
            else [(np.zeros(0, np.int64), np.zeros(0))] * len(contexts)
        )
        results: Found = []
        end = 0
        for context, (added, _) in zip(contexts, newer, strict=True):
            start = end
            end += len(context)
            candidates = np.unique(positions[start:end])
            candidates = candidates[np.searchsorted(candidates, 0) :]  # -1 where there are no more
            if len(candidates) < min(k, passing):  # the graph led away from what passes
                results += search(segments, [context], k, minimum)
                continue
            best, scores = rescore(
                segments, context, np.concatenate([candidates, np.sort(added)]), k
            )
            results.append((best[scores >= minimum], scores[scores >= minimum]))
        return results

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
        if (
            not is_within(path, self.folder)
            or not path.is_file()
            or path.stat().st_size != self.record.size
        ):
            raise InputError(self._damaged)
        if content and file_digest(path) != self.record.digest:
            raise InputError(self._damaged)
        return path

    @property
    def _damaged(self) -> str:
        return (
            f"{self.folder / self.record.file} is missing or damaged; open the index again if it "
            f"was just changed; else `rejoinder index tune {shlex.quote(str(self.folder))}` makes "
            "the file again, --method exact goes on without it"
        )

    def _search_effort(self, k: int, passing: int, vectors: int) -> int | None:
        """Return the effort of a search for k of those that pass.

        None: a full scan costs no more.
        """
        scan = self.record.method == "scan"
        if not passing or (scan and vectors >= SCANNED):
            return None
        more = max(1, k / MEASURED_AT) * (1 if scan else self.record.count / passing)
        search_effort = math.ceil(self.record.effort * more)
        is_cheaper = search_effort * cost(self.record.method, self.record.count) < self.record.count
        return search_effort if is_cheaper else None

    def _parameters(self, search_effort: int, filtered: Sequence[Rows]) -> Any:
        faiss = library()
        chosen: dict[str, Any] = {}
        if filtered:
            passing = ~np.concatenate([rows.gone for rows in filtered])
            chosen["sel"] = faiss.IDSelectorBitmap(np.packbits(passing, bitorder="little"))
        if self.record.method == "hnsw":
            return faiss.SearchParametersHNSW(efSearch=search_effort, **chosen)
        if self.record.method == "ivf":
            return faiss.SearchParametersIVF(nprobe=search_effort, **chosen)
        return faiss.SearchParameters(**chosen)


def library() -> Any:
    """Return FAISS."""
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError(_FEATURE, "ann") from error
    return faiss


def n_clusters(count: int) -> int:
    """Return into how many clusters so many replies are divided."""
    return max(1, min(round(4 * math.sqrt(count)), count // TRAINED_ON))


def cost(method: Method, count: int) -> float:
    """Return about how many products one step of effort costs.

    A step visits a reply's neighbours, or a cluster, or scores a reply exactly.
    """
    return {"hnsw": 2 * LINKS, "ivf": count / n_clusters(count), "scan": 8}[method]


def whole_numbers(vectors: FloatArray, largest: float | FloatArray) -> FloatArray:
    """Return vectors as whole numbers from -127 to 127 in float32; 127 stands for the `largest`."""
    return np.rint(vectors * (np.float32(127) / np.maximum(largest, np.float32(1e-30))))


def build_file(
    folder: Path,
    segments: Sequence[Rows],
    contexts: Sequence[FloatArray],
    recall: float,
    method: Method | None,
    track: Track,
) -> ApproximateRecord:
    """Write a file of FAISS for the rows of an index; see `Index.approximate`.

    With half of the contexts (m, d) the search is tuned to the `recall`, on the others it is
    measured.
    """
    most = max(map(len, contexts))
    if method == "scan" and most >= SCANNED:
        raise InputError(
            f"{folder}: its model makes {most} vectors of a context, for which the exact search is "
            "faster than a scan "
            "in 8 bits; take hnsw or ivf, or leave the search exact"
        )
    count = sum(rows.count for rows in segments)
    method = method or ("hnsw" if count <= MOST_IN_GRAPH else "ivf")
    file = _trained_file(method, segments, count)
    largest = (
        max(float(np.abs(some).max()) for some in _parts(segments)) if method == "scan" else None
    )
    with track("Building", count, "replies") as advance:
        for some in _parts(segments):
            file.add(some if largest is None else whole_numbers(some, largest))
            advance(len(some))
    name = FAISS_FILE.replace("*", secrets.token_hex(6))
    with atomic_file(folder / name) as part:
        library().write_index(file, str(part))
    del file
    path = folder / name
    record = ApproximateRecord(
        name, path.stat().st_size, file_digest(path), method, count, 0, recall, 0.0, 0
    )
    least = LEAST_EFFORT[method]
    return tuned(FaissIndex(folder, record), segments, contexts, track, least, per_doubling=2)


def _trained_file(method: Method, segments: Sequence[Rows], count: int) -> Any:
    faiss = library()
    size = segments[0].vectors.shape[1]
    if method == "scan":
        kind = faiss.ScalarQuantizer.QT_8bit_direct_signed
        return faiss.IndexScalarQuantizer(size, kind, faiss.METRIC_INNER_PRODUCT)
    if method == "hnsw":
        file = faiss.IndexHNSWSQ(
            size, faiss.ScalarQuantizer.QT_8bit, LINKS, faiss.METRIC_INNER_PRODUCT
        )
        file.hnsw.efConstruction = EF_CONSTRUCTION
    else:
        file = faiss.index_factory(size, f"IVF{n_clusters(count)},SQ8", faiss.METRIC_INNER_PRODUCT)
    step = max(1, count // max(TRAINED_ON * n_clusters(count), ROWS_AT_ONCE))
    file.train(np.concatenate([rows.vectors[::step] for rows in segments]))
    return file


def _parts(segments: Sequence[Rows]) -> Iterator[FloatArray]:
    for rows in segments:
        for start in range(0, rows.count, ROWS_AT_ONCE):
            yield np.asarray(rows.vectors[start : start + ROWS_AT_ONCE])
