"""The folder of an index and its manifest: which model, which files, which replies are gone.

The folder is written whole or not at all; the manifest is replaced as a whole.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from rejoinder.arrays import ranges
from rejoinder.encoders import bundled
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.errors import InputError, shown
from rejoinder.files import (
    Kind,
    atomic_file,
    atomic_folder,
    check_replaceable,
    is_ours,
    is_plain,
    parse_json,
)

Method: TypeAlias = Literal["hnsw", "ivf", "scan"]
Positions: TypeAlias = npt.NDArray[np.int64]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
MANIFEST = "manifest.json"
CALIBRATION = "calibration.json"
FORMATS = (1, 2, 3, 4, 5, 6)
"""2 where `Index.compact` has been at work, 3 where the replies are in a database, 4 with a head,
or texts that were encoded without the frame of templates, 5 where the words of a message count."""
# fields that earlier versions do not know
_LATER = (
    "holes",
    "examples",
    "same_as",
    "approximate",
    "store",
    "head",
    "plain",
    "change",
    "word_weight",
    "density_end",
)
KIND = "rejoinder index"
MODEL = "REJOINDER_MODEL"  # variable of the command: where a model is now
_NAME_IT = f"name its folder in {MODEL} (in Python: pass the model)"
MOST_DELETED = 1 << 24  # positions in Milvus whose rows are still to go
REPLIES = "replies.jsonl"
OFFSETS = "offsets.i64"
VECTORS = "vectors.f32"
RESPONSES = "responses.f32"  # encodings of the texts, where the vectors are more than these
FILES = (REPLIES, OFFSETS, VECTORS, RESPONSES, "codes.f16", "codes.i8", "scales.f32", "errors.f32")
"""All files that a segment may have; earlier versions wrote the last four."""
FAISS_FILE = "approximate-*.faiss"
HEAD_FILE = "head-*.safetensors"
DATABASE = "replies.db"  # of milvus-lite; see `stores`
FOLDER = Kind(
    "an index",
    MANIFEST,
    lambda manifest: manifest["kind"] == KIND,
    # Earlier versions kept a lock and a map there; what ends in .part is a killed process's.
    (
        MANIFEST,
        CALIBRATION,
        FAISS_FILE,
        HEAD_FILE,
        "lock",
        "map.json",
        ".*.part",
        *(f"{folder}/{name}" for folder in ("segment-*", ".segment-*.part") for name in FILES),
        *(DATABASE + depth * "/*" for depth in range(1, 8)),
    ),
)


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """The model whose vectors an index holds.

    Its fingerprint decides; its name is as it was given.
    """

    fingerprint: str
    name: str = ""
    path: str = ""  # where its folder was when the index was built; empty if it was not a folder
    relative: str = ""  # the same as seen from the index, so that both can move together

    def locate(self, index: Path) -> str:
        """Find where the model can be opened now."""
        if self.relative and (index / self.relative).is_dir():
            return str(index / self.relative)
        if self.path and Path(self.path).is_dir():
            return str(Path(self.path))
        if self.path:
            raise InputError(f"{index}: its model was {self.path}, which is gone; {_NAME_IT}")
        if not self.name:
            raise InputError(f"{index}: it does not say where its model is; {_NAME_IT}")
        if not _is_local(self.name):
            raise InputError(
                f"{index}: its model {self.name!r} is not a folder, and none of that name "
                f"is installed; name it in {MODEL} if it may be fetched from elsewhere"
            )
        return self.name


def _is_local(name: str) -> bool:
    """Return whether a model is on this machine.

    An index does not decide what is fetched.
    """
    from rejoinder.encoders.open import LIBRARY_NAMES

    owner, _, part = name.partition("/")
    named = bundled.is_name(name) or (part in bundled.PARTS and bundled.is_name(owner))
    folder = name.removeprefix("st:")
    return named or name in LIBRARY_NAMES or (folder != "" and Path(folder).is_dir())


def model_record(fingerprint: str, name: str, index: Path) -> ModelRecord:
    """Describe a model for the index that will stand at `index`."""
    from rejoinder.encoders.open import is_library_name

    # there may be a folder of an encoder's name
    if not name or is_library_name(name) or not Path(name).is_dir():
        return ModelRecord(fingerprint, name)
    path = Path(name).resolve()
    try:
        relative = os.path.relpath(path, index.resolve())
    except ValueError:  # another drive
        relative = ""
    return ModelRecord(fingerprint, name, str(path), relative)


def check_encoder(encoder: object) -> DualEncoder:
    """Return a model that encodes replies; refuse anything else."""
    if not isinstance(encoder, DualEncoder):
        raise InputError(
            "an index needs a model that encodes replies, as rejoinder.load opens; "
            f"given: {shown(encoder)}"
        )
    return encoder


def check_model(folder: Path, record: ModelRecord, encoder: DualEncoder) -> None:
    """Refuse a model that an index was not built with."""
    if record.fingerprint != encoder.fingerprint:
        built = f"the model {record.name or '(unnamed)'} of fingerprint {record.fingerprint[:12]}"
        given = f"{encoder.name or 'the given model'} has {encoder.fingerprint[:12]}"
        raise InputError(
            f"{folder} was built with {built}, but {given}; use that model ({MODEL}=FOLDER), or"
            " encode the replies with this one (`rejoinder index reencode`)"
        )


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
class StoreRecord:
    """Location and validity of the replies in Milvus; see `stores`."""

    address: str  # of a server; empty: the file in the index's folder
    collection: str
    end: Count = 0  # position of the next reply
    count: Count = 0  # of replies
    digest: str = ""  # SHA-256 of all changes, one after the other


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of an index."""

    model: ModelRecord
    dtype: Literal["float32"] = "float32"
    size: Count = 0  # of the vectors; 0 while there are none
    segments: tuple[SegmentRecord, ...] = ()  # by ascending first position, without gaps
    # positions whose rows are still there but gone, as runs, ascending: "3,7-19,40"
    deleted: str = ""
    # fingerprint of the index that was compacted to this one and gave the same answers
    same_as: str = ""
    approximate: ApproximateRecord | None = None  # None: search is exact
    store: StoreRecord | None = None  # None: the replies are in the segments
    head: HeadRecord | None = None  # None: replies are scored by their texts alone
    # whether texts were encoded without the frame of templates; see `templates`
    plain: bool = False
    # under which the log announced the change that made this manifest; see `changes`
    change: str = ""

    @property
    def end(self) -> int:
        """The position of the next reply."""
        return self.segments[-1].end if self.segments else 0

    @property
    def examples(self) -> int:
        """Number of titles and examples of its replies."""
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
        return join_runs([self.deleted, *(record.holes for record in self.segments)])

    def without(self, positions: Positions) -> Manifest:
        """Return the manifest after more positions are gone."""
        return replace(
            self, deleted=write_runs(np.union1d(read_runs(self.deleted), positions)), same_as=""
        )

    def _content(self) -> dict[str, Any]:
        content = asdict(self)
        for part in (content, content["head"] or {}, *content["segments"]):
            for name in _LATER:
                if not part.get(name, True):
                    del part[name]
        return content

    def _format(self) -> int:
        if self.head and self.head.density_end:
            return 6
        if self.head and self.head.word_weight:
            return 5
        if self.head or self.examples or self.plain:
            return 4
        if self.store:
            return 3
        return 2 if self.same_as or any(record.holes for record in self.segments) else 1

    def write(self, folder: Path) -> None:
        """Replace the manifest in `folder`, at one instant."""
        content = {
            "kind": KIND,
            "format": self._format(),
            **self._content(),
            "fingerprint": self.fingerprint,
        }
        with atomic_file(folder / MANIFEST) as part:
            part.write_text(
                json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
            )


