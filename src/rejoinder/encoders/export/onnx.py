"""ONNX programs of a trained dual encoder.

An ONNX folder (see `onnx`) holds the network in parts, the vocabulary, onnx.json (what a program
needs to know to feed them) and a README. Text to ids is not part of the network: `rejoinder.text`
does it, without PyTorch. That of a quantised model is a model folder still: its programs read
its weights.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from rejoinder.digests import file_digest, signed
from rejoinder.encoders import bundled, folders, joined, persistence
from rejoinder.encoders.export.folder import read_card
from rejoinder.encoders.export.int8 import use_int8
from rejoinder.encoders.export.onnx_card import JOINED_ONNX_CARD, onnx_card
from rejoinder.encoders.families import family
from rejoinder.encoders.folders import folder_bytes
from rejoinder.encoders.onnx.folder import (
    CARD,
    COMBINED,
    FORMAT,
    KIND,
    MANIFEST,
    ONNX_FOLDER,
    POOLED,
    TRUNK,
    TRUNK_INT8,
    VOCABULARY,
)
from rejoinder.errors import InputError, MissingExtraError
from rejoinder.files import atomic_folder
from rejoinder.folder_kinds import check_replaceable
from rejoinder.networks.dual import SharedTrunk
from rejoinder.networks.packing import rectangle
from rejoinder.safetensors_files import SCALE

WITH_PROGRAMS = ("convert", "multi-context-bi-encoder")  # the kinds that have an ONNX form
IN_INT8 = ("multi-context-bi-encoder",)  # those whose trunk gains by products in 8 bits
SMALL = 1024  # numbers that a program has itself
# of a dimension; without a bound older versions of PyTorch guard against the largest integer
LONGEST = 2**31 - 1
# by safetensors' names
ONNX_TYPES = {"F16": "FLOAT16", "BF16": "BFLOAT16", "F32": "FLOAT", "U8": "UINT8", "I8": "INT8"}


def export_onnx(
    model: str | Path, output: str | Path, *, overwrite: bool = False
) -> dict[str, Any]:
    """Write a dual encoder's ONNX folder, and return path, files, bytes and fingerprint.

    All is computed in float32. The programs of a quantised folder take its weights from where they
    are, in few bits; a multi-context bi-encoder's trunk has a second one, which multiplies in 8
    bits (`export.int8`). The folder of a joined model holds those of its parts.
    """
    with onnx_folder(model, output, overwrite=overwrite) as (_, manifest):
        fingerprint = manifest["model"]
    written = Path(output)
    files = sorted(path.relative_to(written).as_posix() for path in written.rglob("*.onnx"))
    facts = {"path": str(output), "files": files, "bytes": folder_bytes(written)}
    return facts | {"fingerprint": fingerprint}


@contextmanager
def onnx_folder(
    model: str | Path, output: str | Path, *, overwrite: bool = False
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield a folder with a dual encoder's ONNX files, and its manifest, for more of both.

    It is written at the end.
    """
    check_replaceable(output, ONNX_FOLDER, overwrite=overwrite)
    if any(importlib.util.find_spec(name) is None for name in ("onnx", "onnxscript")):
        raise MissingExtraError("an ONNX export", "onnx")
    folder = folders.find(model)
    config = persistence.read_config(folder)[1]
    kind = config["model"].get("kind")
    if kind == joined.KIND:
        with atomic_folder(output, ONNX_FOLDER, overwrite=overwrite) as part:
            manifest = _write_joined(folder, part)
            yield part, manifest
            files = [f"{name}/{MANIFEST}" for name in bundled.PARTS]
            files += sorted(path.name for path in part.glob("*.onnx"))
            _write_manifest(part, manifest, files)
        return
    if kind not in WITH_PROGRAMS:
        raise InputError(
            f"{folder} is of kind '{kind}', and only {', '.join(WITH_PROGRAMS)} and joins of these"
            " have an ONNX form; `export --to quantized` takes every kind"
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
        "subject_threshold": module.subject_threshold,
        "opening_weight": module.opening_weight,
        "tokenizer": family(kind).vocabulary,
        "model": folders.fingerprint(config),
    }
    with atomic_folder(output, ONNX_FOLDER, overwrite=overwrite) as part:
        if stored:
            for path in (folder / folders.CONFIG, *folders.weight_paths(folder, config)):
                shutil.copyfile(path, part / path.name)
        _write_programs(module, part)
        if stored and kind in IN_INT8:
            _write_int8(part)
        tokenizer.save(part / VOCABULARY)
        card = read_card(folder).partition("\n\n## ONNX\n")[0]
        chapter = onnx_card(manifest, with_int8=(part / TRUNK_INT8).is_file())
        (part / CARD).write_text(card + chapter, encoding="utf-8")
        yield part, manifest
        files = [path.name for path in sorted(part.iterdir()) if path.name != CARD]
        _write_manifest(part, manifest, files)


