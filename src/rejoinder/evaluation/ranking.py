"""Recall at k and mean reciprocal rank of anything that ranks.

Nothing here is counted in a ranker's favour: a candidate that ties with the right one stands before it, one whose
score is not a number too, and one that has the very text of the right one always does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rejoinder.errors import InputError, RejoinderError
from rejoinder.evaluation.bootstrap import RESAMPLES, estimates
from rejoinder.evaluation.results import RankingResult, quantities
from rejoinder.evaluation.tasks import RankingTask, ranking_task
from rejoinder.ranker import FloatArray, Ranker

if TYPE_CHECKING:
    from rejoinder.corpora.example import Example

IntArray = npt.NDArray[np.int64]

RECALL_AT = (1, 2, 3, 5, 10, 50)
"""The k of recall@k that the papers' tables use."""


def ranks(scores: FloatArray, labels: IntArray) -> IntArray:
    """Rank of the right candidate of each row, 1 = best, m = worst.

    Counted as before it is every candidate that does not score strictly less: ties and NaN go against the ranker,
    and where the right one itself has NaN, all others stand before it.

    Args:
        scores: array (n, m); higher is better.
        labels: array (n,), the column of the right candidate, 0 to m - 1.

    Raises:
        InputError: shapes do not fit, or a label is out of range.
    """
    if scores.ndim != 2 or labels.shape != (len(scores),):
        raise InputError(f"scores must be (n, m) and labels (n,), not {scores.shape} and {labels.shape}")
    n, m = scores.shape
    if n and (labels.min() < 0 or labels.max() >= m):
        raise InputError(f"labels must be 0 to {m - 1}, not {labels.min()} to {labels.max()}")
    own = scores[np.arange(n), labels][:, None]
    return m - np.count_nonzero(scores < own, axis=1).astype(np.int64)


def evaluate(
    ranker: Ranker,
    examples: Sequence[Example],
    *,
    candidates: int = 100,
    seed: int = 0,
    recall_at: Sequence[int] = RECALL_AT,
    resamples: int = RESAMPLES,
    block_size: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> RankingResult:
    """Rank each example's right response among its candidates: 1-of-N, or the lists that the data gives.

    Args:
        ranker: anything with `score`.
        examples: see `ranking_task`.
        candidates: N of 1-of-N.
        seed: of the shuffle into groups and of the bootstrap.
        recall_at: each k of recall@k; those not below the (smallest) number of candidates are left out.
        resamples: how often the bootstrap draws.
        block_size: most contexts in one call of `ranker.score`; by default all that have equally many candidates.
            Leave it so for a ranker whose scores depend on the other candidates of the call, such as BM25.
        progress: called with the number of examples done after each call of `ranker.score`.

    Raises:
        InputError: as `ranking_task`; or a k, `resamples` or `block_size` below 1.
        RejoinderError: the ranker returned scores of a wrong shape.
    """
    task = ranking_task(examples, candidates=candidates, seed=seed)
    return evaluate_task(
        ranker,
        task,
        seed=seed,
        recall_at=recall_at,
        resamples=resamples,
        block_size=block_size,
        progress=progress,
    )


def evaluate_task(
    ranker: Ranker,
    task: RankingTask,
    *,
    seed: int = 0,
    recall_at: Sequence[int] = RECALL_AT,
    resamples: int = RESAMPLES,
    block_size: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> RankingResult:
    """`evaluate` for a task that is built once and ranked by several systems, or again and again in training."""
    ks = _cutoffs(task, recall_at)
    _check_counts(resamples=resamples, block_size=block_size)
    found = np.empty(len(task), dtype=np.int64)
    ambiguous = 0
    seconds = 0.0
    for block in task.blocks(block_size):
        start = time.perf_counter()
        scores = _scores(ranker, task, block)
        seconds += time.perf_counter() - start
        equal = task.equals_right(block)
        ambiguous += int(np.count_nonzero(equal.sum(axis=1) > 1))
        found[block] = ranks(_tie(scores, equal, task.labels[block]), task.labels[block])
        if progress is not None:
            progress(len(block))
    *recall, mrr = estimates(quantities(found, ks), task.units, resamples=resamples, seed=seed)
    return RankingResult(
        recall=dict(zip(ks, recall, strict=True)),
        mrr=mrr,
        examples=len(task),
        candidates=int(task.lengths.max()),
        fewest_candidates=int(task.lengths.min()),
        given=task.given,
        dropped=task.dropped,
        ambiguous=ambiguous,
        unit=task.unit,
        units=int(task.units.max()) + 1,
        resamples=resamples,
        seed=seed,
        fingerprint=task.fingerprint,
        seconds=seconds,
        ranks=found,
        unit_of=task.units,
    )


def _scores(ranker: Ranker, task: RankingTask, block: IntArray) -> FloatArray:
    scores = ranker.score([task.contexts[i] for i in block], [task.candidates[i] for i in block])
    expected = (len(block), int(task.lengths[block[0]]))
    if scores.shape != expected:
        raise RejoinderError(f"{type(ranker).__name__}.score returned shape {scores.shape}, not {expected}")
    return scores


def _tie(scores: FloatArray, equal: npt.NDArray[np.bool_], labels: IntArray) -> FloatArray:
    """Give candidates of the right one's text its score.

    A model's arithmetic may round two copies of a text apart, and which of them wins is then an accident.
    """
    own = scores[np.arange(len(scores)), labels][:, None]
    return np.where(equal, own, scores)


def _cutoffs(task: RankingTask, recall_at: Sequence[int]) -> list[int]:
    """The k that say something: with as many candidates as k, recall is 1 whatever the ranker does."""
    if any(k < 1 for k in recall_at):
        raise InputError(f"recall@k needs k of 1 or more, not {min(recall_at)}")
    return [k for k in sorted(set(recall_at)) if k < task.lengths.min()]


def _check_counts(*, resamples: int, block_size: int | None) -> None:
    """Refuse before the ranking, which can take long, what would fail after it."""
    if resamples < 1:
        raise InputError(f"at least 1 bootstrap resample is needed, not {resamples}")
    if block_size is not None and block_size < 1:
        raise InputError(f"block_size must be 1 or more, not {block_size}")
