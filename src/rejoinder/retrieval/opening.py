"""Opening an index, which somebody may be changing at this moment."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from rejoinder.encoders.protocol import DualEncoder
from rejoinder.errors import InputError
from rejoinder.files import beside
from rejoinder.retrieval.ann import SMALL, FaissIndex
from rejoinder.retrieval.manifest import MANIFEST, Manifest, ModelRecord, read_manifest
from rejoinder.retrieval.segments import Segment

_TRIES, _PAUSE = 50, 0.02  # how often an index that somebody is changing is tried, and seconds in between


def read(
    folder: Path, encoder: DualEncoder | None, verify: bool | None, known: Mapping[str, Segment] | None = None
) -> tuple[Manifest, list[Segment]]:
    """Read the manifest and open the segments, except those that are `known` by their names and still the same."""
    for _ in range(_TRIES):
        manifest = None
        try:
            manifest = read_manifest(folder)
            if manifest.store:
                raise InputError(f"the replies of {folder} are in Milvus; rejoinder.retrieval.stores.Store opens it")
            if encoder is not None:
                check_model(folder, manifest.model, encoder)
            total = sum(record.bytes for record in manifest.segments)
            check = total <= SMALL if verify is None else verify
            segments: list[Segment] = []
            for place, record in enumerate(manifest.segments):
                old = (known or {}).get(record.name)
                if old is None or old.record != record:
                    old = Segment(folder, manifest, place, verify=check)
                segments.append(old)
            if verify and manifest.approximate:
                FaissIndex(folder, manifest.approximate).check(content=True)
            if manifest == read_manifest(folder):
                return manifest, segments
        except (InputError, FileNotFoundError, PermissionError):  # Windows opens no file that is just being replaced
            if not _is_changing(folder, manifest):
                raise
        time.sleep(_PAUSE)  # it was replaced while it was opened; the new one is as good
    raise InputError(f"{folder} is being changed all the time; try again")


def stamp_of(folder: Path) -> tuple[int, int, int] | None:
    """Return what changes whenever the manifest does."""
    try:
        found = (folder / MANIFEST).stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def check_encoder(encoder: object) -> None:
    """Refuse what is no model that encodes replies."""
    if not isinstance(encoder, DualEncoder):
        raise InputError(f"an index needs a model that encodes replies, as rejoinder.load opens; given: {encoder!r}")


def check_model(folder: Path, record: ModelRecord, encoder: DualEncoder) -> None:
    """Refuse a model that an index was not built with."""
    if record.fingerprint != encoder.fingerprint:
        built = f"the model {record.name or '(unnamed)'} of fingerprint {record.fingerprint[:12]}"
        given = f"{encoder.name or 'the given model'} has {encoder.fingerprint[:12]}"
        advice = "use that model (--model), or encode the replies with this one: rejoinder index --reencode"
        raise InputError(f"{folder} was built with {built}, but {given}; {advice}")


def _is_changing(folder: Path, manifest: Manifest | None) -> bool:
    try:
        return beside(folder).exists() or read_manifest(folder) != manifest
    except InputError:
        return False
