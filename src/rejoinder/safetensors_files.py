"""Files of safetensors: their headers, read without weights and without PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from safetensors import SafetensorError, safe_open

from rejoinder.errors import InputError

SCALE = ".scale"  # endings of the names of a rounded table's scale and offset
OFFSET = ".offset"
_TYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "U8": "uint8", "I8": "int8"}

HEADER_BYTES = 4 << 20  # of a file of weights: names, types and shapes of some 40,000 tensors


def check_header(weights: Path) -> None:
    """Refuse a file of weights that names far more tensors than a model has.

    Each takes memory, even an empty one.
    """
    if not weights.is_file():
        raise InputError(f"{weights} is missing; copy the whole model folder again")
    with weights.open("rb") as file:
        header = int.from_bytes(file.read(8), "little")
    if header > HEADER_BYTES:
        raise InputError(
            f"{weights} has a header of {header:,} bytes; a model's has {HEADER_BYTES:,} at most"
        )


def stored_tensors(weights: Sequence[Path]) -> dict[str, tuple[str, list[int]]]:
    """Return type and shape of each tensor of some files. Reads no weights."""
    tensors: dict[str, tuple[str, list[int]]] = {}
    for path in weights:
        check_header(path)
        try:
            with safe_open(path, framework="numpy") as file:
                for name in file.keys():  # noqa: SIM118
                    if name in tensors:
                        raise InputError(
                            f"{path} has the tensor {name}, which another of the model's files has"
                            " too; copy the model folder again"
                        )
                    tensor = file.get_slice(name)
                    kind = _TYPES.get(tensor.get_dtype(), tensor.get_dtype())
                    tensors[name] = kind, tensor.get_shape()
        except SafetensorError as error:
            raise InputError(f"{path} is damaged ({error}); copy the model folder again") from error
    return tensors


def parameter_shapes(weights: Sequence[Path]) -> dict[str, list[int]]:
    """Return the shapes of the parameters in some files by name. Reads no weights."""
    return {
        name: shape
        for name, (_, shape) in stored_tensors(weights).items()
        if not name.endswith((SCALE, OFFSET))
    }
