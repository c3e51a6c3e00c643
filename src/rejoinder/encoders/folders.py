"""A model folder, as it is found, checked and described without PyTorch: its files and config.json.

config.json holds every structural choice and the digests of the other files, and thereby the
model's fingerprint. `persistence` reads and writes the rest.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rejoinder.digests import DIGEST, is_altered
from rejoinder.encoders import bundled
from rejoinder.encoders.bundled import PARTS
from rejoinder.encoders.onnx.folder import MANIFEST as ONNX_MANIFEST
from rejoinder.errors import InputError, shown
from rejoinder.folder_kinds import Kind, is_ours
from rejoinder.json_parsing import parse_json
from rejoinder.paths import is_plain
from rejoinder.safetensors_files import parameter_shapes

JOINED = "joined"  # kind of a model of two others
FORMAT = 1
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
LARGEST_FILE = "95MB"  # of several tensors: GitHub refuses files of more than 100
VOCABULARY = "vocabulary.json"
CARD = "README.md"
KIND = "rejoinder model"  # what config.json says of itself; folders of earlier versions do not
FOLDER = Kind(
    "a model folder",
    CONFIG,
    lambda config: config.get("kind", KIND) == KIND and config["model"]["kind"] and config["files"],
    tuple(
        f"{part}{file}"
        for part in ("", *(f"{part}/" for part in PARTS))
        for file in (CONFIG, *bundled.WEIGHT_FILES, VOCABULARY, CARD, ONNX_MANIFEST, "*.onnx")
    ),
)


def fingerprint(config: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a model's configuration.

    It holds the digests of its weights and vocabulary.
    """
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def find(name_or_path: str | Path, others: str = "") -> Path:
    """Return the folder of a model: the folder itself, or one by its name, or by its id on the Hub.

    A part of a joined model with a name is NAME/first or NAME/second. `others` as in
    `bundled.unknown`.
    """
    if not isinstance(name_or_path, str | Path):
        raise InputError(
            f"a model is a folder or a name, such as 'bi-small'; given: {shown(name_or_path)}"
        )
    path = Path(name_or_path)
    if path.is_dir():
        return path
    if path.exists():
        raise InputError(
            f"{path} is a file; a model is a folder with {CONFIG}, {WEIGHTS} and {VOCABULARY}"
        )
    if bundled.is_name(name_or_path):
        return _bundled(str(name_or_path))
    owner, _, name = str(name_or_path).partition("/")
    if name in PARTS and bundled.is_name(owner):
        return _bundled(owner) / name
    if not owner or not name or "/" in name or owner.startswith((".", "~")):
        raise bundled.unknown(name_or_path, others)
    return bundled.fetch(str(name_or_path), "model folder", FOLDER.files)


def _bundled(name: str) -> Path:
    known = bundled.weights(name)
    folder = known.folder
    if folder is None or not (folder / CONFIG).is_file():
        raise InputError(
            f"the weights of {name} are not in this installation ({folder} has no {CONFIG});"
            " install the package that brings them again, or name a model folder"
        )
    if (actual := fingerprint(read_folder(folder))) != known.fingerprint:
        raise InputError(
            f"{folder} is not the model {name} that was installed:"
            f" its fingerprint is {actual[:12]}...,"
            f" not {known.fingerprint[:12]}...; install it again"
        )
    return folder


def read_folder(
    folder: Path, check: Callable[[Mapping[str, Any]], None] | None = None
) -> dict[str, Any]:
    """Return the configuration of a model folder.

    `check` raises an error for settings of a model that cannot be.
    """
    path = folder / CONFIG
    if not path.is_file():
        raise InputError(
            f"{folder} has no {CONFIG}, so it is not a model folder;"
            " `rejoinder train` writes RUN/model"
        )
    try:
        config = parse_json(path.read_text(encoding="utf-8"))
        known = {
            "format": int,
            "model": dict,
            "active_blocks": int,
            "max_length": int,
            "files": dict,
        }
        wrong = [key for key, kind in known.items() if not isinstance(config[key], kind)]
        if "scale" in config and not (
            isinstance(config["scale"], int | float) and 0 <= config["scale"] < math.inf
        ):
            wrong.append("scale")
        if check is not None:
            check(config)
    except (InputError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} is damaged ({type(error).__name__}: {error}); copy the model folder again"
        ) from None
    least = 0 if config["model"].get("kind") == JOINED else 1
    if not wrong:
        wrong += [key for key in ("max_length", "active_blocks") if not 0 <= config[key] < 2**31]
        wrong += ["max_length"] if config["max_length"] < least else []
        wrong += ["files"] if not _are_files(config["files"], least) else []
    if wrong:
        value = str(config.get(wrong[0]))[:60]
        raise InputError(
            f"{path}: {wrong[0]} is {value}, which is not allowed; copy the model folder again"
        )
    if config["format"] != FORMAT:
        raise InputError(
            f"{path} has format {config['format']};"
            f" this version reads format {FORMAT}: update rejoinder"
        )
    # Folders of earlier versions have neither a kind nor a digest.
    if config.keys() & {"kind", DIGEST} and (config.get("kind") != KIND or is_altered(config)):
        raise InputError(f"{path} was altered after it was saved; copy the model folder again")
    return config


def _are_files(digests: Mapping[str, Any], whole: int) -> bool:
    """Return whether digests name files in the folder, and all that a `whole` model needs."""
    named = all(is_plain(part) for name in digests for part in name.split("/"))
    return named and (not whole or (VOCABULARY in digests and bool(_weight_files(digests))))


def weight_paths(folder: Path, config: Mapping[str, Any]) -> list[Path]:
    """Return the files with the weights of a folder with this configuration."""
    return [folder / name for name in _weight_files(config["files"])]


def _weight_files(digests: Mapping[str, Any]) -> list[str]:
    return [name for name in digests if Path(name).suffix == Path(WEIGHTS).suffix]


def model_folders(place: Path) -> list[Path]:
    """Return every model folder at or below `place`, in order of their names.

    Parts of joined ones are none.
    """
    folders = {path.parent for path in place.rglob(CONFIG) if is_ours(path.parent, FOLDER)}
    return sorted(folders - {folder / part for folder in folders for part in PARTS})


def describe(folder: Path) -> dict[str, Any]:
    """Describe a model folder: path, kind, quantised or not, parameters, bytes, fingerprint.

    Reads no weights.
    """
    config = read_folder(folder)
    kind = config["model"].get("kind", "unknown")
    parts = [folder / part for part in PARTS] if kind == JOINED else [folder]
    configs = [read_folder(part) for part in parts]
    shapes = [
        parameter_shapes(weight_paths(part, own)) for part, own in zip(parts, configs, strict=True)
    ]
    return {
        "path": str(folder),
        "kind": kind,
        "quantized": all(map(_is_stored, configs)),
        "parameters": sum(
            math.prod(shape) for part_shapes in shapes for shape in part_shapes.values()
        ),
        "bytes": folder_bytes(folder),
        "fingerprint": fingerprint(config),
    }


def _is_stored(config: Mapping[str, Any]) -> bool:
    entry = config.get("quantization")
    return isinstance(entry, dict) and bool(entry.get("stored"))


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files of a model folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
