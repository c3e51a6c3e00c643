"""Traces of transcription that are no speech, taken out of messages: pure functions, named by a source's `clean`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

_BRACKETS = re.compile(r"\[[^\[\]]{0,80}\]")
_PARENTHESES = re.compile(r"\([a-z][a-z',\- ]{0,60}\)")
_BEFORE_MARK = re.compile(r" +(?=(?:[,.?!;:%)]|'(?:s|m|re|ve|ll|d|t)\b|n't\b))", re.IGNORECASE)


def brackets(text: str) -> str:
    """Without what stands in square brackets: "[laughs]", "[01:08:04.19]"."""
    return _BRACKETS.sub(" ", text)


def parentheses(text: str) -> str:
    """Without lower-case asides in parentheses: "(groans)"."""
    return _PARENTHESES.sub(" ", text)


def spacing(text: str) -> str:
    """Without the spaces that a tokenizer put before marks and clitics: "Yeah , it 's" becomes "Yeah, it's"."""
    return _BEFORE_MARK.sub("", text)


_MARK = re.compile(r"(?<=\w)(?=[,.?!;:](?:\s|$))")


def spaced_out(text: str) -> str:
    """With a space before each mark that ends a word, as tokenised data sets have it: "Yeah , it's" from "Yeah, it's".

    A model that has seen some of this reads such texts nearly as well as others.
    """
    return _MARK.sub(" ", text)


CLEANERS: dict[str, Callable[[str], str]] = {"brackets": brackets, "parentheses": parentheses, "spacing": spacing}


def clean(text: str, names: Sequence[str]) -> str:
    """The text through these cleaners, in this order; what they changed has single spaces."""
    cleaned = text
    for name in names:
        cleaned = CLEANERS[name](cleaned)
    return text if cleaned == text else " ".join(cleaned.split())
