"""Words of yes, no and nothing in cells and fields of exports, and those that hide a message."""

from __future__ import annotations

from collections import Counter

YES = frozenset(
    """true 1 1.0 yes y t x on ja j wahr oui vrai sí si verdadero vero sim
    verdadeiro""".split()  # noqa: SIM905
)
NO = frozenset(
    """false 0 0.0 no n f off nein falsch non faux falso não nao nee""".split()  # noqa: SIM905
)
_BLANK = frozenset("nan null none nil n/a #n/a na <na> -".split())  # noqa: SIM905
PRIVATE_NOTES = "private notes"  # a key of `Reading.dropped`
_HIDDEN = frozenset("private internal hidden".split())  # noqa: SIM905
_SHOWN = frozenset("public external visible all everyone".split())  # noqa: SIM905
_SHOWN_IF_PUBLIC = _SHOWN | YES
_SHOWN_IF_NOT_PRIVATE = _SHOWN | NO
_MAX_SHOWN = 40  # letters of a value in a note
_MAX_VALUES = 3  # in notes


def word_of(value: object) -> str:
    """Return a value as a word of the lists: without case, and nothing for a blank such as NaN."""
    word = "" if value is None else str(value).strip().casefold()
    return "" if word in _BLANK else word


def is_yes(value: object) -> bool:
    """Return whether a value says yes, in any of the spreadsheets' languages."""
    return word_of(value) in YES


def is_hidden(value: object, *, public: bool = False) -> bool:
    """Return whether a field hides a message: one that says that it is private, or `public`.

    A blank hides none. A value of unknown meaning hides one, since a note must not get out.
    """
    word = word_of(value)
    return bool(word) and word not in (_SHOWN_IF_PUBLIC if public else _SHOWN_IF_NOT_PRIVATE)


class HiddenMessages:
    """Messages that a field hides, and the values of such fields whose meaning is unknown."""

    def __init__(self) -> None:
        self._unknown = Counter[tuple[str, str]]()

    def hides(self, name: str, value: object, *, public: bool = False) -> bool:
        """Return whether a field with this name hides a message; remember an unknown value."""
        hidden = is_hidden(value, public=public)
        word = word_of(value)
        if hidden and word not in YES | NO | _HIDDEN:
            self._unknown[name, word[:_MAX_SHOWN]] += 1
        return hidden

    def notes(self, source: object) -> list[str]:
        """Return a note for each of the most frequent unknown values."""
        return [
            f"{source}: {name}: {count:,} values {value!r} are neither yes nor no; their messages "
            "are left out as private notes"
            for (name, value), count in self._unknown.most_common(_MAX_VALUES)
        ]
