"""Accuracy of a classifier on test texts: its mistakes, and what it refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rejoinder.arrays import FloatArray, IntArray
from rejoinder.conversations import read_texts
from rejoinder.documents import Described
from rejoinder.evaluation.bootstrap import Estimate, estimates
from rejoinder.intents.classifier import IntentClassifier, encode_data
from rejoinder.intents.data import IntentData
from rejoinder.intents.fitting import held_out
from rejoinder.intents.heads import Encoded, sklearn
from rejoinder.intents.prediction import MIN_PROBABILITY, probabilities
from rejoinder.intents.refusal import SCORES, BoolArray, HeldOut, Rejection, ScoreName

MAX_PAIRS = 10
EXAMPLES = 3  # texts shown of a pair


@dataclass(frozen=True)
class IntentScore:
    """Precision and recall of an intent."""

    label: str
    texts: int
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class Pair:
    """An intent taken for another in `count` of its `of` test texts.

    The examples are the most confident mistakes.
    """

    true: str
    predicted: str
    count: int
    of: int
    examples: tuple[str, ...]


@dataclass(frozen=True)
class RefusalResult:
    """Shares of the texts in scope that are accepted with the right intent, and refused."""

    in_scope_accuracy: float
    in_scope_refused: float


@dataclass(frozen=True)
class OutOfScopeResult:
    """Quality of refusal: shares of the texts in scope and out of scope."""

    score: ScoreName
    threshold: float
    in_scope_accuracy: float  # accepted, with the right intent
    in_scope_accuracy_unrefused: float  # with the right intent if nothing is refused
    recall: float
    precision: float | None  # None where none was refused
    auroc: float
    in_scope: int
    out_of_scope: int


@dataclass(frozen=True, repr=False)
class Evaluation(Described):
    """A classifier on test texts.

    Accuracy, F1 and pairs are of the most probable intents, of refused texts too; the other fields
    count what is refused.
    """

    accuracy: Estimate
    """Share of texts whose label, or exact set of labels, is predicted; the interval resamples
    texts."""
    macro_f1: float  # mean over the intents of the test texts
    micro_f1: float
    texts: int
    intents: tuple[IntentScore, ...]
    out_of_scope: OutOfScopeResult | None  # None without such texts, or if nothing is refused
    pairs: tuple[Pair, ...]
    matrix: IntArray | None  # confusions (K, K), rows true; None of a multi-label classifier
    refusal: RefusalResult | None = None  # None if the classifier can refuse nothing

    def facts(self) -> Mapping[str, object]:
        """Return the text that shows the result."""
        facts: dict[str, object] = {
            "accuracy": str(self.accuracy),
            "macro F1": f"{self.macro_f1:.1%}",
            "texts": self.texts,
        }
        if self.refusal is not None:
            facts["accepted and right"] = f"{self.refusal.in_scope_accuracy:.1%}"
            facts["refused"] = f"{self.refusal.in_scope_refused:.1%}"
        if self.out_of_scope is not None:
            facts["recall of texts out of scope"] = f"{self.out_of_scope.recall:.1%}"
        return facts


def to_json(result: Any) -> dict[str, Any]:
    """Return a result of an evaluation as JSON values, without its arrays."""
    return asdict(
        result, dict_factory=lambda items: {k: v for k, v in items if k not in ("matrix", "right")}
    )


def evaluate(
    classifier: IntentClassifier,
    test: IntentData,
    oos_texts: Sequence[str] = (),
    *,
    encoded: Encoded | None = None,
) -> Evaluation:
    """Evaluate a classifier on texts in scope and texts out of scope.

    `encoded` are the texts in scope, if they are already encoded.
    """
    oos_texts = read_texts(oos_texts)
    labels = classifier.labels
    metrics = sklearn("metrics")
    encoded = encoded or encode_data(classifier.encoder, test, labels, classifier.multi_label)
    logits = classifier.head.logits(encoded.vectors)
    chances = probabilities(logits, classifier.multi_label)
    true = encoded.targets > 0
    pairs: tuple[Pair, ...] = ()
    matrix = None
    refusal = None
    out_of_scope = None
    if classifier.multi_label:
        predicted = chances >= MIN_PROBABILITY
    else:
        classes = encoded.classes
        best = logits.argmax(axis=1)
        predicted = np.eye(len(labels), dtype=bool)[best]
        matrix = metrics.confusion_matrix(classes, best, labels=range(len(labels)))
        pairs = worst_pairs(test.texts, chances, classes, labels)
        if classifier.rejection is not None:
            distances = classifier.centroids.distances(encoded.vectors)
            refused = classifier.rejection.refuses(logits, distances)
            accepted_right = (best == classes) & ~refused
            refusal = RefusalResult(float(accepted_right.mean()), float(refused.mean()))
        if classifier.rejection is not None and oos_texts:
            oos_vectors = classifier.vectors(oos_texts)
            scored = held_out(classifier.head, classifier.centroids, encoded.vectors, oos_vectors)
            out_of_scope = judge_rejection(classifier.rejection, scored, best == classes)
    right = (predicted == true).all(axis=1)[:, None].astype(np.float64)
    precision, recall, f1, texts = metrics.precision_recall_fscore_support(
        true, predicted, zero_division=0.0
    )
    return Evaluation(
        accuracy=estimates(right, np.arange(len(right)))[0],
        macro_f1=float(f1[texts > 0].mean()) if texts.any() else 0.0,
        micro_f1=float(metrics.f1_score(true, predicted, average="micro", zero_division=0.0)),
        texts=len(right),
        intents=tuple(
            IntentScore(label, int(count), float(right_share), float(found_share), float(score))
            for label, count, right_share, found_share, score in zip(
                labels, texts, precision, recall, f1, strict=True
            )
        ),
        out_of_scope=out_of_scope,
        pairs=pairs,
        matrix=matrix,
        refusal=refusal,
    )


def judge_rejection(rejection: Rejection, scored: HeldOut, right: BoolArray) -> OutOfScopeResult:
    """Measure a rejection on test texts; `right` marks the texts in scope that get their intent."""
    column = SCORES.index(rejection.score)
    inside = scored.scores[:, column]
    outside = scored.oos_scores[:, column]
    is_outside = np.repeat([False, True], [len(inside), len(outside)])
    values = np.concatenate([inside, outside])
    refused = values > rejection.threshold
    return OutOfScopeResult(
        score=rejection.score,
        threshold=rejection.threshold,
        in_scope_accuracy=float((right & ~refused[: len(inside)]).mean()),
        in_scope_accuracy_unrefused=float(right.mean()),
        recall=float(refused[is_outside].mean()),
        precision=float(is_outside[refused].mean()) if refused.any() else None,
        auroc=float(sklearn("metrics").roc_auc_score(is_outside, values)),
        in_scope=len(inside),
        out_of_scope=len(outside),
    )


def worst_pairs(
    texts: Sequence[str], chances: FloatArray, classes: IntArray, labels: Sequence[str]
) -> tuple[Pair, ...]:
    """Return the pairs of intents with the most mistakes.

    It takes probabilities (n, K) and true classes (n,) of texts.
    """
    guessed = chances.argmax(axis=1)
    places, counts = np.unique(
        (classes * len(labels) + guessed)[classes != guessed], return_counts=True
    )
    pairs = []
    for worst in np.argsort(-counts, kind="stable")[:MAX_PAIRS]:
        i, j = divmod(int(places[worst]), len(labels))
        rows = np.flatnonzero((classes == i) & (guessed == j))
        surest = rows[np.argsort(-chances[rows, j], kind="stable")][:EXAMPLES]
        examples = tuple(texts[row] for row in surest)
        pairs.append(Pair(labels[i], labels[j], len(rows), int((classes == i).sum()), examples))
    return tuple(pairs)
