"""The report on a classifier: confusions, suspect labels, the learning curve.

It is Markdown, JSON and pictures.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rejoinder.arrays import IntArray
from rejoinder.conversations import read_texts
from rejoinder.documents import escape_markdown, markdown_table
from rejoinder.errors import InputError
from rejoinder.evaluation import plots
from rejoinder.evaluation.report import percent
from rejoinder.files import atomic_folder
from rejoinder.folder_kinds import Kind
from rejoinder.intents.classifier import IntentClassifier, encode_data
from rejoinder.intents.data import IntentData
from rejoinder.intents.evaluation.accuracy import (
    Evaluation,
    OutOfScopeResult,
    RefusalResult,
    evaluate,
    to_json,
)
from rejoinder.intents.evaluation.learning_curves import (
    FewShot,
    count_trainings,
    curve_shots,
    learning_curve,
)
from rejoinder.intents.evaluation.suspects import SuspectLabel, suspect_labels
from rejoinder.intents.fitting import FOLDS, cross_validate
from rejoinder.intents.heads import sklearn
from rejoinder.intents.refusal import refused_words
from rejoinder.progress import Track, counted, no_track

REPORT = "report.md"
FIGURES = "report.json"
CONFUSIONS = "confusions.png"
CURVE = "curve.png"
KIND = "rejoinder intents report"
FILES = REPORT, FIGURES, CONFUSIONS, CURVE
FOLDER = Kind("a report on intents", FIGURES, lambda figures: figures["kind"] == KIND, FILES)
WEAKEST = 10
# rows of a readable confusion matrix; only the intents with the most confusions are shown
MOST_INTENTS = 30


@dataclass(frozen=True)
class Report:
    """A classifier on test texts and, if given, on its training texts."""

    evaluation: Evaluation
    suspects: tuple[SuspectLabel, ...] | None
    curve: tuple[FewShot, ...] | None

    def markdown(self, pictures: Sequence[str] = ()) -> str:
        """Return the report as Markdown, with links to the pictures beside it."""
        evaluation = self.evaluation
        parts = [
            "# Intents\n",
            (
                f"Accuracy {percent(evaluation.accuracy)} %,"
                f" macro F1 {100 * evaluation.macro_f1:.1f} %,"
                f" micro F1 {100 * evaluation.micro_f1:.1f} %,"
                f" on {counted(evaluation.texts, 'test text')} (95 % interval).\n"
            ),
        ]
        if evaluation.refusal is not None:
            parts.append(_refusal(evaluation.refusal))
        if evaluation.out_of_scope is not None:
            parts.append(_outside(evaluation.out_of_scope))
        if CONFUSIONS in pictures:
            parts.append(f"![confusions]({CONFUSIONS})\n")
        if evaluation.pairs:
            rows = [
                (
                    escape_markdown(p.true),
                    escape_markdown(p.predicted),
                    f"{p.count} of {p.of}",
                    "<br>".join(map(escape_markdown, p.examples)),
                )
                for p in evaluation.pairs
            ]
            parts.append(
                "## The most confused"
                f" pairs\n\n{table(('intent', 'taken for', 'texts', 'for example'), rows)}"
            )
        weakest = sorted(
            (intent for intent in evaluation.intents if intent.texts), key=lambda intent: intent.f1
        )[:WEAKEST]
        head = ("intent", "test texts", "precision, %", "recall, %", "F1, %")
        weak = [
            (
                escape_markdown(intent.label),
                intent.texts,
                *((f"{100 * n:.0f}") for n in (intent.precision, intent.recall, intent.f1)),
            )
            for intent in weakest
        ]
        parts.append(f"## The weakest intents\n\n{table(head, weak)}")
        if self.suspects is not None:
            parts.append(f"## Labels to look at\n\n{_suspects(self.suspects)}")
        if self.curve is not None:
            parts.append(f"## Accuracy by the number of texts\n\n{_curve(self.curve)}")
        if CURVE in pictures:
            parts.append(f"![curve]({CURVE})\n")
        return "\n".join(parts)


def build_report(
    classifier: IntentClassifier,
    test: IntentData,
    oos_texts: Sequence[str] = (),
    train: IntentData | None = None,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    track: Track = no_track,
) -> Report:
    """Evaluate, and find suspect training texts if they are given.

    Classifiers trained in the same way find them.
    """
    sklearn("metrics")  # fail before the (slow) encoding
    oos_texts = read_texts(oos_texts)
    labels = classifier.labels
    settings = classifier.settings
    encoder = classifier.encoder
    multi_label = classifier.multi_label
    if multi_label:
        train = None
    if train is not None and train.names != labels:
        raise InputError(
            "the intents of the training texts differ from the classifier's; give its"
            " training texts"
        )
    with track("Encoding", len(test) + len(train or ()), "texts") as advance:
        encoded_test = encode_data(encoder, test, labels, multi_label, advance)
        if train is None:
            return Report(evaluate(classifier, test, oos_texts, encoded=encoded_test), None, None)
        encoded_train = encode_data(encoder, train, labels, advance=advance)
    with track("Cross-validating", FOLDS, "folds") as advance:
        scored = cross_validate(settings, encoded_train, advance=advance)
    trainings = count_trainings(settings, curve_shots(settings, encoded_train), seeds)
    with track("Learning curve", trainings, "trainings") as advance:
        curve = learning_curve(settings, encoded_train, encoded_test, seeds=seeds, advance=advance)
    evaluation = evaluate(classifier, test, oos_texts, encoded=encoded_test)
    return Report(evaluation, suspect_labels(train, encoded_train, scored), curve)


def check_plots() -> None:
    """Raise MissingExtraError if matplotlib is not installed.

    The error comes before any work for pictures.
    """
    plots.require("matplotlib.figure", "a picture")


def write_report(
    report: Report,
    labels: Sequence[str],
    folder: str | Path,
    *,
    pictures: bool = True,
    overwrite: bool = False,
) -> None:
    """Write the folder of a report on these intents, whole or not at all.

    The folder has report.md, report.json and pictures.
    """
    if pictures:
        check_plots()
    with atomic_folder(folder, FOLDER, overwrite=overwrite) as part:
        drawn = []
        if pictures and report.evaluation.matrix is not None:
            draw_confusions(report.evaluation.matrix, labels, part / CONFUSIONS)
            drawn.append(CONFUSIONS)
        if pictures and report.curve is not None:
            draw_curve(report.curve, part / CURVE)
            drawn.append(CURVE)
        text = json.dumps(
            {"kind": KIND, "format": 1, **to_json(report)}, indent=2, ensure_ascii=False
        )
        (part / FIGURES).write_text(f"{text}\n", encoding="utf-8")
        (part / REPORT).write_text(report.markdown(drawn), encoding="utf-8")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table, with line breaks and pipes in cells escaped."""
    lines = [[" ".join(str(cell).split()) for cell in line] for line in (head, *rows)]
    return markdown_table(lines, left=range(len(head)))