def _write_manifest(folder: Path, manifest: dict[str, Any], files: Sequence[str]) -> None:
    """Write a folder's manifest with the digests of these files."""
    manifest["files"] = {name: file_digest(folder / name) for name in files}
    content = json.dumps(signed(manifest), indent=2) + "\n"
    (folder / MANIFEST).write_text(content, encoding="utf-8")


def _write_joined(folder: Path, output: Path) -> dict[str, Any]:
    """Write the ONNX folders of a joined model's parts and its card, and return the manifest."""
    config = persistence.whole_config(folder)
    for name in bundled.PARTS:
        export_onnx(folder / name, output / name)
        if f"{name}/{CARD}" in config["files"]:  # with the digest of the part's card
            shutil.copyfile(folder / name / CARD, output / name / CARD)
    if persistence.is_quantized(persistence.read_config(folder / bundled.PARTS[0])[1]):
        shutil.copyfile(folder / folders.CONFIG, output / folders.CONFIG)
    card = read_card(folder)
    (output / CARD).write_text(
        card if JOINED_ONNX_CARD in card else card + JOINED_ONNX_CARD, encoding="utf-8"
    )
    return {
        "kind": KIND,
        "format": FORMAT,
        "share": config["model"]["share"],
        "opening_share": config["model"].get("opening_share"),
        "model": folders.fingerprint(config),
    }


def _write_programs(module: SharedTrunk, folder: Path) -> None:
    """Write a program for the trunk, each head and the reading of history."""
    ids = torch.ones(3, 9, dtype=torch.int64)
    mask = torch.ones(3, 9, dtype=torch.bool)
    texts = ("count", "length")
    write_program(
        _Trunk(module), {"ids": (ids, texts), "mask": (mask, texts)}, ["reduction"], folder / TRUNK
    )
    reduction = torch.ones(3, module.reduction_size)
    for side in _sides(module):
        write_program(
            _Head(module, side),
            {"reduction": (reduction, ("count",))},
            ["vectors"],
            folder / f"{side}.onnx",
        )
    if module.history is None:
        return
    # Two tensors: one that is given twice would be taken for one input.
    x, z = torch.ones(2, 3, module.output_size).unbind()
    pair = {"context": (x, ("count",)), "history": (z, ("count",))}
    write_program(_Combined(module), pair, ["vectors"], folder / COMBINED)
    if module.history.apart:
        messages = {
            "context": (x, ("count",)),
            "messages": (torch.ones(5, module.output_size), ("messages",)),
            "histories": (torch.ones(2, 5, dtype=torch.int64), (None, "messages")),
        }
        write_program(_Pooled(module), messages, ["history"], folder / POOLED)


def _write_int8(folder: Path) -> None:
    """Write the trunk's second program, which reads the same weights as the first."""
    import onnx_ir

    model = onnx_ir.load(folder / TRUNK)
    use_int8(model)
    onnx_ir.save(model, folder / TRUNK_INT8)


def _sides(module: SharedTrunk) -> list[str]:
    """Return the heads that a network has."""
    history = [] if module.history is None else ["history"]
    opening = ["opening"] if module.opening_weight else []
    return ["context", *opening, "response", *history]


class _Part(nn.Module):
    def __init__(self, module: SharedTrunk) -> None:
        super().__init__()
        self.module = module


class _Trunk(_Part):
    """ids and mask (n, L) -> r (n, reduction_size)."""

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.module.reduce(rectangle(ids, mask))


class _Head(_Part):
    """r (n, reduction_size) -> h of a side (n, d)."""

    def __init__(self, module: SharedTrunk, side: str) -> None:
        super().__init__(module)
        self.side = side

    def forward(self, reduction: Tensor) -> Tensor:
        return self.module.head(self.side)(reduction)


class _Combined(_Part):
    """h_x and h_z (n, d) -> the combined encodings (n, d)."""

    def forward(self, context: Tensor, history: Tensor) -> Tensor:
        return self.module.combine(context, history)


