"""Tuning of an approximate search: the least effort that reaches the wanted recall."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.progress import Track
from rejoinder.stores.candidates import CandidateSearch
from rejoinder.stores.manifest import ApproximateRecord
from rejoinder.stores.scan import CONTEXTS_AT_ONCE, Found, Rows, search

MEASURED_AT = 30  # ACL19 gives the recall of the best 30
# that each vector of a context names for each reply wanted: 8 or 16 bits misplace some
CANDIDATES = 1.5


class TunableSearch(CandidateSearch, Protocol):
    """An approximate search whose effort can be changed."""

    record: ApproximateRecord


def tuned(
    named: TunableSearch,
    segments: Sequence[Rows],
    contexts: Sequence[FloatArray],
    track: Track,
    least: int,
    *,
    per_doubling: int,
    most: int = sys.maxsize,
) -> ApproximateRecord:
    """Return the record with the least effort that reaches the wanted recall.

    With half of the contexts it is chosen, on the others it is measured.

    Args:
        named: the search, whose record says which recall is wanted.
        segments: the rows of the index.
        contexts: (m, d) each, m vectors of a context.
        track: shows how many contexts were searched exactly.
        least: the first effort that is tried.
        per_doubling: efforts that are tried until one is twice as large.
        most: the last effort that is tried, whatever recall it reaches.
    """
    exact: Found = []
    with track("Measuring", len(contexts), "contexts") as advance:
        for start in range(0, len(contexts), CONTEXTS_AT_ONCE):
            batch = contexts[start : start + CONTEXTS_AT_ONCE]
            exact += search(segments, batch, MEASURED_AT)
            advance(len(batch))
    for step in itertools.count():
        effort = min(round(least * 2 ** (step / per_doubling)), most)
        named.record = replace(named.record, effort=effort)
        reached = recall_of(named, segments, contexts[::2], exact[::2])
        if reached >= named.record.wanted or effort == most:
            break
    recall = recall_of(named, segments, contexts[1::2], exact[1::2])
    return replace(named.record, recall=round(recall, 4), measured_on=len(contexts) // 2)


def recall_of(
    named: CandidateSearch, segments: Sequence[Rows], contexts: Sequence[FloatArray], exact: Found
) -> float:
    """Return the share of the best that are found.

    One that equals the last of them is as good.
    """
    # many are not scanned
    approximate = [named.search(segments, [context], MEASURED_AT)[0] for context in contexts]
    shares = [
        (some >= all_[-1]).mean() for (_, some), (_, all_) in zip(approximate, exact, strict=True)
    ]
    return float(np.mean(shares))
