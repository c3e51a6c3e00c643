"""A trained model in other forms."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from rejoinder.errors import InputError
from rejoinder.files import check_replaceable
from rejoinder.models import persistence
from rejoinder.models.pretrained import save_checkpoint
from rejoinder.models.quantization import Scheme
from rejoinder.models.quantized_folder import half_for, read_scheme


def export_quantized(model: str | Path, output: str | Path) -> dict[str, Any]:
    """Write a model's quantised folder: 8-bit embeddings, 16 bits for the rest (CONVERT, Table 2).

    A model that was trained for it keeps its ranges and its 16-bit float, and gives the vectors that it was trained
    and validated with. Any other is rounded now: each table between its lowest and highest value, the rest to float16
    (bfloat16 if a number is too large for that).

    Args:
        model: a model folder in full precision, or the id of one on the Hugging Face Hub.
        output: the folder to write.

    Returns:
        What was written, as `persistence.describe` tells it, with `trained` (for few bits), `half` and `full_bytes`.

    Raises:
        InputError: there is no such model, it is quantised already, its weights are not finite numbers, or the output
            is something else.
    """
    folder = persistence.find(model)
    if Path(output).resolve() == folder.resolve():
        raise InputError(f"{output} is the model itself, which would be lost; name another folder")
    check_replaceable(output, persistence.CONFIG)
    if persistence.is_quantized(persistence.read_config(folder)[1]):
        raise InputError(
            f"{folder} is a quantised folder already; copy it as it is, or give the model folder that it was exported "
            "from to round that anew"
        )
    module, tokenizer, config = persistence.load_module(folder)
    if not all(bool(parameter.isfinite().all()) for parameter in module.parameters()):
        raise InputError(f"{folder}: not all weights are finite numbers, so there are no levels to round them to")
    trained = read_scheme(config)
    if trained is None:
        scheme = Scheme(half=half_for(module), trained=False, stored=True)
    else:
        scheme = dataclasses.replace(trained, stored=True)
    persistence.save(
        output,
        module,
        tokenizer,
        max_length=config["max_length"],
        card=persistence.read_card(folder) + "\n\n" + _card(scheme),
        quantized=scheme,
        scale=config.get("scale"),
    )
    described = persistence.describe(Path(output))
    more = {"trained": scheme.trained, "half": scheme.half, "full_bytes": persistence.folder_bytes(folder)}
    return described | more


def export_transformer(model: str | Path, output: str | Path) -> dict[str, Any]:
    """Write the transformer of a pretrained model, or of a cross-encoder, as a checkpoint that `transformers` opens.

    Args:
        model: a model folder in full precision, or the id of one on the Hugging Face Hub.
        output: the folder to write; an earlier checkpoint there is replaced.

    Returns:
        `path`, `parameters` and `bytes` of what was written.

    Raises:
        InputError: there is no such model, it is not made of one transformer, or the output is something else.
    """
    folder = persistence.find(model)
    if Path(output).resolve() == folder.resolve():
        raise InputError(f"{output} is the model itself, which would be lost; name another folder")
    check_replaceable(output, persistence.CONFIG)
    module, tokenizer, config = persistence.load_module(folder)
    transformers = getattr(module, "transformers", [])
    if len(transformers) != 1:
        raise InputError(f"{folder} is a {config['model'].get('kind')}, which is not one transformer")
    save_checkpoint(output, transformers[0], module.config, tokenizer)
    parameters = sum(parameter.numel() for parameter in transformers[0].parameters())
    return {"path": str(output), "parameters": parameters, "bytes": persistence.folder_bytes(Path(output))}


def _card(scheme: Scheme) -> str:
    how = "the model was trained for that" if scheme.trained else "done after training, which knew nothing of it"
    return f"## Quantised\n\nEmbeddings in 8 bits, all other weights in {scheme.half}; {how}.\n"
