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
    """Return whether a clause only denies a request ("I did not ask for it")."""
    pairs = enumerate(itertools.pairwise(tokens), 1)
    for at in (at for at, (one, verb) in pairs if one == "not" and stem_of(verb) in _ASKING):
        rest = {*itertools.takewhile(lambda token: token not in ENDS, tokens[at + 1 :])}
        if rest and rest <= _FOR_IT:
            return True
    return False


def unasked_ends(tokens: list[str]) -> list[int]:
    """Return the places of what was ended in a clause that asks why ("why was it cancelled?")."""
    if tokens[:1] != ["why"] or _DONE.isdisjoint(tokens[1:2]) or "not" in tokens:
        return []
    places = itertools.takewhile(lambda place: tokens[place] not in ENDS, range(2, len(tokens)))
    return [place for place in places if has_content(tokens, place) and is_end(tokens, place)]
