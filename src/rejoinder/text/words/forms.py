"""Forms of words that no list has: inflections, negations, compounds."""

from __future__ import annotations

from collections.abc import Iterator

from rejoinder.patterns import search_pattern
from rejoinder.text.courtesy import DRAWN_OUT

LEAST_STEM = 4  # letters of a word behind a prefix, or before a regular ending
LEAST_HALF = 3  # letters of each word of a compound
PREFIXES = ("un", "de", "dis", "non", "e")
"""A word that begins with one, and goes on with a word, is likely one itself: "unsubscribe" is no
typo of "subscribe", nor "ebike" of "bike"."""
MAX_RUNS = 3  # of a letter that are drawn out in a word
_NEVER_DRAWN_OUT = frozenset(["of", "to"])  # as "oof" and "too" are
_NUMERALS = frozenset("ivxlcdm")
_SIBILANTS = ("s", "x", "z", "ch", "sh")
_DOUBLED = search_pattern(r"^[^aeiou]*+[aeiou][^aeiouwxy]$")  # words like "ship", "shipping"


def inflections(word: str) -> list[str]:
    """Return the regular inflections of a word, and who does it: "bills", "billed", "biller"."""
    if word.endswith("e"):
        return [f"{word}s", f"{word}d", f"{word[:-1]}ing", f"{word}r", f"{word}rs"]
    if word.endswith("y") and word[-2] not in "aeiou":
        stem = word[:-1]
        return [f"{stem}ies", f"{stem}ied", f"{word}ing", f"{stem}ier", f"{stem}iers"]
    plural = f"{word}es" if word.endswith(_SIBILANTS) else f"{word}s"
    stem = word + word[-1] if _DOUBLED.search(word) else word
    return [plural, f"{stem}ed", f"{stem}ing", f"{stem}er", f"{stem}ers"]


def stems(word: str) -> set[str]:
    """Return what a word may be an inflection of."""
    bases = {word[:-cut] + end for cut in range(1, 6) for end in ("", "e", "y")}
    return {base for base in bases if len(base) >= LEAST_STEM and word in inflections(base)}


def without_prefix(word: str) -> list[str]:
    """Return what stands behind the prefixes of a word: "uncancel", "deregister", "ebike"."""
    rests = [word.removeprefix(prefix) for prefix in PREFIXES if word.startswith(prefix)]
    return [rest for rest in rests if len(rest) >= LEAST_STEM]


def halves(word: str, least: int = LEAST_HALF) -> Iterator[tuple[str, str]]:
    """Yield each pair of words of some letters that a compound may consist of."""
    for cut in range(least, len(word) - least + 1):
        yield word[:cut], word[cut:]


def undrawn(word: str) -> list[str]:
    """Return what a word may be with letters drawn out: "goood" is "god" or "good".

    A numeral is none, nor is a run of one letter; "xxx" is part of names.
    """
    runs = [match.span() for match in DRAWN_OUT.finditer(word)][:MAX_RUNS]
    if not runs or "xxx" in word or _NUMERALS.issuperset(word) or len(set(word)) == 1:
        return []
    forms = [""]
    end = 0
    for start, stop in runs:
        before = word[end:start]
        forms = [form + before + word[start] * times for form in forms for times in (1, 2)]
        end = stop
    return [form + word[end:] for form in forms if form + word[end:] not in _NEVER_DRAWN_OUT]


def triples_of_letters(word: str) -> list[str]:
    """Return each three letters in a row of a word, with its beginning and its end."""
    bounded = f"^{word}$"
    return [bounded[start : start + 3] for start in range(len(word))]
