"""Lists of candidates: each list and each distinct text once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rejoinder.checks import check_list
from rejoinder.conversations import CONVERSATIONS, Conversation
from rejoinder.errors import InputError


@dataclass(frozen=True, slots=True)
class CandidateLists:
    """The candidates of n contexts (n, m), each list and each distinct text once.

    A group is the contexts that share a list, and its m candidates as rows of `texts`.
    """

    texts: list[str]
    groups: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]]
    shape: tuple[int, int]

    @property
    def rows(self) -> npt.NDArray[np.int32]:
        """The candidates of each context as rows of `texts`: (n, m)."""
        rows = np.zeros(self.shape, dtype=np.int32)
        for contexts, candidates in self.groups:
            rows[contexts] = candidates
        return rows


def candidate_lists(
    contexts: Sequence[Conversation], candidates: Sequence[Sequence[str]]
) -> CandidateLists:
    """Find the distinct texts of lists of candidates.

    A list object that contexts share is looked up once.
    """
    check_list(contexts, CONVERSATIONS)
    need = "give each context a list of candidates"
    check_list(candidates, need)
    for texts in candidates:
        check_list(texts, need)
    if len(contexts) != len(candidates):
        raise InputError(
            f"{len(contexts)} contexts but {len(candidates)} lists of candidates; give one for each"
        )
    sizes = {len(texts) for texts in candidates}
    if len(sizes) > 1:
        raise InputError(
            "the lists of candidates differ in length; score each length in a call of its own"
        )
    size = max(sizes, default=0)
    candidates = list(candidates)  # rows of an array are objects only while somebody holds them
    sharing: dict[int, list[int]] = {}
    for context, texts in enumerate(candidates):
        sharing.setdefault(id(texts), []).append(context)
    numbers: dict[str, int] = {}
    groups = []
    for shared in sharing.values():
        ids = (numbers.setdefault(text, len(numbers)) for text in candidates[shared[0]])
        groups.append((np.array(shared), np.fromiter(ids, dtype=np.int32, count=size)))
    return CandidateLists(list(numbers), groups, (len(contexts), size))
