"""What a classifier says of texts that it was not trained on, for every training text; labels that look wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rejoinder.errors import InputError
from rejoinder.intents.classifier import probabilities
from rejoinder.intents.data import IntentData
from rejoinder.intents.fitting import Encoded, fit
from rejoinder.intents.out_of_scope import (
    SCORES,
    Centroids,
    Rejection,
    ScoreName,
    choose_rejection,
    scores,
)
from rejoinder.intents.settings import Settings
from rejoinder.ranker import FloatArray

FOLDS = 5
IntArray = npt.NDArray[np.int64]
Scores = dict[ScoreName, npt.NDArray[np.float64]]


@dataclass(frozen=True)
class OutOfFold:
    """Logits and out-of-scope scores of every text by a classifier that was trained without it.

    Attributes:
        logits: of the n training texts, (n, K).
        inside: by score, of the training texts, (n,).
        outside: by score, of the m texts out of scope, (m,).
    """

    logits: FloatArray
    inside: Scores
    outside: Scores


def folds_of(classes: IntArray, folds: int, seed: int) -> IntArray:
    """The fold of each text, (n,): each class's texts spread as evenly as they can be."""
    generator, result, start = np.random.default_rng(seed), np.empty(len(classes), dtype=np.int64), 0
    for number in np.unique(classes):
        rows = generator.permutation(np.flatnonzero(classes == number))
        # A class begins where the one before ended, so that small classes do not all fill the first fold.
        result[rows] = (start + np.arange(len(rows))) % folds
        start += len(rows)
    return result


def out_of_fold(
    settings: Settings,
    data: Encoded,
    outside: FloatArray | None = None,
    *,
    folds: int = FOLDS,
    seed: int = 0,
    advance: Callable[[int], None] | None = None,
) -> OutOfFold:
    """Train once for each fold without it, and look at the fold.

    Args:
        settings: of the classifier.
        data: the training texts.
        outside: vectors of texts out of scope, (m, d); each is scored by one of the classifiers.
        folds: how many.
        seed: of the folds and the trainings.
        advance: called with 1 after each fold.

    Raises:
        InputError: fewer texts than folds.
    """
    if len(data) < folds:
        raise InputError(f"{len(data)} texts cannot be cut into {folds} folds; give more texts")
    outside = np.empty((0, data.vectors.shape[1]), dtype=np.float32) if outside is None else outside
    fold, outer = folds_of(data.classes, folds, seed), np.arange(len(outside)) % folds
    logits = np.empty(data.targets.shape, dtype=np.float32)
    inner_scores: Scores = {name: np.empty(len(data)) for name in SCORES}
    outer_scores: Scores = {name: np.empty(len(outside)) for name in SCORES}
    for number in range(folds):
        kept, held = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        part = data.rows(kept)
        head, centroids = fit(settings, part, seed=seed).head, Centroids.of(part)
        logits[held] = head.logits(data.vectors[held])
        for found, vectors, rows in (
            (inner_scores, data.vectors, held),
            (outer_scores, outside, np.flatnonzero(outer == number)),
        ):
            said = head.logits(vectors[rows])
            for name in SCORES:
                found[name][rows] = scores(name, said, vectors[rows], centroids) if len(rows) else 0.0
        if advance is not None:
            advance(1)
    return OutOfFold(logits, inner_scores, outer_scores)


def choose(found: OutOfFold, classes: IntArray) -> Rejection:
    """Score and threshold by what was found without each text (see `out_of_scope.choose_rejection`)."""
    return choose_rejection(found.inside, found.logits.argmax(axis=1) == classes, found.outside)


@dataclass(frozen=True)
class LabelDoubt:
    """A training text whose label looks wrong.

    Attributes:
        text: it.
        label: what it carries.
        suggested: what the others suggest.
        margin: probability of its label less that of the suggested one, -1 to 0.
    """

    text: str
    label: str
    suggested: str
    margin: float


def doubts(data: IntentData, encoded: Encoded, found: OutOfFold, *, most: int = 20) -> list[LabelDoubt]:
    """Texts that a classifier trained without them is most sure to be of another intent, the surest first.

    The cross-validated margin is the criterion that Northcutt et al. 2021, "Confident Learning", call normalised
    margin, here without normalising.

    Args:
        data: the training texts, each with one intent.
        encoded: the same, encoded.
        found: what was said of them.
        most: how many at most; only those with another intent ahead.
    """
    chances = probabilities(found.logits, encoded.several)
    rows, classes = np.arange(len(encoded)), encoded.classes
    own = chances[rows, classes].copy()
    chances[rows, classes] = -1.0
    others = chances.argmax(axis=1)
    margin = own - chances[rows, others]
    worst = [int(i) for i in np.argsort(margin, kind="stable")[:most] if margin[i] < 0]
    names = data.names
    return [LabelDoubt(data.texts[i], names[classes[i]], names[others[i]], float(margin[i])) for i in worst]
