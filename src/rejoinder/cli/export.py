"""`rejoinder export`: a trained model in other forms."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from rejoinder.cli.shell import emit
from rejoinder.errors import InputError


def export(
    model: Annotated[str, typer.Argument(help="A model folder, a bundled model's name, or an id on the Hub.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder to write.")],
    quantized: Annotated[
        bool, typer.Option("--quantized", help="8-bit embeddings, 16 bits for the rest: a model folder to load.")
    ] = False,
    onnx: Annotated[bool, typer.Option("--onnx", help="Both encoders as ONNX files, with the vocabulary.")] = False,
    sentence_transformers: Annotated[
        bool, typer.Option("--sentence-transformers", help="A folder that SentenceTransformer opens.")
    ] = False,
    transformers: Annotated[
        bool, typer.Option("--transformers", help="The transformer inside, as a checkpoint that transformers opens.")
    ] = False,
    side: Annotated[
        str | None,
        typer.Option(help="With --sentence-transformers: what plain `encode` takes texts as, context or response."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier export that is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write a trained model in another form.

    Example: rejoinder export demo/run/model --quantized -o demo/small
    """
    forms = {"--quantized": quantized, "--onnx": onnx, "--sentence-transformers": sentence_transformers}
    forms["--transformers"] = transformers
    chosen = [form for form, wanted in forms.items() if wanted]
    if len(chosen) != 1:
        given = f"{' and '.join(chosen)} were given; " if chosen else ""
        raise InputError(f"{given}say in which one form to write the model: {', '.join(forms)}")
    if side is not None and not sentence_transformers:
        raise InputError(f"--side is for --sentence-transformers alone; {chosen[0]} has both sides")
    result, text = _write(chosen[0], model, output, side, overwrite)
    emit({"model": model, "form": chosen[0].removeprefix("--"), **result}, as_json, text)


def _write(form: str, model: str, output: Path, side: str | None, overwrite: bool) -> tuple[dict[str, Any], Any]:
    """Write one form: the result, and what tells it to people."""
    if form == "--quantized":
        from rejoinder.models.export import export_quantized

        return export_quantized(model, output, overwrite=overwrite), _quantized_text
    if form == "--onnx":
        from rejoinder.models.export import export_onnx

        return export_onnx(model, output, overwrite=overwrite), _onnx_text
    if form == "--transformers":
        from rejoinder.models.export import export_transformer

        return export_transformer(model, output, overwrite=overwrite), _transformer_text
    from rejoinder.models.sentence_module import check_side, export_sentence_transformers

    plain = check_side(side or "context")
    return export_sentence_transformers(model, output, plain, overwrite=overwrite), _sentence_text


def _quantized_text(result: Mapping[str, Any]) -> str:
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


def _onnx_text(result: Mapping[str, Any]) -> str:
    """The result for people."""
    return f"{' and '.join(result['files'])}, {result['bytes'] / 1e6:.1f} MB\nfolder: {result['path']}"


def _transformer_text(result: Mapping[str, Any]) -> str:
    """The result for people."""
    return (
        f"{result['parameters']:,} parameters, {result['bytes'] / 1e6:.1f} MB\n"
        f"to start a model from it: --set init.transformer={result['path']}"
    )


def _sentence_text(result: Mapping[str, Any]) -> str:
    """The result for people."""
    return (
        f'SentenceTransformer("{result["path"]}", trust_remote_code=True): encode_query for contexts, encode_document '
        f"for responses, encode for {result['side']}s\nmodel: {result['path']}"
    )
