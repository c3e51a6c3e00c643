"""A report's figures as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

WEAKEST = 10


def report_markdown(report: Mapping[str, Any], pictures: Sequence[str]) -> str:
    """The whole report.

    Args:
        report: its figures (`report.Report.to_json`).
        pictures: names of the pictures that lie beside it.
    """
    found = report["evaluation"]
    parts = ["# Intents\n", _quality(found), _outside(found["out_of_scope"])]
    parts += [f"![{name.partition('.')[0]}]({name})\n" for name in pictures if name.startswith("confusions")]
    parts += [_pairs(found["pairs"]), _weakest(found["intents"])]
    if report["doubts"] is not None:
        parts.append(_doubts(report["doubts"]))
    if report["curve"] is not None:
        parts.append(_curve(report["curve"]))
        parts += [f"![{name.partition('.')[0]}]({name})\n" for name in pictures if name.startswith("curve")]
    return "\n".join(part for part in parts if part)


def percent(estimate: Mapping[str, float]) -> str:
    """An estimate in %, its 95 % interval in brackets."""
    return f"{100 * estimate['value']:.1f} [{100 * estimate['low']:.1f}, {100 * estimate['high']:.1f}]"


def cell(text: str) -> str:
    """A text as a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(str(value) for value in line)} |\n" for line in lines)


def _quality(found: Mapping[str, Any]) -> str:
    return (
        f"Accuracy {percent(found['accuracy'])} %, macro F1 {100 * found['macro_f1']:.1f} %, "
        f"micro F1 {100 * found['micro_f1']:.1f} %, on {found['texts']:,} test texts (95 % interval).\n"
    )


def _outside(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    precision = "-" if found["precision"] is None else f"{100 * found['precision']:.1f}"
    rows = [
        ("in scope: accepted and right", f"{100 * found['in_scope_accuracy']:.1f}"),
        ("in scope: right if nothing is refused", f"{100 * found['in_scope_accuracy_unrefused']:.1f}"),
        ("out of scope: refused (recall)", f"{100 * found['recall']:.1f}"),
        ("refused: out of scope (precision)", precision),
        ("AUROC", f"{100 * found['auroc']:.1f}"),
    ]
    counts = f"{found['in_scope']:,} texts in scope, {found['out_of_scope']:,} out of scope"
    said = f"By {found['score']} above {found['threshold']:.4g}; {counts}."
    return f"## Out of scope\n\n{said}\n\n{table(('', '%'), rows)}"


def _pairs(pairs: Sequence[Mapping[str, Any]]) -> str:
    if not pairs:
        return ""
    rows = [
        (pair["true"], pair["predicted"], f"{pair['count']} of {pair['of']}", "<br>".join(map(cell, pair["examples"])))
        for pair in pairs
    ]
    return f"## The worst pairs\n\n{table(('intent', 'taken for', 'texts', 'for example'), rows)}"


def _weakest(intents: Sequence[Mapping[str, Any]]) -> str:
    tested = [intent for intent in intents if intent["texts"]]
    rows = [
        (one["label"], one["texts"], *(f"{100 * one[name]:.0f}" for name in ("precision", "recall", "f1")))
        for one in sorted(tested, key=lambda one: one["f1"])[:WEAKEST]
    ]
    return f"## The weakest intents\n\n{table(('intent', 'test texts', 'precision, %', 'recall, %', 'F1, %'), rows)}"


def _doubts(found: Sequence[Mapping[str, Any]]) -> str:
    if not found:
        return "## Labels to look at\n\nNone: every training text is nearest to its own intent.\n"
    rows = [(cell(one["text"]), one["label"], one["suggested"], f"{one['margin']:.2f}") for one in found]
    said = "Training texts that classifiers trained without them would give another intent, the surest first."
    return f"## Labels to look at\n\n{said}\n\n{table(('text', 'label', 'suggested', 'margin'), rows)}"


def _curve(curve: Mapping[str, Any]) -> str:
    rows = [
        ("all" if point["shots"] is None else point["shots"], f"{point['texts']:,}", percent(point["accuracy"]))
        for point in curve["points"]
    ]
    text = f"## What more texts would bring\n\n{table(('texts per intent', 'texts', 'accuracy, %'), rows)}\n"
    for one in curve["predicted"]:
        text += f"- {one['factor']:g} times the texts ({one['texts']:,}): {percent(one['accuracy'])} %, predicted\n"
    if curve["check"] is not None:
        measured = percent(curve["points"][-1]["accuracy"])
        text += (
            f"- how far to trust it: from the smaller sizes alone, {percent(curve['check']['accuracy'])} % is "
            f"predicted for all {curve['check']['texts']:,} texts; measured: {measured} %\n"
        )
    return text
