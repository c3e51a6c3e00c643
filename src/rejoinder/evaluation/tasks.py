"""Ranking tasks: every example with its candidates.

Candidates are groups of N, or the lists in the data.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from rejoinder.checks import check_count
from rejoinder.conversations import Context
from rejoinder.corpora.keys import text_key
from rejoinder.corpora.sent_replies import with_sent_replies
from rejoinder.encoders.candidates import candidate_lists
from rejoinder.errors import InputError
from rejoinder.progress import Advance, silent

if TYPE_CHECKING:
    from rejoinder.corpora.schema import Example
    from rejoinder.corpora.splits import Split

IntArray = npt.NDArray[np.int64]
Copies: TypeAlias = Literal["right", "wrong"]
"""How to count another candidate with the right one's text. Wrong, the papers' protocol: it ranks
before the right one, like a tie. Right is for data in which few replies answer many contexts."""

FIT_EXAMPLES = 10_000  # training examples for a baseline (DATA19, section 5)
OTHER_DATA = "--fit-on, in a table train"
# scores computed at once, in some 300 MB, where all contexts share one list of candidates
SHARED_CELLS = 1 << 25


@dataclass(frozen=True, eq=False)
class RankingTask:
    """n contexts with their candidates and the right one's position; see `ranking_task`."""

    contexts: Sequence[Context]
    candidates: Sequence[Sequence[str]]  # n lists; the contexts of a group share one list object
    labels: IntArray  # (n,): position of the right candidate in each list
    units: IntArray  # (n,): the bootstrap's unit of each example, numbered from 0 without gaps
    unit: Literal["thread", "example"]
    """All examples of a thread, or one example if the data names no threads."""
    given: bool = False  # the data gave the candidates
    shared: bool = False  # all contexts share one list
    dropped: int = 0
    """Examples that are not ranked: left over after the last full group, or answered with no
    candidate."""
    copies: Copies = "wrong"

    def __len__(self) -> int:
        return len(self.contexts)

    @cached_property
    def lengths(self) -> IntArray:
        """(n,): number of candidates of each example."""
        return np.array([len(texts) for texts in self.candidates], dtype=np.int64)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of contexts, candidates, labels and `copies`, in order.

        Equal tasks have equal digests.
        """
        digest = hashlib.sha256(b"" if self.copies == "wrong" else b"copies are right")
        previous: Sequence[str] | None = None
        for context, texts, label in zip(self.contexts, self.candidates, self.labels, strict=True):
            # A group's shared list is hashed once, where it starts. `repr` keeps texts apart,
            # whatever they hold.
            new = () if texts is previous or texts == previous else tuple(texts)
            digest.update(repr((tuple(context), new, int(label))).encode("utf-8"))
            previous = texts
        return digest.hexdigest()

    def blocks(self, size: int | None = None) -> Iterator[IntArray]:
        """Yield positions of examples with equally many candidates, at most `size` at a time.

        None: all.
        """
        # A list that all share is in every block, so that blocks of a bounded size change no score.
        for length in np.unique(self.lengths):
            places = np.flatnonzero(self.lengths == length)
            step = size or len(places)
            if self.shared:
                step = min(step, max(1, SHARED_CELLS // int(length)))
            for start in range(0, len(places), step):
                yield places[start : start + step]

    def equals_right(self, block: IntArray) -> npt.NDArray[np.bool_]:
        """Return which candidates have the same text as the right one, (len(block), m).

        This includes the right one.
        """
        lists = candidate_lists([()] * len(block), [self.candidates[number] for number in block])
        labels = self.labels[block]
        equal = np.zeros(lists.shape, dtype=np.bool_)
        for rows, texts in lists.groups:
            equal[rows] = texts == texts[labels[rows]][:, None]
        return equal


def ranking_task(
    examples: Iterable[Example],
    *,
    candidates: int = 100,
    pool: Iterable[str] | None = None,
    are_sent: bool = False,
    copies: Copies = "wrong",
    seed: int = 0,
) -> RankingTask:
    """Give each example its candidates.

    Candidates are the lists in the data, if it has any. Otherwise 1-of-N (DATA19, section 4): the
    shuffled examples are split into groups of exactly N, whose responses are the candidates of each
    example. An incomplete last group is dropped. With a `pool`, such as the answers of an FAQ or a
    team's canned replies, each of its different texts is a candidate of every example. The right
    one is the response; an example without one is dropped. If people have sent the texts of the
    pool (`are_sent`), texts are equal by `text_key`, and the right one is what
    `corpora.sent_replies` recognises.
    """
    examples = list(examples)
    with_lists = sum(1 for example in examples if example.candidates)
    if pool is not None:
        if with_lists:
            raise InputError(
                f"{with_lists} of {len(examples)} examples have their own candidates; rank those"
            )
        if not are_sent:
            return pooled_task(examples, pool, str)
        texts = list(pool)
        return pooled_task(with_sent_replies(examples, texts), texts, text_key)
    if with_lists == 0:
        return _one_of_n(examples, candidates, seed, copies)
    if with_lists < len(examples):
        raise InputError(
            f"{with_lists} of {len(examples)} examples have candidates; give them to all or to none"
        )
    return _given(examples, copies)


def _one_of_n(examples: Sequence[Example], n: int, seed: int, copies: Copies) -> RankingTask:
    check_count("candidates", n, 2)
    if len(examples) < n:
        raise InputError(
            f"{len(examples)} examples cannot fill a group of {n} candidates;"
            " give more data, or ask for fewer candidates"
        )
    order = np.random.default_rng(seed).permutation(len(examples))[: len(examples) // n * n]
    shuffled = [examples[number] for number in order]
    groups = [
        [example.response for example in shuffled[start : start + n]]
        for start in range(0, len(order), n)
    ]
    lists = [group for group in groups for _ in range(n)]
    dropped = len(examples) - len(order)
    return _task(shuffled, lists, np.arange(len(order)) % n, dropped=dropped, copies=copies)


def pooled_task(
    examples: Sequence[Example],
    pool: Iterable[str],
    key: Callable[[str], str],
    *,
    fewest: int = 2,
) -> RankingTask:
    """Return a task in which each example has all different texts of the pool.

    InputError: these are fewer than `fewest`, or no example has its response among them.
    """
    texts: dict[str, str] = {}
    for text in pool:
        texts.setdefault(key(text), text)
    if len(texts) < fewest or not examples:
        raise InputError(
            f"{len(examples)} examples and {len(texts)} different candidates; give more data"
        )
    places = {name: position for position, name in enumerate(texts)}
    pairs = [(example, places.get(key(example.response))) for example in examples]
    kept = [(example, position) for example, position in pairs if position is not None]
    if not kept:
        raise InputError(
            f"none of {len(examples)} responses,"
            f" such as {examples[0].response[:60]!r}, is one of the {len(texts)} candidates"
        )
    candidates = list(texts.values())
    dropped = len(pairs) - len(kept)
    ranked = [example for example, _ in kept]
    labels = [position for _, position in kept]
    return _task(ranked, [candidates] * len(kept), labels, shared=True, dropped=dropped)


def _given(examples: Sequence[Example], copies: Copies) -> RankingTask:
    labels = []
    for number, example in enumerate(examples):
        name = f"example {example.id or number}"
        count = len(example.candidates)
        if count < 2:
            raise InputError(f"{name} has {count} candidate; ranking needs at least 2")
        if example.label is None or not 0 <= example.label < count:
            raise InputError(
                f"{name} has {count} candidates and the label {example.label};"
                f" it is 0 to {count - 1}"
            )
        labels.append(example.label)
    return _task(
        examples, [example.candidates for example in examples], labels, given=True, copies=copies
    )


def _task(
    examples: Sequence[Example], lists: Sequence[Sequence[str]], labels: npt.ArrayLike, **about: Any
) -> RankingTask:
    # Turns of one dialogue are correlated, so the bootstrap draws whole threads. An
    # example without a thread, among others that have one, is a unit of its own.
    numbers: dict[tuple[str, str] | int, int] = {}
    keys = ((e.source, e.thread) if e.thread else number for number, e in enumerate(examples))
    return RankingTask(
        contexts=[example.context for example in examples],
        candidates=lists,
        labels=np.asarray(labels, dtype=np.int64),
        units=np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64),
        unit="thread" if any(example.thread for example in examples) else "example",
        **about,
    )


def sample(
    examples: Iterable[Example], limit: int | None, seed: int = 0, progress: Advance = silent
) -> list[Example]:
    """Draw at most `limit` examples (None: all), each equally likely.

    At most `limit` are in memory. Source: Vitter, "Random Sampling with a Reservoir" (1985),
    algorithm R. `progress` is called for every thousand.
    """
    rng = random.Random(seed)
    kept = []
    read = 0
    for read, example in enumerate(examples, start=1):
        if limit is None or read <= limit:
            kept.append(example)
        elif (slot := rng.randrange(read)) < limit:
            kept[slot] = example
        if read % 1000 == 0:
            progress(1000)
    progress(read % 1000)
    return kept


def ranked_part(path: Path, split: Split | None) -> Split | None:
    """Return the default part of the data to rank.

    It is test for a folder, and all (None) for a file.
    """
    return "test" if split is None and path.is_dir() else split


def all_responses(path: str | Path) -> Iterator[str]:
    """Yield the responses of all parts of a data set.

    The answer to a new question may occur only in training.
    """
    from rejoinder.corpora.forms.examples import read_responses

    return read_responses(path)


def training_examples(
    path: Path,
    ranked: Path,
    split: Split | None,
    limit: int = FIT_EXAMPLES,
    seed: int = 0,
    progress: Advance = silent,
) -> list[Example]:
    """Draw a baseline's examples from a data set's training part, except `ranked` ones."""
    from rejoinder.corpora.forms.examples import read_examples

    if split in (None, "train") and path.resolve() == ranked.resolve():
        raise InputError(
            f"{ranked} is ranked with its training part, so no examples are left to learn from;"
            " rank another part (--split valid or test), or name other training data"
            f" ({OTHER_DATA})"
        )
    try:
        examples = sample(read_examples(path, "train"), limit, seed, progress=progress)
    except InputError as error:
        raise InputError(
            f"no training examples to learn from (name others with {OTHER_DATA}): {error}"
        ) from error
    if not examples:
        raise InputError(
            f"{path} has no training examples to learn from; name other data ({OTHER_DATA})"
        )
    return examples
