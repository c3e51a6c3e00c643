"""Exact search in 8 bits beside FAISS's flat float32 index: one query at a time, on real encodings.

Replies are messages, queries contexts. Vectors of 256 numbers are those of the model; those of 512 add each message's
vector as a context, and each context's newest message's as a response. The programs take turns after every query; each
finds the 10 best. Of the search in 8 bits it is counted for how many queries these are the very ones of float32.

    python benchmarks/exact_search.py
    python benchmarks/exact_search.py --replies replies.jsonl --contexts contexts.jsonl --count 1000000 --sizes 256
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

import rejoinder
from common import read_texts, write_result
from rejoinder.arrays import unit_rows
from rejoinder.memory import keep_memory
from rejoinder.ranker import FloatArray
from rejoinder.retrieval.nomination import library
from rejoinder.retrieval.search import Rows, search
from rejoinder.retrieval.writing import longest_of, small_form

BEST, AT_ONCE = 10, 1024


def main() -> None:
    """Measure, print, write `results/exact_search.json`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replies", metavar="FILE", help="one a line, as JSON; none: messages of chit-chat")
    parser.add_argument("--contexts", metavar="FILE", help="a list of messages a line, as JSON; none: further messages")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--sizes", type=int, nargs="+", choices=(256, 512), default=[256, 512])
    parser.add_argument("--model", default="convert-small")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    library().omp_set_num_threads(options.threads)
    keep_memory()
    replies, contexts = read_texts(options.replies, options.contexts, options.count, options.queries)
    model: Any = rejoinder.load(options.model)
    rows, queries = encoded(model, [[text] for text in replies], "response"), encoded(model, contexts, "context")
    results = [race(unit_rows(rows[:, :size]), unit_rows(queries[:, :size])) for size in options.sizes]
    for result in results:
        print(result)
    write_result("exact_search", {**vars(options), "rows": results})


def encoded(model: Any, contexts: Sequence[Sequence[str]], first: str) -> FloatArray:
    """Return the vectors of contexts and of their newest messages as responses, `first` before the other: (n, 2·d)."""
    parts = [contexts[start : start + AT_ONCE] for start in range(0, len(contexts), AT_ONCE)]
    responses = np.concatenate([model.encode_responses([each[-1] for each in some]) for some in parts])
    both = [np.concatenate([model.encode_contexts(some) for some in parts]), responses]
    return np.concatenate(both if first == "context" else both[::-1], axis=1)


def race(rows: FloatArray, queries: FloatArray) -> dict[str, Any]:
    """Return median milliseconds of each program, and how often 8 bits find what float32 does."""
    flat = library().IndexFlatIP(rows.shape[1])
    flat.add(rows)
    longest = longest_of(rows)
    segments = {dtype: [Rows(0, rows, small_form(rows, dtype), None, longest)] for dtype in ("float32", "int8")}
    programs: dict[str, Any] = {f"ours, {name}": partial(search, each, k=BEST) for name, each in segments.items()}
    programs["FAISS, flat float32"] = lambda contexts: flat.search(contexts[0], BEST)
    taken: dict[str, list[float]] = {name: [] for name in programs}
    same = []
    for query in queries:
        found = {}
        for name, program in programs.items():
            start = time.perf_counter()
            found[name] = program([query[None]])
            taken[name].append(1000 * (time.perf_counter() - start))
        same.append(np.array_equal(found["ours, int8"][0][0], found["ours, float32"][0][0]))
    medians = {name: statistics.median(each) for name, each in taken.items()}
    return {"replies": len(rows), "size": rows.shape[1], "queries": len(queries), "ms": medians,
            "FAISS / ours, int8": medians["FAISS, flat float32"] / medians["ours, int8"],
            "same ten": statistics.mean(same)}  # fmt: skip


if __name__ == "__main__":
    main()
