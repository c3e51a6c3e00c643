"""The share of an index that an exact poly-encoder search must look at, given bounds on scores.

A score sum_i softmax(l)_i·l_i never exceeds max_i l_i. So with the k-th best score s,
- *scored*: the share of replies with max_i l_i >= s. Whoever reads the m lists of products from the
  top down and stops when no unseen reply can reach s (Fagin's threshold algorithm) scores these; so
  does `retrieval.search`;
- *in reach*: the share of replies in cells of a k-means (centre u, radius r) with max_i (c_i·u +
  |c_i|·r) >= s, in the best case, where s is known before. A search that leaves rows out without
  any product must go through these.
The answers are compared with brute force in float64, and the search's time with that of the
products alone.

    python benchmarks/poly_bounds.py INDEX --data DATA

With the index of a model of one vector a context, `--vectors 16` searches with 16 of its vectors:
those of the newest message with 0, 1, 2, ... earlier ones, and of single earlier messages.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

import rejoinder
from common import write_result
from rejoinder.arrays import FloatArray
from rejoinder.encoders.open import open_encoder
from rejoinder.retrieval.options import SearchOptions
from rejoinder.stores.manifest import VECTORS
from rejoinder.stores.scan import Array, exact_scores

AT_ONCE = 1 << 16
BEST = (1, 10, 100)


def main() -> None:
    """Measure, print, write `results/poly_bounds.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("index", type=Path, help="of a poly-encoder, compacted; see --vectors")
    parser.add_argument("--vectors", type=int, help="of each context, where the model gives one")
    parser.add_argument(
        "--data", required=True, help="examples, whose part test has the contexts to search for"
    )
    parser.add_argument("--contexts", type=int, default=50)
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    index = rejoinder.Index.open(options.index)
    [record] = index.manifest.segments
    rows = np.fromfile(index.folder / record.name / VECTORS, dtype="<f4").reshape(record.count, -1)
    examples = list(rejoinder.read_examples(options.data, split="test"))
    order = np.random.default_rng(0).permutation(len(examples))
    long = [c for i in order if 2 * len(c := examples[i].context) > (options.vectors or 0)][
        : options.contexts
    ]
    model = open_encoder(index.manifest.model.locate(index.folder))
    if options.vectors:
        contexts = [
            np.asarray(model.encode_contexts(readings(c, options.vectors)), np.float32)
            for c in long
        ]
    else:
        contexts = list(model.encode_contexts(long))
    result = measure(index, rows, contexts, options.cells)
    print(result)
    print(write_result("poly_bounds", {"threads": options.threads, **result}))


def readings(context: Sequence[str], count: int) -> list[Sequence[str]]:
    """Return parts of a context.

    First its newest message with more and more earlier ones, then single earlier messages.
    """
    ends = [context[-1 - earlier :] for earlier in range(len(context))]
    return [*ends, *([message] for message in context[-2::-1])][:count]


def measure(
    index: rejoinder.Index, rows: FloatArray, contexts: list[FloatArray], count: int
) -> dict[str, object]:
    """Return the shares, for contexts (m, d) among the rows of the index, with so many cells."""
    centres, radii, sizes = cells(rows, count)
    times: dict[str, list[float]] = {"search": [], "products alone": []}
    shares: dict[int, list[tuple[float, float]]] = {k: [] for k in BEST}
    for number, vectors in enumerate(contexts):
        start = time.perf_counter()
        greatest = products(rows, vectors)
        times["products alone"].append(time.perf_counter() - start)
        start = time.perf_counter()
        [found] = index.search_vectors(vectors[None], SearchOptions(k=10, distinct=False))
        times["search"].append(time.perf_counter() - start)
        scores = np.concatenate(
            [exact_scores(vectors, rows[i : i + AT_ONCE]) for i in range(0, len(rows), AT_ONCE)]
        )
        best = np.lexsort((np.arange(len(rows)), -scores))[: max(BEST)]
        if [reply.position for reply in found] != best[:10].tolist():
            raise SystemExit(f"context {number}: the search does not give what brute force does")
        bounds = (centres @ vectors.T + radii[:, None] * np.linalg.norm(vectors, axis=1)).max(
            axis=1
        )
        for k in BEST:
            least = scores[best[k - 1]]
            shares[k].append(
                (float((greatest >= least).mean()), float(sizes[bounds >= least].sum() / len(rows)))
            )
    result: dict[str, object] = {
        "replies": len(rows),
        "size": rows.shape[1],
        "contexts": len(contexts),
        "m": len(contexts[0]),
        "cells": count,
    }
    result |= {f"{what}, ms": float(np.median(seconds)) * 1e3 for what, seconds in times.items()}
    for k in BEST:
        scored, reach = np.mean(shares[k], axis=0)
        result[f"best {k}"] = {
            "scored": scored,
            "scored at most": max(shares[k])[0],
            "in reach": reach,
        }
    return result


def products(rows: FloatArray, vectors: FloatArray) -> FloatArray:
    """Return each row's greatest product with one of the vectors: (n,)."""
    found, by = np.empty(len(rows), dtype=np.float32), torch.from_numpy(vectors.T.copy())
    for start in range(0, len(rows), AT_ONCE):
        found[start : start + AT_ONCE] = (
            (torch.from_numpy(rows[start : start + AT_ONCE]) @ by).amax(1).numpy()
        )
    return found


def cells(rows: FloatArray, count: int) -> tuple[FloatArray, FloatArray, Array]:
    """Divide rows by a k-means of a sample: centres (c, d), radii (c,) and sizes (c,) of cells."""
    from sklearn.cluster import MiniBatchKMeans

    sample = rows[np.random.default_rng(0).permutation(len(rows))[: 50 * count]]
    means = MiniBatchKMeans(count, random_state=0, batch_size=8192, n_init=1, max_iter=10).fit(
        sample
    )
    owner = np.concatenate(
        [means.predict(rows[i : i + AT_ONCE]) for i in range(0, len(rows), AT_ONCE)]
    )
    distances = np.concatenate(
        [
            np.linalg.norm(
                rows[i : i + AT_ONCE] - means.cluster_centers_[owner[i : i + AT_ONCE]], axis=1
            )
            for i in range(0, len(rows), AT_ONCE)
        ]
    )
    radii = np.zeros(count, dtype=np.float32)
    np.maximum.at(radii, owner, distances)
    return means.cluster_centers_, radii, np.bincount(owner, minlength=count)


if __name__ == "__main__":
    main()
