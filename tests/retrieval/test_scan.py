"""The search is exact: the same answers as brute force, to the last bit, in every form of the vectors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.retrieval import scan
from rejoinder.retrieval.codes import DTYPES, encode_rows
from rejoinder.retrieval.scan import Rows, search


def brute_force(rows, alive, queries, k, minimum):
    """All scores, sorted; nothing clever."""
    answers = []
    for query in queries:
        scores = (rows.astype(np.float64) * query.astype(np.float64)).sum(axis=1)
        good = [i for i in range(len(rows)) if alive[i] and scores[i] >= minimum]
        order = sorted(good, key=lambda i: (-scores[i], i))
        answers.append(([int(i) for i in order[:k]], [float(scores[i]) for i in order[:k]]))
    return answers


def found_by_search(segments, queries, k, minimum):
    return [([int(p) for p in positions], [float(s) for s in scores])
            for positions, scores in search(segments, queries, k, minimum)]


@st.composite
def collections(draw):
    """Rows with ties, near ties and zero vectors, in one to three segments, some deleted; queries among them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    count, size = draw(st.integers(1, 60)), draw(st.sampled_from([1, 2, 3, 16, 65]))
    kinds = draw(st.sampled_from([1, 3, 60]))  # how many different rows there are: few of them, many ties
    table = rng.standard_normal((kinds, size))
    table[rng.random(kinds) < 0.15] = 0
    rows = table[rng.integers(0, kinds, count)]
    nearly = rng.random(count) < 0.3
    rows[nearly] += 1e-5 * rng.standard_normal((int(nearly.sum()), size)) * (rows[nearly] != 0)
    rows = (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)).astype(np.float32)
    queries = np.concatenate([rows[:2], np.eye(size, dtype=np.float32)[:1], np.zeros((1, size), np.float32)])
    alive = rng.random(count) >= draw(st.sampled_from([0.0, 0.3, 1.0]))
    cuts = sorted(draw(st.lists(st.integers(0, count), max_size=2)))
    return rows, alive, np.ascontiguousarray(queries), cuts


def segments_of(rows, alive, cuts, dtype) -> list[Rows]:
    bounds = [0, *[cut for cut in sorted(set(cuts)) if 0 < cut < len(rows)], len(rows)]
    return [Rows(a, rows[a:b], encode_rows(rows[a:b], dtype), None if alive[a:b].all() else alive[a:b])
            for a, b in itertools.pairwise(bounds)]


@pytest.mark.parametrize("dtype", DTYPES)
@settings(deadline=None, max_examples=70)
@given(collections(), st.integers(1, 70), st.sampled_from([-np.inf, 0.0, 0.5, 0.99, 1.5]),
       st.sampled_from([1, 7, 1 << 14]), st.sampled_from([0, 20, 1 << 20]))
def test_search_equals_brute_force(dtype, collection, k, minimum, block, pending) -> None:
    rows, alive, queries, cuts = collection
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "ROWS_AT_ONCE", block)
        patch.setattr(scan, "ROWS_AT_LEAST", 1)
        patch.setattr(scan, "PENDING_AT_MOST", pending)
        patch.setattr(scan, "PENDING_PER_PLACE", 0 if pending == 0 else 4)
        patch.setattr(scan, "QUERIES_AT_ONCE", 3)
        found = found_by_search(segments_of(rows, alive, cuts, dtype), queries, k, minimum)
    assert found == brute_force(rows, alive, queries, k, minimum)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_crowd_of_near_ties_is_ranked_exactly(dtype) -> None:
    """Scores closer together than any small form can tell apart."""
    rng = np.random.default_rng(0)
    center = rng.standard_normal(64)
    rows = center + 1e-4 * rng.standard_normal((3000, 64))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    alive = np.ones(3000, bool)
    query = (center / np.linalg.norm(center)).astype(np.float32)[None]
    found = found_by_search(segments_of(rows, alive, [1000], dtype), query, 10, -np.inf)
    assert found == brute_force(rows, alive, query, 10, -np.inf)


def test_few_exact_rows_are_read(monkeypatch) -> None:
    """The 8-bit scan leaves nearly everything out: else it would be no faster than the exact one."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((20_000, 256)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    read = []
    true = scan.true_scores
    monkeypatch.setattr(scan, "true_scores", lambda query, chosen: read.append(len(chosen)) or true(query, chosen))
    search([Rows(0, rows, encode_rows(rows, "int8"))], rows[:4], 5)
    assert sum(read) < 4 * 100


def test_the_score_of_a_pair_does_not_depend_on_what_is_scored_beside_it() -> None:
    rng = np.random.default_rng(0)
    for size in (1, 7, 128, 129, 513):
        rows = rng.standard_normal((33, size)).astype(np.float32)
        together = scan.true_scores(rows[0], rows)
        alone = [scan.true_scores(rows[0], rows[i : i + 1])[0] for i in range(33)]
        shifted = scan.true_scores(rows[0], np.concatenate([rows[5:], rows])[3:])
        assert together.tolist() == alone
        assert together.tolist() == shifted[-33:].tolist()


def test_nothing_to_search() -> None:
    [(positions, scores)] = search([], np.ones((1, 1), np.float32), 3)
    assert len(positions) == len(scores) == 0
