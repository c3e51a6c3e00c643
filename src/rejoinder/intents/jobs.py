"""Training from files to a classifier: parts, texts out of scope, validation, a threshold."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rejoinder.errors import InputError
from rejoinder.intents.classifier import IntentClassifier, encode_data, from_encoded
from rejoinder.intents.cross_validation import FOLDS, OutOfFold, out_of_fold
from rejoinder.intents.data import OUT_OF_SCOPE, IntentData, has_part, read_intents
from rejoinder.intents.encoders import SentenceEncoder, unit_rows
from rejoinder.intents.fitting import Encoded
from rejoinder.intents.out_of_scope import SCORES, Rejection, choose_rejection, scores
from rejoinder.intents.protocol import draw
from rejoinder.intents.settings import Settings

Track = Callable[[str, int, str], AbstractContextManager[Callable[[int], None]]]


@dataclass(frozen=True)
class Material:
    """What a classifier is trained with.

    Attributes:
        train: texts in scope.
        valid: validation texts in scope; None where there are none.
        outside: texts out of scope of the training part.
        valid_outside: texts out of scope of the validation part.
    """

    train: IntentData
    valid: IntentData | None
    outside: tuple[str, ...] = ()
    valid_outside: tuple[str, ...] = ()


def read_material(
    train: str | Path,
    valid: str | Path | None = None,
    *,
    separator: str | None = None,
    out_of_scope: str = OUT_OF_SCOPE,
    shots: int | None = None,
    seed: int = 0,
) -> Material:
    """Read training and validation texts.

    Args:
        train: a file or folder; of one with parts, train is read, and valid where there is such a part.
        valid: validation texts; None: as said.
        separator: between the labels of a text; None: a text has one.
        out_of_scope: the label of texts that have none of the intents.
        shots: only so many texts of each intent, drawn at random; None: all.
        seed: of that.

    Raises:
        InputError: see `data.read_intents`; or there are fewer than two intents.
    """
    inside, outside = _apart(read_intents(train, "train", separator=separator), separator, out_of_scope)
    if len(inside.names) < 2:
        raise InputError(f"{train}: {len(inside.names)} intents; two at least are needed")
    if shots is not None:
        if separator is not None:
            raise InputError("--shots draws texts of each intent, so a text must have one intent")
        names = {name: place for place, name in enumerate(inside.names)}
        classes = np.array([names[labels[0]] for labels in inside.labels], dtype=np.int64)
        inside = inside.rows(draw(classes, shots, seed))
    place = train if valid is None and has_part(train, "valid") else valid
    if place is None:
        return Material(inside, None, outside)
    checked, checked_outside = _apart(read_intents(place, "valid", separator=separator), separator, out_of_scope)
    return Material(inside, checked, outside, checked_outside)


def read_test(
    path: str | Path, *, separator: str | None = None, out_of_scope: str = OUT_OF_SCOPE
) -> tuple[IntentData, tuple[str, ...]]:
    """Test texts in scope, and the texts out of scope among them.

    Raises:
        InputError: see `data.read_intents`; or there is no text in scope.
    """
    inside, outside = _apart(read_intents(path, "test", separator=separator), separator, out_of_scope)
    if not len(inside):
        raise InputError(f"{path} holds no text in scope")
    return inside, outside


def _apart(data: IntentData, separator: str | None, label: str) -> tuple[IntentData, tuple[str, ...]]:
    if separator is not None:  # a text may have no intent at all: then it is one more text to learn from
        labels = tuple(tuple(name for name in names if name != label) for names in data.labels)
        return IntentData(data.texts, labels), ()
    inside, outside = data.apart(label)
    return inside, outside.texts


def train_job(
    encoder: SentenceEncoder,
    material: Material,
    settings: Settings,
    track: Track,
    *,
    several: bool = False,
    reject: float | None = None,
    seed: int = 0,
) -> IntentClassifier:
    """Encode, train, and choose what is refused as out of scope.

    Args:
        encoder: any.
        material: the texts.
        settings: of the classifier.
        track: opens a progress display.
        several: whether texts may have several intents.
        reject: without texts out of scope: the share of texts in scope that may be refused; None: nothing is refused.
        seed: of everything random.

    Raises:
        InputError: labels of the validation texts are not among those of the training texts.
    """
    names, start = material.train.names, time.perf_counter()
    total = len(material.train) + len(material.valid or ())
    with track("Encoding", total, "texts") as advance:
        data = encode_data(encoder, material.train, names, several=several, advance=advance)
        valid = None
        if material.valid is not None:
            valid = encode_data(encoder, material.valid, names, several=several, advance=advance)
    seconds = time.perf_counter() - start
    classifier = from_encoded(encoder, names, data, settings, valid=valid, seed=seed, encoding_seconds=seconds)
    outside = material.valid_outside if valid is not None and material.valid_outside else material.outside
    if several or not (outside or reject is not None):
        return classifier
    if valid is not None and (material.valid_outside or not material.outside):
        found, classes = _validated(classifier, valid, material.valid_outside), valid.classes
    else:
        with track("Cross-validating", FOLDS, "folds") as advance:
            vectors = _vectors(encoder, outside, data.vectors.shape[1])
            found, classes = out_of_fold(settings, data, vectors, seed=seed, advance=advance), data.classes
    right = found.logits.argmax(axis=1) == classes
    if outside:
        return replace(classifier, rejection=choose_rejection(found.inside, right, found.outside))
    assert reject is not None
    return replace(classifier, rejection=Rejection("energy", float(np.quantile(found.inside["energy"], 1 - reject))))


def _vectors(encoder: SentenceEncoder, texts: Sequence[str], size: int) -> np.ndarray:
    return unit_rows(encoder.encode(texts)) if texts else np.empty((0, size), dtype=np.float32)


def _validated(classifier: IntentClassifier, valid: Encoded, outside: Sequence[str]) -> OutOfFold:
    """Scores of validation texts, which the classifier has not been trained on."""
    vectors = _vectors(classifier.encoder, outside, valid.vectors.shape[1])
    inner, outer = classifier.head.logits(valid.vectors), classifier.head.logits(vectors)
    return OutOfFold(
        inner,
        {name: scores(name, inner, valid.vectors, classifier.centroids) for name in SCORES},
        {name: scores(name, outer, vectors, classifier.centroids) if outside else np.empty(0) for name in SCORES},
    )
