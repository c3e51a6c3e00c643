"""A report as a person wants it: what is confused with what, which labels look wrong, what more texts would bring."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rejoinder.errors import InputError
from rejoinder.files import Kind, atomic_folder
from rejoinder.intents.classifier import CERTAIN, IntentClassifier, encode_data, probabilities
from rejoinder.intents.cross_validation import FOLDS, LabelDoubt, doubts, out_of_fold
from rejoinder.intents.data import IntentData
from rejoinder.intents.fitting import Encoded
from rejoinder.intents.learning_curve import LearningCurve, curve_shots, learning_curve
from rejoinder.intents.metrics import Quality, confusions, quality
from rejoinder.intents.out_of_scope import OutOfScopeResult, judge, scores
from rejoinder.intents.pictures import draw_confusions, draw_curve
from rejoinder.intents.report_text import report_markdown
from rejoinder.ranker import FloatArray

IntArray = npt.NDArray[np.int64]
Track = Callable[[str, int, str], AbstractContextManager[Callable[[int], None]]]
"""Opens a progress display: what is being done, how many units, their name."""

REPORT, FIGURES, CONFUSIONS, CURVE = "report.md", "report.json", "confusions.png", "curve.png"
KIND = "rejoinder intents report"
FOLDER = Kind(
    "a report on intents",
    FIGURES,
    lambda figures: figures.get("kind", KIND) == KIND and "out_of_scope" in figures["evaluation"],
    (REPORT, FIGURES, CONFUSIONS, CURVE),
)
WORST_PAIRS, EXAMPLES = 10, 3


@dataclass(frozen=True)
class Pair:
    """An intent that is taken for another.

    Attributes:
        true: the intent.
        predicted: what it is taken for.
        count: in how many test texts.
        of: test texts of the intent.
        examples: some of them, the surest mistakes first.
    """

    true: str
    predicted: str
    count: int
    of: int
    examples: tuple[str, ...]


@dataclass(frozen=True)
class Evaluation:
    """A classifier on test texts.

    Attributes:
        quality: of the intents; refusals as out of scope are left aside.
        out_of_scope: None where the test has no such texts, or the classifier refuses nothing.
        pairs: the worst pairs; none where texts may have several intents.
        matrix: (K, K) confusions, or None where texts may have several intents.
    """

    quality: Quality
    out_of_scope: OutOfScopeResult | None
    pairs: tuple[Pair, ...]
    matrix: IntArray | None

    def to_json(self) -> dict[str, Any]:
        """All of it but the matrix."""
        return {
            **self.quality.to_json(),
            "out_of_scope": None if self.out_of_scope is None else self.out_of_scope.to_json(),
            "pairs": [asdict(pair) for pair in self.pairs],
        }


@dataclass(frozen=True)
class Report:
    """What is said of a classifier: on test texts, and of its training texts where they are given."""

    evaluation: Evaluation
    doubts: tuple[LabelDoubt, ...] | None
    curve: LearningCurve | None

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {
            "evaluation": self.evaluation.to_json(),
            "doubts": None if self.doubts is None else [asdict(doubt) for doubt in self.doubts],
            "curve": None if self.curve is None else self.curve.to_json(),
        }


def evaluate(
    classifier: IntentClassifier, test: IntentData, outside: Sequence[str] = (), *, encoded: Encoded | None = None
) -> Evaluation:
    """Try a classifier on test texts.

    Args:
        classifier: it.
        test: texts in scope with their intents.
        outside: texts out of scope.
        encoded: `test` as vectors, where they are at hand.

    Raises:
        InputError: an intent was not trained, or there are no texts.
    """
    encoded = encoded or encode_data(classifier.encoder, test, classifier.labels, several=classifier.several)
    logits = classifier.head.logits(encoded.vectors)
    true = encoded.targets > 0
    if classifier.several:
        found = quality(probabilities(logits, True) >= CERTAIN, true, classifier.labels)
        return Evaluation(found, None, (), None)
    guessed = logits.argmax(axis=1)
    predicted = np.eye(len(classifier.labels), dtype=bool)[guessed]
    matrix = confusions(guessed, encoded.classes, len(classifier.labels))
    return Evaluation(
        quality(predicted, true, classifier.labels),
        _judge_outside(classifier, encoded, logits, guessed, outside),
        worst_pairs(test.texts, probabilities(logits, False), encoded.classes, classifier.labels),
        matrix,
    )


def _judge_outside(
    classifier: IntentClassifier, encoded: Encoded, logits: FloatArray, guessed: IntArray, outside: Sequence[str]
) -> OutOfScopeResult | None:
    rejection = classifier.rejection
    if rejection is None or not outside:
        return None
    vectors = classifier.vectors(outside)
    inner = scores(rejection.score, logits, encoded.vectors, classifier.centroids)
    outer = scores(rejection.score, classifier.head.logits(vectors), vectors, classifier.centroids)
    return judge(rejection, inner, guessed == encoded.classes, outer)


def worst_pairs(
    texts: Sequence[str], chances: FloatArray, classes: IntArray, labels: Sequence[str], most: int = WORST_PAIRS
) -> tuple[Pair, ...]:
    """The pairs with the most mistakes, with the mistakes that were surest.

    Args:
        texts: n texts.
        chances: probabilities, (n, K).
        classes: their intents, (n,).
        labels: names of the K intents.
        most: how many pairs at most.
    """
    guessed = chances.argmax(axis=1)
    matrix = confusions(guessed, classes, len(labels))
    np.fill_diagonal(counts := matrix.copy(), 0)
    pairs = []
    for place in np.argsort(-counts, axis=None, kind="stable")[:most]:
        i, j = divmod(int(place), len(labels))
        if not counts[i, j]:
            break
        rows = np.flatnonzero((classes == i) & (guessed == j))
        surest = rows[np.argsort(-chances[rows, j], kind="stable")][:EXAMPLES]
        examples = tuple(texts[row] for row in surest)
        pairs.append(Pair(labels[i], labels[j], int(counts[i, j]), int(matrix[i].sum()), examples))
    return tuple(pairs)


def build_report(
    classifier: IntentClassifier,
    test: IntentData,
    outside: Sequence[str],
    train: IntentData | None,
    track: Track,
    *,
    seeds: Sequence[int] = (0, 1, 2),
) -> Report:
    """Evaluate, and look at the training texts where they are given (by classifiers trained in the same way).

    Raises:
        InputError: the intents of the training texts are not the classifier's.
    """
    with track("Encoding", len(test) + (len(train) if train else 0), "texts") as advance:
        encoded = encode_data(
            classifier.encoder, test, classifier.labels, several=classifier.several, advance=advance
        )
        learned = None
        if train is not None and not classifier.several:
            if train.names != classifier.labels:
                raise InputError("the intents of the training texts are not those that the classifier was trained on")
            learned = encode_data(classifier.encoder, train, classifier.labels, advance=advance)
    evaluation = evaluate(classifier, test, outside, encoded=encoded)
    if train is None or learned is None:
        return Report(evaluation, None, None)
    with track("Cross-validating", FOLDS, "folds") as advance:
        found = out_of_fold(classifier.settings, learned, advance=advance)
    with track("Learning curve", len(curve_shots(learned)) * len(seeds), "trainings") as advance:
        curve = learning_curve(classifier.settings, learned, encoded, seeds=seeds, advance=advance)
    return Report(evaluation, tuple(doubts(train, learned, found)), curve)


def write_report(
    report: Report,
    classifier: IntentClassifier,
    folder: str | Path,
    *,
    pictures: bool = True,
    overwrite: bool = False,
) -> None:
    """Write a report's folder, whole or not at all: report.md, report.json and, if asked for, the pictures.

    Raises:
        MissingExtraError: pictures are asked for, and matplotlib is not installed.
        InputError: something else is there, or a report that is not to be overwritten.
    """
    with atomic_folder(folder, FOLDER, overwrite=overwrite) as part:
        drawn = []
        if pictures and report.evaluation.matrix is not None:
            draw_confusions(report.evaluation.matrix, classifier.labels, part / CONFUSIONS)
            drawn.append(CONFUSIONS)
        if pictures and report.curve is not None:
            draw_curve(report.curve, part / CURVE)
            drawn.append(CURVE)
        text = json.dumps({"kind": KIND, "format": 1, **report.to_json()}, indent=2, ensure_ascii=False)
        (part / FIGURES).write_text(f"{text}\n", encoding="utf-8")
        (part / REPORT).write_text(report_markdown(report.to_json(), drawn), encoding="utf-8")
