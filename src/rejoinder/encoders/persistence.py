"""A model folder: config.json, model.safetensors, vocabulary.json, README.md. Never pickle.

Larger weights are in several files, as model-00001-of-00002.safetensors.

config.json holds every structural choice and the digests of the other files, and thereby the
model's fingerprint. A folder is written whole or not at all; one with a missing or altered file is
refused.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from rejoinder.checks import check_count
from rejoinder.devices import find_device
from rejoinder.digests import file_digest, signed
from rejoinder.encoders import bundled, joined
from rejoinder.encoders.families import Model, build_module, family, parse_config
from rejoinder.encoders.folders import (
    CARD,
    CONFIG,
    FOLDER,
    FORMAT,
    KIND,
    LARGEST_FILE,
    VOCABULARY,
    find,
    fingerprint,
    read_folder,
    weight_paths,
)
from rejoinder.encoders.joined import JoinedEncoder
from rejoinder.errors import InputError
from rejoinder.files import atomic_folder
from rejoinder.networks.inference import choose_precision, prepare
from rejoinder.networks.layers import TRAINING_PREFIX
from rejoinder.networks.meta_device import on_meta_device
from rejoinder.networks.quantization.rounding import Scheme, round_parameters
from rejoinder.networks.quantization.training import Ranges
from rejoinder.networks.quantization.weights import (
    check_fit,
    fill,
    fill_meta_module,
    quantized_tensors,
)
from rejoinder.safetensors_files import parameter_shapes
from rejoinder.settings import validate
from rejoinder.text.tokenizer import Tokenizer


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
        weights = quantized_tensors(module, quantized)
    else:
        # Parameters, not the state dictionary: what two parts of a network share is there once.
        named = (
            pair for pair in module.named_parameters() if not pair[0].startswith(TRAINING_PREFIX)
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
        InputError: as `save`, or a part was replaced since it was opened.
    """
    with atomic_folder(folder, FOLDER, overwrite=overwrite) as here:
        digests = {}
        for name, part in zip(bundled.PARTS, model.parts, strict=True):
            (here / name).mkdir()
            source = find(part.name)
            config = whole_config(source)
            if fingerprint(config) != part.fingerprint:
                raise InputError(
                    f"{source} was replaced by another model since it was opened"
                    " to be joined, so the share may not fit it; join again"
                )
            card = [CARD] if (source / CARD).is_file() else []
            for file in (CONFIG, *config["files"], *card):
                shutil.copyfile(source / file, here / name / file)
                digests[f"{name}/{file}"] = file_digest(here / name / file)
        about: dict[str, Any] = {
            "kind": KIND,
            "format": FORMAT,
            "model": asdict(model.config),
            "active_blocks": 0,
            "max_length": 0,
        }
        about["files"] = digests
        (here / CONFIG).write_text(json.dumps(signed(about), indent=2) + "\n", encoding="utf-8")
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
        `encoders.families.FAMILIES` says.

    Raises:
        InputError: there is no such model, its folder is incomplete or altered, or the device is
            not there.
    """
    if threads is not None:
        check_count("threads", threads)
        torch.set_num_threads(threads)
    folder = find(name_or_path)
    torch_device = find_device(device)
    config = _read_config(folder)
    name = Path(name_or_path).resolve() if Path(name_or_path).is_dir() else name_or_path
    reopen = partial(load, name, precision=precision, device=device)
    if config["model"].get("kind") == joined.KIND:
        known = fingerprint(whole_config(folder))
        first = load(folder / bundled.PARTS[0], precision=precision, device=device)
        second = load(folder / bundled.PARTS[1], precision=precision, device=device)
        share = config["model"]["share"]
        opening = config["model"].get("opening_share")
        return JoinedEncoder(
            first, second, share, opening, name=str(name_or_path), fingerprint=known, reopen=reopen
        )
    kind = config["model"].get("kind")
    chosen = choose_precision(precision, kind, torch_device)
    if is_quantized(config):
        module, tokenizer, config = load_module(
            folder, torch.bfloat16 if chosen == "bf16" else torch.float32
        )
    else:
        module, tokenizer, config = load_as_validated(folder)
    return family(kind).open(
        prepare(module, chosen, torch_device),
        tokenizer,
        max_length=config["max_length"],
        fingerprint=fingerprint(config),
        name=str(name_or_path),
        device=torch_device,
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
    check_fit(module, weights, scheme)
    if scheme is None or encode_in is None:
        module = build_module(config["model"], tokenizer.rows)
    if scheme is not None and encode_in is not None:
        fill_meta_module(module, weights, scheme, encode_in)
    else:
        fill(module, weights, scheme)
    module.set_active_blocks(config["active_blocks"])
    return module, tokenizer, config


def meta_module(folder: Path, config: Mapping[str, Any], rows: int) -> Any:
    """Return the network of a configuration without numbers.

    One that no file of weights could fill is an InputError. Layers take time and memory even so,
    and each has a tensor of its own.
    """
    tensors = len(parameter_shapes(weight_paths(folder, config)))
    for name, depth in _depths(config["model"]):
        if depth > tensors:
            raise InputError(
                f"{folder / CONFIG} does not fit the weights, whose {tensors:,} tensors"
                f" are not of {name} = {depth:,}; copy the model folder again"
            )
    try:
        with on_meta_device():
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
        round_parameters(module, scheme)
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


def _check_model(config: Mapping[str, Any]) -> None:
    read_scheme(config)
    parse_config(config["model"])


def _read_config(folder: Path) -> dict[str, Any]:
    return read_folder(folder, _check_model)


def read_config(name_or_path: str | Path, others: str = "") -> tuple[Path, dict[str, Any]]:
    """Return the folder of a model and its configuration (see `save`).

    Reads no weights; errors as in `load`, `others` as in `bundled.unknown`.
    """
    folder = find(name_or_path, others)
    return folder, _read_config(folder)
