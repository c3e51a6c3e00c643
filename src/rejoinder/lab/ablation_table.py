"""The table of an ablation as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rejoinder.documents import markdown_table
from rejoinder.evaluation.bootstrap import Estimate
from rejoinder.evaluation.report import percent


def markdown(table: Mapping[str, Any]) -> str:
    """Return a heading, what was ranked, and the table: shares in %, 95 % intervals in brackets."""
    rows = table["rows"]
    first = rows[0]["published"]
    published = any(row["published"] is not None for row in rows)
    seeds = table.get("seeds", 1)
    over = [f"R@1, {seeds} seeds", f"MRR, {seeds} seeds"] if seeds > 1 else []
    head = ["row", "R@1", "minus base", "MRR", *over]
    if published:
        head += ["published R@1", "minus base"]
    head += ["parameters", "steps", "steps/s"]
    costed = any(row["published_cost"] for row in rows)
    if costed:
        head += ["published steps/s", "published USD"]
    lines = [[*head, "examples"]]
    for row in rows:
        base = None if row is rows[0] else first
        lines.append(
            [
                row["title"],
                *_shares(row),
                *(_over_seeds_texts(row.get("over_seeds"), seeds) if over else []),
                *(_published_texts(row["published"], base) if published else []),
                *_costs(row),
                *(_published_costs(row["published_cost"]) if costed else []),
                f"{row['examples']:,}" if row.get("result") else "",
            ]
        )
    parts = [f"# {table['name']}", table["data"], table["ranked"]]
    if over:
        parts.append(
            "Over seeds: mean ± sample standard deviation. All else is of the recipe's own seed."
        )
    return "\n\n".join([*parts, markdown_table(lines)])


def _shares(row: Mapping[str, Any]) -> list[str]:
    """Return R@1 of a row, how much that is above the base's, and MRR, or that it failed."""
    result = row.get("result")
    if not result:
        return ["failed", "", ""]
    minus = row["minus_base"] and Estimate(**row["minus_base"]["recall"]["1"])
    return [
        percent(Estimate(**result["recall"]["1"]), "{} [{}, {}]"),
        percent(minus, "{:+} [{:+}, {:+}]"),
        percent(Estimate(**result["mrr"]), "{} [{}, {}]"),
    ]


def _costs(row: Mapping[str, Any]) -> list[str]:
    """Return parameters, steps and steps per second of a row."""
    if not row.get("result"):
        return ["", "", ""]
    speed = row["steps_per_second"]
    parameters = f"{row['parameters'] / 1e6:.2f}M"
    return [parameters, f"{row['steps']:,}", f"{speed:.2f}" if speed else ""]


def _published_texts(value: float | None, base: float | None) -> list[str]:
    if value is None:
        return ["", ""]
    return [f"{value:.1f}", "" if base is None else f"{value - base:+.1f}"]


def _published_costs(cost: Mapping[str, float] | None) -> list[str]:
    return [f"{cost['steps_per_second']:.1f}", f"{cost['usd']:.0f}"] if cost else ["", ""]


def _over_seeds_texts(over: Mapping[str, Any] | None, seeds: int) -> list[str]:
    """Return R@1 and MRR over the seeds of a row, with the number of runs where some failed."""
    if over is None:
        return ["", ""]
    texts = []
    for figure in (over["recall"]["1"], over["mrr"]):
        text = f"{100 * figure['mean']:.1f}"
        if figure["deviation"] is not None:
            text += f" ± {100 * figure['deviation']:.1f}"
        if figure["runs"] < seeds:
            text += f" ({figure['runs']} run{'s' * (figure['runs'] > 1)})"
        texts.append(text)
    return texts
