"""Texts of one file, cut at random into parts for training, validation and test, by intent."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rejoinder.arrays import IntArray
from rejoinder.errors import InputError
from rejoinder.files import atomic_folder
from rejoinder.folder_kinds import Kind
from rejoinder.intents.data import IntentData
from rejoinder.intents.sampling import fill_first, shuffled_ranks, text_groups

NAMES = ("train", "valid", "test")
MARKER = "parts.json"
KIND = "rejoinder parts of intents"
FOLDER = Kind(
    "parts of intents",
    MARKER,
    lambda facts: facts["kind"] == KIND,
    (MARKER, *(f"{name}.csv" for name in NAMES)),
)


def cut(data: IntentData, shares: Sequence[float], seed: int = 0) -> list[IntentData]:
    """Return a part for each share, with about that share of the texts of each intent.

    Equal texts (`text_groups`) are in one part. The first part has a text of each intent, unless
    its share is 0.

    Raises:
        InputError: the shares are not three that add up to 1.
    """
    if len(shares) != len(NAMES) or min(shares) < 0 or abs(sum(shares) - 1) > 1e-6:
        raise InputError(
            f"the shares are {', '.join(map(str, shares))}; give three that add up to 1, as "
            "0.8,0.1,0.1"
        )
    group = text_groups(data.texts)
    first = np.unique(group, return_index=True)[1]
    part = _parts(data.classes[first], shares, seed)[group]
    if shares[0] > 0:
        fill_first(data.classes, group, part)
    return [data.rows(np.flatnonzero(part == number)) for number in range(len(NAMES))]


def write_parts(parts: Sequence[IntentData], folder: Path, *, overwrite: bool = False) -> None:
    """Write parts as train.csv, valid.csv and test.csv, all or none; an empty part is left out."""
    with atomic_folder(folder, FOLDER, overwrite=overwrite) as target:
        for name, part in zip(NAMES, parts, strict=True):
            if not len(part):
                continue
            with (target / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
                table = csv.writer(file)
                table.writerow(["text", "label"])
                rows = zip(part.texts, part.labels, strict=True)
                table.writerows([text, label] for text, (label,) in rows)
        facts = {"kind": KIND, "texts": [len(part) for part in parts]}
        (target / MARKER).write_text(json.dumps(facts) + "\n", encoding="utf-8")


def _parts(classes: IntArray, shares: Sequence[float], seed: int) -> IntArray:
    """Return the part of each text, (n,): the one that lacks most of its share so far.

    Texts follow each other by class, so parts have like shares of each class, and what is rounded
    in one is made up for in the next. Of equal needs the last part's comes first.
    """
    ranks = shuffled_ranks(classes, seed)
    needs = np.zeros(len(shares))
    part = np.empty(len(classes), dtype=np.int64)
    for row in np.lexsort((ranks, classes)):
        needs += shares
        chosen = len(needs) - 1 - int(np.argmax(np.round(needs[::-1], 9)))
        needs[chosen] -= 1
        part[row] = chosen
    return part
