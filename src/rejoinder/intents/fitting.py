"""Training of heads on frozen encodings, and cross-validation.

A regression is scikit-learn's; a feed-forward network is trained with PyTorch (`network`).
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from rejoinder.arrays import FloatArray, IntArray
from rejoinder.errors import InputError
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
from rejoinder.intents.sampling import fill_first, shuffled_ranks, text_groups
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
    oos: Encoded | None = None,
    *,
    seed: int = 0,
    advance: Advance = silent,
) -> HeldOut:
    """Train without each of `FOLDS` folds and score that fold.

    One head scores each text out of scope (`oos`), and no head a text that it was trained on.

    Raises:
        InputError: fewer than `FOLDS` different texts.
    """
    if oos is None:
        oos = data.rows(np.arange(0))
    groups, oos_groups = np.split(text_groups((*data.texts, *oos.texts)), [len(data)])
    different = len(np.unique(groups))
    if different < FOLDS:
        raise InputError(
            f"{different} different texts cannot be split into {FOLDS} folds; give more texts"
        )
    fold = folds_of(data.classes, groups, seed)
    oos_fold = oos_folds_of(oos_groups, groups, fold)
    result = HeldOut(
        logits=np.empty(data.targets.shape, dtype=np.float32),
        scores=np.empty((len(data), len(SCORES))),
        oos_scores=np.empty((len(oos), len(SCORES))),
    )
    for number in range(FOLDS):
        inside = fold == number
        outside = oos_fold == number
        fitted = fit(settings, data.rows(np.flatnonzero(~inside)), seed=seed)
        part = held_out(fitted.head, fitted.centroids, data.vectors[inside], oos.vectors[outside])
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


def folds_of(classes: IntArray, groups: IntArray, seed: int) -> IntArray:
    """Return the fold of each text, (n,); texts of one group (`text_groups`) share a fold.

    Each class, and all texts, are spread as evenly as the groups permit: one class after the other,
    its largest groups first, each into the fold with the fewest texts of its classes.
    """
    # scikit-learn's stratified folds refuse data in which every class has fewer texts than folds.
    first, group, sizes = np.unique(
        groups, return_index=True, return_inverse=True, return_counts=True
    )[1:]
    copies = np.split(np.argsort(group, kind="stable"), np.cumsum(sizes)[:-1])
    order = np.lexsort((shuffled_ranks(classes, seed)[first], -sizes, classes[first]))
    counts = np.zeros((FOLDS, classes.max() + 1), dtype=np.int64)
    totals = np.zeros(FOLDS, dtype=np.int64)
    fold = np.empty(len(classes), dtype=np.int64)
    for number in order:
        rows = copies[number]
        chosen = np.lexsort((totals, counts[:, classes[rows]].sum(axis=1)))[0]
        np.add.at(counts[chosen], classes[rows], 1)
        totals[chosen] += len(rows)
        fold[rows] = chosen
    return fold


def oos_folds_of(oos_groups: IntArray, groups: IntArray, folds: IntArray) -> IntArray:
    """Return the fold of each text out of scope, (m,), given their groups (m,).

    A text shares the fold of its copies in scope, which have groups and folds (n,), or of its first
    copy out of scope.
    """
    known = dict(zip(groups.tolist(), folds.tolist(), strict=True))
    places = enumerate(oos_groups.tolist())
    fold_numbers = [known.setdefault(group, position % FOLDS) for position, group in places]
    return np.array(fold_numbers, dtype=np.int64)


def repeated(classes: IntArray, groups: IntArray) -> BoolArray:
    """Return whether each text's intent has another text, (n,); else its fold does not know it.

    Texts of one group (`text_groups`) are one text.
    """
    known = np.unique(np.stack([classes, groups]), axis=1)[0]
    return np.bincount(known)[classes] > 1


def split_validation(data: Encoded, share: float, seed: int) -> tuple[Encoded, Encoded]:
    """Split texts: `share` of each intent for validation, at least one text, never all.

    Equal texts (`text_groups`) are on one side and count once.

    Raises:
        InputError: no intent has two different texts.
    """
    # scikit-learn's stratified splits refuse an intent with one text, and fewer validation texts
    # than intents.
    groups = text_groups(data.texts)
    classes = data.classes[np.unique(groups, return_index=True)[1]]
    counts = np.bincount(classes, minlength=data.targets.shape[1])
    wanted = np.minimum(np.maximum(np.round(share * counts), 1), counts - 1)
    part = (shuffled_ranks(classes, seed) < wanted[classes]).astype(np.int64)[groups]
    fill_first(data.classes, groups, part)
    if not part.any():
        raise InputError(
            "every intent has one text, so none can be held out for early stopping; set patience=0"
        )
    return data.rows(np.flatnonzero(part == 0)), data.rows(np.flatnonzero(part))


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
