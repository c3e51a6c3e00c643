"""Wordings of a reply and of a message that resembles it, and whether both say the same.

A message says something else with another number, unit, weekday or month, with a denial or an
exception more or less, or with an opposite ("unlock"). Clauses that share no word with the reply
are framing and do not count, such as "No problem!". Numbers and dates count up to the end of a
sentence: "..., 20 euros".
"""

from __future__ import annotations

import bisect
import functools
import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from rejoinder.corpora.units import are_other_units
from rejoinder.patterns import search_pattern
from rejoinder.text.dates import Value, canonical, value_of
from rejoinder.text.placeholders import PLACEHOLDER
from rejoinder.text.signs.antonyms import NO, YES, are_opposed, count_denials

Opcode = tuple[str, int, int, int, int]

_PIECE = search_pattern(r"[^\W_]+|[.!?](?=\s|\Z)|[\n\x00]|[,;:](?=\s|\Z)|[\u2013\u2014]")
_ENDS = frozenset(".!?\n")
_EXCEPTING = frozenset(  # begin a clause that limits the one before it
    """but not except unless only aber nicht außer nur sondern mais sauf pero salvo ma tranne mas
    exceto maar behalve""".split()  # noqa: SIM905
)
_LIMITS = frozenset(  # that a reply and a message have both, or neither
    "except excluding unless außer ausgenommen sauf excepto salvo tranne exceto behalve".split()  # noqa: SIM905
)
_NAMES = frozenset(("no", "non", "nee"))  # that also deny
_LEAST_ALIKE = 0.65  # share of the letters that two words have in common
_LEAST_ALIKE_VALUES = 0.8  # of the letters of a mistyped month
_LEAST_LETTERS = 6  # of a mistyped weekday, month or number
_MOST_LETTERS = 60  # of a compared word; the time of a comparison grows with their square
_LEAST_DIGITS = 4  # of a number that may be that of an order


@dataclass(frozen=True, slots=True)
class Wording:
    """The words of a text, the number of the clause and of the sentence of each, and the gaps.

    A gap is the number of words before a placeholder.
    """

    words: list[str]
    clauses: list[int]
    sentences: list[int]
    gaps: list[int]

    def openers(self) -> dict[int, str]:
        """Return the clauses that are yes or no alone."""
        counts = Counter(self.clauses)
        single = [place for place, clause in enumerate(self.clauses) if counts[clause] == 1]
        return {
            self.clauses[place]: "yes" if self.words[place] in YES else "no"
            for place in single
            if self.words[place] in YES | NO
        }


def read_wording(text: str, *, is_reply: bool = False) -> Wording:
    """Return the wording of a text; of a reply with the gaps of its placeholders."""
    plain = PLACEHOLDER.sub(" \x00 ", text) if is_reply else text
    wording = Wording([], [], [], [])
    clause = sentence = 0
    for piece in _PIECE.findall(plain.casefold()):
        if piece == "\x00":
            wording.gaps.append(len(wording.words))
        elif piece[0].isalnum():
            wording.words.append(canonical(piece))
            wording.clauses.append(clause)
            wording.sentences.append(sentence)
        else:
            clause += 1
            sentence += piece in _ENDS
    return wording


def with_typos(
    opcodes: Iterable[Opcode], words: Sequence[str], others: Sequence[str]
) -> Iterator[Opcode]:
    """Yield the steps of an alignment; mistyped words at the ends of a replacement are equal."""
    for kind, start, end, first, last in opcodes:
        if kind != "replace":
            yield kind, start, end, first, last
            continue
        alike = list(map(_is_mistyped, words[start:end], others[first:last]))
        head = (*alike, False).index(False)
        rest = min(end - start, last - first) - head
        pairs = zip(range(end - 1, end - 1 - rest, -1), range(last - 1, -1, -1), strict=False)
        tail = sum(
            1
            for _ in itertools.takewhile(
                lambda at: _is_mistyped(words[at[0]], others[at[1]]), pairs
            )
        )
        yield "equal", start, start + head, first, first + head
        yield "replace", start + head, end - tail, first + head, last - tail
        yield "equal", end - tail, end, last - tail, last


@functools.lru_cache(maxsize=8192)
def _is_mistyped(one: str, other: str) -> bool:
    """Return whether two words may be the same one, mistyped."""
    is_short = max(len(one), len(other)) <= _MOST_LETTERS
    return is_short and one.isalpha() and other.isalpha() and _ratio(one, other) >= _LEAST_ALIKE


