"""The head of an index: one vector of the views of a reply.

An index scores a reply by the product of its vector with the context's vector x. Of a reply that is
known by its text alone, that vector is the response encoding y. Where replies have titles or
examples, or are answers (`head.ANSWER_WORDS`), it is

    v = a·y + B (u - u_none)      so that      x·v = a·x·y + (Bᵀx)·u - (Bᵀx)·u_none

B whitens context vectors (it is a root of the inverse of their second moment), u is a linear
classifier's weights for the reply among whitened contexts, and u_none those of the class "none of
these", which a background of everyday messages stands for. Since the score stays one product, a
search, exact or approximate, with filters or without, works as for any other index and costs the
same.

The classifier is fitted in two steps: u starts as the mean of the reply's whitened examples (a
linear discriminant, in closed form), and multinomial logistic regression, which a penalty holds
near that start, goes on from there (`regression`). It begins at multiples of the discriminants, or
where the head went that left examples out (`held_out`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rejoinder.arrays import FloatArray, unit_rows
from rejoinder.blas import threads_for
from rejoinder.errors import InputError
from rejoinder.retrieval.encoding.regression import regress
from rejoinder.retrieval.encoding.views import Views
from rejoinder.stores.manifest import HeadRecord
from rejoinder.stores.store import Store

# Chosen on the questions of two public bots; see docs/choices.md.
TEXT_WEIGHT = 0.25
TEXT_WEIGHT_OF_TITLES = 1.0  # where no reply has an example
SENTENCES_WEIGHT = 0.5
"""Of u where replies have neither titles nor examples, beside a text's weight of 1. More gains on
questions, but loses in conversations; see workshop/pretraining-log.md."""
RIDGE = 2.0  # of the second moment, times its mean eigenvalue
NONE_WEIGHT = 0.5  # of the background, as a share of all other examples
MOST_PRODUCTS = 1 << 29
"""Of replies and examples; above, the discriminant is left as it is: a step would take seconds."""
MINIMUM_SCORE = -0.2  # of a search that names none, where too few examples could be left out


@dataclass(frozen=True, slots=True)
class Head:
    """Map from views to vectors of replies: B (d, d) and B·u_none (d,) of the module docstring."""

    whitening: FloatArray
    none: FloatArray
    text_weight: float = TEXT_WEIGHT
    minimum_score: float | None = MINIMUM_SCORE
    word_weight: float = 0.0  # of the overlap of words; see `familiarity`
    density: FloatArray | None = None  # (d, d); see `density`
    typical: float = 0.0

    def with_density(self, density: FloatArray, typical: float) -> Head:
        """Return the head with what makes the scores of messages unlike its examples fall."""
        return replace(self, density=density, typical=typical)

    def of_sentences(self) -> Head:
        """Return the head of replies whose sentences alone count beside their texts."""
        whitening = SENTENCES_WEIGHT * self.whitening
        none = SENTENCES_WEIGHT * self.none
        return Head(whitening, none, text_weight=1.0, minimum_score=None)

    def whitened(self, vectors: FloatArray) -> FloatArray:
        """Return whitened context vectors, of length 1: (n, d)."""
        return unit_rows(vectors @ self.whitening)

    def discriminants(self, views: Views, count: int) -> FloatArray:
        """Return the u of `count` replies in closed form: (count, d), of length 1 (no view: 0)."""
        return _means(self.whitened(views.vectors), views.owners, views.weights, count)

    def vectors(self, weights: FloatArray, responses: FloatArray) -> FloatArray:
        """Return the vectors (n, d) of replies of some u and y."""
        return np.asarray(
            self.text_weight * responses + weights @ self.whitening.T - self.none, dtype=np.float32
        )


def read_head(store: Store, record: HeadRecord) -> Head:
    """Read the head of an index; a file that is missing or altered is an InputError."""
    from safetensors.numpy import load

    content = store.read_file(record.file)
    if len(content) != record.size or hashlib.sha256(content).hexdigest() != record.digest:
        raise InputError(
            f"{record.file} of {store} was altered after it was written; build the index again or "
            "copy it again"
        )
    tensors = load(content)
    head = Head(tensors["whitening"], tensors["none"], record.text_weight)
    if "density" not in tensors:
        return head
    return head.with_density(tensors["density"], float(tensors["typical"][0]))


class FittedHead(NamedTuple):
    """A head and the u of its replies, and where the regression moved them."""

    head: Head
    weights: FloatArray  # (count, d)
    moves: FloatArray  # (count + 1, d) from the discriminants of all u and, as the last, of u_none


def fit(
    views: Views, background: FloatArray, count: int, moves: FloatArray | None = None
) -> FittedHead:
    """Fit the head of `count` replies.

    `background` (b, d) are context vectors of messages that belong to no reply. The weights of
    replies without titles and examples stay the discriminant's. `moves` are those of an earlier fit
    to most of the same examples, which saves steps.
    """
    rows = len(views.weights) + len(background)
    with threads_for(rows * background.shape[1] * (len(np.unique(views.owners)) + 1)):
        return _fit(views, background, count, moves)


def _fit(views: Views, background: FloatArray, count: int, moves: FloatArray | None) -> FittedHead:
    """Fit whitening, discriminants and regression; see the module."""
    share = NONE_WEIGHT * float(views.weights.sum()) / len(background)
    whitening = whitening_matrix(
        np.concatenate([views.vectors, background]),
        np.concatenate([views.weights, np.full(len(background), share, np.float32)]),
    )
    length = np.linalg.norm(views.vectors @ whitening, axis=1)
    whitening /= np.sqrt(
        np.average(length**2, weights=views.weights)
    )  # scores are about as great as cosines
    head = Head(whitening, np.zeros(whitening.shape[1], np.float32))
    weights = head.discriminants(views, count)
    rows = head.whitened(background)
    none = unit_rows(rows.mean(axis=0, keepdims=True))
    moved = np.zeros((count + 1, whitening.shape[1]), np.float32)
    taught = np.unique(views.owners[views.weights >= 1])
    if len(taught) * len(views.weights) <= MOST_PRODUCTS:
        fitted_rows = np.append(taught, count)
        own = np.isin(views.owners, taught)
        classes = np.searchsorted(taught, views.owners[own])
        start = np.concatenate([weights[taught], none])
        fitted = regress(
            np.concatenate([head.whitened(views.vectors[own]), rows]),
            np.concatenate([classes, np.full(len(rows), len(taught))]),
            np.concatenate([views.weights[own], np.full(len(rows), share, np.float32)]),
            start,
            None if moves is None else start + moves[fitted_rows],
        )
        moved[fitted_rows] = fitted - start
        weights[taught] = fitted[:-1]
        none = fitted[-1:]
    return FittedHead(Head(whitening, (none @ whitening.T)[0]), weights, moved)


def whitening_matrix(vectors: FloatArray, weights: FloatArray) -> FloatArray:
    """Return a root of the inverse of the second moment, to which a ridge is added: (d, d)."""
    # The ridge is far above what float32 loses in the sums; float64 takes three times as long.
    sums = vectors.T @ (vectors * weights[:, None].astype(np.float32))
    moment = sums.astype(np.float64) / weights.sum()
    size = len(moment)
    moment += RIDGE * np.trace(moment) / size * np.eye(size)
    return np.linalg.cholesky(np.linalg.inv(moment)).astype(np.float32)


def _means(
    rows: FloatArray, owners: npt.NDArray[np.int64], weights: FloatArray, count: int
) -> FloatArray:
    """Return the weighted means of each owner's rows, of length 1: (count, d)."""
    sums = np.zeros((count, rows.shape[1]), np.float32)
    np.add.at(sums, owners, rows * weights[:, None])
    return unit_rows(sums)
