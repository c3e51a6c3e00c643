"""An intent classifier, from texts to intents, and how it is trained.

It refuses texts that have none of the intents (see `refusal`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rejoinder.arrays import FloatArray, unit_rows
from rejoinder.conversations import read_texts
from rejoinder.documents import Described
from rejoinder.encoders.sentence import SentenceEncoder
from rejoinder.errors import InputError
from rejoinder.intents.data import IntentData, TrainingTexts
from rejoinder.intents.fitting import FOLDS, cross_validate, fit, held_out, repeated
from rejoinder.intents.heads import (
    Centroids,
    Encoded,
    Head,
    Logistic,
    Settings,
)
from rejoinder.intents.prediction import Prediction, check_texts, decide
from rejoinder.intents.refusal import (
    BY_HELD_OUT,
    BY_OUTSIDE_FEW,
    BY_OUTSIDE_MISFIT,
    MOST_REFUSED,
    REFUSED,
    Rejection,
    choose_rejection,
    refused_words,
    reject_outside,
)
from rejoinder.intents.sampling import text_groups
from rejoinder.progress import Advance, Track, no_track, silent
from rejoinder.text.messages import clean_messages

# Fewer held-out texts in scope say nothing of a share of `REFUSED`, nor of a best threshold.
MIN_HELD_OUT = 20


@dataclass(frozen=True, repr=False)
class IntentClassifier(Described):
    """A trained head on an encoder."""

    encoder: SentenceEncoder
    labels: tuple[str, ...]
    head: Head  # vectors of unit length (n, d) to logits (n, K)
    centroids: Centroids
    settings: Settings
    multi_label: bool = False  # a text may have any number of intents
    rejection: Rejection | None = None
    trained: dict[str, Any] = field(default_factory=dict)  # facts of the training, for the card

    def facts(self) -> Mapping[str, object]:
        """Return the facts that `repr` shows."""
        refuses = (
            None
            if self.rejection is None
            else " ".join(refused_words(self.rejection.score, self.rejection.threshold, 3))
        )
        return {
            "intents": len(self.labels),
            "encoder": self.encoder.name,
            "size": self.encoder.size,
            "head": type(self.settings).__name__,
            "multi_label": self.multi_label,
            "refuses": refuses,
        }

    def vectors(self, texts: Sequence[str]) -> FloatArray:
        """Return the vectors of texts, cleaned as messages: (n, d), of unit length."""
        return unit_rows(self.encoder.encode(clean_messages(read_texts(texts))))

    def predict(self, texts: Sequence[str]) -> list[Prediction]:
        """Return the intents of texts, cleaned as messages; a blank text is an InputError."""
        check_texts(texts)
        vectors = self.vectors(texts)
        distances = self.centroids.distances(vectors)
        return decide(
            self.head.logits(vectors), distances, self.labels, self.multi_label, self.rejection
        )


def encode_data(
    encoder: SentenceEncoder,
    data: IntentData,
    labels: Sequence[str],
    multi_label: bool = False,
    advance: Advance = silent,
) -> Encoded:
    """Encode texts and number their labels; an unknown label is an InputError."""
    start = time.perf_counter()
    numbers = {name: number for number, name in enumerate(labels)}
    targets = np.zeros((len(data), len(labels)), dtype=np.float32)
    for row, names in enumerate(data.labels):
        for name in names:
            if name not in numbers:
                raise InputError(
                    f"the label {name!r} ({data.texts[row][:40]!r}) is"
                    f" not among the {len(labels)} trained"
                )
            targets[row, numbers[name]] = 1.0
    vectors = unit_rows(encoder.encode(clean_messages(data.texts), advance))
    return Encoded(data.texts, vectors, targets, multi_label, time.perf_counter() - start)


def train_classifier(
    encoder: SentenceEncoder,
    texts: TrainingTexts,
    settings: Settings | None = None,
    *,
    multi_label: bool = False,
    reject: float | None = None,
    seed: int = 0,
    track: Track = no_track,
) -> IntentClassifier:
    """Encode texts, train, and choose the rejection; a `multi_label` classifier has none.

    Texts out of scope choose the rejection: those of the validation part, or those of the training
    part by cross-validation over intents with two or more different texts. `reject` is the share of
    texts in scope that may be refused. By default the best share is chosen, `REFUSED` if the texts
    out of scope are background, and nothing is refused without texts out of scope. If too few
    different texts can be held out, or if the threshold would refuse more than `MOST_REFUSED` of
    the training texts, `reject_outside` chooses the rejection, and `reject` has no effect.
    """
    labels = texts.train.names
    settings = settings or Logistic()
    valid = None
    with track("Encoding", len(texts.train) + len(texts.valid or ()), "texts") as advance:
        train = encode_data(encoder, texts.train, labels, multi_label, advance)
        if texts.valid is not None:
            valid = encode_data(encoder, texts.valid, labels, multi_label, advance)
    classifier = train_head(encoder, labels, train, settings, valid, seed)
    oos_texts = texts.valid_oos_texts or texts.oos_texts
    if multi_label or (not oos_texts and reject is None):
        return classifier
    oos_vectors = classifier.vectors(oos_texts)
    share = REFUSED if reject is None and texts.is_background else reject
    if valid is not None and (texts.valid_oos_texts or not texts.oos_texts):
        scored = held_out(classifier.head, classifier.centroids, valid.vectors, oos_vectors)
        rejection = choose_rejection(scored, valid.classes, share)
        return _with_threshold(classifier, rejection, len(valid), train, oos_vectors)
    groups = text_groups(train.texts)
    rows = np.flatnonzero(repeated(train.classes, groups))
    different = len(np.unique(groups[rows]))
    if different < (MIN_HELD_OUT if reject is None else FOLDS):
        if not oos_texts:
            raise InputError(
                f"reject={reject} needs {FOLDS} different texts of intents with two or more, given"
                f" {different}; give more texts, or texts out of scope"
            )
        rejection = _reject_by_outside(classifier, train, oos_vectors)
        return _with_rejection(classifier, rejection, 0, BY_OUTSIDE_FEW)
    oos = Encoded(oos_texts, oos_vectors, np.zeros((len(oos_texts), len(labels)), np.float32))
    with track("Cross-validating", FOLDS, "folds") as advance:
        scored = cross_validate(settings, train, oos, seed=seed, advance=advance)
    rejection = choose_rejection(scored.rows(rows), train.classes[rows], share)
    return _with_threshold(classifier, rejection, len(rows), train, oos_vectors)


def _with_threshold(
    classifier: IntentClassifier,
    rejection: Rejection,
    held_out_texts: int,
    train: Encoded,
    oos_vectors: FloatArray,
) -> IntentClassifier:
    """Return the classifier with a rejection that so many held-out texts in scope chose.

    With texts out of scope, one that refuses most of the training texts is replaced.
    """
    if len(oos_vectors) and _refuses_most(classifier, rejection, train):
        replacement = _reject_by_outside(classifier, train, oos_vectors)
        return _with_rejection(classifier, replacement, held_out_texts, BY_OUTSIDE_MISFIT)
    return _with_rejection(classifier, rejection, held_out_texts, BY_HELD_OUT)


def _refuses_most(classifier: IntentClassifier, rejection: Rejection, train: Encoded) -> bool:
    logits = classifier.head.logits(train.vectors)
    distances = classifier.centroids.distances(train.vectors)
    return bool(rejection.refuses(logits, distances).mean() > MOST_REFUSED)


def _reject_by_outside(
    classifier: IntentClassifier, train: Encoded, oos_vectors: FloatArray
) -> Rejection:
    distances = classifier.centroids.distances
    return reject_outside(distances(oos_vectors), distances(train.vectors))


def _with_rejection(
    classifier: IntentClassifier, rejection: Rejection, held_out_texts: int, chosen_by: str
) -> IntentClassifier:
    facts = {"rejection_texts": held_out_texts, "rejection_chosen_by": chosen_by}
    return replace(classifier, rejection=rejection, trained=classifier.trained | facts)


def train_head(
    encoder: SentenceEncoder,
    labels: tuple[str, ...],
    data: Encoded,
    settings: Settings,
    valid: Encoded | None = None,
    seed: int = 0,
) -> IntentClassifier:
    """Train a classifier that refuses nothing on encoded texts; see `train_classifier`."""
    start = time.perf_counter()
    fitted = fit(settings, data, valid=valid, seed=seed)
    trained = {
        "texts": len(data),
        "epochs": fitted.epochs,
        "held_out_accuracy": fitted.validation,
        "encoding_seconds": round(data.seconds, 3),
        "training_seconds": round(time.perf_counter() - start, 3),
    }
    return IntentClassifier(
        encoder, labels, fitted.head, fitted.centroids, settings, data.multi_label, trained=trained
    )
