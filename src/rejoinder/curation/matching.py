"""Replies of an index in messages that people sent: the same, filled in, or nearly the same.

An agent's message is a reply of the index if the words are the same (`text_key`), if it is the
reply with its placeholders filled in, or if it is a near-copy: a typo, a word more or less.
"""

from __future__ import annotations

import functools
import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from rejoinder.corpora.keys import text_key, words_of
from rejoinder.corpora.schema import Candidate, Example
from rejoinder.progress import Advance, silent
from rejoinder.retrieval.encoding.templates import PLACEHOLDER
from rejoinder.text.alignment import align

NEWEST = 4  # messages of a conversation that become an example
_RAREST = 8  # words of a message by which replies are looked for
_REMEMBERED = 10_000  # messages whose reply was looked for
_TRIED = 5  # replies that a message is compared with, word by word
_LEAST_ALIKE = 0.8  # of the likeness
_LEAST_ALIKE_WORDS = 0.65  # share of the letters that two words have in common
_ADDED_COST = 0.2  # of as many added words as a reply has
_MOST_FILLED = 6  # words that stand for a placeholder
_LONGEST_COMPARED = 60  # letters of a word; the time of a comparison grows with their square


class Match(NamedTuple):
    """A reply that was sent, by its position, in answer to a conversation."""

    position: int
    context: tuple[str, ...]
    thread: str


class ReplyMatcher:
    """Recognises the replies of an index in messages that people sent."""

    def __init__(self, replies: Iterable[tuple[int, Candidate]]) -> None:
        self._exact: dict[str, int] = {}
        self._texts: list[
            tuple[int, list[str], int]
        ] = []  # position, words, number of placeholders
        postings: defaultdict[str, list[int]] = defaultdict(list)
        for position, reply in replies:
            self._exact.setdefault(text_key(reply.text), position)
            bare, count = PLACEHOLDER.subn(" ", reply.text)
            for word in set(words_of(bare)):
                postings[word].append(len(self._texts))
            self._texts.append((position, words_of(bare), count))
        self._postings = postings
        self._cached = functools.lru_cache(_REMEMBERED)(self._find)

    def find(self, message: str) -> int | None:
        """Return the position of the reply that a message is; None: of none, or of two alike."""
        exact = self._exact.get(text_key(message))
        return self._cached(message) if exact is None else exact

    def _find(self, message: str) -> int | None:
        """Compare a message with the replies that share its rarest words."""
        words = words_of(message)
        known = sorted(
            set(words) & self._postings.keys(), key=lambda word: len(self._postings[word])
        )
        scores: defaultdict[int, float] = defaultdict(float)
        for word in known[:_RAREST]:
            rows = self._postings[word]
            weight = math.log(1 + len(self._texts) / len(rows))
            for row in rows:
                scores[row] += weight
        likely = heapq.nlargest(_TRIED, scores, key=lambda row: scores[row])
        rated = sorted(
            ((self._likeness(words, row), row) for row in likely),
            reverse=True,
        )
        if (
            not rated
            or rated[0][0] < _LEAST_ALIKE
            or (len(rated) > 1 and rated[1][0] == rated[0][0])
        ):
            return None
        return self._texts[rated[0][1]][0]

    def _likeness(self, words: Sequence[str], row: int) -> float:
        """Return the share of a reply's letters that a message has, less a cost of added words.

        The words of both are aligned in order; a mistyped word counts as the word. Added words cost
        nothing as far as they may have filled the reply's placeholders.
        """
        _, own, placeholders = self._texts[row]
        # With more words than that, none is alike.
        most = 2 * len(own) + placeholders * _MOST_FILLED
        alignment = align(own, words) if len(words) <= most else None
        if alignment is None:
            return 0.0
        total = sum(map(len, own))
        missing = 0.0
        added = 0
        for kind, start, end, first, last in alignment.get_opcodes():
            if (
                kind == "replace"
                and end - start == last - first
                and all(
                    _mistyped(a, b) for a, b in zip(own[start:end], words[first:last], strict=True)
                )
            ):
                continue
            if kind != "equal":
                missing += sum(map(len, own[start:end]))
                added += last - first
        added = max(0, added - placeholders * _MOST_FILLED)
        return (total - missing) / max(1, total) - _ADDED_COST * added / max(1, len(own))


def _mistyped(one: str, other: str) -> bool:
    """Return whether two words may be the same one, mistyped; numbers never are."""
    short = max(len(one), len(other)) <= _LONGEST_COMPARED
    letters = short and one.isalpha() and other.isalpha()
    return (
        letters and SequenceMatcher(None, one, other, autojunk=False).ratio() >= _LEAST_ALIKE_WORDS
    )


def newest_messages(context: Iterable[str]) -> tuple[str, ...]:
    """Return the newest `NEWEST` messages of a conversation that are not blank, oldest first."""
    return tuple(message for message in context if message.strip())[-NEWEST:]


def match(
    replies: Iterable[tuple[int, Candidate]],
    examples: Sequence[Example],
    progress: Advance = silent,
) -> list[Match]:
    """Return which responses of examples are replies of the index. `progress` counts examples."""
    matcher = ReplyMatcher(replies)
    matches = []
    for example in examples:
        position = matcher.find(example.response)
        context = newest_messages(example.context)
        if position is not None and context:
            matches.append(
                Match(position, context, example.thread or " ".join(example.context[:1]))
            )
        progress(1)
    return matches
