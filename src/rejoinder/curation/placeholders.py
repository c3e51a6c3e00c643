"""Templates of messages: like messages tell what of one is variable.

A number, a date or an e-mail address is variable by its form. A person's name or a place is
variable if like messages have other words there. Redacted names (`<name>`) are variable as they
are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rejoinder.curation.forms import PLAIN, Token, tokens_of
from rejoinder.text.alignment import align

_GREETINGS = frozenset(
    "hi hello dear hey hallo thanks mr mrs ms welcome sorry".split()  # noqa: SIM905
)
_NAMED_THINGS = frozenset(
    """order ticket reference booking tracking invoice case account room train table confirmation
    parcel shipment customer contract flight voucher coupon phone""".split()  # noqa: SIM905
)
_BETWEEN = frozenset(
    "number numbers no nr id code is was are the your # : .".split()  # noqa: SIM905
)
_ALIKE = 0.6  # share of its words that a message must have in common with another one
_MOST_WORDS = 4  # of a name
_VALUES = 3  # that differ, for words to be variable
_SHARE = 0.4  # of the like messages that have other words there
_COMPARED = 40  # messages
_TOKENS_BEFORE = 12  # a variable part, of which one says what it is


@dataclass(slots=True)
class _Slot:
    """Words of a message, and what other messages have in their place."""

    start: int
    end: int
    values: Counter[str]


def with_placeholders(text: str, others: Sequence[str]) -> str:
    """Return a text whose variable parts are placeholders; `others` are messages like it.

    A part of a known form is variable if an other message has another value there.
    """
    own = tokens_of(text)
    variable = {number for number, token in enumerate(own) if token.kind == "mark"}
    words: dict[tuple[int, int], _Slot] = {}
    compared = 0
    for other in others[:_COMPARED]:
        compared += _compare(own, tokens_of(other), variable, words)
    chosen = [_Slot(number, number + 1, Counter()) for number in variable]
    chosen += _variable_words(own, list(words.values()), compared)
    return _fill(text, own, chosen)


def _compare(
    own: Sequence[Token],
    other: Sequence[Token],
    variable: set[int],
    words: dict[tuple[int, int], _Slot],
) -> bool:
    """Return whether another message is like the own one.

    Then add the numbers of own forms in whose place it has another value, and count its `words` in
    the places of own ones.
    """
    matcher = align([t.key for t in own], [t.key for t in other])
    if matcher is None or matcher.ratio() < _ALIKE:
        return False
    for operation, start, end, first, last in matcher.get_opcodes():
        if operation == "equal":
            for number, token in zip(range(start, end), other[first:last], strict=True):
                if own[number].kind not in PLAIN and token.text != own[number].text:
                    variable.add(number)
        elif operation == "replace" and max(end - start, last - first) <= _MOST_WORDS:
            value = " ".join(token.text for token in other[first:last])
            words.setdefault((start, end), _Slot(start, end, Counter())).values[value] += 1
    return True


def _variable_words(own: Sequence[Token], slots: list[_Slot], compared: int) -> list[_Slot]:
    """Return the words that are names: most values are capitalised, and many messages differ."""
    chosen: list[_Slot] = []
    for slot in sorted(slots, key=lambda slot: -slot.values.total()):
        span = own[slot.start : slot.end]
        values = [*slot.values, " ".join(token.text for token in span)]
        is_free = all(slot.end <= other.start or other.end <= slot.start for other in chosen)
        is_name = sum(value[:1].isupper() for value in values) > len(values) / 2
        starts = slot.start == 0 or own[slot.start - 1].text in ".!?"
        if (
            is_free
            and is_name
            and not starts
            and len(slot.values) >= _VALUES - 1
            and slot.values.total() >= _SHARE * compared
            and all(token.kind == "word" for token in span)
        ):
            chosen.append(slot)
    return chosen


def _fill(text: str, own: Sequence[Token], slots: Sequence[_Slot]) -> str:
    """Return a text with a named placeholder in place of each slot; equal names are numbered."""
    pieces = []
    names: Counter[str] = Counter()
    end = 0
    for slot in sorted(slots, key=lambda slot: slot.start):
        name = _name(own, slot)
        names[name] += 1
        number = f"_{names[name]}" if names[name] > 1 else ""
        pieces += [text[end : own[slot.start].start], f"{{{name}{number}}}"]
        end = own[slot.end - 1].end
    return "".join([*pieces, text[end:]])


def _name(own: Sequence[Token], slot: _Slot) -> str:
    """Return what a variable part is: by its form, or by the words before it."""
    token = own[slot.start]
    before = [t.key for t in own[max(0, slot.start - _TOKENS_BEFORE) : slot.start]]
    if token.kind in ("code", "number"):
        thing = next((word for word in reversed(before) if word not in _BETWEEN), "")
        return thing if thing in _NAMED_THINGS else token.kind
    if token.kind != "word":
        return token.key
    greeted = [word for word in before if word.isalpha()][-1:]
    return "name" if _GREETINGS.intersection(greeted) else "value"
