"""The words of an index, for hybrid search; only segments that are new are counted."""

from __future__ import annotations

from rejoinder.encoders.words.word_index import Postings, WordIndex
from rejoinder.retrieval.state import IndexState
from rejoinder.stores.segments import Segment


class IndexWords:
    """Counts the words of an index, state after state."""

    def __init__(self) -> None:
        self._counted: tuple[IndexState, WordIndex] | None = None
        self._postings: dict[Segment, Postings] = {}  # of the segments that the last state had

    def of(self, state: IndexState) -> WordIndex:
        """Return the words of all replies of a state, counted over those that are there."""
        counted = self._counted  # at one instant: another thread may search, too
        if counted is None or counted[0] is not state:
            known = self._postings
            postings = {
                segment: known.get(segment) or Postings(line.text for line in segment.lines())
                for segment in state.segments
            }
            gone = [rows.deleted for rows in state.rows]
            counted = state, WordIndex(list(zip(postings.values(), gone, strict=True)))
            self._postings = postings
            self._counted = counted
        return counted[1]
