"""Parts of a message whose form says what they are: numbers, dates, e-mail addresses, marks."""

from __future__ import annotations

import re
from typing import NamedTuple

from rejoinder.patterns import search_pattern
from rejoinder.text.dates import MONTHS, SHORT_MONTHS, WEEKDAYS

_MONTHS = "|".join(sorted({*MONTHS, *SHORT_MONTHS}, key=lambda name: (-len(name), name)))
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_FORMS = {
    "mark": r"<[a-z_]+>|\{[A-Za-z_][\w .-]{0,40}\}",
    "link": r"(?:https?://|www\.)[^\s<>]+[^\s<>.,;:!?)]",
    "email": r"(?<![\w.+%-])[\w.+%-]++@[\w-]++(?:\.[\w-]++)++",
    "date": rf"\d{{4}}-\d\d-\d\d|\d{{1,2}}[./]\d{{1,2}}[./]\d{{2,4}}"
    rf"|(?:{_DAY} (?:of )?(?:{_MONTHS})|(?:{_MONTHS}) {_DAY})\b(?:,? \d{{4}}\b)?"
    rf"|(?:{'|'.join(WEEKDAYS)})\b",
    "time": r"\d{1,2}[:.]\d\d(?: ?(?:[ap]m\b|[ap]\.m\.))?(?!\d|[.:]\d)"
    r"|\d{1,2} ?(?:[ap]m\b|o'clock)",
    "amount": r"[$€£] ?\d[\d.,]{0,30}\d|[$€£] ?\d"
    r"|\d[\d.,]{0,30} ?(?:€|usd|eur|gbp|euros?|dollars?|pounds?)",
    "phone": r"(?:\+|\b00)\d(?:[ ()/-]{0,2}\d){6,13}|\b0\d(?:[ /-]?\d){8,10}\b",
    "code": r"(?<![^\W_])#?(?=[a-z\d])(?=[a-z\d-]{0,60}\d)(?=[\d-]{5}|[\d-]{0,60}[a-z])"
    r"[a-z\d]++(?:-[a-z\d]++)*\b",
    "number": r"\d++(?:[.,]\d++)*+",
    "word": r"[^\W\d_]+(?:['\N{RIGHT SINGLE QUOTATION MARK}][^\W\d_]+)*",
}
_BEGINS = r"(?=[\w<{$€£+#.%-])"  # what begins no form is a sign at once
_TOKEN = search_pattern(
    rf"{_BEGINS}(?:{'|'.join(f'(?P<{kind}>{form})' for kind, form in _FORMS.items())})"
    r"|(?P<sign>\S)",
    re.IGNORECASE,
)
PLAIN = frozenset(("word", "sign"))  # of no form


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
        return self.text.casefold() if self.kind in PLAIN else self.kind

    @property
    def end(self) -> int:
        """The position behind it."""
        return self.start + len(self.text)


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
        if token.kind not in PLAIN:
            pieces += [text[end : token.start], token.key]
            end = token.end
    return "".join([*pieces, text[end:]])
