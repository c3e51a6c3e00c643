"""The density of a message: its likelihood among an index's examples against the background.

Titles and examples have the second moment E of their unit vectors, the background has N. Of two
Gaussians around zero with these moments, ridges added, the logarithm of the ratio of densities is

    q(x) = xᵀ(N⁻¹ - E⁻¹)x / 2      (and a constant)

The scores of all replies to a message fall together where q is below what is typical of an example
that was left out; the order of replies stays. One product of a matrix and a vector says so, however
many examples there are, while the nearest example says less; see docs/choices.md.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rejoinder.arrays import FloatArray, unit_rows
from rejoinder.blas import threads_for
from rejoinder.retrieval.encoding.scoring import Head, read_head
from rejoinder.retrieval.encoding.views import Views
from rejoinder.stores.manifest import HeadRecord
from rejoinder.stores.scan import Scores
from rejoinder.stores.store import Store
from rejoinder.text.background import gibberish

# Chosen on halves of two bots, of bank questions and of commands; see docs/choices.md.
RIDGE = 0.3  # of each moment, times its mean eigenvalue
WEIGHT = 0.5  # in a score, of a standard deviation of the background's q
GIBBERISH_WEIGHT = 10.0
"""Of gibberish in the background's moment: a twentieth of the messages, unlike all others."""
LEAST_EXAMPLES = 10
USUAL = 0.1  # share of examples whose change may lie below a small index's minimum score
TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Density:
    """The change of scores of a message x: min(0, xᵀMx - typical), x of unit length."""

    matrix: FloatArray  # (d, d)
    typical: float

    def changes(self, vectors: FloatArray) -> Scores:
        """Return the changes, none above 0, of the scores of messages with some vectors (n, d)."""
        rows = unit_rows(vectors)
        values = np.einsum("nd,nd->n", rows @ self.matrix, rows).astype(np.float64)
        return np.minimum(values - self.typical, 0.0)


@dataclass(frozen=True, slots=True)
class FittedDensity:
    """A density, and the changes of what it was fitted to, each left out for its own."""

    density: Density
    views: Scores  # (n,) 0 for views that are neither titles nor examples
    background: Scores  # (b,)

    usual_change: float  # that all but USUAL of the examples stay above

    def into(self, head: Head) -> Head:
        """Return a head that has the density."""
        return head.with_density(self.density.matrix, self.density.typical)


def fit_density(views: Views, background: FloatArray, texts: Sequence[str]) -> FittedDensity | None:
    """Fit the density of the titles and examples of an index; None where they are too few.

    `background` (b, d) are the vectors of messages, which are `texts`.
    """
    is_example = views.weights >= 1
    if is_example.sum() < LEAST_EXAMPLES:
        return None
    own = unit_rows(views.vectors[is_example])
    others = unit_rows(background)
    with threads_for((len(own) + len(others)) * own.shape[1] ** 2):
        own_shares = np.full(len(own), 1 / len(own), np.float32)
        other_shares = _shares(texts)
        among_own = _inverse(own, own_shares)
        among_others = _inverse(others, other_shares)
        in_own = _products(own, among_own)
        in_others = _products(others, among_others)
        across_own = _products(own, among_others)
        across_others = _products(others, among_own)
    scale = WEIGHT / max(float((in_others - across_others).std()), TINY)
    of_own = scale * (across_own - _left_out(in_own, own_shares))
    of_others = scale * (_left_out(in_others, other_shares) - across_others)
    typical = float(np.median(of_own))
    changes = np.zeros(len(views.weights))
    changes[is_example] = np.minimum(of_own - typical, 0.0)
    matrix = np.float32(scale) * (among_others - among_own)
    usual = float(np.quantile(changes[is_example], USUAL))
    theirs = np.minimum(of_others - typical, 0.0)
    return FittedDensity(Density(matrix, typical), changes, theirs, usual)


def _shares(texts: Sequence[str]) -> FloatArray:
    """Return the weights (b,) of background messages, which add up to 1."""
    weights = np.array([GIBBERISH_WEIGHT if text in gibberish() else 1.0 for text in texts])
    return np.asarray(weights / weights.sum(), np.float32)


def _inverse(rows: FloatArray, shares: FloatArray) -> FloatArray:
    """Return the inverse of the second moment of unit vectors, with its ridge: (d, d)."""
    size = rows.shape[1]
    moment = rows.T @ (rows * shares[:, None])
    inverse = np.linalg.inv(moment + np.float32(RIDGE / size) * np.eye(size, dtype=np.float32))
    return np.asarray(inverse, np.float32)


def _products(rows: FloatArray, matrix: FloatArray) -> Scores:
    """Return xᵀMx of each row x."""
    return np.einsum("nd,nd->n", rows @ matrix, rows).astype(np.float64)


def _left_out(values: Scores, shares: FloatArray) -> Scores:
    """Return xᵀE⁻¹x of rows x, where each E is without its x; `values` are those with it.

    By the formula of Sherman and Morrison, for the moment of the other rows.
    """
    own = np.minimum(values * shares, 1 - TINY)
    return np.asarray((1 - shares) * values / (1 - own), np.float64)


@functools.lru_cache(maxsize=16)
def read_density(store: Store, record: HeadRecord) -> Density | None:
    """Read the density of an index's head; None: it has none."""
    if not record.density_end:
        return None
    head = read_head(store, record)
    return None if head.density is None else Density(head.density, head.typical)
