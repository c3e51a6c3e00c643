"""An intent classifier: texts in, intents out, and a refusal of texts that have none of them (see `prediction`)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rejoinder.arrays import unit_rows
from rejoinder.errors import InputError
from rejoinder.intents.data import IntArray, IntentData, TrainingTexts, shuffled_ranks
from rejoinder.intents.encoders import SentenceEncoder
from rejoinder.intents.fitting import Encoded, Head, Logistic, Settings, fit
from rejoinder.intents.prediction import SCORES, Prediction, Rejection, Scores, check_texts, decide, scores
from rejoinder.progress import Advance, Track, no_track, silent
from rejoinder.ranker import FloatArray
from rejoinder.views import Described

FOLDS = 5


@dataclass(frozen=True)
class Centroids:
    """The mean of all training vectors (d,) and the unit vectors from there to the intents' means (K, d)."""

    mean: FloatArray
    directions: FloatArray

    def distances(self, vectors: FloatArray) -> FloatArray:
        """Return how far unit vectors (n, d) are from the nearest centroid's direction, (n,)."""
        nearest: FloatArray = (unit_rows(vectors - self.mean) @ self.directions.T).max(axis=1)
        return 1 - nearest


@dataclass(frozen=True, repr=False)
class IntentClassifier(Described):
    """A trained head on an encoder."""

    encoder: SentenceEncoder
    labels: tuple[str, ...]
    head: Head  # vectors of unit length (n, d) to logits (n, K)
    centroids: Centroids
    settings: Settings
    several: bool = False  # a text may have any number of intents
    rejection: Rejection | None = None
    trained: dict[str, Any] = field(default_factory=dict)  # facts of the training, for the card

    def facts(self) -> Mapping[str, object]:
        """Return what the classifier is shown by."""
        refuses = None if self.rejection is None else f"{self.rejection.score} above {self.rejection.threshold:.3g}"
        return {"intents": len(self.labels), "encoder": self.encoder.name, "size": self.encoder.size,
                "head": type(self.settings).__name__, "several": self.several, "refuses": refuses}  # fmt: skip

    def vectors(self, texts: Sequence[str]) -> FloatArray:
        """Return vectors of unit length, (n, d)."""
        return unit_rows(self.encoder.encode(texts))

    def predict(self, texts: Sequence[str]) -> list[Prediction]:
        """Return the intents of texts; a blank one is an InputError."""
        check_texts(texts)
        vectors = self.vectors(texts)
        distances = self.centroids.distances(vectors)
        return decide(self.head.logits(vectors), distances, self.labels, self.several, self.rejection)


def centroids_of(data: Encoded) -> Centroids:
    """Return the centroids of encoded training texts."""
    mean = data.vectors.mean(axis=0)
    return Centroids(mean, unit_rows(data.targets.T @ (data.vectors - mean)))


def encode_data(
    encoder: SentenceEncoder, data: IntentData, labels: Sequence[str], several: bool = False, advance: Advance = silent
) -> Encoded:
    """Encode texts and number their labels; one that is not among `labels` is an InputError."""
    start, places = time.perf_counter(), {name: place for place, name in enumerate(labels)}
    targets = np.zeros((len(data), len(labels)), dtype=np.float32)
    for row, names in enumerate(data.labels):
        for name in names:
            if name not in places:
                raise InputError(
                    f"the label {name!r} ({data.texts[row][:40]!r}) is not among the {len(labels)} trained"
                )
            targets[row, places[name]] = 1.0
    vectors = unit_rows(encoder.encode(data.texts, advance))
    return Encoded(vectors, targets, several, time.perf_counter() - start)


def train_classifier(
    encoder: SentenceEncoder,
    texts: TrainingTexts,
    settings: Settings | None = None,
    *,
    several: bool = False,
    reject: float | None = None,
    seed: int = 0,
    track: Track = no_track,
) -> IntentClassifier:
    """Encode, train, and choose what is refused as out of scope; nothing is where texts may have `several` intents.

    Texts out of scope choose that: those of the validation part, or those of the training part by cross-validation.
    Where there are none, `reject` is the share of texts in scope that may be refused. `seed` is of everything random.
    """
    names, valid, settings = texts.train.names, None, settings or Logistic()
    with track("Encoding", len(texts.train) + len(texts.valid or ()), "texts") as advance:
        data = encode_data(encoder, texts.train, names, several, advance)
        if texts.valid is not None:
            valid = encode_data(encoder, texts.valid, names, several, advance)
    classifier = train_head(encoder, names, data, settings, valid, seed)
    outside = texts.valid_outside or texts.outside
    if several or (not outside and reject is None):
        return classifier
    vectors = classifier.vectors(outside)
    if valid is not None and (texts.valid_outside or not texts.outside):
        found, classes = held_out(classifier.head, classifier.centroids, valid.vectors, vectors), valid.classes
    else:
        with track("Cross-validating", FOLDS, "folds") as advance:
            found, classes = cross_validate(settings, data, vectors, seed=seed, advance=advance), data.classes
    if reject is None or outside:
        return replace(classifier, rejection=choose_rejection(found, found.logits.argmax(axis=1) == classes))
    threshold = float(np.quantile(found.inside[:, SCORES.index("energy")], 1 - reject))
    return replace(classifier, rejection=Rejection("energy", threshold))


