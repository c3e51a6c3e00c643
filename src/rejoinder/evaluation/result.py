"""Figures of a ranker on a task, and the difference of two.

In a paired comparison both systems see the same resamples (Koehn 2004, "Statistical Significance
Tests for Machine Translation Evaluation").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from rejoinder.checks import check_count
from rejoinder.documents import Described
from rejoinder.errors import InputError
from rejoinder.evaluation.bootstrap import CONFIDENCE, RESAMPLES, Estimate, estimates
from rejoinder.evaluation.tasks import Copies, IntArray, RankingTask


@dataclass(frozen=True, repr=False)
class Comparison(Described):
    """First system minus second on the same examples, with paired intervals.

    A difference is real if its interval excludes 0.
    """

    recall: dict[int, Estimate]
    mrr: Estimate

    def facts(self) -> Mapping[str, object]:
        """Return the text that shows the differences."""
        return {
            **{f"R@{k}": str(estimate) for k, estimate in self.recall.items()},
            "MRR": str(self.mrr),
        }

    def to_json(self) -> dict[str, Any]:
        """Return the differences as JSON values."""
        return msgspec.to_builtins(self, str_keys=True)


@dataclass(frozen=True, kw_only=True, repr=False)
class RankingResult(Described):
    """Figures of a ranker on a task; the names are those of the JSON."""

    recall: dict[int, Estimate]
    """Share of right candidates among the first k, for each k below the number of candidates."""
    mrr: Estimate  # mean of 1 / rank of the right candidate
    examples: int
    candidates: int  # candidates per example: N, or the longest of the lists in the data
    fewest_candidates: int
    given_candidates: bool  # the data gave the candidates
    same_candidates: bool = False  # every example has the same candidates
    dropped: int
    """Examples that are not ranked: left over after the last full group, or answered with no
    candidate."""
    ambiguous: int  # examples with another candidate of the same text as the right one
    copies: Copies = "wrong"
    """Count of that candidate: wrong ranks it before the right one, right counts it as right."""
    unit: Literal["thread", "example"]
    units: int  # threads or examples drawn by the bootstrap
    confidence: float = CONFIDENCE
    resamples: int = RESAMPLES
    seed: int  # seed of the shuffle into groups and of the bootstrap
    fingerprint: str  # of the task; results with equal ones are comparable by example
    seconds: float = field(compare=False)  # seconds spent in the ranker
    ranks: IntArray = field(compare=False)  # (examples,), 1 = first
    unit_of: IntArray = field(compare=False)  # (examples,): unit of each example

    def facts(self) -> Mapping[str, object]:
        """Return the text that shows the result."""
        figures = {
            **{f"R@{k}": str(estimate) for k, estimate in self.recall.items()},
            "MRR": str(self.mrr),
        }
        return figures | {
            "examples": self.examples,
            "candidates": self.candidates,
            "dropped": self.dropped,
        }

    def to_json(self, *, ranks: bool = False) -> dict[str, Any]:
        """Return everything as JSON values.

        Without `ranks`, omit the ranks of the examples and their units.
        """
        values: dict[str, Any] = msgspec.to_builtins(
            self, str_keys=True, enc_hook=np.ndarray.tolist
        )
        if not ranks:
            del values["ranks"], values["unit_of"]
            values["seconds"] = round(self.seconds, 3)
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> RankingResult:
        """Return the result with these values, ranks included, or raise ValueError."""
        return msgspec.convert(
            values, cls, str_keys=True, dec_hook=lambda _, array: np.array(array, dtype=np.int64)
        )


def result_of(
    task: RankingTask,
    right_ranks: IntArray,
    ks: Sequence[int],
    ambiguous: int,
    seconds: float,
    seed: int,
) -> RankingResult:
    """Return the figures of a task whose right candidates were found at some ranks."""
    *recall, mrr = estimates(_quantities(right_ranks, ks), task.units, seed=seed)
    return RankingResult(
        recall=dict(zip(ks, recall, strict=True)),
        mrr=mrr,
        examples=len(task),
        candidates=int(task.lengths.max()),
        fewest_candidates=int(task.lengths.min()),
        given_candidates=task.given,
        same_candidates=task.shared,
        dropped=task.dropped,
        ambiguous=ambiguous,
        copies=task.copies,
        unit=task.unit,
        units=int(task.units.max()) + 1,
        seed=seed,
        fingerprint=task.fingerprint,
        seconds=seconds,
        ranks=right_ranks,
        unit_of=task.units,
    )


def compare(first: RankingResult, second: RankingResult, *, seed: int = 0) -> Comparison:
    """Compare two systems, first minus second, by a paired bootstrap over their task's units."""
    check_count("seed", seed, least=0)
    if first.fingerprint != second.fingerprint:
        raise InputError(
            "the two results are of different examples or groups;"
            " evaluate both with the same settings"
        )
    ks = [k for k in first.recall if k in second.recall]
    difference = _quantities(first.ranks, ks) - _quantities(second.ranks, ks)
    *recall, mrr = estimates(difference, first.unit_of, bounds=(-1.0, 1.0), seed=seed)
    return Comparison(dict(zip(ks, recall, strict=True)), mrr)


def _quantities(right_ranks: IntArray, ks: Sequence[int]) -> npt.NDArray[np.float64]:
    """Return the values to average, (n, len(ks) + 1), for ranks (n,).

    The columns are the hits at each k, then 1 / rank.
    """
    return np.stack([*(right_ranks <= k for k in ks), 1 / right_ranks], axis=1).astype(np.float64)
