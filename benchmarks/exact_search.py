"""A scan in 8 bits beside FAISS's flat float32 index: one query at a time, on real encodings.

Replies are messages, queries contexts. Vectors of 256 numbers are those of the model; those of 512
add each message's vector as a context, and each context's newest message's as a response. The
programs take turns after every query; each finds the 10 best. Of the scan in 8 bits it is counted
for how many queries these are the very ones of float32.

    python benchmarks/exact_search.py python benchmarks/exact_search.py --replies replies.jsonl
    --contexts contexts.jsonl --count 1000000 --sizes 256
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import rejoinder
from common import write_result
from rejoinder.arrays import FloatArray, unit_rows
from rejoinder.conversations import Conversation, read_contexts
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.memory import keep_memory
from rejoinder.retrieval.index import Index
from rejoinder.stores.ann import library
from rejoinder.stores.scan import search
from texts import read_texts
from threads import use_threads

BEST, AT_ONCE = 10, 1024
FLAT, EXACT, SCAN = "FAISS, flat float32", "ours, float32", "ours, 8 bits"


def main() -> None:
    """Measure, print, write `results/exact_search.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--replies", metavar="FILE", help="one a line, as JSON; none: messages of chit-chat"
    )
    parser.add_argument(
        "--contexts",
        metavar="FILE",
        help="a list of messages a line, as JSON; none: further messages",
    )
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument(
        "--queries", type=int, default=1000, help="as many others choose how many are nominated"
    )
    parser.add_argument("--sizes", type=int, nargs="+", choices=(256, 512), default=[256, 512])
    parser.add_argument("--model", default="convert-small")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    library()
    use_threads(options.threads)
    keep_memory()
    replies, contexts = read_texts(
        options.replies, options.contexts, options.count, 2 * options.queries
    )
    model: Any = rejoinder.load(options.model)
    rows, queries = (
        encoded(model, [[text] for text in replies], "response"),
        encoded(model, contexts, "context"),
    )
    results = [
        race(unit_rows(rows[:, :size]), unit_rows(queries[:, :size])) for size in options.sizes
    ]
    for result in results:
        print(result)
    write_result("exact_search", {**vars(options), "faiss": version("faiss-cpu"), "rows": results})


def encoded(model: Any, contexts: Sequence[Sequence[str]], first: str) -> FloatArray:
    """Return the vectors of contexts and of their newest messages as responses, (n, 2·d).

    Those of `first` come before the others.
    """
    parts = [contexts[start : start + AT_ONCE] for start in range(0, len(contexts), AT_ONCE)]
    responses = np.concatenate(
        [model.encode_responses([each[-1] for each in some]) for some in parts]
    )
    both = [np.concatenate([model.encode_contexts(some) for some in parts]), responses]
    return np.concatenate(both if first == "context" else both[::-1], axis=1)


class Numbers(DualEncoder):
    """An encoder whose texts are numbers of rows and of queries."""

    fingerprint, name = "0" * 64, ""

    def __init__(self, rows: FloatArray, queries: FloatArray) -> None:
        self.rows, self.queries = rows, queries

    def encode_responses(self, responses: Sequence[str]) -> FloatArray:
        """(n, d)."""
        return self.rows[[int(text) for text in responses]]

    def encode_contexts(self, contexts: Sequence[Conversation]) -> FloatArray:
        """(n, d)."""
        return self.queries[[int(context[-1]) for context in read_contexts(contexts)]]


def race(rows: FloatArray, queries: FloatArray) -> dict[str, Any]:
    """Return median milliseconds of each program, and the recall of the scan in 8 bits.

    Recall is how often that scan finds what float32 does. Half of the queries choose how many
    replies the scan nominates, the others are raced.
    """
    flat = library().IndexFlatIP(rows.shape[1])
    flat.add(rows)
    half = len(queries) // 2
    with tempfile.TemporaryDirectory() as folder:
        index = Index.build(
            Numbers(rows, queries), map(str, range(len(rows))), Path(folder) / "index"
        )
        start = time.perf_counter()
        record = index.approximate(
            contexts=[[str(number)] for number in range(half)], method="scan"
        )
        making, faiss_index = time.perf_counter() - start, index._state.named
        assert faiss_index is not None
        programs: dict[str, Callable[[FloatArray], Any]] = {
            FLAT: lambda query: flat.search(query, BEST),
            EXACT: lambda query: search(index._state.rows, [query], BEST)[0][0],
            SCAN: lambda query: faiss_index.search(index._state.rows, [query], BEST)[0][0],
        }
        taken: dict[str, list[float]] = {name: [] for name in programs}
        same = []
        for query in queries[half:]:
            found = {}
            for name, program in programs.items():
                start = time.perf_counter()
                found[name] = program(query[None])
                taken[name].append(1000 * (time.perf_counter() - start))
            same.append(np.array_equal(found[SCAN], found[EXACT]))
    medians = {name: statistics.median(each) for name, each in taken.items()}
    return {
        "replies": len(rows),
        "size": rows.shape[1],
        "queries": len(same),
        "nominated": record.effort,
        "ms": medians,
        "times FAISS": medians[FLAT] / medians[SCAN],
        "same ten": statistics.mean(same),
        "making_seconds": making,
        "file_bytes": record.size,
    }


if __name__ == "__main__":
    main()
