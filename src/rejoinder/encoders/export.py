"""A trained model in other forms: a quantised folder, a checkpoint for `transformers`, ONNX files.

An ONNX folder (see `onnx`) holds the network in parts, the vocabulary, onnx.json (what a program
needs to know to feed them) and a README. Text to ids is not part of the network: `rejoinder.text`
does it, without PyTorch. That of a quantised model is a model folder still: its programs read
model.safetensors. Also what a folder holds, in numbers.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import math
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from rejoinder.encoders import joined, persistence
from rejoinder.encoders.checkpoints import CHECKPOINT, save_checkpoint
from rejoinder.encoders.onnx import (
    CARD,
    COMBINED,
    FORMAT,
    KIND,
    MANIFEST,
    ONNX_FOLDER,
    TRUNK,
    VOCABULARY,
)
from rejoinder.errors import InputError, MissingExtraError
from rejoinder.files import Kind, atomic_folder, check_replaceable, file_digest, is_ours, signed
from rejoinder.networks import quantization
from rejoinder.networks.convert import Convert
from rejoinder.networks.packing import rectangle
from rejoinder.networks.quantization import Half, Scheme

SMALL = 1024  # numbers that a program has itself
# by safetensors' names
ONNX_TYPES = {"F16": "FLOAT16", "BF16": "BFLOAT16", "F32": "FLOAT", "U8": "UINT8"}


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
    folder = _source(model, output, persistence.FOLDER, overwrite)
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
        else "done after training, which knew nothing of it"
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
    folder = persistence.find(model)
    if Path(output).resolve() == folder.resolve():
        raise InputError(f"{output} is the model itself, which would be lost; name another folder")
    check_replaceable(output, kind, overwrite=overwrite)
    return folder


def export_onnx(
    model: str | Path, output: str | Path, *, overwrite: bool = False
) -> dict[str, Any]:
    """Write a ConveRT's ONNX folder, and return path, files, bytes and fingerprint.

    All is computed in float32. The programs of a quantised folder take its weights from where they
    are, in few bits.
    """
    with onnx_folder(model, output, overwrite=overwrite) as (_, manifest):
        pass
    files = [name for name in manifest["files"] if name.endswith(".onnx")]
    written = {"path": str(output), "files": files, "bytes": folder_bytes(Path(output))}
    return written | {"fingerprint": manifest["model"]}


def half_for(module: nn.Module) -> Half:
    """Return the 16-bit float for a network that was not trained for one.

    It is float16, the more precise, if it fits.
    """
    largest = torch.finfo(torch.float16).max
    fits = all(bool(parameter.detach().abs().max() <= largest) for parameter in module.parameters())
    return "float16" if fits else "bfloat16"


@contextmanager
def onnx_folder(
    model: str | Path, output: str | Path, *, overwrite: bool = False
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield a folder with a ConveRT's ONNX files, and its manifest, for more of both.

    It is written at the end.
    """
    check_replaceable(output, ONNX_FOLDER, overwrite=overwrite)
    if any(importlib.util.find_spec(name) is None for name in ("onnx", "onnxscript")):
        raise MissingExtraError("an ONNX export", "onnx")
    folder = persistence.find(model)
    config = persistence.read_config(folder)[1]
    if (kind := config["model"].get("kind")) != "convert":
        raise InputError(
            f"{folder} is of kind '{kind}', and only ConveRT has an ONNX form;"
            " `export --quantized` takes every kind"
        )
    stored = persistence.is_quantized(config)
    loaded = (
        persistence.load_module(folder, torch.float32)
        if stored
        else persistence.load_as_validated(folder)
    )
    module, tokenizer, config = loaded
    module.eval().requires_grad_(False)
    manifest = {
        "kind": KIND,
        "format": FORMAT,
        "size": module.output_size,
        "reduction_size": module.reduction_size,
        "max_length": config["max_length"],
        "padding_id": tokenizer.padding_id,
        "cut": tokenizer.cut,
        "history": None if module.history is None else asdict(module.history),
        "subject_threshold": module.config.subject_threshold,
        "model": persistence.fingerprint(config),
    }
    with atomic_folder(output, ONNX_FOLDER, overwrite=overwrite) as part:
        if stored:
            for name in (persistence.CONFIG, persistence.WEIGHTS):
                shutil.copyfile(folder / name, part / name)
        _write_programs(module, part)
        tokenizer.save(part / VOCABULARY)
        card = read_card(folder)
        more = _onnx_card(module)
        (part / CARD).write_text(card if more in card else card + more, encoding="utf-8")
        yield part, manifest
        manifest["files"] = {
            path.name: file_digest(path) for path in sorted(part.iterdir()) if path.name != CARD
        }
        (part / MANIFEST).write_text(
            json.dumps(signed(manifest), indent=2) + "\n", encoding="utf-8"
        )


