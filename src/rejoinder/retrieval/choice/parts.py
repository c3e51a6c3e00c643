"""The candidates of a conversation's parts as one list; `turns` makes the parts.

Each part is searched for by itself. A reply's score is that of the part that it fits best, less
`penalty`, since the best of several scores is greater by chance alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rejoinder.retrieval.replies import Reply
from rejoinder.stores.runs import Positions
from rejoinder.stores.scan import Scores
from rejoinder.text.courtesy import asks, denies, words
from rejoinder.text.sentences.questions import is_question, is_wish
from rejoinder.text.sentences.splitting import split_sentences

PENALTY = 0.03
"""Of a score for each doubling of the number of parts; see docs/choices.md."""

TELLING_PENALTY = 0.2
"""Of the scores of a part that asks nothing, where another one asks; of several parts at least."""

TELLING_STEP = 0.15
"""The same for each doubling of the number of such parts: the best of many is great by chance."""

TOLD_PENALTY = 0.3
"""Of the scores of what a sentence tells behind a denial, which may be the problem itself."""

ALSO_SCORE = 0.1
"""Of the best reply to another sentence, from which it is an answer of its own."""

ALSO_ASKED = -0.3
"""The same where that sentence asks."""


def penalties(texts: Sequence[str]) -> list[float]:
    """Return what is taken from the scores of each part of a message; nothing of one sentence's."""
    told = [0.0] * len(texts)
    if any(map(denies, texts)):
        told = [TOLD_PENALTY * bool(denial_before(texts, part)) for part in range(len(texts))]
    if len(sentence_parts(texts)) < 2:
        return told
    own = PENALTY * math.log2(len(texts))
    asking = [asks(text) for text in texts]
    count = asking.count(False)
    telling = 0.0
    if any(asking) and count:
        telling = max(TELLING_PENALTY, TELLING_STEP * math.log2(count))
    return [
        own + aside + (0.0 if is_asking else telling)
        for is_asking, aside in zip(asking, told, strict=True)
    ]


def denial_before(texts: Sequence[str], part: int) -> str:
    """Return the sentence of which a part tells what is behind a denial; "": it is no such part."""
    text = texts[part]
    around = [other for other in texts if text in other and other != text and denies(other)]
    tokens = words(text)
    if not around or asks(text) or is_question(tokens) or is_wish(tokens):
        return ""
    return next((other for other in around if len(split_sentences(other)) < 2), "")


class FoundByParts(NamedTuple):
    """Candidates of a conversation, best first, and the part that each fits best."""

    numbers: Positions
    scores: Scores
    parts: Mapping[int, int]
    complete_from: float  # the lowest score from which no candidate of the index is missing
    also: frozenset[int] = frozenset()  # best ones of other sentences than the best one's

    def with_part(self, number: int, reply: Reply) -> Reply:
        """Return the reply of a candidate, by its number, with the part that it fits."""
        return replace(reply, part=self.parts.get(number, 0), also=number in self.also)

    def plus(self, change: float) -> FoundByParts:
        """Return the same candidates with other scores."""
        return self._replace(scores=self.scores + change, complete_from=self.complete_from + change)

    def answers_first(self, minimum: float) -> Positions:
        """Return the places of candidates that reach a score: the best, `also`, then others.

        Those behind which better ones may be missing are left out.
        """
        is_answer = np.array([number in self.also for number in self.numbers.tolist()], dtype=bool)
        is_answer[:1] = True
        least = np.where(is_answer, minimum, max(minimum, self.complete_from))
        places = np.flatnonzero(self.scores >= least)
        return places[np.argsort(~is_answer[places], kind="stable")]


def join_parts(
    found: Sequence[tuple[Positions, Scores]],
    texts: Sequence[str],
    wanted: int,
    positions_of: Callable[[Positions], Positions] = np.asarray,
    fitting: Mapping[int, int] | None = None,
) -> FoundByParts:
    """Return the candidates that the parts of a conversation found as one list.

    Each part was asked for the `wanted` best. Equal scores are in the order of what `positions_of`
    gives for their numbers. A candidate in `fitting` counts by that part alone.
    """
    if len(found) == 1:
        [(own, own_scores)] = found
        return FoundByParts(own, own_scores, {}, _complete_from(own_scores, wanted))
    less = penalties(texts)
    numbers = np.concatenate([part_numbers for part_numbers, _ in found])
    scores = np.concatenate(
        [part_scores - own for (_, part_scores), own in zip(found, less, strict=True)]
    )
    parts = np.repeat(np.arange(len(found)), [len(part_numbers) for part_numbers, _ in found])
    order = np.lexsort((parts, positions_of(numbers), -scores))
    if fitting:
        rows = zip(numbers[order].tolist(), parts[order].tolist(), strict=True)
        order = order[[fitting.get(number, part) == part for number, part in rows]]
    _, firsts = np.unique(numbers[order], return_index=True)
    order = order[np.sort(firsts)]
    chosen = numbers[order]
    by_number = dict(zip(chosen.tolist(), parts[order].tolist(), strict=True))
    lowest = [
        _complete_from(part_scores, wanted) - own
        for (_, part_scores), own in zip(found, less, strict=True)
    ]
    best = int(parts[order[0]]) if len(order) else 0
    also = _also(found, less, texts, best).difference(chosen[:1].tolist())
    return FoundByParts(chosen, scores[order], by_number, max(lowest), also)


def _complete_from(scores: Scores, wanted: int) -> float:
    """Return the lowest score down to which all candidates of a part were found."""
    return float(scores[-1]) if len(scores) >= wanted else -math.inf


def _also(
    candidates: Sequence[tuple[Positions, Scores]],
    less: Sequence[float],
    texts: Sequence[str],
    best: int,
) -> frozenset[int]:
    """Return the candidates that surely answer another question than part `best` does."""
    firsts: set[int] = set()
    for parts in _questions(texts):
        if best in parts:
            continue
        sure = [
            (candidates[part][1][0] - less[part], int(candidates[part][0][0]))
            for part in parts
            if len(candidates[part][0])
            and candidates[part][1][0] - less[part] >= _least_score(texts[part])
        ]
        firsts.update(number for _, number in sorted(sure)[-1:])
    return frozenset(firsts)


def _questions(texts: Sequence[str]) -> list[list[int]]:
    """Return the parts of a message, each sentence with its clauses.

    Of a sentence that asks twice each clause is a question of its own.
    """
    is_one = len(split_sentences(texts[0])) < 2
    sentences: list[list[int]] = []
    for part in range(len(texts)) if is_one else sentence_parts(texts):
        if sentences and _without_mark(texts[part]) in texts[sentences[-1][0]]:
            sentences[-1].append(part)
        else:
            sentences.append([part])
    questions = []
    for whole, *clauses in sentences:
        is_double = sum(asks(texts[clause]) for clause in clauses) > 1
        questions += [[clause] for clause in clauses] if is_double else [[whole, *clauses]]
    return questions


def _least_score(sentence: str) -> float:
    return ALSO_ASKED if asks(sentence) else ALSO_SCORE


def sentence_parts(texts: Sequence[str]) -> list[int]:
    """Return which parts of a message are not all of it; one is a sentence without its courtesy."""
    bare = list(map(_without_mark, texts))
    return [part for part, text in enumerate(texts) if not all(other in text for other in bare)]


def _without_mark(text: str) -> str:
    """Return a text without the mark at its end, which may have been added or lost."""
    return text.rstrip(" ?.!")
