"""A model folder: config.json, model.safetensors, vocabulary.json, README.md. Never pickle.

config.json holds every structural choice written out, the digests of the other files, and thereby the fingerprint of
the model. A folder is written whole or not at all; a folder with a missing or altered file is refused. The weights are
float32, or, in a quantised folder, those that `quantized_folder` describes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from rejoinder.errors import InputError
from rejoinder.files import atomic_folder, file_digest
from rejoinder.models import bundled
from rejoinder.models.families import build_module, family
from rejoinder.models.inference import Precision, choose_precision
from rejoinder.models.quantization import Ranges, Scheme, round_parameters
from rejoinder.models.quantized_folder import (
    OFFSET,
    SCALE,
    fill,
    fill_inflated,
    quantized_tensors,
    read_scheme,
    scheme_entry,
)
from rejoinder.models.skeleton import skeleton
from rejoinder.text.tokenizer import Tokenizer

FORMAT = 1
CONFIG, WEIGHTS, VOCABULARY, CARD = "config.json", "model.safetensors", "vocabulary.json", "README.md"
TRAINING_PREFIX = "training_"
"""Parts that training hangs on a network under such names are not written into model folders."""


def save(
    folder: str | Path,
    module: Any,
    tokenizer: Tokenizer,
    *,
    max_length: int,
    card: str,
    quantized: Scheme | None = None,
    scale: float | None = None,
) -> None:
    """Write a model folder, whole or not at all.

    Args:
        folder: where to; an earlier model folder there is replaced.
        module: the network, on any device.
        tokenizer: its tokenizer.
        max_length: longest text in tokens.
        card: Markdown of the model card, README.md.
        quantized: write a quantised folder in this way; None writes float32. Where the network is trained with rounded
            parameters, the folder says so, and how.
        scale: the factor of the cosine that was learned with the weights, for a training that goes on from them; no
            score of the opened model has it.
    """
    with atomic_folder(folder, marker=CONFIG) as part:
        write_files(part, module, tokenizer, max_length=max_length, quantized=quantized, scale=scale)
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
    """What `save` writes, all but the card, into a folder that is there. The caller sees to it that it is whole."""
    scheme = quantized
    if scheme is None and isinstance(ranges := getattr(module, "quantization", None), Ranges):
        scheme = ranges.scheme()
    if quantized is None:
        # Parameters, not the state dictionary: what two parts of a network share is there once.
        named = (each for each in module.named_parameters() if not each[0].startswith(TRAINING_PREFIX))
        weights = {name: value.detach().cpu().contiguous() for name, value in named}
    else:
        weights = quantized_tensors(module, quantized)
    save_file(weights, folder / WEIGHTS)
    tokenizer.save(folder / VOCABULARY)
    config = {
        "format": FORMAT,
        "model": dataclasses.asdict(module.config),
        "active_blocks": module.active_blocks,
        "max_length": max_length,
        "files": {name: file_digest(folder / name) for name in (WEIGHTS, VOCABULARY)},
        **scheme_entry(scheme),
        **({} if scale is None else {"scale": scale}),
    }
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def load(name_or_path: str | Path, *, precision: str = "auto", threads: int | None = None) -> Any:
    """Open a model for encoding and scoring.

    Args:
        name_or_path: a model folder, the name of a bundled model (see `bundled`), or the id of one on the Hugging
            Face Hub ("owner/name").
        precision: "fp32", "bf16", "int8" (faster; a text's vector then depends a little on what it is encoded
            beside), or "auto" (see `inference.choose_precision`).
        threads: processor threads to use; None leaves PyTorch's own choice.

    Returns:
        What the model's kind opens as (see `families`): of a dual encoder, an `encoder.Encoder`.

    Raises:
        InputError: there is no such model, or its folder is incomplete or altered.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    folder = find(name_or_path)
    chosen = choose_precision(precision)
    scheme = read_scheme(_read_config(folder))
    if scheme is not None and scheme.stored:
        module, tokenizer, config = _load_quantized(folder, scheme, chosen)
    else:
        module, tokenizer, config = load_as_validated(folder)
    kind = family(config["model"].get("kind"))
    kind.prepare(module, chosen)
    return kind.open(
        module,
        tokenizer,
        max_length=config["max_length"],
        fingerprint=fingerprint(config),
        name=str(name_or_path),
    )


