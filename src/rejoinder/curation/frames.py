"""Frames of messages in chats, found without a list of phrases.

A frame is whatever begins, or ends, many messages that are otherwise different.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from rejoinder.corpora.keys import text_key
from rejoinder.curation.forms import mask
from rejoinder.patterns import match_pattern, search_pattern

_END = search_pattern(r"(?<![.!?,:;])[.!?,:;]++(?:\s++|\Z)|\n\s*+")
_SIGNS_FIRST = match_pattern(r"[.!?,:;]{2,}+(?:\s++|\Z)")
_SIGN = search_pattern(r"\W+")
_LENGTHS = (1, 2)  # pieces of a frame
_NEIGHBOURS = 10  # different words that follow, or precede, a frame
_MOST_COMMON = 0.3  # share of the most common of them, at most
_ROUNDS = 3  # frames within each other


class Frames:
    """The frames of a collection of messages."""

    def __init__(self, texts: Iterable[str]) -> None:
        openings: defaultdict[str, Counter[str]] = defaultdict(Counter)
        closings: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for text in texts:
            keys = [key for _, key in pieces(text)]
            for count in _LENGTHS:
                if len(keys) > count:
                    openings[_joined(keys[:count])][_word(keys[count:], 0)] += 1
                    closings[_joined(keys[-count:])][_word(keys[:-count], -1)] += 1
        self._openings = frozenset(filter(None, map(_frame, openings.items())))
        self._closings = frozenset(filter(None, map(_frame, closings.items())))

    def remove(self, text: str) -> str:
        """Return a message without frames; one that is nothing else as it is.

        What is left begins with a capital if the message does: "Hello, we ship" is "We ship".
        """
        own = pieces(text)
        for _ in range(_ROUNDS):
            for count in reversed(_LENGTHS):
                if len(own) > count and _joined([key for _, key in own[:count]]) in self._openings:
                    own = own[count:]
                if len(own) > count and _joined([key for _, key in own[-count:]]) in self._closings:
                    own = own[:-count]
        rest = "".join(piece for piece, _ in own).strip()
        is_lowered = text.lstrip()[:1].isupper() and rest[:1].islower() and rest[1:2].islower()
        return f"{rest[:1].upper()}{rest[1:]}" if is_lowered else rest


def pieces(text: str) -> list[tuple[str, str]]:
    """Return the clauses of a message, each with a key; a piece without a letter has its signs."""
    masked = ((piece, text_key(mask(piece)) or piece) for piece in _clauses(text.strip()))
    return [(piece, key if _SIGN.sub("", key) else piece.strip()) for piece, key in masked]


def _clauses(text: str) -> Iterator[str]:
    """Yield the clauses of a text, with the signs and the white space at their ends."""
    start = 0
    while start < len(text):
        end = _SIGNS_FIRST.match(text, start) or _END.search(text, start + 1)
        stop = end.end() if end else len(text)
        yield text[start:stop]
        start = stop


def _joined(keys: Sequence[str]) -> str:
    return " / ".join(keys)


def _word(keys: Sequence[str], at: int) -> str:
    """Return the first or the last word of pieces."""
    words = list(itertools.chain.from_iterable(key.split() for key in keys))
    return words[at] if words else ""


def _frame(item: tuple[str, Counter[str]]) -> str:
    """Return a key if it is that of a frame, else nothing."""
    key, neighbours = item
    most = max(neighbours.values())
    is_frame = len(neighbours) >= _NEIGHBOURS and most <= _MOST_COMMON * neighbours.total()
    return key if is_frame else ""