class _Pooled(_Part):
    """h_x (n, d), h of earlier messages (m, d), context and slot of each (2, m) -> h_z (n, d)."""

    def forward(self, context: Tensor, messages: Tensor, histories: Tensor) -> Tensor:
        return self.module.pool_history(context, messages, histories)


def write_program(
    network: nn.Module,
    inputs: Mapping[str, tuple[Tensor, tuple[str | None, ...]]],
    outputs: Sequence[str],
    path: Path,
) -> None:
    """Record a network as an ONNX file.

    Weights that lie beside it, in a model folder's files, are not written again.

    Args:
        network: what to record.
        inputs: an example of each input, with the names of its first dimensions; one without a name
            is fixed.
        outputs: names of what it returns.
        path: the file.
    """
    import onnx_ir

    names = {name for _, axes in inputs.values() for name in axes if name is not None}
    sizes = {name: torch.export.Dim(name, max=LONGEST) for name in names}
    shapes = tuple(
        {axis: sizes[name] for axis, name in enumerate(axes) if name is not None}
        for _, axes in inputs.values()
    )
    with _quiet():
        # By itself, torch.onnx.export would fix a dimension that cannot vary, instead of saying so.
        examples = tuple(example for example, _ in inputs.values())
        program = torch.export.export(network, examples, dynamic_shapes=shapes, strict=False)
        made = torch.onnx.export(
            program,
            input_names=list(inputs),
            output_names=outputs,
            dynamic_shapes=shapes,  # here only the dimensions' names in the file
            verbose=False,
        )
        assert made is not None
        # where in which file of this machine each operation came from
        for node in made.model.graph:
            node.metadata_props.clear()
        _share(made.model.graph, sorted(path.parent.glob("*.safetensors")))
        onnx_ir.save(made.model, path)


def _external(weights: Path) -> dict[str, Any]:
    """Return what an ONNX file says of the tensors of a file beside it, by their names."""
    import onnx_ir

    with weights.open("rb") as file:
        # safetensors: a length, that many bytes of JSON, the tensors
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return {
        name: onnx_ir.ExternalTensor(
            weights.name,
            offset=8 + length + about["data_offsets"][0],
            length=about["data_offsets"][1] - about["data_offsets"][0],
            dtype=onnx_ir.DataType[ONNX_TYPES[about["dtype"]]],
            shape=onnx_ir.Shape(about["shape"]),
            name=f"stored.{name}",
            base_dir=weights.parent,
        )
        for name, about in header.items()
    }


def _share(graph: Any, weights: Sequence[Path]) -> None:
    """Let a program read its large constants from a model folder's weights.

    They are converted to what it computes in.
    """
    import onnx_ir

    external = {name: entry for path in weights for name, entry in _external(path).items()}
    tensors = {name: tensor for path in weights for name, tensor in load_file(path).items()}
    stored = {name: tensor for name, tensor in tensors.items() if tensor.numel() > SMALL}
    # a linear layer in 8 bits has a factor for each row
    rows = {
        name: tensors[name + SCALE][:, None]
        for name, tensor in stored.items()
        if tensor.dtype == torch.int8
    }

    def insert(operation: str, operands: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        node = onnx_ir.node(operation, operands, attributes)
        graph.insert_before(first_node, node)
        return node.outputs[0]

    first_node = graph[0]
    for constant in list(graph.initializers.values()):
        value = torch.from_numpy(constant.const_value.numpy().copy())
        name = next((name for name in stored if _is(value, stored[name], rows.get(name))), None)
        if name is None:
            continue
        made = insert("Cast", [_constant(graph, external[name])], {"to": constant.dtype})
        if name in rows:
            axis = onnx_ir.tensor([1], name=f"axis.{name}")
            factors = _constant(graph, external[name + SCALE])
            scale = insert("Unsqueeze", [factors, _constant(graph, axis)], {})
            made = insert("Mul", [made, scale], {})
        constant.replace_all_uses_with(made)
        del graph.initializers[constant.name]


def _is(value: Tensor, stored: Tensor, scale: Tensor | None) -> bool:
    """Return whether a constant is what is stored, times a factor for each row if it has one."""
    if value.shape != stored.shape:
        return False
    restored = stored.to(value.dtype) if scale is None else stored.float() * scale
    return torch.equal(restored, value)


def _constant(graph: Any, tensor: Any) -> Any:
    import onnx_ir

    value = onnx_ir.val(tensor.name, const_value=tensor)
    graph.register_initializer(value)
    return value


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