def _write_programs(module: Convert, folder: Path) -> None:
    ids = torch.ones(3, 9, dtype=torch.int64)
    mask = torch.ones(3, 9, dtype=torch.bool)
    write_program(_Trunk(module), {"ids": ids, "mask": mask}, ["reduction"], folder / TRUNK)
    for side in ("context", "response", *(() if module.history is None else ("history",))):
        example = {"reduction": torch.ones(3, module.reduction_size)}
        write_program(
            cast("nn.Module", module.head(side)), example, ["vectors"], folder / f"{side}.onnx"
        )
    if module.history is not None:
        # Two tensors: one that is given twice would be taken for one input.
        x, z = torch.ones(2, 3, module.output_size).unbind()
        write_program(
            _Combined(module), {"context": x, "history": z}, ["vectors"], folder / COMBINED
        )


class _Part(nn.Module):
    def __init__(self, module: Convert) -> None:
        super().__init__()
        self.module = module


class _Trunk(_Part):
    """ids and mask (n, L) -> r (n, heads * d)."""

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.module.reduce(rectangle(ids, mask))


class _Combined(_Part):
    """h_x and h_z (n, d) -> the combined encodings (n, d)."""

    def forward(self, context: Tensor, history: Tensor) -> Tensor:
        return self.module.combine(context, history)


def write_program(
    network: nn.Module, inputs: Mapping[str, Tensor], outputs: Sequence[str], path: Path
) -> None:
    """Record a network as an ONNX file: for any number of rows, and ids and masks of any length.

    Weights that a model folder's file has too are not written again, if that file lies beside it.
    """
    import onnx_ir

    count = torch.export.Dim("count")
    length = torch.export.Dim("length")
    shapes = tuple(
        {0: count} if each.is_floating_point() else {0: count, 1: length}
        for each in inputs.values()
    )
    with _quiet():
        # By itself, torch.onnx.export would fix a dimension that cannot vary, instead of saying so.
        program = torch.export.export(
            network, tuple(inputs.values()), dynamic_shapes=shapes, strict=False
        )
        names: dict[str, Any] = {"input_names": list(inputs), "output_names": outputs}
        names["dynamic_shapes"] = shapes  # here only the dimensions' names in the file
        made = torch.onnx.export(program, **names, verbose=False)
        assert made is not None
        # where in which file of this machine each operation came from
        for node in made.model.graph:
            node.metadata_props.clear()
        if (weights := path.with_name(persistence.WEIGHTS)).is_file():
            _share(made.model.graph, weights)
        onnx_ir.save(made.model, path)


