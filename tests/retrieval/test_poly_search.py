"""The search with several vectors a context is exact: the answers of brute force, in every form of the vectors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.errors import InputError
from rejoinder.ranker import ContextVectors
from rejoinder.retrieval import poly_search
from rejoinder.retrieval.codes import DTYPES, encode_rows, longest_of
from rejoinder.retrieval.poly_scores import true_poly_scores
from rejoinder.retrieval.poly_search import search_poly
from rejoinder.retrieval.scan import Rows
from tests.retrieval.test_poly_scores import attended


def brute_force(rows, alive, contexts, k, minimum):
    """All scores, sorted; nothing clever."""
    answers = []
    for query in range(len(contexts)):
        scores = true_poly_scores(contexts.of(query), rows)
        good = [i for i in range(len(rows)) if alive[i] and scores[i] >= minimum]
        order = sorted(good, key=lambda i: (-scores[i], i))[:k]
        answers.append((order, [float(scores[i]) for i in order]))
    return answers


def found_by_search(segments, contexts, k, minimum):
    return [([int(p) for p in positions], [float(s) for s in scores])
            for positions, scores in search_poly(segments, contexts, k, minimum)]


def segments_of(rows, alive, cuts, dtype) -> list[Rows]:
    bounds = [0, *[cut for cut in sorted(set(cuts)) if 0 < cut < len(rows)], len(rows)]
    return [Rows(a, rows[a:b], encode_rows(rows[a:b], dtype), None if alive[a:b].all() else alive[a:b],
                 longest_of(rows[a:b]))
            for a, b in itertools.pairwise(bounds)]


@st.composite
def collections(draw):
    """Rows with ties, near ties and zero vectors, in one to three segments, some deleted; contexts near some."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    count, size = draw(st.integers(1, 60)), draw(st.sampled_from([1, 2, 3, 16, 65]))
    kinds = draw(st.sampled_from([1, 3, 60]))  # how many different rows there are: few of them, many ties
    table = draw(st.sampled_from([0.3, 1.0, 4.0])) * rng.standard_normal((kinds, size))
    table[rng.random(kinds) < 0.15] = 0
    rows = table[rng.integers(0, kinds, count)]
    nearly = rng.random(count) < 0.3
    rows[nearly] += 1e-5 * rng.standard_normal((int(nearly.sum()), size)) * (rows[nearly] != 0)
    rows = rows.astype(np.float32)
    width = draw(st.integers(1, 6))
    vectors = rows[rng.integers(0, count, (3, width))] + 0.1 * rng.standard_normal((3, width, size))
    vectors[rng.random(3) < 0.2] = 0
    present = rng.random((3, width)) < 0.7
    present[:, -1] = True
    alive = rng.random(count) >= draw(st.sampled_from([0.0, 0.3, 1.0]))
    cuts = sorted(draw(st.lists(st.integers(0, count), max_size=2)))
    return rows, alive, ContextVectors(vectors.astype(np.float32), present), cuts


@pytest.mark.parametrize("dtype", DTYPES)
@settings(deadline=None, max_examples=70)
@given(collections(), st.integers(1, 70), st.sampled_from([-np.inf, 0.0, 0.5, 20.0]),
       st.sampled_from([1, 7, 1 << 13]), st.sampled_from([0, 20, 1 << 20]))
