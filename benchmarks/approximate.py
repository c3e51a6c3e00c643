"""Approximate search beside our own exact search and beside FAISS used directly, on real encodings.

Distinct responses of conversations (of each thread's part train) are encoded with a model and
indexed; the contexts are those of other conversations (part test). Half of them choose the effort
of the approximate search, the other half is searched here, one at a time, the programs taking turns
after every 25; before, each searches for them once untimed. Each finds the 30 best:

- exact: the float32 vectors of the index, all of them;
- approximate: the index's file of FAISS nominates, the float32 vectors score; and with the texts of
  the replies;
- FAISS: `IndexHNSWFlat` with the same links, efConstruction and efSearch, built of the same vectors
  in the same order.

Recall is that of the exact search's 30 best scores.

    python benchmarks/approximate.py
    python benchmarks/approximate.py data/*.jsonl.zst --replies 600000
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import rejoinder
from common import write_result
from rejoinder.arrays import FloatArray
from rejoinder.progress import track
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.options import SearchOptions
from rejoinder.stores.ann import EF_CONSTRUCTION, LINKS, library
from rejoinder.stores.scan import Scores, exact_scores, search
from rejoinder.stores.tuning import MEASURED_AT
from texts import read_conversations

TURN = 25
"""Queries after which the next program has its turn."""
Search = Callable[[FloatArray], Scores]
"""The 30 best scores for a vector (1, d)."""


def main() -> None:
    """Measure, print, write `results/approximate.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "data", nargs="*", metavar="DATA", help="examples; none: the chit-chat data set's messages"
    )
    parser.add_argument("--model", default="convert-small")
    parser.add_argument("--replies", type=int, default=50_000, help="at most; drawn at random")
    parser.add_argument("--contexts", type=int, default=1000)
    parser.add_argument("--recall", type=float, default=0.95)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--folder", type=Path, help="what is built is kept there, and raced again by the next call"
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    library().omp_set_num_threads(options.threads)
    replies, contexts = read_conversations(options.data, options.replies, options.contexts)
    with tempfile.TemporaryDirectory() as folder:
        result = measure(
            options.folder or Path(folder), options.model, replies, contexts, options.recall
        )
    show(result)
    asked = {name: value for name, value in vars(options).items() if name != "folder"}
    write_result("approximate", {**asked, "faiss": version("faiss-cpu"), **result})


def measure(
    folder: Path, model: str, replies: Sequence[str], contexts: Sequence[list[str]], recall: float
) -> dict[str, Any]:
    """Build what `folder` does not have yet, and let the searches race."""
    faiss = library()
    encoder: Any = rejoinder.load(model)
    place, graph, building = folder / "index", folder / "faiss.index", dict[str, float]()
    if not place.exists():
        with track("Encoding", len(replies), "replies") as advance:
            building["index"], _ = timed(
                lambda: Index.build(encoder, replies, place, progress=advance)
            )
    index = Index.open(place, encoder)
    rows = index._state.rows
    if index.manifest.approximate is None:
        building["approximate"], _ = timed(
            lambda: index.approximate(recall, contexts[::2], method="hnsw", track=track)
        )
    if not graph.exists():
        direct = faiss.IndexHNSWFlat(rows[0].vectors.shape[1], LINKS, faiss.METRIC_INNER_PRODUCT)
        direct.hnsw.efConstruction = EF_CONSTRUCTION
        with track("Building FAISS's", len(replies), "replies") as advance:
            building["faiss"], _ = timed(lambda: add(direct, rows[0].vectors, advance))
        faiss.write_index(direct, str(graph))
    direct, index = faiss.read_index(str(graph)), Index.open(place, encoder)
    record = index.manifest.approximate
    assert record is not None
    faiss_index: Any = index._state.named
    opening, _ = timed(lambda: faiss_index.file)
    parameters = faiss.SearchParametersHNSW(efSearch=record.effort)
    options = SearchOptions(k=MEASURED_AT, distinct=False)
    programs: dict[str, Search] = {
        "exact": lambda query: search(rows, [query], MEASURED_AT)[0][1],
        "approximate": lambda query: faiss_index.search(rows, [query], MEASURED_AT)[0][1],
        "approximate, with texts": lambda query: np.array(
            [reply.score for reply in index.search_vectors(query, options)[0]]
        ),
        "FAISS": lambda query: exact_scores(
            query, rows[0].vectors[direct.search(query, MEASURED_AT, params=parameters)[1][0]]
        ),
    }
    unscored = partial(direct.search, k=MEASURED_AT, params=parameters)
    queries = [
        vectors for context in contexts[1::2] for vectors in index.encode_contexts([context])
    ]
    return {
        "replies_there": len(replies),
        "size": int(rows[0].vectors.shape[1]),
        "links": LINKS,
        "ef_construction": EF_CONSTRUCTION,
        "ef_search": record.effort,
        "file_bytes": record.size,
        "opening_ms": 1000 * opening,
        "building_seconds": building,
        "queries": len(queries),
        "rows": race(programs, {"FAISS": unscored}, queries),
    }


def add(direct: Any, vectors: FloatArray, advance: Callable[[int], object]) -> None:
    """Add vectors to an index of FAISS."""
    for start in range(0, len(vectors), 4096):
        direct.add(part := np.ascontiguousarray(vectors[start : start + 4096]))
        advance(len(part))


def race(
    programs: dict[str, Search], timed_as: dict[str, Any], queries: Sequence[FloatArray]
) -> list[dict[str, Any]]:
    """Median milliseconds of each program, and its recall of the first one's best scores.

    What is in `timed_as` is timed in place of the program of that name.
    """
    taken: dict[str, list[float]] = {name: [] for name in programs}
    shares: dict[str, list[float]] = {name: [] for name in programs}
    for start in range(0, len(queries), TURN):
        turn = queries[start : start + TURN]
        least = [programs["exact"](query)[-1] - 1e-6 for query in turn]
        for name, program in programs.items():
            shares[name] += [
                float((program(query) >= last).mean())
                for query, last in zip(turn, least, strict=True)
            ]
            taken[name] += [
                1000 * timed(partial(timed_as.get(name, program), query))[0] for query in turn
            ]
    found = []
    for name in programs:
        low, median, high = statistics.quantiles(taken[name], n=20)[::9]
        found.append(
            {
                "search": name,
                "ms": median,
                "ms_of_5_and_95_percent": [low, high],
                "recall": statistics.mean(shares[name]),
            }
        )
    return found


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what came out."""
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def show(result: dict[str, Any]) -> None:
    """Print the table."""
    table = Table("search", "recall@30", "ms", "5 % to 95 %", "times exact", "times FAISS")
    rows = {row["search"]: row for row in result["rows"]}
    for name, row in rows.items():
        low, high = row["ms_of_5_and_95_percent"]
        times = [f"{rows[other]['ms'] / row['ms']:.2f}" for other in ("exact", "FAISS")]
        table.add_row(
            name, f"{row['recall']:.4f}", f"{row['ms']:.3f}", f"{low:.3f} to {high:.3f}", *times
        )
    Console().print(table)
    print({name: value for name, value in result.items() if name != "rows"})


if __name__ == "__main__":
    main()
