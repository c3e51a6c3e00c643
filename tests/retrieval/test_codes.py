"""Each small form of a vector stays within its bound, whatever the vectors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.errors import InputError
from rejoinder.retrieval import codes
from rejoinder.retrieval.codes import DTYPES, Queries, approximate, check_rows, encode_rows, quantize
from rejoinder.retrieval.scan import true_scores


def unit_rows(seed: int, count: int, size: int, spread: float) -> np.ndarray:
    """Random unit rows, some of them zero; a large spread puts nearly all of a row into a few elements."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((count, size)) * np.exp(spread * rng.standard_normal((count, size)))
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    rows[rng.random(count) < 0.1] = 0
    return rows.astype(np.float32)


shapes = {"seed": st.integers(0, 2**32), "count": st.integers(1, 40), "size": st.integers(1, 70),
          "spread": st.sampled_from([0.0, 1.0, 6.0])}


@pytest.mark.parametrize("integer_products", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@settings(deadline=None, max_examples=25)
@given(**shapes)
def test_scores_of_the_scan_are_within_their_bound(dtype, integer_products, seed, count, size, spread) -> None:
    rows, queries = unit_rows(seed, count, size, spread), unit_rows(seed + 1, 3, size, spread)
    with pytest.MonkeyPatch.context() as patch:
        if not integer_products:
            patch.setattr(codes, "integer_products_are_exact", lambda _: False)
        found, bound = approximate(Queries(queries), rows, encode_rows(rows, dtype), slice(0, count))
    wanted = np.stack([true_scores(query, rows) for query in queries])
    assert (np.abs(found.astype(np.float64) - wanted) <= np.float64(bound)).all()


def test_the_bound_is_tight_enough_to_leave_most_rows_out() -> None:
    rows, queries = unit_rows(0, 200, 512, 0.0), unit_rows(1, 4, 512, 0.0)
    widest = {dtype: np.max(approximate(Queries(queries), rows, encode_rows(rows, dtype), slice(0, 200))[1])
              for dtype in DTYPES}
    assert widest["float32"] < 1e-4
    assert widest["float16"] < 1e-3
    assert widest["int8"] < 0.025


@settings(deadline=None, max_examples=25)
@given(**shapes)
def test_quantised_rows_are_half_a_step_away_at_most(seed, count, size, spread) -> None:
    rows = unit_rows(seed, count, size, spread)
    found, scales = quantize(rows)
    assert np.abs(found.astype(int)).max(initial=0) <= 127
    assert (np.abs(rows - found * scales[:, None]) <= 0.5001 * scales[:, None] + 1e-12).all()


def test_processors_that_saturate_8_bit_sums_are_found_out(monkeypatch) -> None:
    import torch

    def saturating(left, right):
        return (left.long() @ right.long()).clamp(-(2**15), 2**15 - 1).int()

    codes.integer_products_are_exact.cache_clear()
    monkeypatch.setattr(torch, "_int_mm", saturating)
    try:
        assert not codes.integer_products_are_exact(512)
    finally:
        codes.integer_products_are_exact.cache_clear()


def test_a_torch_without_8_bit_products_is_found_out(monkeypatch) -> None:
    import torch

    codes.integer_products_are_exact.cache_clear()
    monkeypatch.delattr(torch, "_int_mm")
    try:
        assert not codes.integer_products_are_exact(512)
    finally:
        codes.integer_products_are_exact.cache_clear()


@pytest.mark.parametrize(
    ("row", "told"), [([np.nan, 0], "nan"), ([np.inf, 0], "inf"), ([3, 4], "5"), ([0.5, 0], "0.5")]
)
def test_vectors_that_are_not_unit_vectors_are_refused(row, told) -> None:
    rows = np.array([[1, 0], [0, 0], row], dtype=np.float32)
    with pytest.raises(InputError, match=f"reply 12 has length {told}, not 1"):
        check_rows(rows, "reply", 10)


def test_several_vectors_per_text_are_refused() -> None:
    with pytest.raises(InputError, match=r"shape \(2, 3, 4\)"):
        check_rows(np.zeros((2, 3, 4), np.float32), "context")
