"""Replies of an index in messages that people sent: the same, filled in, or nearly the same.

An agent's message is a reply of the index if the words are the same (`text_key`), if it is the
reply with its placeholders filled in, or if it is a near-copy: a typo, a word more or less, a
greeting and a name around it. Learning, calibration and evaluation all recognise replies so.
"""

from __future__ import annotations

import functools
import heapq
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from rejoinder.corpora.keys import text_key, words_of
from rejoinder.corpora.schema import Candidate, Example
from rejoinder.text.alignment import align
from rejoinder.text.placeholders import PLACEHOLDER

_RAREST = 8  # words of a message by which replies are looked for
_MOST_ROWS = 50_000  # replies that a message is looked for among; more common words do not count
_REMEMBERED = 10_000  # messages whose reply was looked for
_TRIED = 5  # replies that a message is compared with, word by word
_LEAST_ALIKE = 0.8  # of the likeness
_LEAST_ALIKE_WORDS = 0.65  # share of the letters that two words have in common
_ADDED_COST = 0.2  # of as many added words as a reply has
_MOST_FILLED = 6  # words that stand for a placeholder
_DENYING = frozenset(  # "t" is what `words_of` leaves of "can't"
    """t not no never cannot without nobody nothing none cant wont dont doesnt isnt arent wasnt
    didnt hasnt havent couldnt nicht kein keine keinen keinem keiner nie niemals nein pas jamais
    non nunca jamás niet geen nee""".split()  # noqa: SIM905
)
_AFFIRMING = frozenset("yes ja oui sí si".split())  # noqa: SIM905
_DATES = frozenset(
    """monday tuesday wednesday thursday friday saturday sunday january february march april june
    july august september october november december montag dienstag mittwoch donnerstag freitag
    samstag sonntag""".split()  # noqa: SIM905
)
_NUMBERS = dict(
    zip(
        "one two three four five six seven eight nine ten eleven twelve".split(),  # noqa: SIM905
        map(str, range(1, 13)),
        strict=True,
    )
)
_OPPOSING = ("un", "in", "im", "dis", "non", "ir", "il")
_LONGEST_COMPARED = 60  # letters of a word; the time of a comparison grows with their square


class ReplyMatcher:
    """Recognises the replies of an index in messages that people sent."""

    def __init__(self, replies: Iterable[tuple[int, Candidate]]) -> None:
        self._exact: dict[str, int] = {}
        # position, words, number of placeholders
        self._texts: list[tuple[int, list[str], int]] = []
        postings: defaultdict[str, list[int]] = defaultdict(list)
        for position, reply in replies:
            self._exact.setdefault(text_key(reply.text), position)
            bare, count = PLACEHOLDER.subn(" ", reply.text)
            words = list(map(sys.intern, _words(bare)))  # many replies have the same ones
            for word in set(words):
                postings[word].append(len(self._texts))
            self._texts.append((position, words, count))
        self._postings = postings
        self._cached = functools.lru_cache(_REMEMBERED)(self._find)

    def find(self, message: str) -> int | None:
        """Return the position of the reply that a message is; None: of none, or of two alike."""
        exact = self._exact.get(text_key(message))
        return self._cached(message) if exact is None else exact

    def _find(self, message: str) -> int | None:
        """Compare a message with the replies that share its rarest words."""
        words = _words(message)
        known = sorted(
            set(words) & self._postings.keys(), key=lambda word: len(self._postings[word])
        )
        scores: defaultdict[int, float] = defaultdict(float)
        visited = 0
        for word in known[:_RAREST]:
            rows = self._postings[word]
            visited += len(rows)
            if visited > _MOST_ROWS:
                break
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
        if _sides(own) != _sides(words):
            return 0.0
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
                if any(map(_is_exact, own[start:end])):
                    return 0.0
                missing += sum(map(len, own[start:end]))
                added += last - first
        added = max(0, added - placeholders * _MOST_FILLED)
        return (total - missing) / max(1, total) - _ADDED_COST * added / max(1, len(own))


def _words(text: str) -> list[str]:
    """Return the words of a text; small numbers are written in digits."""
    return [_NUMBERS.get(word, word) for word in words_of(text)]


def _sides(words: Iterable[str]) -> Counter[bool]:
    """Return how often words deny, and how often they affirm: "we do not ship" is no "we ship"."""
    return Counter(word in _AFFIRMING for word in words if word in _AFFIRMING or word in _DENYING)


def _is_exact(word: str) -> bool:
    """Return whether a word must be the same: a number, a weekday, a month."""
    return not word.isalpha() or word in _DATES


def _mistyped(one: str, other: str) -> bool:
    """Return whether two words may be the same one, mistyped; numbers and opposites never are."""
    if any(one == prefix + other or other == prefix + one for prefix in _OPPOSING):
        return False
    if one in _DATES or other in _DATES:
        return False
    short = max(len(one), len(other)) <= _LONGEST_COMPARED
    letters = short and one.isalpha() and other.isalpha()
    return (
        letters and SequenceMatcher(None, one, other, autojunk=False).ratio() >= _LEAST_ALIKE_WORDS
    )


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
