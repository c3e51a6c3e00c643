"""Familiarity of a message to an index, and of its words to the reply that was found.

Where a head was fitted (`scoring`), the scores of all replies to a message rise or fall together by
the word overlap of the message with the titles and examples of the best one, and fall together
where the message is unlike all titles and examples (`density`) or of another language. The order of
replies stays; a message that is nobody's falls below the minimum score.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.corpora.schema import Candidate
from rejoinder.retrieval.encoding.density import Density
from rejoinder.retrieval.encoding.views import Views, view_contexts
from rejoinder.stores.runs import Positions
from rejoinder.stores.scan import Flags, Scores
from rejoinder.text.overlap import word_overlap, word_set

WORD_WEIGHT = 0.6
"""Of the share of a message's words that its reply is known by; see docs/choices.md."""
TYPICAL_OVERLAP = 0.4  # of a message with its reply, at which a score stays as it is
FOREIGN = -5.0
"""Changes the scores of replies to a message of a language that the model does not read: more than
any minimum that an index measures."""


@dataclass(frozen=True, slots=True)
class Familiarity:
    """Changes of the scores of an index's replies to a message."""

    word_weight: float = 0.0  # 0: words do not count
    density: Density | None = None
    density_end: int = 0  # position from which replies are newer than the density
    reads_english_alone: bool = False  # whether the model does

    def __bool__(self) -> bool:
        return bool(self.word_weight) or self.density is not None

    @property
    def largest_change(self) -> float:
        """The greatest of all changes."""
        return self.word_weight * (1 - TYPICAL_OVERLAP)

    def of_words(self, text: str, known: tuple[str, ...]) -> float:
        """Return what words change the scores of all replies to a message by.

        `known` are the titles and examples of the best reply.
        """
        return _change(text, _words(known), self.word_weight, is_known=bool(known))

    def of_density(self, vector: FloatArray, position: int) -> float:
        """Return what density changes them by; `position` is the best reply's, `vector` (1, d)."""
        if self.density is None or position >= self.density_end:
            return 0.0
        return float(self.density.changes(vector)[0])

    def of_language(self, *, is_foreign: bool) -> float:
        """Return what the language of a message changes them by."""
        return FOREIGN if is_foreign and self.reads_english_alone else 0.0


def _change(text: str, known: AbstractSet[str], weight: float, *, is_known: bool = True) -> float:
    """Return the change of a score; 0 for a reply without titles and examples."""
    return weight * (word_overlap(text, known) - TYPICAL_OVERLAP) if is_known else 0.0


@functools.lru_cache(maxsize=2048)
def _words(texts: tuple[str, ...]) -> frozenset[str]:
    return frozenset[str]().union(*map(word_set, texts))


class ViewWords:
    """The words of views and of background messages, for `held_out.hold_out`."""

    def __init__(
        self, replies: Iterable[Candidate], views: Views, background: Sequence[str]
    ) -> None:
        self.texts = [context[-1] for reply in replies for context in view_contexts(reply)]
        self._background = background
        self._rows: dict[int, list[int]] = {}
        for row in np.flatnonzero(views.weights >= 1).tolist():
            self._rows.setdefault(int(views.owners[row]), []).append(row)

    def changes(self, rows: Positions, apart: Positions, found: Positions, out: Flags) -> Scores:
        """Return the changes of the scores of messages that were left out, of WORD_WEIGHT.

        The messages are some rows of the views, then some of the background (`apart`). `found` are
        the best replies of both, and `out` says which views were left out.
        """
        messages = [self.texts[row] for row in rows.tolist()]
        messages += [self._background[row] for row in apart.tolist()]
        known = {
            reply: _words(
                tuple(self.texts[row] for row in self._rows.get(reply, ()) if not out[row])
            )
            for reply in set(found.tolist())
        }
        return np.array(
            [
                _change(text, known[reply], WORD_WEIGHT, is_known=reply in self._rows)
                for text, reply in zip(messages, found.tolist(), strict=True)
            ]
        )
