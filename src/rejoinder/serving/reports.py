"""Reports on an index: statistics of its log, and the map of its replies on the page.

Like replies get near pairs of numbers on the map.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np

from rejoinder.arrays import unit_rows
from rejoinder.curation.feedback import FeedbackLog
from rejoinder.curation.usage import usage, usage_document
from rejoinder.evaluation.plots import project
from rejoinder.files import atomic_file
from rejoinder.retrieval.index import Index
from rejoinder.stores.manifest import MAP

AGE = 60.0  # seconds from which a report is computed anew, and a map of an index that has changed
MOST = 1_500  # replies on a map, evenly spaced among all: t-SNE takes about five seconds for them
LEAST = 8  # of fewer there is nothing to project
CLUSTERS = 8
GROUPS = 9  # values of a field with a colour of their own; the others share one
SHOWN = 40  # letters of a group's name


class UsageReport(NamedTuple):
    """Statistics of an index's log as JSON types, Markdown and HTML."""

    usage: dict[str, Any]
    markdown: str
    html: str


@dataclass(frozen=True)
class ReplyMap:
    """Replies of an index on a plane."""

    total: int
    texts: Sequence[str]
    payloads: Sequence[Mapping[str, Any]]
    points: Sequence[tuple[float, float]]  # from 0 to 1
    clusters: Sequence[str]  # of each reply the text in the middle of its cluster

    @classmethod
    def draw(cls, index: Index) -> ReplyMap:
        """Project the replies of an index, at most `MOST`, and keep the result in its folder."""
        step = max(1, -(-len(index) // MOST))
        chosen = [
            (at, candidate) for number, (at, candidate) in enumerate(index) if number % step == 0
        ]
        texts = [candidate.text for _, candidate in chosen]
        if (placed := _kept(index, len(chosen))) is None:
            placed = _place(index, [at for at, _ in chosen])
            # unless it is read-only
            with contextlib.suppress(OSError), atomic_file(index.folder / MAP) as part:
                part.write_bytes(msgspec.json.encode(placed))
        payloads = [candidate.payload for _, candidate in chosen]
        middles = [texts[row] if len(texts) >= LEAST else "" for row in placed.middles]
        return cls(len(index), texts, payloads, placed.points, middles)

    def fields(self) -> list[str]:
        """Return the payloads' fields by which replies can be told apart, frequent ones first."""
        found = Counter(name for payload in self.payloads for name in payload)
        return [
            name
            for name, _ in found.most_common()
            if 1 < len(set(self._values(name))) <= len(self.texts) // 2
        ]

    def to_json(self, field: str | None) -> dict[str, Any]:
        """Return points and groups: the values of a payload's field, or clusters of likeness."""
        values = self.clusters if field is None else self._values(field)
        names = [name for name, _ in Counter(values).most_common()]
        groups = names if len(names) <= GROUPS + 1 else [*names[:GROUPS], "others"]
        places = {name: min(place, len(groups) - 1) for place, name in enumerate(names)}
        points = [
            {"x": x, "y": y, "text": text, "group": places[value]}
            for (x, y), text, value in zip(self.points, self.texts, values, strict=True)
        ]
        shown = [name if len(name) <= SHOWN else f"{name[: SHOWN - 1]}…" for name in groups]
        return {"points": points, "groups": shown, "fields": self.fields(), "total": self.total}

    def _values(self, field: str) -> list[str]:
        found = (payload.get(field) for payload in self.payloads)
        return [
            "none" if v is None else v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)
            for v in found
        ]


class _Placed(msgspec.Struct):
    """Stored form of a map."""

    fingerprint: str  # of the index
    points: list[tuple[float, float]]
    middles: list[int]  # of each reply the row of that in the middle of its cluster


def _kept(index: Index, count: int) -> _Placed | None:
    try:
        found = msgspec.json.decode((index.folder / MAP).read_bytes(), type=_Placed)
    except (OSError, msgspec.MsgspecError):
        return None
    whole = len(found.points) == len(found.middles) == count and all(
        0 <= row < count for row in found.middles
    )
    return found if whole and found.fingerprint == index.fingerprint else None


def _place(index: Index, positions: Sequence[int]) -> _Placed:
    """Project replies, and cluster them."""
    count = len(positions)
    if count < LEAST:
        line = [((row + 1) / (count + 1), 0.5) for row in range(count)]
        return _Placed(index.fingerprint, line, [0] * count)
    from sklearn.cluster import KMeans

    vectors = unit_rows(index.vectors(positions))
    points = project(vectors, perplexity=min(30.0, (count - 1) / 3))
    low = points.min(axis=0)
    high = points.max(axis=0)
    points = (points - low) / np.maximum(high - low, 1e-9)
    found = KMeans(CLUSTERS, n_init=1, random_state=0).fit(vectors)
    middle = found.transform(vectors).argmin(axis=0)
    return _Placed(
        index.fingerprint,
        np.round(points.astype(np.float64), 4).tolist(),
        middle[found.labels_].tolist(),
    )


class Reports:
    """Computes the report and the map of an index at most once a minute; each takes seconds."""

    def __init__(self) -> None:
        self._report: UsageReport | None = None
        self._report_until = 0.0
        self._map: ReplyMap | None = None
        self._map_index = ""  # fingerprint of the index of the map
        self._map_until = 0.0

    def report(self, index: Index, log: FeedbackLog) -> UsageReport:
        """Return the report on an index, which is always the same one."""
        if self._report is None or time.monotonic() > self._report_until:
            told = usage(index, log)
            document = usage_document(index.folder.name, dict(index), told)
            self._report = UsageReport(asdict(told), document.markdown(), document.html())
            self._report_until = time.monotonic() + AGE
        return self._report

    def map(self, index: Index) -> ReplyMap:
        """Return the map of an index, which is drawn anew if the index has changed."""
        has_changed = index.fingerprint != self._map_index
        if self._map is None or (has_changed and time.monotonic() > self._map_until):
            self._map = ReplyMap.draw(index)
            self._map_index = index.fingerprint
            self._map_until = time.monotonic() + AGE
        return self._map
