"""A trained model as ONNX files: its two encoders, to be run by onnxruntime or anything else that reads ONNX.

The folder holds context.onnx and response.onnx, the vocabulary, onnx.json (what a program needs to know to feed them)
and a README. Text to ids is not part of the files: `rejoinder.text.subwords` does it, without PyTorch.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rejoinder.errors import InputError, MissingExtraError
from rejoinder.files import Kind, atomic_folder, check_replaceable
from rejoinder.models import persistence
from rejoinder.models.convert import Convert
from rejoinder.models.multi_context import MultiContextConvert
from rejoinder.models.padded import encode_conversations, encode_padded

FORMAT = 1
MANIFEST = "onnx.json"
CONTEXT, RESPONSE = "context.onnx", "response.onnx"
KIND = "rejoinder onnx"
"""What onnx.json says of itself; folders of earlier versions do not."""
FOLDER = Kind(
    "an ONNX folder",
    MANIFEST,
    lambda manifest: manifest.get("kind", KIND) == KIND and manifest["files"][CONTEXT] and manifest["model"],
    (MANIFEST, CONTEXT, RESPONSE, persistence.VOCABULARY, persistence.CARD),
)


def export_onnx(model: str | Path, output: str | Path, *, overwrite: bool = False) -> dict[str, Any]:
    """Write a model's ONNX folder, in float32.

    Both files take `ids`, int64 (n, L), and `mask`, bool (n, L), of any n and L from 1, and give `vectors`, float32
    (n, d), rows of unit length. The context side of a multi-context model also takes `history_ids` and `history_mask`,
    (n, M).

    Args:
        model: a model folder, a bundled model's name, or an id on the Hugging Face Hub. Of a quantised one the
            rounded values are written.
        output: the folder to write.
        overwrite: replace an earlier ONNX folder there.

    Returns:
        What was written: path, files, bytes, fingerprint of the model.

    Raises:
        MissingExtraError: the libraries of the extra `onnx` are not installed.
        InputError: there is no such model, it is no ConveRT, or the output is something else.
    """
    check_replaceable(output, FOLDER, overwrite=overwrite)
    if any(importlib.util.find_spec(name) is None for name in ("onnx", "onnxscript")):
        raise MissingExtraError("an ONNX export", "onnx")
    folder = persistence.find(model)
    module, tokenizer, config = persistence.load_as_validated(folder)
    if not isinstance(module, Convert):
        raise InputError(
            f"{folder} is of kind '{module.config.kind}', and only ConveRT has an ONNX form; `export --quantized` and "
            "`export --sentence-transformers` take every kind"
        )
    module.eval().requires_grad_(False)
    context: _Encoder = _Side(module, "context")
    if isinstance(module, MultiContextConvert):
        context = _Conversations(module)
    with atomic_folder(output, FOLDER, overwrite=overwrite) as part:
        encoders = {CONTEXT: context, RESPONSE: _Side(module, "response")}
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
        (part / persistence.CARD).write_text(card + _card(module), encoding="utf-8")
    return {
        "path": str(output),
        "files": list(inputs),
        "bytes": persistence.folder_bytes(Path(output)),
        "fingerprint": manifest["model"],
    }


class _Encoder(nn.Module):
    """What becomes one file."""

    inputs: tuple[str, ...] = ("ids", "mask")
    """Names of what `forward` takes, in its order."""


class _Side(_Encoder):
    """ids and mask (n, L) -> h of one side (n, d)."""

    def __init__(self, module: Convert, side: str) -> None:
        super().__init__()
        self.module, self.side = module, side

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return encode_padded(self.module, ids, mask, self.side)


class _Conversations(_Encoder):
    """Inputs (n, L) and histories (n, M) -> the combined encodings (n, d)."""

    inputs = ("ids", "mask", "history_ids", "history_mask")

    def __init__(self, module: MultiContextConvert) -> None:
        super().__init__()
        self.module = module

    def forward(self, ids: Tensor, mask: Tensor, history_ids: Tensor, history_mask: Tensor) -> Tensor:
        return encode_conversations(self.module, ids, mask, history_ids, history_mask)


def _write(encoder: _Encoder, path: Path) -> list[str]:
    """Record one encoder for any number of texts and any length; its inputs' names."""
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
        torch.onnx.export(
            program,
            f=path,
            input_names=encoder.inputs,
            output_names=["vectors"],
            dynamic_shapes=tuple(shapes),  # only the dimensions' names in the file
            external_data=False,
            verbose=False,
        )
    return list(encoder.inputs)


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporter reports on its own progress, which is not the user's."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _card(module: Convert) -> str:
    history = (
        " context.onnx also takes `history_ids` and `history_mask`, the earlier messages joined as `onnx.json` says; a "
        "row that is all false is a conversation without history."
        if module.history is not None
        else ""
    )
    return (
        "\n\n## ONNX\n\ncontext.onnx and response.onnx take `ids`, int64 (n, L), and `mask`, bool (n, L), true where a "
        f"token is, and give `vectors`, float32 (n, {module.output_size}), rows of unit length.{history} The score of "
        "a response is the dot product with the context's vector. onnx.json has the longest length and the id of the "
        "padding; vocabulary.json is for `rejoinder.text.subwords.Subwords`.\n"
    )
