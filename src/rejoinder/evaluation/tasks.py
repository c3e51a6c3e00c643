"""What is ranked: every example with its candidates, cut into groups of N or as the data gives them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from rejoinder.errors import InputError
from rejoinder.ranker import Context

if TYPE_CHECKING:
    from rejoinder.corpora.example import Example

IntArray = npt.NDArray[np.int64]

SHARED_CELLS = 1 << 25
"""Most scores that are computed at once where all contexts share one list of candidates: some 300 MB."""


@dataclass(frozen=True, eq=False)
class RankingTask:
    """n contexts with their candidates, the right one marked. Build it with `ranking_task`."""

    contexts: Sequence[Context]
    """n conversations, oldest message first."""
    candidates: Sequence[Sequence[str]]
    """n lists of candidates; the contexts of a group share one list object."""
    labels: IntArray
    """(n,): place of the right candidate in each list."""
    units: IntArray
    """(n,): the bootstrap's unit of each example, numbered from 0 without gaps."""
    unit: Literal["thread", "example"]
    """What a unit is: all examples of a thread, or one example where the data names no threads."""
    given: bool
    """The data gave the candidates; otherwise they are the responses of the other examples of a group, or a pool."""
    dropped: int
    """Examples left over after the last full group; they are neither scored nor candidates."""

    def __len__(self) -> int:
        return len(self.contexts)

    @cached_property
    def lengths(self) -> IntArray:
        """(n,): number of candidates of each example."""
        return np.array([len(texts) for texts in self.candidates], dtype=np.int64)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all contexts, candidates and labels in order: equal for the same task, whoever ranks it."""
        digest = hashlib.sha256()
        previous: Sequence[str] | None = None
        for context, texts, label in zip(self.contexts, self.candidates, self.labels, strict=True):
            # A group's shared list is hashed once, where it starts. `repr` keeps texts apart, whatever they hold.
            new = () if texts is previous or texts == previous else tuple(texts)
            digest.update(repr((tuple(context), new, int(label))).encode("utf-8"))
            previous = texts
        return digest.hexdigest()

    def blocks(self, size: int | None = None) -> Iterator[IntArray]:
        """Places of examples that have equally many candidates, at most `size` (default: all) at a time.

        Where all share one list, that list is in every block, so that blocks of a bounded size change no score.
        """
        shared = all(texts is self.candidates[0] for texts in self.candidates)
        for length in np.unique(self.lengths):
            places = np.flatnonzero(self.lengths == length)
            step = size or len(places)
            if shared:
                step = min(step, max(1, SHARED_CELLS // int(length)))
            for start in range(0, len(places), step):
                yield places[start : start + step]

    def equals_right(self, block: IntArray) -> npt.NDArray[np.bool_]:
        """Array (len(block), m): which candidates have the very text of the right one, itself included."""
        rows: dict[int, npt.NDArray[np.int64]] = {}
        numbers: dict[str, int] = {}
        for place in block:
            texts = self.candidates[place]
            if id(texts) not in rows:
                rows[id(texts)] = np.array([numbers.setdefault(text, len(numbers)) for text in texts])
        if len(rows) == 1:
            (table,) = rows.values()
            return np.asarray(table[None] == table[self.labels[block]][:, None])
        table = np.stack([rows[id(self.candidates[place])] for place in block])
        right = table[np.arange(len(block)), self.labels[block]]
        equal: npt.NDArray[np.bool_] = table == right[:, None]
        return equal


def ranking_task(
    examples: Sequence[Example], *, candidates: int = 100, pool: Iterable[str] | None = None, seed: int = 0
) -> RankingTask:
    """Give each example its candidates.

    Where the data has candidate lists, these. Otherwise 1-of-N (DATA19, section 4): the examples are shuffled once
    and cut into groups of exactly N; the response of each is a candidate for the N - 1 other contexts of its group;
    an incomplete last group is dropped. With a `pool`, every text of it is a candidate of every example, once: where
    few answers serve many questions, as in an FAQ, no answer then stands against its own copy.

    Args:
        examples: all of them with `candidates` and `label`, or none.
        candidates: N, 2 or more; not used where the data has candidates, nor with a pool.
        pool: all candidates, repetitions allowed; the examples' responses are among them.
        seed: of the shuffle.

    Raises:
        InputError: too few examples for one group, a list without a label, lists in only a part of the data, or a
            pool although the data has lists, or without a response of the data.
    """
    with_lists = sum(1 for example in examples if example.candidates)
    if pool is not None:
        if with_lists:
            raise InputError(f"{with_lists} of {len(examples)} examples have candidates of their own; rank these")
        return _pooled(examples, list(dict.fromkeys(pool)))
    if with_lists == 0:
        return _one_of_n(examples, candidates, seed)
    if with_lists < len(examples):
        raise InputError(
            f"{with_lists} of {len(examples)} examples have candidates; give them to all, or to none for 1-of-N"
        )
    return _given(examples)


def _one_of_n(examples: Sequence[Example], n: int, seed: int) -> RankingTask:
    if n < 2:
        raise InputError(f"ranking needs at least 2 candidates, not {n}")
    if len(examples) < n:
        raise InputError(f"{len(examples)} examples cannot fill a group of {n} candidates; {_advice(len(examples))}")
    order = np.random.default_rng(seed).permutation(len(examples))[: len(examples) // n * n]
    shuffled = [examples[place] for place in order]
    groups = [[example.response for example in shuffled[start : start + n]] for start in range(0, len(order), n)]
    units, unit = _units(shuffled)
    return RankingTask(
        contexts=[example.context for example in shuffled],
        candidates=[group for group in groups for _ in range(n)],
        labels=np.arange(len(order), dtype=np.int64) % n,
        units=units,
        unit=unit,
        given=False,
        dropped=len(examples) - len(order),
    )


def _pooled(examples: Sequence[Example], texts: Sequence[str]) -> RankingTask:
    """Each example with all of `texts`, which are distinct."""
    if len(texts) < 2 or not examples:
        raise InputError(f"{len(examples)} examples and {len(texts)} different responses; give more data")
    places = {text: place for place, text in enumerate(texts)}
    for example in examples:
        if example.response not in places:
            raise InputError(f"the pool of candidates lacks the response of example {example.id or example.context}")
    units, unit = _units(examples)
    return RankingTask(
        contexts=[example.context for example in examples],
        candidates=[texts] * len(examples),
        labels=np.array([places[example.response] for example in examples], dtype=np.int64),
        units=units,
        unit=unit,
        given=False,
        dropped=0,
    )


def _advice(examples: int) -> str:
    if examples < 2:
        return "give more data"
    return f"ask for {examples} candidates or fewer, or give more data"


def _given(examples: Sequence[Example]) -> RankingTask:
    for place, example in enumerate(examples):
        _check_list(example, f"example {example.id or place}")
    units, unit = _units(examples)
    return RankingTask(
        contexts=[example.context for example in examples],
        candidates=[example.candidates for example in examples],
        labels=np.array([example.label for example in examples], dtype=np.int64),
        units=units,
        unit=unit,
        given=True,
        dropped=0,
    )


def _check_list(example: Example, name: str) -> None:
    count = len(example.candidates)
    if count < 2:
        raise InputError(f"{name} has {count} candidate; ranking needs at least 2")
    if example.label is None:
        raise InputError(f"{name} has {count} candidates and no label; label the right one, 0 to {count - 1}")


def _units(examples: Sequence[Example]) -> tuple[IntArray, Literal["thread", "example"]]:
    """Number the bootstrap's units: turns of one dialogue stand or fall together, so a thread is drawn whole.

    An example without a thread, among others that have one, is a unit of its own.
    """
    numbers: dict[tuple[str, str] | int, int] = {}
    keys = ((e.source, e.thread) if e.thread else place for place, e in enumerate(examples))
    units = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
    return units, "thread" if any(example.thread for example in examples) else "example"
