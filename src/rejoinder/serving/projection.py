"""The map of the replies on the page: two numbers for each, so that like ones lie near each other."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rejoinder.arrays import unit_rows
from rejoinder.evaluation.plots import project
from rejoinder.ranker import FloatArray
from rejoinder.retrieval.index import Index

MOST = 1_500  # replies on a map, evenly spaced among all: t-SNE takes about five seconds for them
LEAST = 8  # of fewer there is nothing to project
CLUSTERS = 8
GROUPS = 9  # values of a field with a colour of their own; the others share one
SHOWN = 40  # letters of a group's name


@dataclass(frozen=True)
class ReplyMap:
    """Replies of an index on a plane."""

    total: int
    texts: Sequence[str]
    payloads: Sequence[Mapping[str, Any]]
    points: FloatArray  # (n, 2), from 0 to 1
    clusters: Sequence[str]  # of each reply the text in the middle of its cluster

    @classmethod
    def draw(cls, index: Index) -> ReplyMap:
        """Project the replies of an index, at most `MOST` of them."""
        step = max(1, -(-len(index) // MOST))
        chosen = [(at, candidate) for number, (at, candidate) in enumerate(index) if number % step == 0]
        texts = [candidate.text for _, candidate in chosen]
        vectors = unit_rows(index.vectors([at for at, _ in chosen])) if chosen else np.zeros((0, 2), np.float32)
        if len(chosen) < LEAST:
            line = np.linspace(0, 1, len(chosen) + 2, dtype=np.float32)[1:-1]
            points = np.stack([line, np.full_like(line, 0.5)], axis=1)
        else:
            points = project(vectors, perplexity=min(30.0, (len(chosen) - 1) / 3))
            low, high = points.min(axis=0), points.max(axis=0)
            points = (points - low) / np.maximum(high - low, 1e-9)
        return cls(len(index), texts, [candidate.payload for _, candidate in chosen], points, _clusters(vectors, texts))

    def fields(self) -> list[str]:
        """Return the fields of the payloads by which replies can be told apart, most frequent first."""
        found = Counter(name for payload in self.payloads for name in payload)
        return [name for name, _ in found.most_common() if 1 < len(set(self._values(name))) <= len(self.texts) // 2]

    def to_json(self, field: str | None) -> dict[str, Any]:
        """Return points and groups: the values of a payload's field, or clusters of likeness."""
        values = self.clusters if field is None else self._values(field)
        names = [name for name, _ in Counter(values).most_common()]
        groups = names if len(names) <= GROUPS + 1 else [*names[:GROUPS], "others"]
        places = {name: min(place, len(groups) - 1) for place, name in enumerate(names)}
        points = [
            {"x": round(float(x), 4), "y": round(float(y), 4), "text": text, "group": places[value]}
            for (x, y), text, value in zip(self.points, self.texts, values, strict=True)
        ]
        shown = [name if len(name) <= SHOWN else f"{name[: SHOWN - 1]}…" for name in groups]
        return {"points": points, "groups": shown, "fields": self.fields(), "total": self.total}

    def _values(self, field: str) -> list[str]:
        found = (payload.get(field) for payload in self.payloads)
        return ["none" if v is None else v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for v in found]


def _clusters(vectors: FloatArray, texts: Sequence[str]) -> list[str]:
    """Return of each text the one in the middle of its cluster."""
    if len(texts) < LEAST:
        return [""] * len(texts)
    from sklearn.cluster import KMeans

    found = KMeans(CLUSTERS, n_init=1, random_state=0).fit(vectors)
    middle = found.transform(vectors).argmin(axis=0)
    return [texts[middle[cluster]] for cluster in found.labels_]
