"""What was done without being asked for: "I did not ask for it", "why was it cancelled?"."""

from __future__ import annotations

import itertools

from rejoinder.text.signs.inflections import stem_of
from rejoinder.text.signs.lexicon import ENDS
from rejoinder.text.signs.poles import has_content, is_end

_ASKING = frozenset(["ask", "want", "request", "agree", "authoris", "authoriz", "approv"])  # stems
_FOR_IT = frozenset(["for", "to", "it", "that", "this", "them", "you", "either", "at", "all"])
_DONE = frozenset(["is", "are", "was", "were", "did", "has", "have"])  # behind "why"


def is_unasked(tokens: list[str]) -> bool:
    """Return whether a clause says no more than that nobody asked for what others tell."""
    pairs = enumerate(itertools.pairwise(tokens), 1)
    for at in (at for at, (one, verb) in pairs if one == "not" and stem_of(verb) in _ASKING):
        rest = {*itertools.takewhile(lambda token: token not in ENDS, tokens[at + 1 :])}
        if rest and rest <= _FOR_IT:
            return True
    return False


def unasked_ends(tokens: list[str]) -> list[int]:
    """Return the places of what was ended, where somebody asks why it was."""
    is_asked = tokens[:1] == ["why"] and not _DONE.isdisjoint(tokens[1:2]) and "not" not in tokens
    places = range(2, len(tokens)) if is_asked else ()
    return [place for place in places if has_content(tokens, place) and is_end(tokens, place)]
