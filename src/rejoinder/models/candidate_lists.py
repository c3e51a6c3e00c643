"""What every ranker does with contexts and their lists of candidates: check them, and find the distinct texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rejoinder.errors import InputError
from rejoinder.models.packing import IntArray
from rejoinder.ranker import Context


@dataclass(frozen=True, slots=True)
class CandidateLists:
    """Lists of candidates, each distinct text once.

    Attributes:
        texts: the distinct candidates.
        rows: the candidates of each context, as rows of `texts`: int32 (n, m).
    """

    texts: list[str]
    rows: IntArray


def candidate_lists(contexts: Sequence[Context], candidates: Sequence[Sequence[str]]) -> CandidateLists:
    """Look up the distinct candidates. Lists are often shared between contexts: each is looked up once.

    Raises:
        InputError: there is not one list for each context, or they differ in length.
    """
    if len(contexts) != len(candidates):
        raise InputError(f"{len(contexts)} contexts but {len(candidates)} lists of candidates; give one for each")
    if len({len(texts) for texts in candidates}) > 1:
        raise InputError("the lists of candidates differ in length; score each length in a call of its own")
    known: dict[str, int] = {}
    by_list: dict[int, IntArray] = {}
    for texts in candidates:
        if id(texts) not in by_list:
            found = (known.setdefault(text, len(known)) for text in texts)
            by_list[id(texts)] = np.fromiter(found, dtype=np.int32, count=len(texts))
    rows = np.stack([by_list[id(texts)] for texts in candidates]) if candidates else np.zeros((0, 0), np.int32)
    return CandidateLists(list(known), rows)
