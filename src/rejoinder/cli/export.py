"""`rejoinder export`: a trained model in other forms."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from rejoinder.cli.shell import emit
from rejoinder.errors import InputError


def export(
    model: Annotated[str, typer.Argument(help="A model folder, or a model's id on the Hugging Face Hub.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder to write.")],
    quantized: Annotated[
        bool, typer.Option("--quantized", help="8-bit embeddings, 16 bits for the rest: a model folder to load.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write a trained model in another form.

    Example: rejoinder export demo/run/model --quantized -o demo/small
    """
    if not quantized:
        raise InputError("say in which form to write the model: --quantized")
    from rejoinder.models.export import export_quantized

    emit({"model": model, "form": "quantized", **export_quantized(model, output)}, as_json, _text)


def _text(result: Mapping[str, Any]) -> str:
    """The result for people."""
    lines = [
        f"{result['bytes'] / 1e6:.1f} MB instead of {result['full_bytes'] / 1e6:.1f}: "
        f"embeddings in 8 bits, the rest in {result['half']}"
    ]
    if not result["trained"]:
        lines.append(
            "rounded after training, which changes the vectors a little; quantization.enabled = true in the recipe "
            "trains a model for it"
        )
    return "\n".join([*lines, f"model: {result['path']}"])
