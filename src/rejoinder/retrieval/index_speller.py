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
    learned: Counter[str]  # of messages that were learned: customers wrote them


class _Counted(NamedTuple):
    """Words of some replies, and those of the messages that were learned for them."""

    counts: Counter[str]
    learned: Counter[str]


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
            before = _Words(record, np.ones(record.count, bool), Counter(), Counter())
        added = _count(segment, np.flatnonzero(before.gone & ~own.gone))
        removed = _count(segment, np.flatnonzero(~before.gone & own.gone))
        words[record.name] = _Words(
            record,
            own.gone,
            _sum(before.counts, added.counts, removed.counts),
            _sum(before.learned, added.learned, removed.learned),
        )
        more += added.counts
        fewer += removed.counts
    for name, before in known.words.items():
        if name not in words or words[name].record != before.record:
            fewer += before.counts
    learned = frozenset[str]().union(*(own.learned for own in words.values()))
    return _Known(state.manifest, known.speller.changed(more, fewer, learned), words)


def _count(segment: Segment, rows: Positions) -> _Counted:
    """Return the words of some replies of a segment."""
    replies = list(segment.candidates(rows.tolist()))
    learned = (text for reply in replies for text in itertools.chain(*reply.learned))
    return _Counted(
        count_words(text for reply in replies for text in _texts(reply)), count_words(learned)
    )


def _sum(counts: Counter[str], added: Counter[str], removed: Counter[str]) -> Counter[str]:
    return counts + added - removed if added or removed else counts


def _texts(reply: Candidate) -> Iterator[str]:
    yield from (reply.text, reply.title)
    yield from itertools.chain(*reply.examples)
