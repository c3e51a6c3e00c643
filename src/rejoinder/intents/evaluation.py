"""Accuracy of classifiers: mistakes, suspect labels, learning curve, the paper's grid."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.conversations import read_texts
from rejoinder.documents import Described
from rejoinder.errors import InputError
from rejoinder.evaluation.bootstrap import RESAMPLES, Estimate, estimates
from rejoinder.intents.classifier import IntentClassifier, encode_data
from rejoinder.intents.data import IntArray, IntentData, draw, text_groups
from rejoinder.intents.fitting import fit, held_out
from rejoinder.intents.heads import Encoded, FeedForward, Settings, sklearn
from rejoinder.intents.prediction import MIN_PROBABILITY, probabilities
from rejoinder.intents.refusal import SCORES, BoolArray, HeldOut, Rejection, ScoreName
from rejoinder.progress import Advance, silent

MAX_PAIRS = 10
EXAMPLES = 3  # texts shown of a pair
MAX_SUSPECTS = 20
SHOTS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1000)
CURVE_POINTS = 6
MIN_CURVE_POINTS = 3


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


@dataclass(frozen=True)
class FewShot:
    """Accuracy with `shots` texts of each intent; None: all."""

    shots: int | None
    accuracy: Estimate  # the mean over trainings and test texts; see `crossed_interval`
    trainings: int
    texts: int  # of one training
    seconds: float  # mean of one training, without encoding
    each: tuple[float, ...]
    right: BoolArray  # whether each text got its intent, (trainings, test texts)


@dataclass(frozen=True)
class SuspectLabel:
    """A training text whose label looks wrong."""

    text: str
    label: str
    suggested: str  # by the classifier that was trained without the text
    margin: float  # probability of the label minus that of the suggested one, -1 to 0


def to_json(result: Any) -> dict[str, Any]:
    """Return a result of this module as JSON values, without its arrays."""
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


def crossed_interval(right: BoolArray, seed: int = 0) -> Estimate:
    """Return the mean of `right` (trainings, texts).

    Resamples draw both (Owen 2007, "The pigeonhole bootstrap").
    """
    trainings, texts = right.shape
    generator = np.random.default_rng(seed)
    weights = generator.multinomial(trainings, np.full(trainings, 1 / trainings), size=RESAMPLES)
    means = np.empty(RESAMPLES)
    for row in range(RESAMPLES):
        drawn = np.bincount(generator.integers(texts, size=texts), minlength=texts)
        means[row] = weights[row] @ (right @ drawn) / (trainings * texts)
    low, high = np.quantile(means, (0.025, 0.975))
    return Estimate(float(right.mean()), float(low), float(high))


def seeds_used(how: Settings, shots: int | None, seeds: Sequence[int]) -> Sequence[int]:
    """Return the seeds to train with: the first alone where a training involves no randomness."""
    is_random = shots is not None or how.kind != "logistic"
    return seeds if is_random else seeds[:1]


def count_trainings(how: Settings, sizes: Iterable[int | None], seeds: Sequence[int]) -> int:
    """Return the number of trainings of `few_shot` at these sizes."""
    return sum(len(seeds_used(how, shots, seeds)) for shots in sizes)


def few_shot(
    how: Settings,
    train: Encoded,
    test: Encoded,
    shots: int | None,
    seeds: Sequence[int],
    advance: Advance = silent,
) -> FewShot:
    """Train once for each seed on a draw of the training texts, and test all on the same texts."""
    if train.multi_label:
        raise InputError(
            "the few-shot protocol draws texts of each intent, so a text must have one intent"
        )
    if not seeds:
        raise InputError("no seeds; give one or more")
    seeds = seeds_used(how, shots, seeds)
    right = []
    seconds = 0.0
    texts = 0
    for seed in seeds:
        part = train.rows(draw(train.classes, shots, seed))
        start = time.perf_counter()
        head = fit(how, part, seed=seed).head
        seconds = seconds + time.perf_counter() - start
        texts = len(part)
        right.append(head.logits(test.vectors).argmax(axis=1) == test.classes)
        advance(1)
    outcomes = np.array(right)
    accuracies = tuple(float(row.mean()) for row in outcomes)
    return FewShot(
        shots,
        crossed_interval(outcomes),
        len(seeds),
        texts,
        seconds / len(seeds),
        accuracies,
        outcomes,
    )


def suspect_labels(data: IntentData, encoded: Encoded, scored: HeldOut) -> tuple[SuspectLabel, ...]:
    """Return texts with suspect labels, the most suspect first; copies with one label count once.

    Classifiers trained without them are confident of another intent.
    """
    # By the cross-validated margin (Northcutt et al. 2021, "Confident Learning", who normalise it).
    chances = probabilities(scored.logits, encoded.multi_label)
    rows = np.arange(len(encoded))
    classes = encoded.classes
    names = data.names
    own = chances[rows, classes].copy()
    chances[rows, classes] = -1.0
    others = chances.argmax(axis=1)
    margin = own - chances[rows, others]
    labelled = np.stack([text_groups(data.texts), classes])
    first = np.unique(labelled, axis=1, return_index=True)[1]
    first.sort()
    order = first[np.argsort(margin[first], kind="stable")]
    worst = [i for i in order[:MAX_SUSPECTS] if margin[i] < 0]
    return tuple(
        SuspectLabel(data.texts[i], names[classes[i]], names[others[i]], float(margin[i]))
        for i in worst
    )


def curve_shots(how: Settings, train: Encoded) -> list[int | None]:
    """Return the sizes of a learning curve, evenly spaced on a logarithmic scale.

    The last size is all texts (None). Of one text an intent none can be held out, as early stopping
    does.
    """
    counts = np.bincount(train.classes, minlength=train.targets.shape[1])
    least = 2 if isinstance(how, FeedForward) and how.patience else 1
    most = np.median(counts[counts > 0]) * 0.8
    below = [shots for shots in SHOTS if least <= shots < most]
    places = np.linspace(0, len(below) - 1, min(CURVE_POINTS - 1, len(below))).round().astype(int)
    return [*(below[row] for row in np.unique(places)), None]


def learning_curve(
    settings: Settings,
    train: Encoded,
    test: Encoded,
    *,
    seeds: Sequence[int],
    advance: Advance = silent,
) -> tuple[FewShot, ...]:
    """Train at several sizes, from small to large, and test all on the same texts."""
    sizes = curve_shots(settings, train)
    if len(sizes) < MIN_CURVE_POINTS:
        raise InputError(
            f"{len(train)} texts are too few for a learning curve; most intents need four"
        )
    return tuple(few_shot(settings, train, test, shots, seeds, advance) for shots in sizes)
