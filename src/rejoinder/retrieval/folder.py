"""The folder of an index: what it may hold, and how it is written whole or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from rejoinder.encoders.protocol import DualEncoder
from rejoinder.errors import InputError
from rejoinder.files import Kind, atomic_folder, check_replaceable, is_ours
from rejoinder.retrieval.ann import FILE
from rejoinder.retrieval.manifest import CALIBRATION, KIND, MANIFEST, Manifest, model_record
from rejoinder.retrieval.queries import check_encoder
from rejoinder.retrieval.scoring import HEAD_FILE
from rejoinder.retrieval.segments import FILES

MAP = "map.json"  # of the server's page
DATABASE = "replies.db"  # of milvus-lite; see `stores`
FOLDER = Kind(
    "an index",
    MANIFEST,
    lambda manifest: manifest["kind"] == KIND,
    # Earlier versions kept a lock there; what ends in .part is a killed process's.
    (
        MANIFEST,
        CALIBRATION,
        MAP,
        FILE,
        HEAD_FILE,
        "lock",
        ".*.part",
        *(f"{folder}/{name}" for folder in ("segment-*", ".segment-*.part") for name in FILES),
        *(DATABASE + depth * "/*" for depth in range(1, 8)),
    ),
)


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
    check_encoder(encoder)
    check_target(folder, overwrite=overwrite)
    manifest = Manifest(model_record(encoder.fingerprint, encoder.name, folder), plain=plain)
    with atomic_folder(folder, FOLDER, overwrite=overwrite) as part:
        yield manifest, part
