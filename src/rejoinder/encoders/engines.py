"""Engines that compute a model's vectors: PyTorch, or onnxruntime by ONNX programs."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from rejoinder.encoders.onnx.folder import MANIFEST, locate
from rejoinder.errors import InputError

EngineName: TypeAlias = Literal["auto", "onnx", "torch"]


def check_engine(engine: str) -> None:
    """Raise an InputError for an engine that there is not."""
    if engine not in (allowed := get_args(EngineName)):
        raise InputError(f"engine {engine!r} is unknown; allowed are {', '.join(allowed)}")


def takes_programs(
    name: str | Path, engine: EngineName, *, light: bool, precision: str, device: str
) -> bool:
    """Return whether a model of ours is computed by its ONNX programs; see `encoders.open.load`.

    Raises:
        InputError: the engine cannot compute this model, or not on this device.
    """
    folder = locate(name)
    programs = (folder / MANIFEST).is_file()
    weights = (folder / "config.json").is_file()
    if engine == "onnx":
        _check_programs(name, device, has_programs=programs)
        return True
    if engine == "torch":
        if programs and not weights:
            raise InputError(
                f"{name} holds ONNX programs alone, which PyTorch does not compute;"
                " name the model that they were exported from, or take engine auto"
            )
        return False
    if not (programs and weights):
        return programs
    if find_spec("onnxruntime") is None:  # which some platforms lack
        return False
    if find_spec("torch") is None:
        return True
    return light and device in ("auto", "cpu") and precision != "bf16"


def _check_programs(name: str | Path, device: str, *, has_programs: bool) -> None:
    if device not in ("auto", "cpu"):
        raise InputError(
            f"ONNX programs compute on the processor, not on {device};"
            " take device cpu, or engine torch"
        )
    if not has_programs:
        from rejoinder.encoders.folders import find

        find(name)  # another error if there is no such model
        raise InputError(
            f"{name} has no ONNX programs; `rejoinder export {name} --to onnx -o DIR` writes them"
            " into a folder, which opens by its path"
        )
