"""The laws that let the search leave replies out: bounds of a poly-encoder's score, and of its error."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.ranker import ContextVectors
from rejoinder.retrieval import poly_products, poly_search
from rejoinder.retrieval.codes import DTYPES, encode_rows, longest_of
from rejoinder.retrieval.poly_products import PolyQueries, multiply
from rejoinder.retrieval.poly_scores import attend, interval, steepness, true_poly_scores
from rejoinder.retrieval.poly_search import poly_scores


def attended(rows, contexts, present=None):
    """The usual formulation, in float64: softmax, the attended vector, its product with the candidate."""
    logits = np.einsum("nd,qmd->qnm", rows.astype(np.float64), contexts.astype(np.float64))
    if present is not None:
        logits = np.where(present[:, None, :], logits, -np.inf)
    weights = np.exp(logits - logits.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    there = contexts if present is None else np.where(present[..., None], contexts, 0)
    vectors = np.einsum("qnm,qmd->qnd", weights, there.astype(np.float64))
    return np.einsum("qnd,nd->qn", vectors, rows.astype(np.float64))


shapes = {"seed": st.integers(0, 2**32), "count": st.integers(1, 30), "size": st.sampled_from([1, 2, 3, 17, 64]),
          "width": st.integers(1, 9), "scale": st.sampled_from([0.1, 1.0, 8.0])}


def vectors_of(seed, count, size, width, scale, queries=3):
    rng = np.random.default_rng(seed)
    rows = (scale * rng.standard_normal((count, size))).astype(np.float32)
    rows[rng.random(count) < 0.1] = 0
    contexts = (scale * rng.standard_normal((queries, width, size))).astype(np.float32)
    present = rng.random((queries, width)) < 0.6
    present[:, rng.integers(width)] = True
    return rows, contexts, present


@settings(deadline=None, max_examples=60)
@given(**shapes, block=st.sampled_from([1, 5, 1 << 13]), together=st.sampled_from([1, 10, 2048]))
def test_scores_equal_those_of_the_attended_vector(seed, count, size, width, scale, block, together) -> None:
    rows, contexts, present = vectors_of(seed, count, size, width, scale)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(poly_search, "ROWS_AT_ONCE", block)
        patch.setattr(poly_search, "ROWS_AT_LEAST", 1)
        patch.setattr(poly_search, "VECTORS_AT_ONCE", together)
        all_there = poly_scores(rows, ContextVectors(contexts))
        some_there = poly_scores(rows, ContextVectors(contexts, present))
    tolerance = 1e-5 * (1 + scale**2 * size)
    assert all_there == pytest.approx(attended(rows, contexts), rel=1e-4, abs=tolerance)
    assert some_there == pytest.approx(attended(rows, contexts, present), rel=1e-4, abs=tolerance)
    assert true_poly_scores(contexts[0], rows) == pytest.approx(attended(rows, contexts)[0], rel=1e-9, abs=1e-9)


@settings(deadline=None, max_examples=30)
@given(**shapes)
def test_what_stands_in_the_place_of_a_missing_vector_does_not_count(seed, count, size, width, scale) -> None:
    rows, contexts, present = vectors_of(seed, count, size, width, scale)
    other = np.where(present[..., None], contexts, np.float32(np.nan))
    scores = poly_scores(rows, ContextVectors(contexts, present))
    assert (scores == poly_scores(rows, ContextVectors(other, present))).all()
    alone = poly_scores(rows, ContextVectors(contexts[:1][:, present[0]]))
    assert alone[0] == pytest.approx(scores[0], rel=1e-4, abs=1e-5 * (1 + scale**2 * size))


logits_of = st.lists(st.floats(-40, 40), min_size=1, max_size=40)


@settings(deadline=None, max_examples=300)
@given(logits_of)
def test_a_score_lies_between_the_least_and_the_greatest_product(logits) -> None:
    score = float(attend(torch.tensor([logits], dtype=torch.float32)))
    assert min(logits) - 1e-4 <= score <= max(logits) + 1e-4


@settings(deadline=None, max_examples=300)
@given(logits_of)
def test_the_mean_deviation_is_bounded(logits) -> None:
    values = np.array(logits)
    p = np.exp(values - values.max())
    p /= p.sum()
    deviation = (p * np.abs(values - (p * values).sum())).sum()
    assert deviation <= steepness(len(logits)) + 1e-9
    assert deviation <= np.ptp(values) / 2 + 1e-9


@pytest.mark.parametrize("count", [2, 3, 64, 360])
def test_the_bound_of_the_mean_deviation_is_nearly_reached(count) -> None:
    """By one product above all the others, which are equal."""
    above = np.linspace(0, 20, 2001)[:, None]
    values = np.concatenate([above, np.zeros((len(above), count - 1))], axis=1)
    p = np.exp(values - above)
    p /= p.sum(axis=1, keepdims=True)
    deviation = (p * np.abs(values - (p * values).sum(axis=1, keepdims=True))).sum(axis=1).max()
    assert 0.75 * steepness(count) < deviation <= steepness(count)


@settings(deadline=None, max_examples=200)
@given(logits_of, st.floats(0, 5), st.integers(0, 2**32))
def test_scores_of_products_that_are_off_stay_within_their_bound(logits, error, seed) -> None:
    near = torch.tensor([logits], dtype=torch.float32)
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 0.0, 1.0], len(logits))
    true = near[0].double().numpy() + error * signs * 0.999999
    p = np.exp(true - true.max())
    score = (p * true).sum() / p.sum()
    found = interval(near, torch.tensor([error], dtype=torch.float32), 60.0)
    assert abs(float(found.scores[0]) - score) <= float(found.bounds[0])


@pytest.mark.parametrize("integer_products", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@settings(deadline=None, max_examples=25)
@given(**shapes)
def test_products_of_each_form_are_within_their_bound(
    dtype, integer_products, seed, count, size, width, scale
) -> None:
    rows, contexts, _ = vectors_of(seed, count, size, width, scale)
    with pytest.MonkeyPatch.context() as patch:
        if not integer_products:
            patch.setattr(poly_products, "integer_products_are_exact", lambda _: False)
        queries = PolyQueries(list(contexts))
        products = multiply(queries, rows, encode_rows(rows, dtype), slice(0, count), longest_of(rows))
    for query, vectors in enumerate(contexts):
        wanted = rows.astype(np.float64) @ vectors.astype(np.float64).T
        found = products.logits(query, slice(None)).double().numpy()
        errors = products.errors(query).double().numpy()
        assert (np.abs(found - wanted) <= errors[:, None]).all()
        assert (wanted.max(axis=1) <= products.greatest(query).double().numpy() + errors).all()
        assert np.abs(found).max() <= products.largest(query) + 1e-9


def test_the_bound_of_8_bits_is_tight_enough_to_leave_most_rows_out() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((200, 768)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    queries = PolyQueries([rows[:64]])
    errors = multiply(queries, rows, encode_rows(rows, "int8"), slice(0, 200), 1.0).errors(0)
    assert float(errors.max()) < 0.025


def test_a_program_that_allows_fewer_bits_gets_float32_all_the_same() -> None:
    rows = np.random.default_rng(0).standard_normal((300, 256)).astype(np.float32)
    contexts = ContextVectors(rows[None, :64] / 4)
    wanted = poly_scores(rows, contexts)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        found = poly_scores(rows, contexts)
    finally:
        torch.set_float32_matmul_precision(before)
    assert found == pytest.approx(wanted, rel=1e-4, abs=1e-4)


def test_a_small_form_gives_scores_that_are_near() -> None:
    rows, contexts, _ = vectors_of(0, 50, 64, 9, 1.0)
    exact = poly_scores(rows, ContextVectors(contexts))
    assert poly_scores(rows, ContextVectors(contexts), encode_rows(rows, "int8")) == pytest.approx(exact, abs=0.8)
