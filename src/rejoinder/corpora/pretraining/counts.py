"""What was read, kept and left out, by source; as JSON, and as Markdown for a model card."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rejoinder import __version__
from rejoinder.corpora.example import SPLITS
from rejoinder.corpora.pretraining.recipe import CorpusRecipe
from rejoinder.corpora.pretraining.selection import REASONS, Selection
from rejoinder.corpora.pretraining.turns import TurnTable
from rejoinder.files import file_digest

FORMAT = "rejoinder corpus 1"


def corpus_counts(
    recipe: CorpusRecipe,
    files: Sequence[Path],
    table: TurnTable,
    chosen: Selection,
    evaluated: tuple[TurnTable, TurnTable] | None,
) -> dict[str, Any]:
    """Everything in numbers. For each source and split: pairs = kept + all that is left out."""
    sources = {}
    for number, (source, file) in enumerate(zip(recipe.source, files, strict=True)):
        mine = table.source == number
        sources[source.name] = {
            "licence": source.licence,
            "sha256": file_digest(file),
            "dialogues": int(mine.sum()),
            "groups": len({thread for thread, own in zip(chosen.threads, mine, strict=True) if own}),
            **_splits(table, chosen, mine[table.dialogue]),
        }
    names = [source.name for source in recipe.source] + [each.name for each in recipe.evaluation]
    return {
        "format": FORMAT,
        "version": __version__,
        "recipe": dataclasses.asdict(recipe),
        "sources": sources,
        "total": _splits(table, chosen, np.ones(len(table.counts), dtype=bool)),
        "evaluation": None if evaluated is None else _evaluation(recipe, evaluated),
        "leaks": {names[number]: {"equal": n[0], "near": n[1]} for number, n in sorted(chosen.leaks.items())},
        "common": chosen.common,
    }


def _splits(table: TurnTable, chosen: Selection, rows: Any) -> dict[str, Any]:
    pairs = rows & table.pair
    found: dict[str, Any] = {"pairs": int(pairs.sum())}
    for number, split in enumerate(SPLITS):
        here = pairs & (chosen.split == number)
        by_reason = np.bincount(chosen.reason[here], minlength=len(REASONS))
        kept = here & (chosen.reason == 0)
        found[split] = {
            "pairs": int(here.sum()),
            "kept": int(by_reason[0]),
            "dropped": {REASONS[reason]: int(count) for reason, count in enumerate(by_reason) if reason and count},
            "response words": int(table.counts[kept].sum()),
        }
    return found


def _evaluation(recipe: CorpusRecipe, evaluated: tuple[TurnTable, TurnTable]) -> dict[str, dict[str, int]]:
    pairs, texts = evaluated
    of_pairs = np.bincount(pairs.source, minlength=len(recipe.evaluation))
    of_texts = np.bincount(texts.source, minlength=len(recipe.evaluation))
    return {
        each.name: {"pairs": int(of_pairs[number]), "texts": int(of_texts[number])}
        for number, each in enumerate(recipe.evaluation)
    }


def markdown(counts: Mapping[str, Any]) -> str:
    """The counts as tables for a model card."""
    lines = ["| source | licence | dialogues | pairs | training | validation | test | left out of training |"]
    lines.append("|---|---|--:|--:|--:|--:|--:|---|")
    for name, source in counts["sources"].items():
        lines.append(f"| {name} | {source['licence']} | {source['dialogues']:,} | {_cells(source)} |")
    dialogues = sum(source["dialogues"] for source in counts["sources"].values())
    lines.append(f"| **all** | | {dialogues:,} | {_cells(counts['total'])} |")
    lines += ["", *_leak_lines(counts)]
    return "\n".join(lines) + "\n"


def _cells(source: Mapping[str, Any]) -> str:
    kept = " | ".join(f"{source[split]['kept']:,}" for split in SPLITS)
    dropped = sorted(source["train"]["dropped"].items(), key=lambda item: -item[1])
    return f"{source['pairs']:,} | {kept} | {', '.join(f'{count:,} {reason}' for reason, count in dropped)}"


def _leak_lines(counts: Mapping[str, Any]) -> list[str]:
    lines = ["| evaluated set | equal pairs left out of training | near-duplicates left out |", "|---|--:|--:|"]
    sets = dict.fromkeys([*counts["sources"], *(counts["evaluation"] or {})], None)
    for name in sets:
        found = counts["leaks"].get(name, {"equal": 0, "near": 0})
        shown = f"{name} (test)" if name in counts["sources"] else name
        lines.append(f"| {shown} | {found['equal']:,} | {found['near']:,} |")
    if counts["evaluation"] is None and counts["recipe"]["evaluation"]:
        lines += ["", "Not compared with the evaluation sets of the recipe, only with the held-out tests."]
    words = counts["recipe"]["leaks"]["fewest_words"]
    common = f"{counts['common']:,} training pairs of fewer than {words} words"
    lines += ["", f"{common} are equal to a test pair: common talk."]
    return lines
