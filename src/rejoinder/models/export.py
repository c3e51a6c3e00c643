"""A trained model in other forms: a quantised folder, a checkpoint for `transformers`, ONNX files.

An ONNX folder holds the two encoders, their vocabulary, onnx.json (what a program needs to know to feed them) and a
README. Text to ids is not part of the encoders: `rejoinder.text` does it, without PyTorch.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rejoinder.errors import InputError, MissingExtraError
from rejoinder.files import Kind, atomic_folder, check_replaceable
from rejoinder.models import persistence
from rejoinder.models.checkpoints import CHECKPOINT, save_checkpoint
from rejoinder.models.convert import Convert
from rejoinder.models.packing import rectangle
from rejoinder.models.quantization import Scheme, half_for

FORMAT = 1
MANIFEST = "onnx.json"
CONTEXT, RESPONSE = "context.onnx", "response.onnx"
KIND = "rejoinder onnx"  # what onnx.json says of itself; folders of earlier versions do not
ONNX_FOLDER = Kind(
    "an ONNX folder",
    MANIFEST,
    lambda manifest: manifest.get("kind", KIND) == KIND and manifest["files"][CONTEXT] and manifest["model"],
    (MANIFEST, CONTEXT, RESPONSE, persistence.VOCABULARY, persistence.CARD),
)


def export_quantized(model: str | Path, output: str | Path, *, overwrite: bool = False) -> dict[str, Any]:
    """Write a model's quantised folder: 8-bit embeddings, 16 bits for the rest (CONVERT, Table 2).

    A model that was trained for it keeps its ranges and its 16-bit float. Any other is rounded now: each table between
    its lowest and highest value, the rest to float16 (bfloat16 if a number is too large for that).

    Returns:
        What was written, as `persistence.describe` tells it, with `trained` (for few bits), `half` and `full_bytes`.
    """
    folder = _source(model, output, persistence.FOLDER, overwrite)
    if persistence.is_quantized(persistence.read_config(folder)[1]):
        todo = "copy it as it is, or give the model folder that it was exported from to round that anew"
        raise InputError(f"{folder} is a quantised folder already; {todo}")
    module, tokenizer, config = persistence.load_module(folder)
    if not all(bool(parameter.isfinite().all()) for parameter in module.parameters()):
        raise InputError(f"{folder}: not all weights are finite numbers, so there are no levels to round them to")
    trained = persistence.read_scheme(config)
    scheme = Scheme(half=half_for(module), trained=False, stored=True)
    if trained is not None:
        scheme = replace(trained, stored=True)
    how = "the model was trained for that" if scheme.trained else "done after training, which knew nothing of it"
    card = f"\n\n## Quantised\n\nEmbeddings in 8 bits, all other weights in {scheme.half}; {how}.\n"
    persistence.save(
        output,
        module,
        tokenizer,
        max_length=config["max_length"],
        card=persistence.read_card(folder) + card,
        quantized=scheme,
        scale=config.get("scale"),
        overwrite=overwrite,
    )
    more = {"trained": scheme.trained, "half": scheme.half, "full_bytes": persistence.folder_bytes(folder)}
    return persistence.describe(Path(output)) | more


def export_transformer(model: str | Path, output: str | Path, *, overwrite: bool = False) -> dict[str, Any]:
    """Write the transformer of a pretrained model, or of a cross-encoder, as a checkpoint that `transformers` opens."""
    folder = _source(model, output, CHECKPOINT, overwrite)
    module, tokenizer, config = persistence.load_module(folder)
    transformers = getattr(module, "transformers", [])
    if len(transformers) != 1:
        raise InputError(f"{folder} is a {config['model'].get('kind')}, which is not one transformer")
    save_checkpoint(output, transformers[0], module.config, tokenizer, overwrite=overwrite)
    parameters = sum(parameter.numel() for parameter in transformers[0].parameters())
    return {"path": str(output), "parameters": parameters, "bytes": persistence.folder_bytes(Path(output))}


def _source(model: str | Path, output: str | Path, kind: Kind, overwrite: bool) -> Path:
    folder = persistence.find(model)
    if Path(output).resolve() == folder.resolve():
        raise InputError(f"{output} is the model itself, which would be lost; name another folder")
    check_replaceable(output, kind, overwrite=overwrite)
    return folder


def export_onnx(model: str | Path, output: str | Path, *, overwrite: bool = False) -> dict[str, Any]:
    """Write a ConveRT's ONNX folder, in float32 (see `_onnx_card`), and return path, files, bytes and fingerprint."""
    check_replaceable(output, ONNX_FOLDER, overwrite=overwrite)
    if any(importlib.util.find_spec(name) is None for name in ("onnx", "onnxscript")):
        raise MissingExtraError("an ONNX export", "onnx")
    folder = persistence.find(model)
    module, tokenizer, config = persistence.load_as_validated(folder)
    if not isinstance(module, Convert):
        others = "`export --quantized` takes every kind"
        raise InputError(f"{folder} is of kind '{module.config.kind}', and only ConveRT has an ONNX form; {others}")
    module.eval().requires_grad_(False)
    context = _Encoder(module, "context") if module.history is None else _Conversations(module, "context")
    with atomic_folder(output, ONNX_FOLDER, overwrite=overwrite) as part:
        encoders = {CONTEXT: context, RESPONSE: _Encoder(module, "response")}
        inputs = {name: _write(encoder, part / name) for name, encoder in encoders.items()}
        tokenizer.save(part / persistence.VOCABULARY)
        manifest = {
            "kind": KIND,
            "format": FORMAT,
            "files": {name: {"inputs": given, "outputs": ["vectors"]} for name, given in inputs.items()},
            "size": module.output_size,
            "max_length": config["max_length"],
            "padding_id": tokenizer.padding_id,
            "history": None if module.history is None else asdict(module.history),
            "model": persistence.fingerprint(config),
        }
        (part / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        card = persistence.read_card(folder)
        (part / persistence.CARD).write_text(card + _onnx_card(module), encoding="utf-8")
    written = {"path": str(output), "files": list(inputs), "bytes": persistence.folder_bytes(Path(output))}
    return written | {"fingerprint": manifest["model"]}


class _Encoder(nn.Module):
    """What becomes one file: ids and mask (n, L) -> h of one side (n, d)."""

    inputs: tuple[str, ...] = ("ids", "mask")

    def __init__(self, module: Convert, side: str) -> None:
        super().__init__()
        self.module, self.side = module, side

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.module.encode(rectangle(ids, mask), self.side)


class _Conversations(_Encoder):
    """Inputs (n, L) and histories (n, M) -> the combined encodings (n, d)."""

    inputs = ("ids", "mask", "history_ids", "history_mask")

    def forward(  # type: ignore[override]  # it takes more
        self, ids: Tensor, mask: Tensor, history_ids: Tensor, history_mask: Tensor
    ) -> Tensor:
        histories = rectangle(history_ids, history_mask)
        return self.module.encode_conversations(rectangle(ids, mask), histories, history_mask.any(dim=1))


def _write(encoder: _Encoder, path: Path) -> list[str]:
    """Record one encoder for any number of texts and any length; return the names of its inputs."""
    count = torch.export.Dim("count")
    example: list[Tensor] = []
    shapes: list[dict[int, Any]] = []
    for name in encoder.inputs:
        size, kind = (9, "length") if not name.startswith("history") else (7, "history_length")
        example.append(torch.ones(3, size, dtype=torch.bool if name.endswith("mask") else torch.int64))
        shapes.append({0: count, 1: torch.export.Dim(kind)})
    with _quiet():
        # By itself, torch.onnx.export would fix a dimension that cannot vary, instead of saying so.
        program = torch.export.export(encoder, tuple(example), dynamic_shapes=tuple(shapes), strict=False)
        names: dict[str, Any] = {"input_names": encoder.inputs, "output_names": ["vectors"]}
        names["dynamic_shapes"] = tuple(shapes)  # here only the dimensions' names in the file
        torch.onnx.export(program, f=path, **names, external_data=False, verbose=False)
    return list(encoder.inputs)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter, which reports on its own progress."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _onnx_card(module: Convert) -> str:
    history = ""
    if module.history is not None:
        history = (
            " context.onnx also takes `history_ids` and `history_mask`, the earlier messages joined as `onnx.json` "
            "says; a row that is all false is a conversation without history."
        )
    return (
        "\n\n## ONNX\n\ncontext.onnx and response.onnx take `ids`, int64 (n, L), and `mask`, bool (n, L), true where a "
        f"token is, and give `vectors`, float32 (n, {module.output_size}), rows of unit length.{history} The score of "
        "a response is the dot product with the context's vector. onnx.json has the longest length and the id of the "
        "padding; vocabulary.json is for `rejoinder.text.subwords.Subwords`.\n"
    )