def runs_of(text: str) -> tuple[Positions, Positions]:
    """Return the starts and the counts of runs, as "3,7-19".

    They are ascending and apart, or it is a ValueError.
    """
    runs = [run.partition("-") for run in text.split(",")] if text else []
    starts = np.array([int(start) for start, _, _ in runs], dtype=np.int64)
    lasts = np.array([int(last or start) for start, _, last in runs], dtype=np.int64)
    apart = (lasts >= starts).all() and (starts[1:] > lasts[:-1]).all()
    if not apart or (starts < 0).any() or (lasts > 2**62).any():
        raise ValueError(f"{text[:40]!r} are not runs of ascending positions")
    return starts, lasts - starts + 1


def read_runs(text: str) -> Positions:
    """Return the positions of runs. They take memory: whoever made the text may not be trusted."""
    return ranges(*runs_of(text))


def join_runs(texts: Iterable[str]) -> str:
    """Return as runs what is in any of several runs, none of which share a position."""
    parts = [runs_of(text) for text in ("", *texts)]
    starts = np.concatenate([starts for starts, _ in parts])
    counts = np.concatenate([counts for _, counts in parts])
    order = np.argsort(starts)
    starts, ends = starts[order], (starts + counts)[order]
    first = np.concatenate([[True], starts[1:] != ends[:-1]])[: len(starts)]
    lasts = ends[np.roll(first, -1)] - 1
    pairs = zip(starts[first].tolist(), lasts.tolist(), strict=True)
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in pairs)


