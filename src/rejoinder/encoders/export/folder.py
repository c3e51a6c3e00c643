"""A trained model in other forms: a quantised folder, a checkpoint for `transformers`.

ONNX files are made in `export.onnx`. Also the sizes of a model folder.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from rejoinder.encoders import bundled, folders, joined, persistence
from rejoinder.encoders.export.checkpoints import CHECKPOINT, save_checkpoint
from rejoinder.encoders.folders import describe, folder_bytes
from rejoinder.errors import InputError
from rejoinder.folder_kinds import Kind, check_replaceable
from rejoinder.networks.quantization.rounding import Half, Scheme, table_names
from rejoinder.safetensors_files import parameter_shapes


def export_quantized(
    model: str | Path,
    output: str | Path,
    *,
    linear_bits: Literal[8, 16] = 16,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write a model's quantised folder: 8-bit embeddings, 16 bits for the rest (CONVERT, Table 2).

    A model that was trained for it keeps its ranges and its 16-bit float. Any other is rounded now:
    each table between its lowest and highest value, the rest to float16 (bfloat16 if a number is
    too large for that). With `linear_bits` 8 the weights of linear layers get 8 bits as well, each
    row with a scale of its own (not the paper's).

    Returns:
        What was written, as `describe` tells it, with `trained` (for few bits), `half`
        and `full_bytes`.
    """
    folder = _source(model, output, folders.FOLDER, overwrite)
    if persistence.is_quantized(persistence.read_config(folder)[1]):
        raise InputError(
            f"{folder} is a quantised folder already; copy it as it is,"
            " or give the model folder that it was exported from to round that anew"
        )
    module, tokenizer, config = persistence.load_module(folder)
    if not all(bool(parameter.isfinite().all()) for parameter in module.parameters()):
        raise InputError(
            f"{folder}: not all weights are finite numbers, so there are no levels to round them to"
        )
    trained = persistence.read_scheme(config)
    scheme = Scheme(half=half_for(module), trained=False, stored=True)
    if trained is not None:
        scheme = replace(trained, stored=True)
    scheme = replace(scheme, linear_bits=linear_bits)
    how = (
        "the model was trained for that"
        if scheme.trained
        else "done after training, without training for it"
    )
    eight = "Embeddings" if linear_bits == 16 else "Embeddings and linear layers"
    card = f"\n\n## Quantised\n\n{eight} in 8 bits, all other weights in {scheme.half}; {how}.\n"
    persistence.save(
        output,
        module,
        tokenizer,
        max_length=config["max_length"],
        card=read_card(folder) + card,
        quantized=scheme,
        scale=config.get("scale"),
        overwrite=overwrite,
    )
    more = {
        "trained": scheme.trained,
        "half": scheme.half,
        "full_bytes": folder_bytes(folder),
    }
    return describe(Path(output)) | more


def export_transformer(
    model: str | Path, output: str | Path, *, overwrite: bool = False
) -> dict[str, Any]:
    """Write the transformer of a pretrained model, or a cross-encoder's, as a checkpoint.

    It is one that `transformers` opens.
    """
    folder = _source(model, output, CHECKPOINT, overwrite)
    module, tokenizer, config = persistence.load_module(folder)
    transformers = getattr(module, "transformers", [])
    if len(transformers) != 1:
        raise InputError(
            f"{folder} is a {config['model'].get('kind')}, which is not one transformer"
        )
    save_checkpoint(output, transformers[0], module.config, tokenizer, overwrite=overwrite)
    parameters = sum(parameter.numel() for parameter in transformers[0].parameters())
    return {
        "path": str(output),
        "parameters": parameters,
        "bytes": folder_bytes(Path(output)),
    }


def _source(model: str | Path, output: str | Path, kind: Kind, overwrite: bool) -> Path:
    folder = folders.find(model)
    if Path(output).resolve() == folder.resolve():
        raise InputError(f"{output} is the model itself, which would be lost; name another folder")
    check_replaceable(output, kind, overwrite=overwrite)
    return folder


def half_for(module: nn.Module) -> Half:
    """Return the 16-bit float for a network that was not trained for one.

    It is float16, the more precise, if it fits.
    """
    largest = torch.finfo(torch.float16).max
    fits = all(bool(parameter.detach().abs().max() <= largest) for parameter in module.parameters())
    return "float16" if fits else "bfloat16"


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a model: the columns of the paper's table of models (CONVERT, Table 2)."""

    embedding_parameters: int
    network_parameters: int
    fp32_bytes: int
    quantized_bytes: int


def sizes(folder: Path) -> Sizes:
    """Return the sizes of a model folder, full or quantised. Reads no weights."""
    config = persistence.read_config(folder)[1]
    if config["model"].get("kind") == joined.KIND:
        parts = [astuple(sizes(folder / part)) for part in bundled.PARTS]
        return Sizes(*(sum(numbers) for numbers in zip(*parts, strict=True)))
    # Which parameters are tables does not depend on their rows.
    tables = table_names(persistence.meta_module(folder, config, rows=2))
    shapes = parameter_shapes(folders.weight_paths(folder, config))
    numbers = {name: math.prod(shape) for name, shape in shapes.items()}
    embedding = sum(numbers[name] for name in tables)
    network = sum(numbers.values()) - embedding
    scales_and_offsets = 8 * len(tables)
    return Sizes(
        embedding, network, 4 * (embedding + network), embedding + 2 * network + scales_and_offsets
    )


def read_card(folder: Path) -> str:
    """Return the Markdown of a model's card, without white space at its end.

    It is empty if there is none.
    """
    path = folder / folders.CARD
    return path.read_text(encoding="utf-8").rstrip() if path.is_file() else ""