def load_module(folder: Path) -> tuple[Any, Any, dict[str, Any]]:
    """The network in float32 (to train it further), its tokenizer and its configuration.

    Of a quantised folder these are the rounded values, which is all that it holds.

    Raises:
        InputError: the folder is incomplete or altered.
    """
    config = _whole_config(folder)
    tokenizer = load_tokenizer(folder, config)
    module = build_module(config["model"], tokenizer.rows)
    if (scheme := read_scheme(config)) is not None and scheme.stored:
        fill_inflated(module, folder / WEIGHTS, scheme)
    else:
        _set_weights(module, folder)
    module.set_active_blocks(config["active_blocks"])
    return module, tokenizer, config


def load_tokenizer(folder: Path, config: Mapping[str, Any]) -> Any:
    """The tokenizer of a model folder with this configuration."""
    return family(config["model"].get("kind")).load_tokenizer(folder / VOCABULARY)


def is_quantized(config: Mapping[str, Any]) -> bool:
    """Whether a folder with this configuration holds rounded weights."""
    scheme = read_scheme(config)
    return scheme is not None and scheme.stored


def load_as_validated(folder: Path) -> tuple[Any, Any, dict[str, Any]]:
    """As `load_module`, but of a model that was trained for few bits the rounded parameters, still in float32.

    These are what was trained and validated, so they are what gives a model's vectors.
    """
    module, tokenizer, config = load_module(folder)
    scheme = read_scheme(config)
    if scheme is not None and not scheme.stored:  # what is stored is rounded already
        round_parameters(module, scheme)
    return module, tokenizer, config


def _load_quantized(folder: Path, scheme: Scheme, precision: Precision) -> tuple[Any, Any, dict[str, Any]]:
    """The network of a quantised folder, to encode with: its tables stay in 8 bits."""
    config = _whole_config(folder)
    tokenizer = load_tokenizer(folder, config)
    with skeleton():
        module = build_module(config["model"], tokenizer.rows)
    if list(module.buffers()):  # numbers that the network makes itself and no file holds
        module = build_module(config["model"], tokenizer.rows)
    fill(module, folder / WEIGHTS, scheme, torch.bfloat16 if precision == "bf16" else torch.float32)
    module.set_active_blocks(config["active_blocks"])
    return module, tokenizer, config


def _whole_config(folder: Path) -> dict[str, Any]:
    """The configuration of a folder whose files are all there, as they were saved."""
    config = _read_config(folder)
    for name, digest in config["files"].items():
        if not (folder / name).is_file():
            raise InputError(f"{folder}: {name} is missing; copy the whole model folder again")
        if file_digest(folder / name) != digest:
            raise InputError(f"{folder}: {name} was altered or cut short after it was saved; copy it again")
    return config


def _set_weights(module: Any, folder: Path) -> None:
    try:
        stored = load_file(folder / WEIGHTS)
    except SafetensorError as error:
        raise InputError(f"{folder}: {WEIGHTS} is damaged ({error}); copy the model folder again") from error
    wanted = dict(module.named_parameters())
    given, expected = ({n: tuple(v.shape) for n, v in side.items()} for side in (stored, wanted))
    for name in sorted(given.keys() | expected.keys()):
        if given.get(name) != expected.get(name):
            raise InputError(
                f"{folder}: {WEIGHTS} does not fit {CONFIG}: {name} is {given.get(name, 'missing')}, not "
                f"{expected.get(name, 'to be there')}; copy the model folder again"
            )
    with torch.no_grad():
        for name, parameter in wanted.items():
            parameter.copy_(stored[name])


def fingerprint(config: Mapping[str, Any]) -> str:
    """SHA-256 of a model's configuration, which holds the digests of its weights and vocabulary."""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def find(name_or_path: str | Path) -> Path:
    """The folder of a model: a folder, a bundled model by its name, or one on the Hugging Face Hub by its id.

    A folder comes before a name that it has too. One on the Hub is fetched, or taken from its cache.
    """
    path = Path(name_or_path)
    if path.is_dir():
        return path
    if path.exists():
        raise InputError(f"{path} is a file; a model is a folder with {CONFIG}, {WEIGHTS} and {VOCABULARY}")
    if bundled.is_name(name_or_path):
        return _bundled(str(name_or_path))
    owner, _, name = str(name_or_path).partition("/")
    if not owner or not name or "/" in name or owner.startswith((".", "~")):
        raise InputError(
            f"no model folder {name_or_path}; give the folder that `rejoinder train` wrote (RUN/model), or the name of "
            f"a model: {', '.join(bundled.names())}"
        )
    return _fetch(str(name_or_path))


