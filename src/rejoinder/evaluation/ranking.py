"""Recall at k and mean reciprocal rank of any ranker.

Doubts count against a ranker: a candidate ranks before the right one if it ties with it, if its
score is NaN, or (in the papers' protocol) if it has the same text.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from rejoinder.arrays import FloatArray
from rejoinder.checks import check_count
from rejoinder.conversations import Context, read_texts
from rejoinder.corpora.keys import text_key
from rejoinder.corpora.schema import Example
from rejoinder.corpora.sent_replies import with_sent_replies
from rejoinder.encoders.protocol import Ranker
from rejoinder.errors import InputError, RejoinderError, shown
from rejoinder.evaluation.result import RankingResult, result_of
from rejoinder.evaluation.tasks import Copies, IntArray, RankingTask, pooled_task, ranking_task
from rejoinder.progress import Advance, silent

RECALL_AT = (1, 2, 3, 5, 10, 50)  # the k of recall@k that the papers' tables use
RETRIEVED_AT = (1, 3, 10, 30, 100)  # the k of a search among all replies of an index
SEARCHED_FOR = RETRIEVED_AT[-1] + 1  # one more reply shows whether ties go on after the last k
SEARCHED_AT_ONCE = 256
Search: TypeAlias = Callable[[Sequence[Context]], Sequence[Sequence[tuple[str, float]]]]


def ranks(
    scores: FloatArray, labels: IntArray, right: npt.NDArray[np.bool_] | None = None
) -> IntArray:
    """Return the rank, 1 to m, of the right candidate of each row of scores (n, m).

    Its column is in `labels` (n,). Other candidates that are also `right` (n, m) do not rank before
    it.
    """
    # Candidates without a strictly lower score rank before it: ties and NaN count as wrong.
    rows = np.arange(len(scores))
    before = ~(scores < scores[rows, labels][:, None])
    if right is not None:
        before &= ~right
    before[rows, labels] = True
    return np.count_nonzero(before, axis=1).astype(np.int64)


def evaluate(
    ranker: Ranker,
    examples: Iterable[Example],
    *,
    candidates: int = 100,
    replies: Iterable[str] | None = None,
    copies: Copies = "right",
    seed: int = 0,
    block_size: int | None = None,
    progress: Advance = silent,
) -> RankingResult:
    """Rank each example's right response among its candidates.

    Candidates are groups of N, the lists in the data, or `replies`.

    >>> model = rejoinder.load("bi-small")                                 # doctest: +SKIP
    >>> examples = rejoinder.read_examples("data/chats", split="test")     # doctest: +SKIP
    >>> result = rejoinder.evaluate(model, examples, candidates=100)       # doctest: +SKIP
    >>> result.recall[1].value, result.recall[1].low, result.recall[1].high     # doctest: +SKIP

    All different `replies` are candidates of each example, as in `rejoinder evaluate --replies`.
    The right one is what `corpora.sent_replies` recognises in the response; examples without one
    are omitted, and counted as `dropped`. `copies` says how to count a candidate with the same text
    as the right one: "right" or, as in the papers, "wrong". `seed` is for the shuffle into groups
    and the bootstrap. `block_size` limits the contexts in one call of `ranker.score`. None (all at
    once) is for rankers whose scores depend on the other candidates, such as BM25.
    """
    if not isinstance(ranker, Ranker):
        raise InputError(
            f"evaluate needs a model, as opened by rejoinder.load; given: {shown(ranker)}"
        )
    if copies not in get_args(Copies):
        raise InputError(
            f"copies {copies!r} are unknown; allowed are {', '.join(get_args(Copies))}"
        )
    check_count("seed", seed, least=0)
    if block_size is not None:
        check_count("block_size", block_size)
    pool = (
        None
        if replies is None
        else read_texts(replies if isinstance(replies, str) else list(replies))
    )
    task = ranking_task(
        _examples(examples),
        candidates=candidates,
        pool=pool,
        are_sent=True,
        copies=copies,
        seed=seed,
    )
    return evaluate_task(ranker, task, seed=seed, block_size=block_size, progress=progress)


def _examples(value: object) -> list[Example]:
    examples: list[Any] = (
        list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    )
    for example in examples:
        if not isinstance(example, Example):
            raise InputError(
                f"give examples, as read by rejoinder.read_examples; given: {shown(example)}"
            )
    return examples


def evaluate_task(
    ranker: Ranker,
    task: RankingTask,
    *,
    seed: int = 0,
    block_size: int | None = None,
    progress: Advance = silent,
) -> RankingResult:
    """Evaluate on a task that is built once, for several systems or repeatedly in training."""
    # With k candidates, recall at k is 1 for any ranker.
    ks = [k for k in RECALL_AT if k < task.lengths.min()]
    right_ranks = np.empty(len(task), dtype=np.int64)
    ambiguous = 0
    seconds = 0.0
    for block in task.blocks(block_size):
        start = time.perf_counter()
        scores = _scores(ranker, task, block)
        seconds += time.perf_counter() - start
        labels = task.labels[block]
        equal = task.equals_right(block)
        ambiguous += int(np.count_nonzero(equal.sum(axis=1) > 1))
        # A model may round the scores of two equal texts differently; the winner would be an
        # accident.
        own = scores[np.arange(len(block)), labels][:, None]
        right_ranks[block] = ranks(
            np.where(equal, own, scores), labels, equal if task.copies == "right" else None
        )
        progress(len(block))
    return result_of(task, right_ranks, ks, ambiguous, seconds, seed)


def _scores(ranker: Ranker, task: RankingTask, block: IntArray) -> FloatArray:
    """Return a ranker's scores of a block (n, m); nested lists become an array."""
    returned: Any = ranker.score(
        [task.contexts[i] for i in block], [task.candidates[i] for i in block]
    )
    expected = (len(block), int(task.lengths[block[0]]))
    try:
        scores = np.asarray(returned)
    except (TypeError, ValueError, RuntimeError) as error:  # uneven lists, a card's tensor
        raise RejoinderError(
            f"{type(ranker).__name__}.score returned {shown(returned)}, not an array of numbers"
            f" of shape {expected}"
        ) from error
    if scores.shape != expected:
        raise RejoinderError(
            f"{type(ranker).__name__}.score returned shape {scores.shape}, not {expected}"
        )
    if scores.dtype.kind in "OUS":
        raise RejoinderError(
            f"{type(ranker).__name__}.score returned {shown(returned)}; return an array of numbers"
        )
    return scores