def test_search_equals_brute_force(dtype, collection, k, minimum, block, pending) -> None:
    rows, alive, contexts, cuts = collection
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(poly_search, "ROWS_AT_ONCE", block)
        patch.setattr(poly_search, "ROWS_AT_LEAST", 1)
        patch.setattr(poly_search, "ROWS_AGAIN", 5)
        patch.setattr(poly_search, "PENDING_AT_MOST", pending)
        patch.setattr(poly_search, "VECTORS_AT_ONCE", 5)
        found = found_by_search(segments_of(rows, alive, cuts, dtype), contexts, k, minimum)
    assert found == brute_force(rows, alive, contexts, k, minimum)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_best_of_many_are_those_of_the_attended_vector(dtype) -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((9000, 96)).astype(np.float32)
    contexts = rng.standard_normal((2, 16, 96)).astype(np.float32)
    wanted = attended(rows, contexts)
    segments = segments_of(rows, np.ones(9000, bool), [3000], dtype)
    for scores, (positions, found) in zip(wanted, search_poly(segments, ContextVectors(contexts), 10), strict=True):
        assert positions.tolist() == np.argsort(-scores)[:10].tolist()
        assert found == pytest.approx(np.sort(scores)[::-1][:10], rel=1e-9)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_crowd_of_near_ties_is_ranked_exactly(dtype) -> None:
    """Scores closer together than any small form can tell apart."""
    rng = np.random.default_rng(0)
    center = rng.standard_normal(64)
    rows = (center + 1e-4 * rng.standard_normal((1000, 64))).astype(np.float32)
    contexts = ContextVectors((center + 0.1 * rng.standard_normal((1, 5, 64))).astype(np.float32) / 8)
    alive = np.ones(1000, bool)
    found = found_by_search(segments_of(rows, alive, [300], dtype), contexts, 10, -np.inf)
    assert found == brute_force(rows, alive, contexts, 10, -np.inf)


def test_few_exact_rows_are_read_and_few_softmaxes_are_computed(monkeypatch) -> None:
    """Else it would be no faster than scoring all of them."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((30_000, 256)).astype(np.float32)
    contexts = ContextVectors(rows[None, :16] + rng.standard_normal((1, 16, 256)).astype(np.float32))
    read, attended_to = [], []
    true, near = poly_search.true_poly_scores, poly_search.interval
    monkeypatch.setattr(poly_search, "true_poly_scores", lambda c, chosen: read.append(len(chosen)) or true(c, chosen))
    monkeypatch.setattr(poly_search, "interval", lambda *given: attended_to.append(len(given[0])) or near(*given))
    search_poly(segments_of(rows, np.ones(30_000, bool), [], "int8"), contexts, 5)
    assert sum(read) == 5
    assert sum(attended_to) < 8192 + 2000  # the first block, and few more


def test_one_vector_is_the_search_with_one_vector() -> None:
    from rejoinder.retrieval.scan import search

    rng = np.random.default_rng(0)
    rows = rng.standard_normal((500, 32)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    segments = segments_of(rows, np.ones(500, bool), [], "int8")
    for (one, scores), (many, same) in zip(search(segments, rows[:4], 9),
                                           search_poly(segments, ContextVectors(rows[:4, None]), 9), strict=True):
        assert one.tolist() == many.tolist()
        assert same == pytest.approx(scores, rel=1e-12)


def test_nothing_to_search() -> None:
    [(positions, scores)] = search_poly([], ContextVectors(np.ones((1, 1, 1), np.float32)), 3)
    assert len(positions) == len(scores) == 0


@pytest.mark.parametrize(
    ("vectors", "present", "told"),
    [
        (np.ones((2, 3, 4)), np.array([[1, 1, 0], [0, 0, 0]], bool), "context 1 has no vector"),
        (np.ones((1, 3, 5)), None, "size 5; the candidates have 4"),
        (np.full((1, 3, 4), np.nan), None, "context 0 are not finite"),
    ],
)
def test_vectors_that_cannot_be_used_are_refused(vectors, present, told) -> None:
    rows = np.ones((2, 4), np.float32)
    with pytest.raises(InputError, match=told):
        search_poly([Rows(0, rows, {})], ContextVectors(vectors.astype(np.float32), present), 1)


def test_context_vectors_have_three_axes_and_a_mask_of_two() -> None:
    with pytest.raises(ValueError, match="shape"):
        ContextVectors(np.ones((2, 3), np.float32))
    with pytest.raises(ValueError, match="present"):
        ContextVectors(np.ones((2, 3, 4), np.float32), np.ones((2, 4), bool))
