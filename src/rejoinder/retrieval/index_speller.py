"""The speller of an index, which follows the changes of its replies."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rejoinder.corpora.schema import Candidate
from rejoinder.stores.manifest import Manifest, SegmentRecord
from rejoinder.stores.runs import Positions
from rejoinder.stores.scan import Flags, Rows
from rejoinder.stores.segments import Segment
from rejoinder.text.spelling import Speller, count_words

MAX_OWN_REPLIES = 20_000  # of an index whose words are read


class _Words(NamedTuple):
    """The words of the replies of a segment that are there."""

    record: SegmentRecord
    gone: Flags
    counts: Counter[str]


class _State(NamedTuple):
    manifest: Manifest
    speller: Speller
    words: Mapping[str, _Words]  # of each segment, by its name


class IndexSpeller:
    """Makes the speller of an index: after a change, from the segments that have changed."""

    def __init__(self) -> None:
        self._state: _State | None = None

    def of(self, manifest: Manifest, segments: Sequence[Segment], rows: Sequence[Rows]) -> Speller:
        """Return what corrects messages by the words of the replies, titles and examples.

        `rows` say which replies of the segments are gone. A large index has English words alone.
        """
        state = self._state  # at one instant: another thread may search, too
        if state is None or state.manifest is not manifest:
            state = _follow(state, manifest, segments, rows)
            self._state = state
        return state.speller


def _follow(
    state: _State | None, manifest: Manifest, segments: Sequence[Segment], rows: Sequence[Rows]
) -> _State:
    """Return the state of an index after changes."""
    nothing = _State(manifest, Speller(), {})
    if sum(own.present for own in rows) > MAX_OWN_REPLIES:
        return nothing
    state = state or nothing
    words: dict[str, _Words] = {}
    more: Counter[str] = Counter()
    fewer: Counter[str] = Counter()
    for segment, own in zip(segments, rows, strict=True):
        record = segment.record
        before = state.words.get(record.name)
        if before is None or before.record != record:
            before = _Words(record, np.ones(record.count, bool), Counter())
        added = _count(segment, np.flatnonzero(before.gone & ~own.gone))
        removed = _count(segment, np.flatnonzero(~before.gone & own.gone))
        counts = before.counts + added - removed if added or removed else before.counts
        words[record.name] = _Words(record, own.gone, counts)
        more += added
        fewer += removed
    for name, before in state.words.items():
        if name not in words or words[name].record != before.record:
            fewer += before.counts
    return _State(manifest, state.speller.changed(more, fewer), words)


def _count(segment: Segment, rows: Positions) -> Counter[str]:
    """Return the words of some replies of a segment."""
    return count_words(text for row in rows.tolist() for text in _texts(segment.candidate(row)))


def _texts(reply: Candidate) -> Iterator[str]:
    yield from (reply.text, reply.title)
    yield from itertools.chain(*reply.examples, *reply.learned)
