"""Short forms of weekdays, as words that models know: "open on sat?", "mon-fri"."""

from __future__ import annotations

import re

from rejoinder.patterns import search_pattern
from rejoinder.text.courtesy import words
from rejoinder.text.dates import SHORT_WEEKDAYS

_DAYS = {short: day.capitalize() for short, day in SHORT_WEEKDAYS.items()}
_DAY = rf"\b(?ai:{'|'.join(_DAYS)})\b"
_SHORT = search_pattern(_DAY)
_JOINED = r"(?: ?[-–/&] ?|, ?| (?:and|or|to|till|until|through|thru) )"  # noqa: RUF001 (a dash)
_SEVERAL = search_pattern(
    rf"(?<![\w'\u2019@.-])(?<!the ){_DAY}(?:{_JOINED}{_DAY})+(?![\w'\u2019@-]|\.\w)"
)
_BEFORE = r"on|this|next|last|every|each|until|till|til|open|closed"
_BEHIND = (
    r"morning|afternoon|evening|night|and|or|at|from|before|after|between|if|for|please|pls|plz"
    r"|too|then|but|as|because|is|are|was|am|pm|\d{1,2}"
)
_MORE = rf" (?i:{_BEHIND})\b"
_ALONE = search_pattern(
    rf"\b(?i:{_BEFORE}) {_DAY}(?:\.(?={_MORE})|(?=\.?+(?:\s*+\Z|[?!,;:)]|\n|{_MORE}|\. )))"
)


def read_weekdays(text: str) -> str:
    """Return a text with the whole names of weekdays that it shortens.

    "Sat" and "sun" are words of their own: a day stands beside another day, or between a word such
    as "on" and one such as "morning", or the end.

    >>> read_weekdays("are you open on sat, or mon-fri only? I sat in the sun")
    'are you open on Saturday, or Monday-Friday only? I sat in the sun'
    """
    if _DAYS.keys().isdisjoint(words(text)):
        return text
    return _ALONE.sub(_with_whole_names, _SEVERAL.sub(_with_whole_names, text))


def _with_whole_names(match: re.Match[str]) -> str:
    return _SHORT.sub(lambda day: _DAYS[day[0].lower()], match[0].removesuffix("."))
