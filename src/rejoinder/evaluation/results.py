"""What an evaluation found, and how two of them differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from rejoinder.errors import InputError
from rejoinder.evaluation.bootstrap import CONFIDENCE, RESAMPLES, Estimate, estimates

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RankingResult:
    """How well a ranker did on a task."""

    recall: dict[int, Estimate]
    """Share of examples whose right candidate is among the first k, by k; only k below the number of candidates."""
    mrr: Estimate
    """Mean of 1 / rank of the right candidate."""
    examples: int
    """How many were ranked."""
    candidates: int
    """How many each had: N, or the most where given lists differ in length."""
    fewest_candidates: int
    """N, or the fewest where given lists differ in length."""
    given: bool
    """The data gave the candidates; otherwise they are the responses of other examples."""
    dropped: int
    """Examples that did not fill a last group and were left out."""
    ambiguous: int
    """Examples with a wrong candidate of the very text of the right one: nobody can rank the right one first."""
    unit: Literal["thread", "example"]
    """What the bootstrap draws."""
    units: int
    """How many of them there are."""
    resamples: int
    """How often the bootstrap drew."""
    seed: int
    """Of the shuffle into groups and of the bootstrap."""
    fingerprint: str
    """SHA-256 of the task; results with the same one can be compared example by example."""
    seconds: float = field(compare=False)
    """Time spent in the ranker."""
    ranks: IntArray = field(compare=False, repr=False)
    """(examples,): rank of the right candidate, 1 = first."""
    unit_of: IntArray = field(compare=False, repr=False)
    """(examples,): unit of each example."""

    def to_json(self) -> dict[str, Any]:
        """Everything but the single ranks, in types that JSON has."""
        return {
            "recall": {str(k): estimate.to_json() for k, estimate in self.recall.items()},
            "mrr": self.mrr.to_json(),
            "examples": self.examples,
            "candidates": self.candidates,
            "fewest_candidates": self.fewest_candidates,
            "given_candidates": self.given,
            "dropped": self.dropped,
            "ambiguous": self.ambiguous,
            "unit": self.unit,
            "units": self.units,
            "confidence": CONFIDENCE,
            "resamples": self.resamples,
            "seed": self.seed,
            "fingerprint": self.fingerprint,
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True)
class Comparison:
    """First system minus second on the same examples, with paired intervals: outside 0 means a real difference."""

    recall: dict[int, Estimate]
    mrr: Estimate

    def to_json(self) -> dict[str, Any]:
        """The differences in types that JSON has."""
        return {
            "recall": {str(k): estimate.to_json() for k, estimate in self.recall.items()},
            "mrr": self.mrr.to_json(),
        }


def compare(first: RankingResult, second: RankingResult, *, resamples: int = RESAMPLES, seed: int = 0) -> Comparison:
    """Difference of two systems, first minus second, by a paired bootstrap over the units of their common task.

    Raises:
        InputError: the results are of different examples, groups or candidates.
    """
    if first.fingerprint != second.fingerprint:
        raise InputError("the two results are of different examples or groups; evaluate both with the same settings")
    ks = [k for k in first.recall if k in second.recall]
    difference = quantities(first.ranks, ks) - quantities(second.ranks, ks)
    *recall, mrr = estimates(difference, first.unit_of, bounds=(-1.0, 1.0), resamples=resamples, seed=seed)
    return Comparison(dict(zip(ks, recall, strict=True)), mrr)


def quantities(found: IntArray, ks: Sequence[int]) -> npt.NDArray[np.float64]:
    """What is averaged: array (n, len(ks) + 1), hit or not at each k, then 1 / rank, from ranks (n,)."""
    return np.stack([*(found <= k for k in ks), 1 / found], axis=1).astype(np.float64)
