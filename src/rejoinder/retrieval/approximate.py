"""Approximate search: make the file of FAISS with which an index is searched faster; see `ann`."""

from __future__ import annotations

import itertools
import math
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.conversations import Conversation, check_number
from rejoinder.errors import InputError
from rejoinder.files import atomic_file, file_digest
from rejoinder.progress import Track, no_track
from rejoinder.retrieval.ann import (
    FILE,
    LINKS,
    MEASURED_AT,
    SCANNED,
    TRAINED_ON,
    Nominator,
    cells,
    library,
    whole_numbers,
)
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.manifest import ApproximateRecord, Method
from rejoinder.retrieval.scan import CONTEXTS_AT_ONCE, Found, Rows, search

MEASURED_ON = 1000  # texts of replies, where no contexts are given
MOST_IN_GRAPH = 5_000_000
CARE = 40  # of the graph (efConstruction): more takes longer and finds no more
LEAST_EFFORT = {"hnsw": 32, "ivf": 1, "scan": 64}
ROWS_AT_ONCE = 1 << 12


def approximate(
    index: Index,
    recall: float = 0.95,
    contexts: Sequence[Conversation] | None = None,
    *,
    method: Method | None = None,
    track: Track = no_track,
) -> ApproximateRecord:
    """Make a file of FAISS in the index's folder; all searches use it from now on.

    Args:
        index: holds the replies.
        recall: wanted share, on the average, of the `MEASURED_AT` best replies of an exact search.
        contexts: conversations as those that will be searched for. With half of them the search is tuned to the
            `recall`, on the others it is measured. None: texts of the replies, each as a message.
        method: "hnsw", "ivf" or "scan"; None: the graph, or above `MOST_IN_GRAPH` replies the cells.
        track: shows the progress.

    Raises:
        InputError: the recall is not above 0 and at most 1, there are fewer than two replies or contexts, a context has
            too many vectors for a scan, or FAISS is missing.
    """
    check_number("recall", recall, "it goes from above 0 to 1", math.ulp(0), 1)
    library()
    if contexts is None:
        step = len(index) // MEASURED_ON + 1
        contexts = [[candidate.text] for _, candidate in itertools.islice(index, 0, None, step)]
    if min(len(index), len(contexts)) < 2:
        raise InputError(f"{index.folder}: {len(index)} replies and {len(contexts)} contexts; it needs two of each")
    vectors = index.encode_contexts(contexts)
    if method == "scan" and (most := max(map(len, vectors))) >= SCANNED:
        raise InputError(
            f"{index.folder}: its model makes {most} vectors of a context, for which the exact search is faster than a "
            "scan in 8 bits; take hnsw or ivf, or leave the search exact"
        )
    record = index.replace_file(partial(_build, index.folder, vectors, recall, method, track))
    assert record is not None
    return record


def exact(index: Index) -> None:
    """Remove the file of FAISS from an index: search is exact again."""
    index.replace_file(lambda _: None)


def _build(
    folder: Path,
    contexts: Sequence[FloatArray],
    recall: float,
    method: Method | None,
    track: Track,
    segments: Sequence[Rows],
) -> ApproximateRecord:
    count = sum(len(rows.vectors) for rows in segments)
    method = method or ("hnsw" if count <= MOST_IN_GRAPH else "ivf")
    file = _trained(method, segments, count)
    largest = max(float(np.abs(some).max()) for some in _parts(segments)) if method == "scan" else None
    with track("Building", count, "replies") as advance:
        for some in _parts(segments):
            file.add(some if largest is None else whole_numbers(some, largest))
            advance(len(some))
    name = FILE.replace("*", secrets.token_hex(6))
    with atomic_file(folder / name) as part:
        library().write_index(file, str(part))
    del file
    path = folder / name
    record = ApproximateRecord(name, path.stat().st_size, file_digest(path), method, count, 0, recall, 0.0, 0)
    return _measured(Nominator(folder, record), segments, contexts, track)


def _measured(
    nominator: Nominator, segments: Sequence[Rows], contexts: Sequence[FloatArray], track: Track
) -> ApproximateRecord:
    """Return the record with the least effort that reaches the wanted recall, and the recall on other contexts."""
    record = nominator.record
    with track("Measuring", len(contexts), "contexts") as advance:
        exact: Found = []
        for start in range(0, len(contexts), CONTEXTS_AT_ONCE):
            exact += search(segments, some := contexts[start : start + CONTEXTS_AT_ONCE], MEASURED_AT)
            advance(len(some))
    for step in itertools.count():
        effort = round(LEAST_EFFORT[record.method] * 2 ** (step / 2))
        nominator.record = replace(record, effort=effort)
        if _recall(nominator, segments, contexts[::2], exact[::2]) >= record.wanted:
            break
    recall = _recall(nominator, segments, contexts[1::2], exact[1::2])
    return replace(nominator.record, recall=round(recall, 4), measured_on=len(contexts) // 2)


def _recall(nominator: Nominator, segments: Sequence[Rows], contexts: Sequence[FloatArray], exact: Found) -> float:
    """Return the share of the best that are found, one equal to the last of them as good as that one."""
    found = [nominator.search(segments, [context], MEASURED_AT)[0] for context in contexts]  # many are not scanned
    shares = [(some >= all_[-1]).mean() for (_, some), (_, all_) in zip(found, exact, strict=True)]
    return float(np.mean(shares))


def _trained(method: Method, segments: Sequence[Rows], count: int) -> Any:
    faiss = library()
    size = segments[0].vectors.shape[1]
    if method == "scan":
        kind = faiss.ScalarQuantizer.QT_8bit_direct_signed
        return faiss.IndexScalarQuantizer(size, kind, faiss.METRIC_INNER_PRODUCT)
    if method == "hnsw":
        file = faiss.IndexHNSWSQ(size, faiss.ScalarQuantizer.QT_8bit, LINKS, faiss.METRIC_INNER_PRODUCT)
        file.hnsw.efConstruction = CARE
    else:
        file = faiss.index_factory(size, f"IVF{cells(count)},SQ8", faiss.METRIC_INNER_PRODUCT)
    step = max(1, count // max(TRAINED_ON * cells(count), ROWS_AT_ONCE))
    file.train(np.concatenate([rows.vectors[::step] for rows in segments]))
    return file


def _parts(segments: Sequence[Rows]) -> Iterator[FloatArray]:
    for rows in segments:
        for start in range(0, len(rows.vectors), ROWS_AT_ONCE):
            yield np.asarray(rows.vectors[start : start + ROWS_AT_ONCE])
