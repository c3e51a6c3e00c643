"""An index in milvus-lite beside the exact one on disk: recall and speed.

The encodings are real. Half of the contexts are searched for one at a time in both, the ten best,
the other half all at once. Then the database is opened again, by another process, which must have
all of it.

    python benchmarks/milvus.py
    python benchmarks/milvus.py --replies replies.jsonl --contexts contexts.jsonl
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import rejoinder
from common import read_texts, write_result
from rejoinder.progress import track
from rejoinder.retrieval.milvus import Store
from rejoinder.stores.ann import library

BEST = 10
REOPEN = (
    "import sys; from rejoinder.retrieval.milvus import Store;"
    " print(Store.open(sys.argv[1]).count())"
)


def main() -> None:
    """Measure, print, write `results/milvus.json`."""
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
    parser.add_argument("--queries", type=int, default=400)
    parser.add_argument("--model", default="convert-small")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    library().omp_set_num_threads(options.threads)
    replies, contexts = read_texts(
        options.replies, options.contexts, options.count, options.queries
    )
    # Milvus holds no texts above 65,535 bytes
    replies = [reply for reply in replies if len(reply.encode()) < 20_000]
    with tempfile.TemporaryDirectory() as folder:
        result = measure(Path(folder), options.model, replies, contexts)
    print(result)
    write_result("milvus", {**vars(options), **result})


def measure(
    folder: Path, model: str, replies: list[str], contexts: list[list[str]]
) -> dict[str, Any]:
    """Build both, search both, open again."""
    encoder: Any = rejoinder.load(model)
    seconds: dict[str, float] = {}
    start = time.perf_counter()
    exact = rejoinder.Index.build(encoder, replies, folder / "index")
    seconds["index on disk"] = time.perf_counter() - start
    start = time.perf_counter()
    with track("Building", len(replies), "replies") as advance:
        store = Store.build(encoder, replies, folder / "store", progress=advance)
    seconds["index in milvus-lite"] = time.perf_counter() - start
    taken: dict[str, list[float]] = {"exact": [], "milvus-lite": []}
    shares, equal = [], True
    for context in contexts[::2]:
        found = {}
        for name, index in (("exact", exact), ("milvus-lite", store)):
            start = time.perf_counter()
            [found[name]] = index.search([context], BEST, distinct=False)
            taken[name].append(1000 * (time.perf_counter() - start))
        wanted = {reply.position: reply for reply in found["exact"]}
        shares.append(sum(reply.position in wanted for reply in found["milvus-lite"]) / BEST)
        equal &= all(wanted.get(reply.position, reply) == reply for reply in found["milvus-lite"])
    start = time.perf_counter()
    store.search(contexts[1::2], BEST, distinct=False)
    at_once = len(contexts[1::2]) / (time.perf_counter() - start)
    size = sum(path.stat().st_size for path in store.folder.rglob("*") if path.is_file())
    store.close()
    command = [sys.executable, "-c", REOPEN, str(store.folder)]
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    return {
        "replies_there": len(replies),
        "building_seconds": seconds,
        "bytes": size,
        "ms": {name: statistics.median(each) for name, each in taken.items()},
        "queries_a_second_at_once": at_once,
        ("recall@10"): statistics.mean(shares),
        "queries_with_the_very_ten": shares.count(1.0) / len(shares),
        "same_scores": equal,
        "there_after_a_restart": int(again.stdout),
    }


if __name__ == "__main__":
    main()
