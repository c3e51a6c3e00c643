"""The speller of an index, which follows the changes of its replies."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from rejoinder.corpora.schema import Candidate
from rejoinder.retrieval.state import IndexState
from rejoinder.stores.manifest import Manifest, SegmentRecord
from rejoinder.stores.runs import Positions
from rejoinder.stores.scan import Flags
from rejoinder.stores.segments import Segment
from rejoinder.text.words.own_words import count_words
from rejoinder.text.words.spelling import Speller

MAX_OWN_REPLIES = 20_000  # of an index whose words are read


class _Words(NamedTuple):
    """The words of the replies of a segment that are there."""

    record: SegmentRecord
    gone: Flags
    counts: Counter[str]


class _Known(NamedTuple):
    """What was read of one state."""

    manifest: Manifest
    speller: Speller
    words: Mapping[str, _Words]  # of each segment, by its name


class IndexSpeller:
    """Makes the speller of an index: after a change, from the segments that have changed."""

    def __init__(self) -> None:
        self._known: _Known | None = None

    def of(self, state: IndexState) -> Speller:
        """Return what corrects messages by the words of the replies, titles and examples.

        A large index has English words alone.
        """
        known = self._known  # at one instant: another thread may search, too
        if known is None or known.manifest is not state.manifest:
            known = _follow(known, state)
            self._known = known
        return known.speller


def _follow(known: _Known | None, state: IndexState) -> _Known:
    """Return what is known of an index after changes."""
    nothing = _Known(state.manifest, Speller(), {})
    if state.present > MAX_OWN_REPLIES:
        return nothing
    known = known or nothing
    words: dict[str, _Words] = {}
    more: Counter[str] = Counter()
    fewer: Counter[str] = Counter()
    for segment, own in zip(state.segments, state.rows, strict=True):
        record = segment.record
        before = known.words.get(record.name)
        if before is None or before.record != record:
            before = _Words(record, np.ones(record.count, bool), Counter())
        added = _count(segment, np.flatnonzero(before.gone & ~own.gone))
        removed = _count(segment, np.flatnonzero(~before.gone & own.gone))
        counts = before.counts + added - removed if added or removed else before.counts
        words[record.name] = _Words(record, own.gone, counts)
        more += added
        fewer += removed
    for name, before in known.words.items():
        if name not in words or words[name].record != before.record:
            fewer += before.counts
    return _Known(state.manifest, known.speller.changed(more, fewer), words)


def _count(segment: Segment, rows: Positions) -> Counter[str]:
    """Return the words of some replies of a segment."""
    return count_words(text for row in rows.tolist() for text in _texts(segment.candidate(row)))


def _texts(reply: Candidate) -> Iterator[str]:
    yield from (reply.text, reply.title)
    yield from itertools.chain(*reply.examples, *reply.learned)