def _share(graph: Any, weights: Path) -> None:
    """Let a program read its large constants from a model folder's weights.

    They are converted to what it computes in.
    """
    import onnx_ir

    content = weights.read_bytes()
    # safetensors: a length, that many bytes of JSON, the tensors
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    stored = {name: tensor for name, tensor in load_file(weights).items() if tensor.numel() > SMALL}
    for constant in list(graph.initializers.values()):
        value = torch.from_numpy(constant.const_value.numpy().copy())
        same = (
            name for name, tensor in stored.items() if torch.equal(tensor.to(value.dtype), value)
        )
        if (name := next(same, None)) is None:
            continue
        kind = ONNX_TYPES[header[name]["dtype"]]
        (first, end) = header[name]["data_offsets"]
        place = {"offset": start + first, "length": end - first, "base_dir": weights.parent}
        there = onnx_ir.ExternalTensor(
            weights.name,
            dtype=onnx_ir.DataType[kind],
            shape=constant.shape,
            name=f"stored.{name}",
            **place,
        )
        source = onnx_ir.val(there.name, const_value=there)
        cast = onnx_ir.node("Cast", [source], {"to": constant.dtype})
        graph.register_initializer(source)
        graph.insert_before(graph[0], cast)
        constant.replace_all_uses_with(cast.outputs[0])
        del graph.initializers[constant.name]


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
    sides = "context.onnx and response.onnx turn"
    history = ""
    if module.history is not None:
        sides = "context.onnx, history.onnx and response.onnx turn"
        history = (
            " combined.onnx makes a conversation's vector of that of its newest message"
            " (`context`) and of its earlier ones joined as onnx.json says (`history`;"
            " zeros where there are none)."
        )
    return (
        "\n\n## ONNX\n\n`rejoinder.runtime.OnnxEncoder(folder)` opens this folder without PyTorch."
        " For other programs: trunk.onnx turns `ids`, int64 (n, L), and `mask`, bool (n, L),"
        f" true where a token is, into `reduction`, float32 (n, {module.reduction_size})."
        f" {sides} that into `vectors`, float32 (n, {module.output_size}),"
        f" rows of unit length.{history} A response's score is the dot product of its vector"
        " and the conversation's. onnx.json has the longest length,"
        " what a longer message loses (`cut`), and the id of the padding;"
        " vocabulary.json is for `rejoinder.text.subwords.Subwords`.\n"
    )


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a model: the columns of the paper's table of models (CONVERT, Table 2)."""

    embedding_parameters: int
    network_parameters: int
    fp32_bytes: int
    quantized_bytes: int


def model_folders(place: Path) -> list[Path]:
    """Return every model folder at or below `place`, in order of their names.

    Parts of joined ones are none.
    """
    found = {
        path.parent
        for path in place.rglob(persistence.CONFIG)
        if is_ours(path.parent, persistence.FOLDER)
    }
    return sorted(found - {folder / part for folder in found for part in joined.PARTS})


def describe(folder: Path) -> dict[str, Any]:
    """Describe a model folder: path, kind, quantised or not, parameters, bytes, fingerprint.

    Reads no weights.
    """
    config = persistence.read_config(folder)[1]
    kind = config["model"].get("kind", "unknown")
    parts = [folder / part for part in joined.PARTS] if kind == joined.KIND else [folder]
    shapes = [quantization.parameter_shapes(part / persistence.WEIGHTS) for part in parts]
    return {
        "path": str(folder),
        "kind": kind,
        "quantized": all(
            persistence.is_quantized(persistence.read_config(part)[1]) for part in parts
        ),
        "parameters": sum(math.prod(shape) for each in shapes for shape in each.values()),
        "bytes": folder_bytes(folder),
        "fingerprint": persistence.fingerprint(config),
    }


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files of a model folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def sizes(folder: Path) -> Sizes:
    """Return the sizes of a model folder, full or quantised. Reads no weights."""
    if persistence.read_config(folder)[1]["model"].get("kind") == joined.KIND:
        parts = [astuple(sizes(folder / part)) for part in joined.PARTS]
        return Sizes(*(sum(numbers) for numbers in zip(*parts, strict=True)))
    # Which parameters are tables does not depend on their rows.
    tables = quantization.table_names(
        persistence.meta_module(folder, persistence.read_config(folder)[1], rows=2)
    )
    numbers = {
        name: math.prod(shape)
        for name, shape in quantization.parameter_shapes(folder / persistence.WEIGHTS).items()
    }
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
    path = folder / persistence.CARD
    return path.read_text(encoding="utf-8").rstrip() if path.is_file() else ""
