"""Training of heads on frozen encodings, and cross-validation.

A regression is scikit-learn's; a feed-forward network is trained with PyTorch (`network`).
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.errors import InputError
from rejoinder.intents.data import IntArray, shuffled_ranks
from rejoinder.intents.heads import (
    Centroids,
    Encoded,
    Head,
    Logistic,
    Settings,
    accuracy,
    head_from,
    sklearn,
)
from rejoinder.intents.refusal import SCORES, BoolArray, HeldOut, scores
from rejoinder.progress import Advance, silent

FOLDS = 5
# logit of a label without training text, as in a fold without an intent's only text
NEVER = -1e4


class Fitted(NamedTuple):
    """A trained head with the centroids of its texts, and facts about its training."""

    head: Head
    centroids: Centroids
    epochs: int  # or steps of L-BFGS
    validation: float | None = None  # accuracy on the validation texts, if any


def fit(
    settings: Settings, data: Encoded, *, valid: Encoded | None = None, seed: int = 0
) -> Fitted:
    """Train a head.

    Without `valid`, a part of `data` is held out if the settings ask for early stopping.
    """
    centroids = Centroids.of(data)
    if isinstance(settings, Logistic):
        head, steps = _fit_logistic(settings, data)
        return Fitted(head, centroids, steps)
    if settings.patience and valid is None:
        data, valid = split_validation(data, settings.held_out, seed)
    from rejoinder.intents.network import fit_network  # with PyTorch, which a regression needs not

    head, epochs = fit_network(settings, data, valid if settings.patience else None, seed)
    return Fitted(
        head, centroids, epochs, accuracy(head, valid) if settings.patience and valid else None
    )


def cross_validate(
    settings: Settings,
    data: Encoded,
    oos_vectors: FloatArray | None = None,
    *,
    seed: int = 0,
    advance: Advance = silent,
) -> HeldOut:
    """Train without each of `FOLDS` folds and score that fold.

    One head scores each text out of scope.
    """
    if len(data) < FOLDS:
        raise InputError(f"{len(data)} texts cannot be split into {FOLDS} folds; give more texts")
    if oos_vectors is None:
        oos_vectors = np.empty((0, data.vectors.shape[1]), dtype=np.float32)
    fold = folds_of(data.classes, seed)
    oos_fold = np.arange(len(oos_vectors)) % FOLDS
    result = HeldOut(
        logits=np.empty(data.targets.shape, dtype=np.float32),
        scores=np.empty((len(data), len(SCORES))),
        oos_scores=np.empty((len(oos_vectors), len(SCORES))),
    )
    for number in range(FOLDS):
        inside = fold == number
        outside = oos_fold == number
        fitted = fit(settings, data.rows(np.flatnonzero(~inside)), seed=seed)
        part = held_out(fitted.head, fitted.centroids, data.vectors[inside], oos_vectors[outside])
        result.logits[inside] = part.logits
        result.scores[inside] = part.scores
        result.oos_scores[outside] = part.oos_scores
        advance(1)
    return result


def held_out(
    head: Head, centroids: Centroids, vectors: FloatArray, oos_vectors: FloatArray
) -> HeldOut:
    """Return a head's outputs for vectors in scope (n, d) and out of scope (m, d)."""
    logits = head.logits(vectors)
    inside = scores(logits, centroids.distances(vectors))
    outside = scores(head.logits(oos_vectors), centroids.distances(oos_vectors))
    return HeldOut(logits, inside, outside)


def folds_of(classes: IntArray, seed: int) -> IntArray:
    """Return the fold of each text, (n,).

    Each class, and all texts, are spread as evenly as possible.
    """
    # scikit-learn's stratified folds refuse data in which every class has fewer texts than folds.
    counts = np.bincount(classes)
    return ((np.cumsum(counts) - counts)[classes] + shuffled_ranks(classes, seed)) % FOLDS


def repeated(classes: IntArray) -> BoolArray:
    """Return whether each text's intent has another text, (n,); else its fold does not know it."""
    return np.bincount(classes)[classes] > 1


def split_validation(data: Encoded, share: float, seed: int) -> tuple[Encoded, Encoded]:
    """Split texts: `share` of each intent for validation, at least one text, never all."""
    # scikit-learn's stratified splits refuse an intent with one text, and fewer validation texts
    # than intents.
    counts = np.bincount(data.classes, minlength=data.targets.shape[1])
    wanted = np.minimum(np.maximum(np.round(share * counts), 1), counts - 1)
    is_valid = shuffled_ranks(data.classes, seed) < wanted[data.classes]
    if not is_valid.any():
        raise InputError(
            "every intent has one text, so none can be held out for early stopping; set patience=0"
        )
    return data.rows(np.flatnonzero(~is_valid)), data.rows(np.flatnonzero(is_valid))


def _fit_logistic(settings: Logistic, data: Encoded) -> tuple[Head, int]:
    """Fit to standardised vectors.

    Standardising is linear, so it is folded into the weights afterwards.
    """
    size = data.vectors.shape[1]
    labels = data.targets.shape[1]
    mean = data.vectors.mean(axis=0)
    spread = data.vectors.std(axis=0)
    # Variance 1/d each, for rows of length 1 on average. Constant components carry
    # no information: factor 0.
    varies = spread > 1e-4 * max(float(spread.max()), 1e-12)
    factor = np.where(varies, 1 / np.where(varies, spread * np.sqrt(size), 1), 0).astype(np.float32)
    x = (data.vectors - mean) * factor
    weight = np.zeros((labels, size))
    bias = np.full(labels, NEVER)
    steps = 0

    def regression(answers: Any, strength: float) -> tuple[FloatArray, FloatArray]:
        nonlocal steps
        model = sklearn("linear_model").LogisticRegression(C=strength, max_iter=settings.iterations)
        # ignore warnings about the iteration limit and few texts
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(x, answers)
        steps = max(steps, int(model.n_iter_.max()))
        return model.coef_, model.intercept_

    if data.multi_label:
        for k, answers in enumerate(data.targets.T > 0):
            if answers.all():
                bias[k] = -NEVER
            elif answers.any():
                weight[[k]], bias[[k]] = regression(answers, settings.strength)
    else:
        known = np.unique(data.classes)
        if len(known) > 2:
            weight[known], bias[known] = regression(data.classes, settings.strength)
        elif len(known) == 2:
            # scikit-learn's has one row w for two classes; with rows -w/2, w/2 the penalty is half
            w, b = regression(data.classes, 2 * settings.strength)
            weight[known] = np.vstack([-w, w]) / 2
            bias[known] = np.hstack([-b, b]) / 2
        else:
            bias[known] = 0.0
    weight *= factor
    tensors = {"layers.0.weight": weight, "layers.0.bias": bias - weight @ mean}
    return head_from(tensors), steps