def _refusal(result: RefusalResult) -> str:
    return (
        f"In scope: accepted and right {100 * result.in_scope_accuracy:.1f} %,"
        f" refused {100 * result.in_scope_refused:.1f} %."
        " Accuracy and F1 are of the most probable intent, also of refused texts.\n"
    )


def _outside(result: OutOfScopeResult) -> str:
    rows = {
        "in scope: accepted and right": result.in_scope_accuracy,
        "in scope: right if nothing is refused": result.in_scope_accuracy_unrefused,
        "out of scope: refused (recall)": result.recall,
        "refused: out of scope (precision)": result.precision,
        "AUROC": result.auroc,
    }
    shares = [
        (name, "-" if share is None else f"{100 * share:.1f}") for name, share in rows.items()
    ]
    counts = f"{counted(result.in_scope, 'text')} in scope, {result.out_of_scope:,} out of scope"
    refused = " ".join(refused_words(result.score, result.threshold, 4))
    return f"## Out of scope\n\nBy {refused}; {counts}.\n\n{table(('', '%'), shares)}"


def _suspects(suspects: Sequence[SuspectLabel]) -> str:
    if not suspects:
        return "None: every training text is nearest to its own intent.\n"
    rows = [
        (*map(escape_markdown, (row.text, row.label, row.suggested)), f"{row.margin:.2f}")
        for row in suspects
    ]
    text = (
        "Training texts to which classifiers trained without them assign another intent, most"
        " confident first."
    )
    return f"{text}\n\n{table(('text', 'label', 'suggested', 'margin'), rows)}"


def _curve(curve: Sequence[FewShot]) -> str:
    rows = [(point.shots or "all", f"{point.texts:,}", percent(point.accuracy)) for point in curve]
    return f"{table(('texts per intent', 'texts', 'accuracy, %'), rows)}\n"


def shown_intents(matrix: IntArray, most: int = MOST_INTENTS) -> IntArray:
    """Return the intents to show, (k,): all, or those with the most confusions.

    Confused ones stand next to each other.
    """
    wrong = matrix * (1 - np.eye(len(matrix), dtype=np.int64))
    both = wrong + wrong.T
    chosen = (
        np.argsort(-both.sum(axis=1), kind="stable")[:most]
        if len(matrix) > most
        else np.arange(len(matrix))
    )
    order = [int(chosen[0])]
    left = {int(i) for i in chosen[1:]}
    while left:  # next: the intent most confused with the last one
        order.append(max(left, key=lambda i: (both[order[-1], i], -i)))
        left.remove(order[-1])
    return np.array(order)


def draw_confusions(matrix: IntArray, labels: Sequence[str], path: Path) -> None:
    """Draw the confusion matrix: rows true, columns predicted, each row shaded by its shares."""
    chosen = shown_intents(matrix)
    part = matrix[np.ix_(chosen, chosen)]
    shares = part / np.maximum(matrix[chosen].sum(axis=1, keepdims=True), 1)
    side = 2.5 + 0.32 * len(chosen)
    figure, (axes,) = plots.new_grid(1, side + 1.5, side)
    axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
    for i, j in np.argwhere(part):
        colour = "white" if shares[i, j] > 0.5 else "black"
        axes.text(j, i, str(part[i, j]), ha="center", va="center", fontsize=6, color=colour)
    names = [plots.escape_math(labels[i]) for i in chosen]
    axes.set_xticks(range(len(chosen)), names, rotation=90, fontsize=7)
    axes.set_yticks(range(len(chosen)), names, fontsize=7)
    axes.set(xlabel="predicted", ylabel="true")
    total = (
        f"the {len(chosen)} of {len(matrix)} intents with the most confusions"
        if len(chosen) < len(matrix)
        else ""
    )
    axes.set_title(total or f"{len(matrix)} intents", fontsize=9)
    plots.save_figure(figure, path, "png")


def draw_curve(curve: Sequence[FewShot], path: Path) -> None:
    """Draw the learning curve with its intervals."""
    figure, (axes,) = plots.new_grid(1, 6.0, 4.0)
    sizes = np.array([point.texts for point in curve])
    values = np.array([(p.accuracy.value, p.accuracy.low, p.accuracy.high) for p in curve]) * 100
    spread = np.abs(values[:, 1:] - values[:, :1]).T
    axes.errorbar(sizes, values[:, 0], yerr=spread, fmt="o-", capsize=3)
    axes.set(xscale="log", xlabel="training texts", ylabel="accuracy, %")
    axes.grid(alpha=0.3)
    plots.save_figure(figure, path, "png")
