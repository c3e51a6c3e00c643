"""Rankers that only the papers' tables name, opened beside all others.

| name | what opens |
|---|---|
| `bm25-data19` | DATA19's BM25 |
| `map:X`, `map-cosine:X`, `map-dot:X` | cosine of X's vectors after a map fitted to examples |

X is an encoder, as of `sim:X`; see `encoders.open` for all other names.
"""

from __future__ import annotations

from typing import Any

from rejoinder.encoders.open import KEYWORDS, RankerOpener
from rejoinder.encoders.protocol import Ranker

DATA19_BM25 = "bm25-data19"
WITHOUT_MODEL = (*KEYWORDS, DATA19_BM25)
"""Names that need neither a model nor an encoder."""
MAPS = ("map", "map-cosine", "map-dot")


class LabOpener(RankerOpener):
    """Opens whatever ranks, the papers' baselines too."""

    def open(self, name: str) -> Ranker:
        """Open a ranker; see the table above."""
        if name == DATA19_BM25:
            from rejoinder.lab.data19 import Data19BM25

            return Data19BM25()
        kind, colon, encoder = name.partition(":")
        if not colon or kind not in MAPS:
            return super().open(name)
        from rejoinder.lab.map import Map, MapSettings

        similarity: Any = kind.removeprefix("map").removeprefix("-") or "better"
        return Map(self.encoder(encoder), MapSettings(similarity=similarity))
