"""Texts of one file, cut at random into parts for training, validation and test, by intent."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rejoinder import files
from rejoinder.errors import InputError
from rejoinder.intents.data import IntentData, shuffled_ranks

NAMES = ("train", "valid", "test")
MARKER = "parts.json"
KIND = "rejoinder parts of intents"
FOLDER = files.Kind(
    "parts of intents",
    MARKER,
    lambda facts: facts["kind"] == KIND,
    (MARKER, *(f"{name}.csv" for name in NAMES)),
)


def cut(data: IntentData, shares: Sequence[float], seed: int = 0) -> list[IntentData]:
    """Return a part for each share, with about that share of the texts of each intent.

    Raises:
        InputError: the shares are not three that add up to 1.
    """
    if len(shares) != len(NAMES) or min(shares) < 0 or abs(sum(shares) - 1) > 1e-6:
        raise InputError(
            f"the shares are {', '.join(map(str, shares))}; give three that add up to 1, as "
            "0.8,0.1,0.1"
        )
    classes = data.classes
    ranks = shuffled_ranks(classes, seed)
    counts = np.bincount(classes)[classes]
    ends = np.round(np.cumsum(shares)[:, None] * counts)
    numbers = (ranks[None] >= ends[:-1]).sum(axis=0)
    return [data.rows(np.flatnonzero(numbers == number)) for number in range(len(NAMES))]


def write_parts(parts: Sequence[IntentData], folder: Path, *, overwrite: bool = False) -> None:
    """Write parts as train.csv, valid.csv and test.csv, all or none."""
    with files.atomic_folder(folder, FOLDER, overwrite=overwrite) as place:
        for name, part in zip(NAMES, parts, strict=True):
            with (place / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
                table = csv.writer(file)
                table.writerow(["text", "label"])
                rows = zip(part.texts, part.labels, strict=True)
                table.writerows([text, label] for text, (label,) in rows)
        facts = {"kind": KIND, "texts": [len(part) for part in parts]}
        (place / MARKER).write_text(json.dumps(facts) + "\n", encoding="utf-8")
