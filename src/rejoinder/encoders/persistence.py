"""A model folder: config.json, model.safetensors, vocabulary.json, README.md. Never pickle.

Larger weights are in several files, as model-00001-of-00002.safetensors.

config.json holds every structural choice and the digests of the other files, and thereby the
model's fingerprint. A folder is written whole or not at all; one with a missing or altered file is
refused.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from rejoinder.conversations import check_count
from rejoinder.devices import find_device
from rejoinder.encoders import bundled, joined, onnx
from rejoinder.encoders.joined import JoinedEncoder
from rejoinder.encoders.torch import Model, build_module, family, parse_config
from rejoinder.errors import InputError, shown
from rejoinder.files import (
    DIGEST,
    Kind,
    atomic_folder,
    file_digest,
    is_altered,
    is_plain,
    parse_json,
    signed,
)
from rejoinder.networks import quantization
from rejoinder.networks.inference import choose_precision, prepare
from rejoinder.networks.quantization import Ranges, Scheme
from rejoinder.settings import validate
from rejoinder.text.tokenizer import Tokenizer

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
        for part in ("", *(f"{part}/" for part in joined.PARTS))
        for file in (CONFIG, *bundled.WEIGHT_FILES, VOCABULARY, CARD, onnx.MANIFEST, "*.onnx")
    ),
)
TRAINING_PREFIX = "training_"  # parts of a network so named are not written into model folders


def save(
    folder: str | Path,
    module: Any,
    tokenizer: Tokenizer,
    *,
    max_length: int,
    card: str,
    quantized: Scheme | None = None,
    scale: float | None = None,
    overwrite: bool = False,
) -> None:
    """Write a model folder, whole or not at all, of a network on any device.

    `max_length` is that of a text in tokens, `card` the Markdown of README.md, `quantized` the way
    to write a quantised folder, `scale` the learned factor of the cosine, for a training that goes
    on (the opened model's scores lack it).

    Raises:
        InputError: something else is there, or a model folder that is not to be overwritten.
    """
    with atomic_folder(folder, FOLDER, overwrite=overwrite) as part:
        write_files(
            part, module, tokenizer, max_length=max_length, quantized=quantized, scale=scale
        )
        (part / CARD).write_text(card, encoding="utf-8")


def write_files(
    folder: Path,
    module: Any,
    tokenizer: Tokenizer,
    *,
    max_length: int,
    quantized: Scheme | None = None,
    scale: float | None = None,
) -> None:
    """Write what `save` does, all but the card, into an existing folder, not atomically."""
    scheme = quantized
    if quantized is not None:
        weights = quantization.quantized_tensors(module, quantized)
    else:
        # Parameters, not the state dictionary: what two parts of a network share is there once.
        named = (
            each for each in module.named_parameters() if not each[0].startswith(TRAINING_PREFIX)
        )
        weights = {name: value.detach().cpu().contiguous() for name, value in named}
        if isinstance(ranges := getattr(module, "quantization", None), Ranges):
            scheme = ranges.scheme()
    from huggingface_hub import split_torch_state_dict_into_shards

    files = split_torch_state_dict_into_shards(weights, max_shard_size=LARGEST_FILE)
    for file, names in files.filename_to_tensors.items():
        save_file({name: weights[name] for name in names}, folder / file)
    tokenizer.save(folder / VOCABULARY)
    config: dict[str, Any] = {
        "kind": KIND,
        "format": FORMAT,
        "model": asdict(module.config),
        "active_blocks": module.active_blocks,
        "max_length": max_length,
        "files": {
            name: file_digest(folder / name) for name in (*files.filename_to_tensors, VOCABULARY)
        },
    }
    if scheme is not None:  # the ranges of a stored table are its scale and offset
        config["quantization"] = asdict(replace(scheme, ranges={}) if scheme.stored else scheme)
    if scale is not None:
        config["scale"] = scale
    (folder / CONFIG).write_text(json.dumps(signed(config), indent=2) + "\n", encoding="utf-8")


def save_joined(folder: str | Path, model: JoinedEncoder, *, overwrite: bool = False) -> None:
    """Write the folder of a joined model, whole or not at all.

    It holds copies of its parts' folders, and the shares.

    Raises:
        InputError: as `save`.
    """
    with atomic_folder(folder, FOLDER, overwrite=overwrite) as here:
        digests = {}
        for name, part in zip(joined.PARTS, model.parts, strict=True):
            (here / name).mkdir()
            source = find(part.name)
            card = [CARD] if (source / CARD).is_file() else []
            for file in (CONFIG, *whole_config(source)["files"], *card):
                shutil.copyfile(source / file, here / name / file)
                digests[f"{name}/{file}"] = file_digest(here / name / file)
        about = {
            "kind": KIND,
            "format": FORMAT,
            "model": asdict(model.config),
            "active_blocks": 0,
            "max_length": 0,
        }
        config = json.dumps(signed({**about, "files": digests}), indent=2)
        (here / CONFIG).write_text(config + "\n", encoding="utf-8")
        (here / CARD).write_text(model.card(), encoding="utf-8")


def load(
    name_or_path: str | Path,
    *,
    precision: str = "auto",
    threads: int | None = None,
    device: str = "cpu",
) -> Model:
    """Open a model for encoding and scoring.

    Args:
        name_or_path: a model folder, the name of a bundled model (see `bundled`), or an id on the
            Hugging Face Hub.
        precision: "fp32", "bf16", "int8" (x86 processors), or "auto": bf16 or, for some
            models, int8 if the processor computes it fast, else fp32.
        threads: processor threads to use; None leaves PyTorch's own choice.
        device: where to compute, as PyTorch names it: "cpu", "cuda", "cuda:1", "mps", or "auto":
            a CUDA card if there is one. There is no "int8" on a card.

    Returns:
        What the model's kind opens as: a ConveRT as an `torch.Encoder`, the others as
        `encoders.torch.FAMILIES` says.

    Raises:
        InputError: there is no such model, its folder is incomplete or altered, or the device is
            not there.
    """
    if threads is not None:
        check_count("threads", threads)
        torch.set_num_threads(threads)
    folder = find(name_or_path)
    place = find_device(device)
    config = _read_config(folder)
    name = Path(name_or_path).resolve() if Path(name_or_path).is_dir() else name_or_path
    reopen = partial(load, name, precision=precision, device=device)
    if config["model"].get("kind") == joined.KIND:
        known = fingerprint(whole_config(folder))
        first = load(folder / joined.PARTS[0], precision=precision, device=device)
        second = load(folder / joined.PARTS[1], precision=precision, device=device)
        share = config["model"]["share"]
        opening = config["model"].get("opening_share")
        return JoinedEncoder(
            first, second, share, opening, name=str(name_or_path), fingerprint=known, reopen=reopen
        )
    kind = config["model"].get("kind")
    chosen = choose_precision(precision, kind, place)
    if is_quantized(config):
        module, tokenizer, config = load_module(
            folder, torch.bfloat16 if chosen == "bf16" else torch.float32
        )
    else:
        module, tokenizer, config = load_as_validated(folder)
    return family(kind).open(
        prepare(module, chosen, place),
        tokenizer,
        max_length=config["max_length"],
        fingerprint=fingerprint(config),
        name=str(name_or_path),
        device=place,
        reopen=reopen,
    )


def load_module(
    folder: Path, encode_in: torch.dtype | None = None
) -> tuple[Any, Any, dict[str, Any]]:
    """Return the network in float32, its tokenizer and its configuration.

    Of a quantised folder the parameters are the rounded ones. With `encode_in` a quantised folder's
    network computes in that type, and keeps its tables in 8 bits.
    """
    config = whole_config(folder)
    tokenizer = load_tokenizer(folder, config)
    scheme = read_scheme(config) if is_quantized(config) else None
    module = meta_module(folder, config, tokenizer.rows)
    weights = weight_paths(folder, config)
    quantization.check_fit(module, weights, scheme)
    if scheme is None or encode_in is None:
        module = build_module(config["model"], tokenizer.rows)
    if scheme is not None and encode_in is not None:
        quantization.fill_meta_module(module, weights, scheme, encode_in)
    else:
        quantization.fill(module, weights, scheme)
    module.set_active_blocks(config["active_blocks"])
    return module, tokenizer, config


def meta_module(folder: Path, config: Mapping[str, Any], rows: int) -> Any:
    """Return the network of a configuration without numbers.

    One that no file of weights could fill is an InputError. Layers take time and memory even so,
    and each has a tensor of its own.
    """
    tensors = len(quantization.parameter_shapes(weight_paths(folder, config)))
    for name, depth in _depths(config["model"]):
        if depth > tensors:
            raise InputError(
                f"{folder / CONFIG} does not fit the weights, whose {tensors:,} tensors"
                f" are not of {name} = {depth:,}; copy the model folder again"
            )
    try:
        with quantization.on_meta_device():
            module = build_module(config["model"], rows)
            module.set_active_blocks(config["active_blocks"])
    except (RuntimeError, OverflowError, MemoryError, TypeError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"{folder / CONFIG} does not fit the weights: {reason}; copy the model folder again"
        ) from None
    return module


def _depths(values: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _depths(value)
        elif isinstance(value, int) and name.endswith(("blocks", "layers")):
            yield name, value


def load_tokenizer(folder: Path, config: Mapping[str, Any]) -> Any:
    """Return the tokenizer of a model folder with this configuration."""
    return family(config["model"].get("kind")).load_tokenizer(folder / VOCABULARY)


def read_scheme(config: Mapping[str, Any]) -> Scheme | None:
    """Return the entry "quantization" of a model folder's configuration; None if there is none."""
    entry = config.get("quantization")
    return None if entry is None else validate(Scheme, entry, "quantization")


def is_quantized(config: Mapping[str, Any]) -> bool:
    """Return whether a folder with this configuration holds rounded weights."""
    scheme = read_scheme(config)
    return scheme is not None and scheme.stored


def load_as_validated(folder: Path) -> tuple[Any, Any, dict[str, Any]]:
    """Load as `load_module` does, but round the parameters of a model trained for few bits.

    They stay in float32.
    """
    module, tokenizer, config = load_module(folder)
    scheme = read_scheme(config)
    if scheme is not None and not scheme.stored:  # what is stored is rounded already
        quantization.round_parameters(module, scheme)
    return module, tokenizer, config


def whole_config(folder: Path) -> dict[str, Any]:
    """Return the configuration of a folder whose files are all there, unchanged.

    Anything else is an InputError.
    """
    config = _read_config(folder)
    for name, digest in config["files"].items():
        if not (folder / name).is_file():
            raise InputError(f"{folder}: {name} is missing; copy the whole model folder again")
        if file_digest(folder / name) != digest:
            raise InputError(
                f"{folder}: {name} was altered or cut short after it was saved; copy it again"
            )
    return config


def fingerprint(config: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a model's configuration.

    It holds the digests of its weights and vocabulary.
    """
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def find(name_or_path: str | Path) -> Path:
    """Return the folder of a model: the folder itself, or one by its name, or by its id on the Hub.

    A part of a joined model with a name is NAME/first or NAME/second.
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
    if name in joined.PARTS and bundled.is_name(owner):
        return _bundled(owner) / name
    if not owner or not name or "/" in name or owner.startswith((".", "~")):
        raise bundled.unknown(name_or_path)
    return bundled.fetch(str(name_or_path), "model folder", FOLDER.files)


def _bundled(name: str) -> Path:
    known = bundled.weights(name)
    folder = known.folder
    if folder is None or not (folder / CONFIG).is_file():
        raise InputError(
            f"the weights of {name} are not in this installation ({folder} has no {CONFIG});"
            " install the package that brings them again, or name a model folder"
        )
    if (found := fingerprint(_read_config(folder))) != known.fingerprint:
        raise InputError(
            f"{folder} is not the model {name} that was installed:"
            f" its fingerprint is {found[:12]}...,"
            f" not {known.fingerprint[:12]}...; install it again"
        )
    return folder


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    if not path.is_file():
        raise InputError(
            f"{folder} has no {CONFIG}, so it is no model folder;"
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
        read_scheme(config)
        parse_config(config["model"])
    except (InputError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} is damaged ({type(error).__name__}: {error}); copy the model folder again"
        ) from None
    least = 0 if config["model"].get("kind") == joined.KIND else 1
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


def read_config(name_or_path: str | Path) -> tuple[Path, dict[str, Any]]:
    """Return the folder of a model and its configuration (see `save`).

    Reads no weights; errors as in `load`.
    """
    folder = find(name_or_path)
    return folder, _read_config(folder)
