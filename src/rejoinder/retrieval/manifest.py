"""The manifest of an index: which model, which files, which replies are gone. It is replaced as a whole."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from rejoinder.arrays import ranges
from rejoinder.errors import InputError
from rejoinder.files import atomic_file, parse_json

Dtype: TypeAlias = Literal["float32", "float16", "int8"]
DTYPES: tuple[Dtype, ...] = ("float32", "float16", "int8")
Method: TypeAlias = Literal["hnsw", "ivf"]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]

MANIFEST = "manifest.json"
FORMAT = 1
KIND = "rejoinder index"


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """The model whose vectors an index holds: its fingerprint decides, its name is as it was given."""

    fingerprint: str
    name: str = ""
    path: str = ""  # where its folder was when the index was built; empty if it was no folder
    relative: str = ""  # the same as seen from the index, so that both can move together

    def locate(self, index: Path) -> str:
        """Find where the model can be opened now."""
        for place in ([index / self.relative] if self.relative else []) + ([Path(self.path)] if self.path else []):
            if place.is_dir():
                return str(place)
        if self.name and not self.path:
            return self.name
        known = f"its model was {self.path}, which is gone" if self.path else "it does not say where its model is"
        raise InputError(f"{index}: {known}; name its folder with --model FOLDER")


def model_record(fingerprint: str, name: str, index: Path) -> ModelRecord:
    """Describe a model for the index that will stand at `index`."""
    from rejoinder.baselines.encoders import is_encoder

    if not name or is_encoder(name) or not Path(name).is_dir():  # there may be a folder of an encoder's name
        return ModelRecord(fingerprint, name)
    path = Path(name).resolve()
    try:
        relative = os.path.relpath(path, index.resolve())
    except ValueError:  # another drive
        relative = ""
    return ModelRecord(fingerprint, name, str(path), relative)


@dataclass(frozen=True, slots=True)
class SegmentRecord:
    """A part of an index that was written at once and never changes."""

    name: str
    first: Count  # position of its first reply
    count: Count
    files: dict[str, tuple[Count, str]]  # size and SHA-256 of each
    longest: float  # bounds the length of its vectors


@dataclass(frozen=True, slots=True)
class ApproximateRecord:
    """A file of FAISS that nominates replies, and how well it does; see `approximate`."""

    file: str
    size: Count  # of the file
    digest: str  # its SHA-256
    method: Method
    count: Count  # it covers the positions below this one
    effort: Count  # of a search for the best 30: efSearch of a graph, nprobe of cells
    wanted: float  # recall of the best 30, against the exact search
    recall: float  # the same as measured, on other contexts than the effort was chosen with
    measured_on: Count  # so many contexts


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an index is made of."""

    model: ModelRecord
    dtype: Dtype
    size: Count = 0  # of the vectors; 0 while there are none
    segments: tuple[SegmentRecord, ...] = ()  # by ascending first position, without gaps
    deleted: str = ""  # positions that are gone, as runs, ascending: "3,7-19,40"
    approximate: ApproximateRecord | None = None  # None: search is exact

    @property
    def end(self) -> int:
        """The position of the next reply."""
        return self.segments[-1].first + self.segments[-1].count if self.segments else 0

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything that decides an answer: model, form, and the digests of vectors and replies."""
        content = asdict(self) | {"model": self.model.fingerprint}
        if self.approximate is None:  # earlier versions did not know it
            del content["approximate"]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def positions_deleted(self) -> npt.NDArray[np.int64]:
        """Return the positions that are gone, ascending."""
        runs = [run.partition("-") for run in self.deleted.split(",")] if self.deleted else []
        starts = np.array([int(start) for start, _, _ in runs], dtype=np.int64)
        counts = np.array([int(last or start) for start, _, last in runs], dtype=np.int64) - starts + 1
        return ranges(starts, counts)

    def without(self, positions: npt.NDArray[np.int64]) -> Manifest:
        """Return the manifest after more positions are gone."""
        gone = np.union1d(self.positions_deleted(), positions)
        if not len(gone):
            return self
        ends = np.flatnonzero(np.diff(gone) != 1)
        firsts, lasts = gone[[0, *(ends + 1)]].tolist(), gone[[*ends, -1]].tolist()
        runs = (f"{first}" if first == last else f"{first}-{last}" for first, last in zip(firsts, lasts, strict=True))
        return replace(self, deleted=",".join(runs))

    def write(self, folder: Path) -> None:
        """Replace the manifest in `folder`, at one instant."""
        content = {"kind": KIND, "format": FORMAT, **asdict(self), "fingerprint": self.fingerprint}
        with atomic_file(folder / MANIFEST) as part:
            part.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_manifest(folder: str | Path) -> Manifest:
    """Read the manifest of an index; one that is missing, altered, or of a later version is an InputError."""
    folder = Path(folder)
    path = folder / MANIFEST
    if not folder.exists():
        raise InputError(f"no index {folder}; `rejoinder index MODEL REPLIES -o {folder}` builds one")
    if not path.is_file():
        raise InputError(f"{folder} has no {MANIFEST}, so it is no index; `rejoinder index` builds one")
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
        if content["kind"] != KIND:
            raise ValueError(f"kind {content['kind']!r}")
        if content["format"] != FORMAT:
            raise InputError(f"{path} has format {content['format']}; this version reads {FORMAT}: update rejoinder")
        manifest = msgspec.convert(content, Manifest)
        manifest.positions_deleted()
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{path} is damaged ({reason}); build the index again or copy it again") from None
    if content.get("fingerprint") != manifest.fingerprint:
        raise InputError(f"{path} was altered by hand or damaged; build the index again or copy it again")
    return manifest
