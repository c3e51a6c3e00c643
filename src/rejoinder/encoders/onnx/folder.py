"""An ONNX folder: its files, and its manifest, which is checked.

trunk.onnx turns a text's ids into r, and trunk-int8.onnx does so with products of 8-bit integers; a
file for each side turns r into h, and combined.onnx two h into that of a conversation. Large tables
are in the trunk, so that no number is there twice; those of a quantised model are in its own file
of weights, beside them. The folder of a joined model holds those of its parts, and their shares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rejoinder.digests import file_digest, is_altered
from rejoinder.encoders import bundled
from rejoinder.errors import InputError
from rejoinder.folder_kinds import Kind
from rejoinder.json_parsing import parse_json
from rejoinder.paths import is_plain
from rejoinder.text.history import HistoryText

FORMAT = 2
KIND = "rejoinder onnx"  # what onnx.json says of itself; folders of earlier versions do not
MANIFEST = "onnx.json"
VOCABULARY = "vocabulary.json"
CARD = "README.md"
TRUNK = "trunk.onnx"
TRUNK_INT8 = "trunk-int8.onnx"
COMBINED = "combined.onnx"
POOLED = "pooled.onnx"
INTENTS = "intents.onnx"
ONNX_FOLDER = Kind(
    "an ONNX folder",
    MANIFEST,
    lambda manifest: manifest.get("kind", KIND) == KIND and manifest["files"] and manifest["model"],
    tuple(
        f"{part}{file}"
        for part in ("", *(f"{part}/" for part in bundled.PARTS))
        for file in (MANIFEST, "*.onnx", *bundled.WEIGHT_FILES, "config.json", VOCABULARY, CARD)
    ),
)
LARGEST = 1 << 20  # size of a vector, or length of a text, that an export may name


def locate(name: str | Path) -> Path:
    """Return the folder of this name: a folder, or that of a model with a name."""
    return bundled.weights(str(name)).folder or Path(name) if bundled.is_name(name) else Path(name)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a folder whose files are all there, unchanged.

    Anything else is an InputError.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise InputError(
            f"{folder} has no {MANIFEST};"
            " `rejoinder export MODEL --to onnx -o DIR` writes such a folder"
        )
    try:
        manifest = parse_json(path.read_text(encoding="utf-8"))
        written = manifest["format"]
    except (ValueError, LookupError, TypeError) as error:
        raise InputError(
            f"{path} is damaged ({type(error).__name__}: {error}); copy the folder again"
        ) from None
    if written != FORMAT:
        raise InputError(
            f"{path} has format {written}, and this version reads {FORMAT}: export the model again"
        )
    if is_altered(manifest):
        raise InputError(f"{path} was altered after it was written; copy the folder again")
    try:
        _check(manifest)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(f"{path} is damaged ({error}); copy the folder again") from None
    for name, digest in dict(manifest["files"]).items():
        if not (folder / name).is_file() or file_digest(folder / name) != digest:
            raise InputError(
                f"{folder / name} is missing, or not what was written; copy the folder again"
            )
    return dict(manifest)


def _check(manifest: Mapping[str, Any]) -> None:
    """Raise an error of Python's for what no export writes."""
    names = [part for name in dict(manifest["files"]) for part in name.split("/")]
    if not isinstance(manifest["model"], str) or not all(map(is_plain, names)):
        raise ValueError("model is not a fingerprint, or files are in another folder")
    if "share" in manifest:
        _check_shares(manifest)
    else:
        _check_network(manifest)


def _check_shares(manifest: Mapping[str, Any]) -> None:
    for name in ("share", "opening_share"):
        if not 0 <= (manifest[name] or 0.0) <= 1:
            raise ValueError(f"{name} is {manifest[name]!r}")


def _check_network(manifest: Mapping[str, Any]) -> None:
    for name in ("size", "reduction_size", "max_length"):
        if type(manifest[name]) is not int or not 1 <= manifest[name] <= LARGEST:
            raise ValueError(f"{name} is {manifest[name]!r}")
    if not -1 <= manifest.get("subject_threshold", 0.0) <= 1:
        raise ValueError("subject_threshold is not a cosine")
    if not manifest.get("opening_weight", 0.0) >= 0:
        raise ValueError("opening_weight is not a weight")
    if manifest.get("tokenizer", "subwords") not in ("subwords", "bpe"):
        raise ValueError("tokenizer is of no kind that is known")
    if (history := manifest["history"]) is not None:
        for name, value in asdict(HistoryText()).items():
            if type(asdict(HistoryText(**history))[name]) not in (type(value), int):
                raise ValueError(f"history.{name} is {history[name]!r}")
