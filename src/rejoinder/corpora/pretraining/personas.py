"""What speakers say of themselves, as the persona of whoever replies (Mazaré et al. 2018, section 3.1).

Sets with personas are few and small. Any conversation is one, too: what someone states in the first person elsewhere
in it is true of the one who replies. Examples with such statements before them teach a model to read personas.
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Sequence
from typing import NamedTuple

from rejoinder.corpora.example import Example
from rejoinder.ranker import PERSONA

FEWEST, MOST = 3, 5
"""Statements of a persona."""
WORDS = range(4, 15)
"""Words of a statement."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_FIRST_PERSON = re.compile(r"\b(?:i|my|me|we)\b", re.IGNORECASE)


class Statement(NamedTuple):
    """A sentence, and the place of its message in the dialogue."""

    place: int
    text: str


def statements(turns: Sequence[str]) -> list[Statement]:
    """Sentences in the first person, of 4 to 14 words, that are no questions."""
    found = ((place, text) for place, turn in enumerate(turns) for text in _SENTENCE_END.split(turn.strip()))
    return [Statement(place, text) for place, text in found if _is_statement(text)]


def _is_statement(text: str) -> bool:
    return len(text.split()) in WORDS and not text.endswith("?") and _FIRST_PERSON.search(text) is not None


def persona_of(place: int, response: str, said: Sequence[Statement], rng: random.Random) -> str:
    """Three to five statements of the one who speaks at `place`, as one message; "" if there are not as many.

    Two speakers take turns, so the same one speaks at every second place. What is part of the response is left out,
    and so is what the message before it or after it by the same speaker says: it may be the same sentence cut in two.

    Args:
        place: of the response in its dialogue.
        response: its text.
        said: all statements of the dialogue.
        rng: draws them.
    """
    own = [
        text for other, text in said if other % 2 == place % 2 and abs(other - place) > 2 and text not in response
    ]
    own = list(dict.fromkeys(own))
    if len(own) < FEWEST:
        return ""
    return " ".join(PERSONA + text for text in rng.sample(own, min(len(own), rng.randint(FEWEST, MOST))))


def with_persona(example: Example, persona: str) -> Example:
    """The example with the persona as its oldest message; as it is if the persona is empty."""
    return dataclasses.replace(example, context=(persona, *example.context)) if persona else example