def are_in(positions: Positions, text: str) -> npt.NDArray[np.bool_]:
    """Return which positions are in runs."""
    starts, counts = runs_of(text)
    before = np.searchsorted(starts, positions, side="right")
    ends = np.concatenate([[0], starts + counts])
    return positions < ends[before]


def write_runs(positions: Positions) -> str:
    """Return ascending positions as runs."""
    if not len(positions):
        return ""
    ends = np.flatnonzero(np.diff(positions) != 1)
    firsts = positions[[0, *(ends + 1)]].tolist()
    lasts = positions[[*ends, -1]].tolist()
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in zip(firsts, lasts, strict=True))


def read_manifest(folder: str | Path) -> Manifest:
    """Read the manifest of an index.

    One that is missing, altered, or of a later version is an InputError.
    """
    folder = Path(folder)
    path = folder / MANIFEST
    if not folder.exists():
        raise InputError(
            f"no index {folder}; `rejoinder index build MODEL REPLIES -o {folder}` builds one"
        )
    if folder.is_file():
        raise InputError(
            f"{folder} is a file, not an index; `rejoinder index build MODEL {folder} -o INDEX` "
            "builds one"
        )
    if not path.is_file():
        raise InputError(
            f"{folder} has no {MANIFEST}, so it is not an index; `rejoinder index build` builds one"
        )
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
        if content["kind"] != KIND:
            raise ValueError(f"kind {content['kind']!r}")
        if content["format"] not in FORMATS:
            known = ", ".join(map(str, FORMATS))
            raise InputError(
                f"{path} has format {content['format']}; this version reads {known}: update "
                "rejoinder"
            )
        manifest = msgspec.convert(content, Manifest)
        _check(manifest)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(
            f"{path} is damaged ({reason}); build the index again or copy it again"
        ) from None
    if content.get("fingerprint") != manifest.fingerprint:
        raise InputError(
            f"{path} was altered by hand or damaged; build the index again or copy it again"
        )
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
        if record.first != end or not 0 <= record.longest < math.inf:
            raise ValueError(f"{record.name} does not go on where the one before it ends")
        end = record.end
        count = count + record.count
        if len(starts) and (starts[0] < record.first or starts[-1] + counts[-1] > end):
            raise ValueError(f"{record.name} has holes beyond its end")
    starts, counts = runs_of(manifest.deleted)
    if manifest.store:
        end = manifest.store.end
        count = min(manifest.store.end, MOST_DELETED)
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


def check_target(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder that an index may not be written to."""
    if is_ours(folder, FOLDER) and not overwrite:
        raise InputError(
            f"{folder} is an index already; take `rejoinder index add`, --overwrite, or another "
            "folder"
        )
    check_replaceable(folder, FOLDER, overwrite=overwrite)


@contextlib.contextmanager
def new_folder(
    encoder: DualEncoder, folder: Path, *, overwrite: bool, plain: bool
) -> Iterator[tuple[Manifest, Path]]:
    """Yield the manifest of an empty index, and the folder that becomes the index at the end."""
    check_target(folder, overwrite=overwrite)
    manifest = Manifest(model_record(encoder.fingerprint, encoder.name, folder), plain=plain)
    with atomic_folder(folder, FOLDER, overwrite=overwrite) as part:
        yield manifest, part
