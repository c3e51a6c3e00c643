"""The manifest of an index: which model, which segments, which replies are gone."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
import numpy as np

from rejoinder.arrays import ranges
from rejoinder.errors import InputError
from rejoinder.json_parsing import parse_json
from rejoinder.paths import is_plain
from rejoinder.stores.models import ModelRecord
from rejoinder.stores.runs import (
    Positions,
    join_runs,
    read_runs,
    runs_of,
    without_positions,
    write_runs,
)

Method: TypeAlias = Literal["hnsw", "ivf", "scan"]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
FORMATS = (1, 2, 4, 5, 6, 7)
"""2 where `Index.compact` has been at work, 4 with a head, or texts that were encoded without the
frame of templates, 5 where the words of a message count, 6 where the density of examples does, 7
with revisions."""
IN_MILVUS = 3  # as earlier versions kept replies in Milvus
# fields that earlier versions do not know
_LATER = (
    "holes",
    "examples",
    "same_as",
    "approximate",
    "head",
    "plain",
    "change",
    "word_weight",
    "density_end",
    "revises",
)
KIND = "rejoinder index"
REPLIES = "replies.jsonl"
OFFSETS = "offsets.i64"
VECTORS = "vectors.f32"
RESPONSES = "responses.f32"  # encodings of the texts, where the vectors are more than these


@dataclass(frozen=True)
class SegmentRecord:
    """A part of an index that was written at once and never changes."""

    name: str
    first: Count  # position of its first reply
    count: Count
    files: dict[str, tuple[Count, str]]  # size and SHA-256 of each
    longest: float  # bounds the length of its vectors
    # positions in its range that have no row, being gone when it was written, as runs
    holes: str = ""
    examples: Count = 0  # titles and examples of its replies
    # whether it is a revision: its replies take the places of others, and add no positions
    revises: bool = False

    @property
    def positions(self) -> Positions:
        """The positions of its rows, (n,), ascending."""
        starts, counts = runs_of(self.holes)
        firsts = np.concatenate([[self.first], starts + counts])
        return ranges(firsts, np.append(starts, self.end) - firsts)

    @functools.cached_property
    def end(self) -> int:
        """The first position after its range."""
        return self.first + self.count + int(runs_of(self.holes)[1].sum())

    @property
    def bytes(self) -> int:
        """The size of its files."""
        return sum(size for size, _ in self.files.values())


@dataclass(frozen=True, slots=True)
class ApproximateRecord:
    """A file of FAISS that names candidates, and how well it does; see `ann`."""

    file: str
    size: Count  # of the file
    digest: str  # its SHA-256
    method: Method
    count: Count  # it covers the first rows, so many
    # of a search for the best 30: efSearch of a graph, nprobe of clusters, candidates of a scan
    effort: Count
    wanted: float  # recall of the best 30, against the exact search
    recall: float  # the same as measured, on other contexts than the effort was chosen with
    measured_on: Count  # so many contexts


@dataclass(frozen=True, slots=True)
class HeadRecord:
    """The file that turns what replies answer into vectors, and how well it does; see `scoring`."""

    file: str
    size: Count  # of the file
    digest: str  # its SHA-256
    text_weight: float  # of a reply's own text
    minimum_score: float | None  # of a search that names none; None: any
    held_out: Count = 0  # examples that were left out to measure the rest; 0: too few
    right: float = 0.0  # share of them whose reply came first
    refused: float = 0.0  # share of everyday messages that stayed below `minimum_score`
    word_weight: float = 0.0  # of the overlap of words in a score; see `familiarity`
    density_end: Count = 0
    """Position up to which the examples of replies are in the density; 0: there is none."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of an index."""

    model: ModelRecord
    dtype: Literal["float32"] = "float32"
    size: Count = 0  # of the vectors; 0 while there are none
    # in the order in which they were written: a revision's row counts instead of those of its
    # position in ordinary segments and in earlier revisions; ordinary segments go on where the one
    # before them ends
    segments: tuple[SegmentRecord, ...] = ()
    # positions whose rows are still there but gone, as runs, ascending: "3,7-19,40"
    deleted: str = ""
    # fingerprint of the index that was compacted to this one and gave the same answers
    same_as: str = ""
    approximate: ApproximateRecord | None = None  # None: search is exact
    head: HeadRecord | None = None  # None: replies are scored by their texts alone
    # whether texts were encoded without the frame of templates; see `templates`
    plain: bool = False
    # under which the log announced the change that made this manifest; see `changes`
    change: str = ""

    @property
    def end(self) -> int:
        """The position of the next reply."""
        return next((segment.end for segment in reversed(self.segments) if not segment.revises), 0)

    @property
    def examples(self) -> int:
        """Number of titles and examples in its segments, those of rows that are gone included."""
        return sum(record.examples for record in self.segments)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of what decides an answer: the model, and the digests of vectors and replies."""
        content = self._content() | {"model": self.model.fingerprint}
        content.pop("change", None)
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @property
    def gone(self) -> str:
        """The positions that have no reply any more, as runs."""
        holes = join_runs(record.holes for record in self.segments if not record.revises)
        for record in self.segments:
            if record.revises and holes:
                holes = without_positions(holes, record.positions)
        return join_runs([self.deleted, holes])

    def leaving_out(self, names: Collection[str]) -> Manifest:
        """Return the manifest without the segments of some names."""
        segments = tuple(record for record in self.segments if record.name not in names)
        return replace(self, segments=segments)

    def without(self, positions: Positions) -> Manifest:
        """Return the manifest after more positions are gone."""
        return replace(
            self, deleted=write_runs(np.union1d(read_runs(self.deleted), positions)), same_as=""
        )

    def restoring(self, positions: Positions) -> Manifest:
        """Return the manifest after ascending positions are no longer gone; rows have to follow."""
        return replace(self, deleted=without_positions(self.deleted, positions), same_as="")

    def _content(self) -> dict[str, Any]:
        content: dict[str, Any] = msgspec.to_builtins(self)  # ten times as fast as `asdict`
        for part in (content, content["head"] or {}, *content["segments"]):
            for name in _LATER:
                if not part.get(name, True):
                    del part[name]
        return content

    def _format(self) -> int:
        if any(record.revises for record in self.segments):
            return 7
        if self.head and self.head.density_end:
            return 6
        if self.head and self.head.word_weight:
            return 5
        if self.head or self.examples or self.plain:
            return 4
        return 2 if self.same_as or any(record.holes for record in self.segments) else 1

    def to_json(self) -> str:
        """Return the manifest as it is stored."""
        content = {
            "kind": KIND,
            "format": self._format(),
            **self._content(),
            "fingerprint": self.fingerprint,
        }
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def parse_manifest(text: str, shown: object, mend: str) -> Manifest:
    """Return a manifest of its JSON.

    One that is altered, or of a later version, is an InputError, which names the place `shown` and
    says how to `mend` it.
    """
    try:
        content = parse_json(text)
        if content["kind"] != KIND:
            raise ValueError(f"kind {content['kind']!r}")
        if content["format"] == IN_MILVUS:
            raise InputError(
                f"{shown} is of an earlier version, whose replies in Milvus this one does not "
                "read; build the index again"
            )
        if content["format"] not in FORMATS:
            known = ", ".join(map(str, FORMATS))
            raise InputError(
                f"{shown} has format {content['format']}; this version reads {known}: update "
                "rejoinder"
            )
        manifest = msgspec.convert(content, Manifest)
        _check(manifest)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{shown} is damaged ({reason}); {mend}") from None
    if content.get("fingerprint") != manifest.fingerprint:
        raise InputError(f"{shown} was altered by hand or damaged; {mend}")
    return manifest


def _check(manifest: Manifest) -> None:
    """Raise ValueError for what no index has.

    That is a name that leads out of its folder, or a position that it cannot have.
    """
    end = count = 0
    for record in manifest.segments:
        starts, counts = runs_of(record.holes)
        if not all(map(is_plain, (record.name, *record.files))):
            raise ValueError(f"{record.name!r} is not a name of a segment")
        is_next = record.revises or record.first == end
        if not is_next or not 0 <= record.longest < math.inf:
            raise ValueError(f"{record.name} does not go on where the one before it ends")
        end = end if record.revises else record.end
        count = count + record.count
        if len(starts) and (starts[0] < record.first or starts[-1] + counts[-1] > record.end):
            raise ValueError(f"{record.name} has holes beyond its end")
    for record in manifest.segments:
        if record.revises and record.end > end:
            raise ValueError(f"{record.name} revises replies from {end:,} on, which never were")
    starts, counts = runs_of(manifest.deleted)
    if len(starts) and (starts[-1] + counts[-1] > end or counts.sum() > count):
        raise ValueError(f"{counts.sum():,} of {count:,} replies are deleted")
    if (built := manifest.approximate) and not (is_plain(built.file) and built.count <= count):
        raise ValueError(f"{built.file!r} is not a file of its search")
    if manifest.head and not (
        is_plain(manifest.head.file)
        and math.isfinite(manifest.head.minimum_score or 0.0)
        and math.isfinite(manifest.head.word_weight)
    ):
        raise ValueError(f"{manifest.head.file!r} is not a file of its head")