def train_head(
    encoder: SentenceEncoder,
    labels: tuple[str, ...],
    data: Encoded,
    settings: Settings,
    valid: Encoded | None = None,
    seed: int = 0,
) -> IntentClassifier:
    """Train a classifier, which refuses nothing, on texts that are encoded already; see `train_classifier`."""
    start = time.perf_counter()
    fitted = fit(settings, data, valid=valid, seed=seed)
    trained = {
        "texts": len(data),
        "epochs": fitted.epochs,
        "held_out_accuracy": fitted.validation,
        "encoding_seconds": round(data.seconds, 3),
        "training_seconds": round(time.perf_counter() - start, 3),
    }
    return IntentClassifier(encoder, labels, fitted.head, centroids_of(data), settings, data.several, None, trained)


@dataclass(frozen=True)
class HeldOut:
    """Logits (n, K) and scores (n, 3) of texts in scope, and scores (m, 3) of others; no text was trained on."""

    logits: FloatArray
    inside: Scores
    outside: Scores


def held_out(head: Head, centroids: Centroids, inside: FloatArray, outside: FloatArray) -> HeldOut:
    """Return what a head gives for vectors in scope (n, d) and out of scope (m, d)."""
    logits, others = head.logits(inside), head.logits(outside)
    distances = centroids.distances(inside), centroids.distances(outside)
    return HeldOut(logits, scores(logits, distances[0]), scores(others, distances[1]))


def cross_validate(
    settings: Settings, data: Encoded, outside: FloatArray | None = None, *, seed: int = 0, advance: Advance = silent
) -> HeldOut:
    """Train without each of `FOLDS` folds, and look at the fold; each text out of scope is scored by one classifier."""
    if len(data) < FOLDS:
        raise InputError(f"{len(data)} texts cannot be cut into {FOLDS} folds; give more texts")
    outside = np.empty((0, data.vectors.shape[1]), dtype=np.float32) if outside is None else outside
    fold, outer = folds_of(data.classes, seed), np.arange(len(outside)) % FOLDS
    logits = np.empty(data.targets.shape, dtype=np.float32)
    inner_scores, outer_scores = np.empty((len(data), len(SCORES))), np.empty((len(outside), len(SCORES)))
    for number in range(FOLDS):
        part = data.rows(np.flatnonzero(fold != number))
        head = fit(settings, part, seed=seed).head
        found = held_out(head, centroids_of(part), data.vectors[fold == number], outside[outer == number])
        logits[fold == number], inner_scores[fold == number] = found.logits, found.inside
        outer_scores[outer == number] = found.outside
        advance(1)
    return HeldOut(logits, inner_scores, outer_scores)


def folds_of(classes: IntArray, seed: int) -> IntArray:
    """Return the fold of each text, (n,), each class and all texts being spread as evenly as they can be."""
    # scikit-learn's stratified folds refuse data where every class has fewer texts than folds.
    counts = np.bincount(classes)
    return ((np.cumsum(counts) - counts)[classes] + shuffled_ranks(classes, seed)) % FOLDS


def choose_rejection(found: HeldOut, right: npt.NDArray[np.bool_]) -> Rejection:
    """Return the score and threshold with the best mean of in-scope accuracy and out-of-scope recall."""
    best = [best_threshold(found.inside[:, k], right, found.outside[:, k]) for k in range(len(SCORES))]
    place = max(range(len(SCORES)), key=lambda k: best[k][1])
    return Rejection(SCORES[place], best[place][0])


def best_threshold(inside: Scores, right: npt.NDArray[np.bool_], outside: Scores) -> tuple[float, float]:
    """Return the best threshold of one score and that best mean; see `choose_rejection`."""
    marks = np.unique(np.concatenate([inside, outside]))
    # Between two scores that occur, and beyond the ends: nothing, everything.
    cuts = np.concatenate([[marks[0] - 1.0], (marks[:-1] + marks[1:]) / 2, [marks[-1] + 1.0]])
    accepted = np.searchsorted(np.sort(inside[right]), cuts, "right") / len(inside)
    refused = 1.0 - np.searchsorted(np.sort(outside), cuts, "right") / len(outside)
    best = int(np.argmax(accepted + refused))
    return float(cuts[best]), float((accepted[best] + refused[best]) / 2)
