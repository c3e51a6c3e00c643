"""Replies of an index in messages that people sent: the same, filled in, or nearly the same.

An agent's message is a reply of the index if the words are the same (`text_key`), if it is the
reply with its placeholders filled in, or if it is a near-copy: a typo, a word more or less, a
greeting, a name and pleasantries around it. A reply of one or two words stands alone. With another
number, weekday or month, with a denial or an opposite in it, it is another reply. Learning,
calibration and evaluation all recognise replies so.
"""

from __future__ import annotations

import functools
import math
import sys
from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from rejoinder.corpora.keys import text_key, words_of
from rejoinder.corpora.schema import Candidate, Example
from rejoinder.corpora.wordings import read_wording, says_the_same, with_typos
from rejoinder.text.alignment import align
from rejoinder.text.dates import canonical
from rejoinder.text.placeholders import PLACEHOLDER

_MAX_QUERY_WORDS = 8  # words of a message by which replies are looked for
_MOST_ROWS = 50_000  # replies that a message is looked for among; more common words do not count
_REMEMBERED = 10_000  # messages whose reply was looked for
_MAX_COMPARED = 5  # replies that a message is compared with, word by word
_LEAST_ALIKE = 0.8  # of the likeness
_ADDED_COST = 0.2  # of as many added words as a reply has
_FEWEST_WORDS = 3  # of a reply that something may stand around: "Order 2" is no "2"
_MOST_FILLED = 6  # words that stand for a placeholder


class ReplyMatcher:
    """Recognises the replies of an index in messages that people sent."""

    def __init__(self, replies: Iterable[tuple[int, Candidate]]) -> None:
        self._exact: dict[str, int] = {}
        # position, words, number of placeholders, text
        self._texts: list[tuple[int, list[str], int, str]] = []
        postings: defaultdict[str, array[int]] = defaultdict(lambda: array("I"))
        for position, reply in replies:
            self._exact.setdefault(text_key(reply.text), position)
            bare, count = PLACEHOLDER.subn(" ", reply.text)
            words = list(map(sys.intern, _words(bare)))  # many replies have the same ones
            for word in set(words):
                postings[word].append(len(self._texts))
            self._texts.append((position, words, count, reply.text))
        self._postings = postings
        self._cached = functools.lru_cache(_REMEMBERED)(self._find)

    def find(self, message: str) -> int | None:
        """Return the position of the reply that a message is; None: of none, or of two alike."""
        exact = self._exact.get(text_key(message))
        return self._cached(message) if exact is None else exact

    def _find(self, message: str) -> int | None:
        """Compare a message with the replies that share its rarest words."""
        words = _words(message)
        rated = sorted(
            ((self._likeness(words, row, message), row) for row in self._likely(words)),
            reverse=True,
        )
        if (
            not rated
            or rated[0][0] < _LEAST_ALIKE
            or (len(rated) > 1 and rated[1][0] == rated[0][0])
        ):
            return None
        return self._texts[rated[0][1]][0]

    def _likely(self, words: Sequence[str]) -> list[int]:
        """Return the rows of the replies that share the rarest words, best first."""
        known = sorted(
            set(words) & self._postings.keys(), key=lambda word: (len(self._postings[word]), word)
        )
        scores = np.zeros(len(self._texts))
        visited = 0
        for word in known[:_MAX_QUERY_WORDS]:
            rows = np.frombuffer(self._postings[word], dtype=np.uintc)
            visited += len(rows)
            if visited > _MOST_ROWS:
                break
            scores[rows] += math.log(1 + len(self._texts) / len(rows))
        found = np.flatnonzero(scores)
        if len(found) > _MAX_COMPARED:
            least = np.partition(scores[found], -_MAX_COMPARED)[-_MAX_COMPARED]
            found = found[scores[found] >= least]
        best: list[int] = found[np.argsort(-scores[found], kind="stable")].tolist()
        return best[:_MAX_COMPARED]

    def _likeness(self, words: Sequence[str], row: int, message: str) -> float:
        """Return the share of a reply's letters that a message has, less a cost of added words.

        The words of both are aligned in order; a mistyped word counts as the word. Added words cost
        nothing as far as they may have filled the reply's placeholders. A message that says
        something else has none.
        """
        _, own, placeholders, text = self._texts[row]
        if len(own) < _FEWEST_WORDS and not placeholders:
            return 0.0
        # With more words than that, none is alike.
        most = 2 * len(own) + placeholders * _MOST_FILLED
        alignment = align(own, words) if len(words) <= most else None
        if alignment is None:
            return 0.0
        total = max(1, sum(map(len, own)))
        missing = added = 0
        opcodes = []
        for opcode in with_typos(alignment.get_opcodes(), own, words):
            kind, start, end, first, last = opcode
            opcodes.append(opcode)
            if kind != "equal":
                missing += sum(map(len, own[start:end]))
                added += last - first
            if total - missing < _LEAST_ALIKE * total:
                return 0.0
        added = max(0, added - placeholders * _MOST_FILLED)
        likeness = (total - missing) / total - _ADDED_COST * added / max(1, len(own))
        if likeness < _LEAST_ALIKE:
            return 0.0
        reply = read_wording(text, is_reply=True)
        is_same = says_the_same(reply, read_wording(message), opcodes)
        return likeness if is_same else 0.0


def _words(text: str) -> list[str]:
    """Return the words of a text; numbers, weekdays and months have one word in all languages."""
    return list(map(canonical, words_of(text)))


def with_sent_replies(examples: Sequence[Example], replies: Iterable[str]) -> list[Example]:
    """Return the examples, with the reply's own text where the response is one of the replies.

    The right reply then equals the response by `text_key`, whatever an agent wrote around it. Other
    responses stay.
    """
    texts = list(replies)
    keys = set(map(text_key, texts))
    if all(text_key(example.response) in keys for example in examples):
        return list(examples)
    matcher = ReplyMatcher(enumerate(map(Candidate, texts)))
    found = [
        None if text_key(example.response) in keys else matcher.find(example.response)
        for example in examples
    ]
    return [
        example if position is None else replace(example, response=texts[position])
        for example, position in zip(examples, found, strict=True)
    ]