def says_the_same(reply: Wording, message: Wording, opcodes: Iterable[Opcode]) -> bool:
    """Return whether a message says what a reply says, neither its opposite nor another value."""
    difference = _compare(reply, opcodes)
    kinds = set(reply.openers().values())
    other_kinds = set(message.openers().values())
    if kinds and other_kinds and kinds.isdisjoint(other_kinds):
        return False
    clauses = _shared_clauses(message, difference.pairs)
    counted = [place for place, clause in enumerate(message.clauses) if clause in clauses]
    known = difference.pairs.keys() | difference.filled
    added = [place for place in counted if place not in known]
    pairs = difference.pairs.items()
    own = [reply.words[place] for place in difference.removed]
    own += [reply.words[at] for place, at in pairs if reply.words[at] != message.words[place]]
    theirs = [message.words[place] for place in added]
    theirs += [
        message.words[place] for place, at in pairs if reply.words[at] != message.words[place]
    ]
    return (
        not are_opposed(own, theirs)
        and not are_other_units(own, theirs)
        and _LIMITS.isdisjoint({*own, *theirs})
        and _denies_as_often(reply, message, counted, difference.filled)
        and _has_same_values(reply, message, difference)
    )


@dataclass(frozen=True, slots=True)
class _Difference:
    """Places of a message with words of a reply, places of words removed, and places filled in."""

    pairs: dict[int, int]
    removed: list[int]
    filled: set[int]


def _compare(reply: Wording, opcodes: Iterable[Opcode]) -> _Difference:
    difference = _Difference({}, [], set())
    for kind, start, end, first, last in opcodes:
        if kind == "equal":
            difference.pairs.update(zip(range(first, last), range(start, end), strict=True))
            continue
        difference.removed.extend(range(start, end))
        gap = bisect.bisect_left(reply.gaps, start)
        if gap < len(reply.gaps) and reply.gaps[gap] <= end:
            difference.filled.update(range(first, last))
    return difference


def _shared_clauses(message: Wording, pairs: Collection[int]) -> set[int]:
    """Return the clauses of a message with words of the reply, and those that limit these."""
    shared = {message.clauses[place] for place in pairs}
    for place, word in enumerate(message.words):
        clause = message.clauses[place]
        is_first = place > 0 and message.clauses[place - 1] != clause
        is_going_on = is_first and message.sentences[place - 1] == message.sentences[place]
        if is_going_on and word in _EXCEPTING and message.clauses[place - 1] in shared:
            shared.add(clause)
    return shared


def _denies_as_often(
    reply: Wording, message: Wording, counted: Iterable[int], filled: Collection[int]
) -> bool:
    """Return whether two texts deny as often, a lone "No," before them and names aside."""
    openers = reply.openers()
    own = [place for place, clause in enumerate(reply.clauses) if clause not in openers]
    openers = message.openers()
    theirs = [
        place
        for place in counted
        if message.clauses[place] not in openers
        and not (place in filled and message.words[place] in _NAMES)
    ]
    return count_denials(reply.words, own) == count_denials(message.words, theirs)


def _has_same_values(reply: Wording, message: Wording, difference: _Difference) -> bool:
    """Return whether two texts have the same numbers and dates in the same order.

    Values that are also common words ("may") count where another one stands in their place.
    """
    own = [value for value in map(value_of, reply.words) if value is not None]
    theirs = _values_of_message(reply, message, difference)
    if [value.name for value in own] == [value.name for value in theirs]:
        return True
    if _strict(own) != _strict(theirs):
        return False
    counts = Counter(value.name for value in own)
    others = Counter(value.name for value in theirs)
    return not (counts - others and others - counts)


def _strict(values: Iterable[Value]) -> list[str]:
    return [value.name for value in values if not value.is_common]


def _values_of_message(reply: Wording, message: Wording, difference: _Difference) -> list[Value]:
    """Return the values of the sentences that share words with a reply.

    What fills a placeholder is left out, and an added number that may be that of an order.
    """
    sentences = {message.sentences[place] for place in difference.pairs}
    values = []
    for place, word in enumerate(message.words):
        if message.sentences[place] not in sentences or place in difference.filled:
            continue
        at = difference.pairs.get(place)
        is_order = at is None and word.isdecimal() and len(word) >= _LEAST_DIGITS
        value = None if is_order else value_of(word)
        if value is None and at is not None:
            value = _mistyped_value(reply.words[at], word)
        if value is not None:
            values.append(value)
    return values


def _mistyped_value(word: str, other: str) -> Value | None:
    """Return the value of a word, if another may be this word mistyped: "Decmber"."""
    value = value_of(word) if len(word) >= _LEAST_LETTERS and word != other else None
    is_alike = value is not None and len(other) <= _MOST_LETTERS
    return value if is_alike and _ratio(word, other) >= _LEAST_ALIKE_VALUES else None


def _ratio(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other, autojunk=False).ratio()
