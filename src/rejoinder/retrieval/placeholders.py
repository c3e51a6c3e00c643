"""Variable parts of messages: those known by their form, and those in which like messages differ.

A number, a date or an e-mail address is known by its form. A person's name or a place is variable
if like messages have other words there. Redacted names (`<name>`) are variable as they are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import NamedTuple

_MONTHS = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?"
    "|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
)
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_FORMS = {
    "mark": r"<[a-z_]+>|\{[A-Za-z_][\w .-]{0,40}\}",
    "link": r"(?:https?://|www\.)[^\s<>]+[^\s<>.,;:!?)]",
    "email": r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)+",
    "date": rf"\d{{4}}-\d\d-\d\d|\d{{1,2}}[./]\d{{1,2}}[./]\d{{2,4}}"
    rf"|(?:{_DAY} (?:of )?(?:{_MONTHS})|(?:{_MONTHS}) {_DAY})\b(?:,? \d{{4}}\b)?"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day\b",
    "time": r"\d{1,2}[:.]\d\d(?: ?(?:[ap]m\b|[ap]\.m\.))?(?!\d|[.:]\d)"
    r"|\d{1,2} ?(?:[ap]m\b|o'clock)",
    "amount": r"[$€£] ?\d[\d.,]*\d|[$€£] ?\d|\d[\d.,]* ?(?:€|usd|eur|gbp|euros?|dollars?|pounds?)",
    "phone": r"(?:\+|\b00)\d(?:[ ()/-]{0,2}\d){6,13}|\b0\d(?:[ /-]?\d){8,10}\b",
    "code": r"#?(?=[a-z\d-]*\d)(?=[\d-]*[a-z]|[\d-]{5})[a-z\d]+(?:-[a-z\d]+)*\b",
    "number": r"\d+(?:[.,]\d+)*",
    "word": r"[^\W\d_]+(?:['\N{RIGHT SINGLE QUOTATION MARK}][^\W\d_]+)*",
    "sign": r"\S",
}
_TOKEN = re.compile("|".join(f"(?P<{kind}>{form})" for kind, form in _FORMS.items()), re.IGNORECASE)
_PLAIN = frozenset(("word", "sign"))
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


class Token(NamedTuple):
    """A word, a sign, or a part whose form is known."""

    kind: str
    text: str
    start: int

    @property
    def key(self) -> str:
        """Its word without case; of a known form the form."""
        if self.kind == "mark":
            return self.text.strip("<>{}")
        return self.text.casefold() if self.kind in _PLAIN else self.kind

    @property
    def end(self) -> int:
        """The position behind it."""
        return self.start + len(self.text)


@dataclass(slots=True)
class _Slot:
    """Words of a message, and what other messages have in their place."""

    start: int
    end: int
    values: Counter[str]


def tokens_of(text: str) -> list[Token]:
    """Return the words, signs and known forms of a text, in order."""
    return [
        Token(match.lastgroup or "", match[0], match.start()) for match in _TOKEN.finditer(text)
    ]


def mask(text: str) -> str:
    """Return a text whose parts of a known form are the name of the form."""
    pieces = []
    end = 0
    for token in tokens_of(text):
        if token.kind not in _PLAIN:
            pieces += [text[end : token.start], token.key]
            end = token.end
    return "".join([*pieces, text[end:]])


def with_placeholders(text: str, others: Sequence[str]) -> str:
    """Return a text whose variable parts are placeholders; `others` are messages like it.

    A part of a known form is variable if an other message has another value there.
    """
    own = tokens_of(text)
    slots = {
        number: _Slot(number, number + 1, Counter())
        for number, token in enumerate(own)
        if token.kind not in _PLAIN
    }
    words: dict[tuple[int, int], _Slot] = {}
    compared = 0
    for other in others[:_COMPARED]:
        compared += _compare(own, tokens_of(other), slots, words)
    chosen = [slot for slot in slots.values() if _is_form_variable(own[slot.start], slot)]
    chosen += _variable_words(own, list(words.values()), compared)
    return _fill(text, own, chosen)


def _compare(
    own: Sequence[Token],
    other: Sequence[Token],
    slots: dict[int, _Slot],
    words: dict[tuple[int, int], _Slot],
) -> bool:
    """Count what another message has in place of each part; return whether it is like the own."""
    matcher = SequenceMatcher(None, [t.key for t in own], [t.key for t in other], autojunk=False)
    if matcher.ratio() < _ALIKE:
        return False
    for operation, start, end, first, last in matcher.get_opcodes():
        if operation == "equal":
            for number, token in zip(range(start, end), other[first:last], strict=True):
                if number in slots:
                    slots[number].values[token.text] += 1
        elif operation == "replace" and max(end - start, last - first) <= _MOST_WORDS:
            value = " ".join(token.text for token in other[first:last])
            words.setdefault((start, end), _Slot(start, end, Counter())).values[value] += 1
    return True


def _is_form_variable(token: Token, slot: _Slot) -> bool:
    return token.kind == "mark" or any(value != token.text for value in slot.values)


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
    before = [t.key for t in own[: slot.start]]
    if token.kind in ("code", "number"):
        thing = next((word for word in reversed(before) if word not in _BETWEEN), "")
        return thing if thing in _NAMED_THINGS else token.kind
    if token.kind != "word":
        return token.key
    greeted = [word for word in before if word.isalpha()][-1:]
    return "name" if _GREETINGS.intersection(greeted) else "value"