def _bundled(name: str) -> Path:
    """The folder of a bundled model, which must be the one that its fingerprint says."""
    known = bundled.weights(name)
    folder = known.folder
    if folder is None or not (folder / CONFIG).is_file():
        raise InputError(
            f"the weights of {name} are not in this installation ({folder} has no {CONFIG}); install rejoinder (or the "
            "package that brings them) again, or name a model folder"
        )
    found = fingerprint(_read_config(folder))
    if found != known.fingerprint:
        raise InputError(
            f"{folder} is not the model {name} that was installed: its fingerprint is {found[:12]}..., not "
            f"{known.fingerprint[:12]}...; install it again, or save a model of your own in another folder"
        )
    return folder


def _fetch(repository: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(repository, allow_patterns=[CONFIG, WEIGHTS, VOCABULARY, CARD]))
    except (LocalEntryNotFoundError, HfHubHTTPError, HFValidationError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(
            f"no model folder {repository}, and it could not be fetched from the Hugging Face Hub: {reason}"
        ) from error


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    if not path.is_file():
        raise InputError(f"{folder} has no {CONFIG}, so it is no model folder; `rejoinder train` writes RUN/model")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        known = {"format": int, "model": dict, "active_blocks": int, "max_length": int, "files": dict}
        wrong = [key for key, kind in known.items() if not isinstance(config[key], kind)]
        if "scale" in config and not (isinstance(config["scale"], int | float) and 0 <= config["scale"] < math.inf):
            wrong.append("scale")
        read_scheme(config)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged ({type(error).__name__}: {error}); copy the model folder again") from None
    if wrong:
        raise InputError(f"{path}: {wrong[0]} has the wrong type; copy the model folder again")
    if config["format"] != FORMAT:
        raise InputError(f"{path} has format {config['format']}; this version reads format {FORMAT}: update rejoinder")
    return config


def read_config(name_or_path: str | Path) -> tuple[Path, dict[str, Any]]:
    """The folder of a model and its configuration (see `save`), without reading weights; errors as in `load`."""
    folder = find(name_or_path)
    return folder, _read_config(folder)


def model_folders(place: Path) -> list[Path]:
    """Every model folder at or below `place`, in order of their names."""
    return sorted(path.parent for path in place.rglob(CONFIG) if (path.parent / WEIGHTS).is_file())


def describe(folder: Path) -> dict[str, Any]:
    """What a model folder holds: path, kind, quantised or not, parameters, bytes, fingerprint. Reads no weights."""
    config = _read_config(folder)
    return {
        "path": str(folder),
        "kind": config["model"].get("kind", "unknown"),
        "quantized": is_quantized(config),
        "parameters": sum(math.prod(shape) for shape in parameter_shapes(folder).values()),
        "bytes": folder_bytes(folder),
        "fingerprint": fingerprint(config),
    }


def read_card(folder: Path) -> str:
    """The Markdown of a model's card, without white space at its end; empty if it has none."""
    path = folder / CARD
    return path.read_text(encoding="utf-8").rstrip() if path.is_file() else ""


def folder_bytes(folder: Path) -> int:
    """Bytes of all files of a model folder."""
    return sum(path.stat().st_size for path in folder.iterdir())


def parameter_shapes(folder: Path) -> dict[str, list[int]]:
    """Shapes of a folder's parameters by name. Reads no weights."""
    try:
        with safe_open(folder / WEIGHTS, framework="pt") as weights:
            names = [name for name in weights.keys() if not name.endswith((SCALE, OFFSET))]  # noqa: SIM118
            return {name: weights.get_slice(name).get_shape() for name in names}
    except SafetensorError as error:
        raise InputError(f"{folder}: {WEIGHTS} is damaged ({error}); copy the model folder again") from error
