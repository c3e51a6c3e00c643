"""Approximate searches, which name candidates so that not all replies are scored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.stores.manifest import ApproximateRecord
from rejoinder.stores.scan import Found, Rows


class CandidateSearch(Protocol):
    """An approximate search: candidates are named quickly, and scored exactly."""

    @property
    def record(self) -> ApproximateRecord:
        """The record of how it was made, and how well it does."""

    def check(self, *, content: bool) -> object:
        """Raise InputError if it is missing or damaged; `content` compares all of it."""

    def search(
        self,
        segments: Sequence[Rows],
        contexts: Sequence[FloatArray],
        k: int,
        minimum: float = -np.inf,
        /,
    ) -> Found:
        """Find what `scan.search` finds, or nearly; `segments` are those of the index."""
