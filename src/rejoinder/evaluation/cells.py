"""Finished cells of a table on disk, found again by what they were made of and not by a file's name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rejoinder.evaluation.bootstrap import Estimate
from rejoinder.evaluation.results import RankingResult
from rejoinder.files import atomic_file, parse_json

FORMAT = 1


def cell_key(ranker: str, task: str, seed: int) -> str:
    """SHA-256 of all that a cell's figures follow from, but for what a ranker was fitted on.

    Args:
        ranker: identity of the ranker, which changes with its weights.
        task: fingerprint of contexts and candidates.
        seed: of the bootstrap.
    """
    return hashlib.sha256(json.dumps([FORMAT, ranker, task, seed]).encode()).hexdigest()


class CellStore:
    """A folder with a JSON file for each cell, written whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, key: str) -> tuple[RankingResult, str | None, Any] | None:
        """The result, the digest of what the ranker was fitted on (None if it needs no fitting), what it learned.

        Returns:
            None if there is no such cell, or its file is damaged: it is then measured again.
        """
        try:
            found = parse_json(self._file(key).read_text(encoding="utf-8"))
            return result_from_json(found["result"]), found["fitted_on"], found["about"]["learned"]
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def write(self, key: str, result: RankingResult, fitted_on: str | None, about: Mapping[str, Any]) -> None:
        """Keep a cell; `about` holds what the ranker learned under "learned", and what people would like to know."""
        values = {"about": dict(about), "fitted_on": fitted_on, "result": result_to_json(result)}
        with atomic_file(self._file(key)) as part:
            part.write_text(json.dumps(values) + "\n", encoding="utf-8")

    def _file(self, key: str) -> Path:
        return self.folder / f"{key[:32]}.json"


def result_to_json(result: RankingResult) -> dict[str, Any]:
    """All of a result, the single ranks too; `result_from_json` gives an equal one back."""
    values = result.to_json()
    return {**values, "seconds": result.seconds, "ranks": result.ranks.tolist(), "unit_of": result.unit_of.tolist()}


def result_from_json(values: dict[str, Any]) -> RankingResult:
    """The result that `result_to_json` wrote."""
    same = ("examples", "candidates", "fewest_candidates", "dropped", "ambiguous", "unit", "units", "resamples", "seed",
            "fingerprint", "seconds")  # fmt: skip
    return RankingResult(
        recall={int(k): Estimate(**estimate) for k, estimate in values["recall"].items()},
        mrr=Estimate(**values["mrr"]),
        given=values["given_candidates"],
        ranks=np.array(values["ranks"], dtype=np.int64),
        unit_of=np.array(values["unit_of"], dtype=np.int64),
        **{name: values[name] for name in same},
    )