def evaluate_search(
    search: Search,
    replies: Iterable[str],
    examples: Iterable[Example],
    *,
    seed: int = 0,
    progress: Advance = silent,
) -> RankingResult:
    """Measure at which rank a search puts the right one among all replies of an index.

    A reply is right if `corpora.sent_replies` recognises it in the response; of several with its
    words, the first counts. Examples without a right reply are omitted, and counted as `dropped`. A
    right reply that is not among the `RETRIEVED_AT[-1]` best, or ties with the one after them,
    counts as the last of all.

    Args:
        search: gives of each context the `SEARCHED_FOR` best replies, text and score, best first.
        replies: the texts of all replies, one after the other.
        examples: lists of candidates, if they have any, are not read.
        seed: of the bootstrap.
        progress: gets the number of examples just searched for.
    """
    replies = list(replies)
    examples = [
        replace(example, candidates=(), label=None)
        for example in with_sent_replies(list(examples), replies)
    ]
    responses = {text_key(example.response) for example in examples}
    count = 0
    keys = 0  # a sum of hashes, which does not depend on the replies' order
    right_texts = dict[str, str]()
    times = Counter[str]()
    for count, text in enumerate(replies, 1):  # noqa: B007 (the last one is the count)
        key = text_key(text)
        keys += int.from_bytes(hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest())
        if key in responses:
            right_texts.setdefault(key, text)
            times[key] += 1
    if not right_texts:
        raise InputError(
            f"none of the responses of {len(examples)} examples is among the index's {count}"
            " replies"
        )
    if count < 2:
        raise InputError("the index holds one reply, which is always the first; add others")
    # the search ranks all replies of the index, though all examples may have the same right one
    task = pooled_task(
        examples, (right_texts[key] for key in sorted(right_texts)), text_key, fewest=1
    )
    right = [
        text_key(texts[label])
        for texts, label in zip(task.candidates, task.labels.tolist(), strict=True)
    ]
    right_ranks = np.full(len(task), count, dtype=np.int64)
    seconds = 0.0
    for start in range(0, len(task), SEARCHED_AT_ONCE):
        start_time = time.perf_counter()
        best = search(task.contexts[start : start + SEARCHED_AT_ONCE])
        seconds += time.perf_counter() - start_time
        for position, few in enumerate(best, start):
            rank = _rank_of(right[position], few, is_cut=len(few) < count)
            if rank is not None:
                right_ranks[position] = rank
        progress(len(best))
    ambiguous = sum(times[key] > 1 for key in right)
    ks = [k for k in RETRIEVED_AT if k < count]
    result = result_of(task, right_ranks, ks, ambiguous, seconds, seed)
    fingerprint = hashlib.sha256(f"{task.fingerprint} {count} {keys}".encode()).hexdigest()
    return replace(
        result, candidates=count, fewest_candidates=count, copies="right", fingerprint=fingerprint
    )


def _rank_of(key: str, best: Sequence[tuple[str, float]], *, is_cut: bool) -> int | None:
    """Return the rank of the reply with this key, None if it is not among `RETRIEVED_AT[-1]` best.

    Of a list that `is_cut`, replies after its end may tie with its last one.
    """
    equal = [text_key(text) == key for text, _ in best]
    if not any(equal):
        return None
    own = best[equal.index(True)][1]
    before = [score >= own and not same for (_, score), same in zip(best, equal, strict=True)]
    is_endless = is_cut and len(best) >= RETRIEVED_AT[-1] and before[-1]
    rank = 1 + sum(before)
    return None if is_endless or rank > RETRIEVED_AT[-1] else rank
