"""The tone of a text: laughter, emoticons and runs of marks, which say nothing of its subject."""

from __future__ import annotations

import re

from rejoinder.patterns import match_pattern, search_pattern

_MARKS = search_pattern(r"[?!]{2,}+(?:1{1,3}[?!]*+)?")  # "!!1!" too
_STOPS = search_pattern(r"(?:\.(?<!\.\.)\.++|\u2026)(?=\s|\Z)")
_EMOTICON = search_pattern(
    r"(?<![^\s.,!?])(?:(?:[:;=][-o^']?[)(\]\[DPpOo/\\|*3]){1,5}|[xX]D|<3|\^_?\^|-_{1,3}-|[)(]:)"
    r"(?![^\s.,!?])"
)
_EYES = (":", ";", "=", "<3", "^", "xD", "XD", "-_")  # of which each emoticon has one
_INTERJECTION = match_pattern(
    r"(?i:omf?g|l(?:ol){1,9}z?|lmf?ao|rofl|a?(?:ha){2,9}h?|(?:he){2,9}h?|u[gr]?h+|argh+"
    r"|tbh|idk|ngl|smh)"
)
_ENDS = ",.!?\u2026"


def without_tone(text: str) -> str:
    """Return a text without the marks, emoticons and interjections that only give it a tone.

    Of a run of marks the question mark is left. A line that says nothing else keeps its words.

    >>> without_tone("omg where is my parcel?!?! :(")
    'where is my parcel?'
    """
    return "\n".join(map(_line_without, text.split("\n")))


def _line_without(line: str) -> str:
    calm = _STOPS.sub(_stop, _MARKS.sub(_mark, line))
    has_emoticon = any(eyes in calm for eyes in _EYES)
    words = (_EMOTICON.sub("", calm) if has_emoticon else calm).split()
    first = 0
    while first < len(words) and _is_interjection(words[first]):
        first += 1
    end = len(words)
    while end > first and _is_interjection(words[end - 1]):
        end -= 1
    middle = words[first:end]
    if not any(map(_has_letters, middle)):
        return line
    if len(middle) == len(calm.split()):
        return calm
    asks = any("?" in word for word in words[end:]) and middle[-1][-1] not in _ENDS
    return " ".join(middle) + ("?" if asks else "")


def _has_letters(word: str) -> bool:
    return any(letter.isalnum() for letter in word)


def _is_interjection(word: str) -> bool:
    return _INTERJECTION.fullmatch(word.strip(_ENDS)) is not None


def _mark(run: re.Match[str]) -> str:
    """Return the question mark of a run; of others one that ends a sentence, if another follows."""
    return "?" if "?" in run[0] else _stop(run, "!")


def _stop(run: re.Match[str], mark: str = ".") -> str:
    return mark if run.string[run.end() :].strip() else ""
