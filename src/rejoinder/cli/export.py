"""`rejoinder export` and `join`: convert and combine models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_args

import typer

from rejoinder.cli.arguments import Json, Overwrite
from rejoinder.cli.models import EXAMPLES, read_sample, report_truncated
from rejoinder.cli.shell import emit, megabytes
from rejoinder.errors import InputError
from rejoinder.folder_kinds import check_replaceable
from rejoinder.progress import track

if TYPE_CHECKING:
    from rejoinder.encoders.joined import JoinedEncoder

SideOption: TypeAlias = Literal["context", "response"]

Format: TypeAlias = Literal[
    "quantized", "eight-bits", "onnx", "sentence-transformers", "transformers"
]

_FORMATS = (
    "quantized: a model folder with 8-bit embeddings, the rest in 16; eight-bits: linear layers in"
    " 8 too; onnx: for machines without PyTorch; sentence-transformers: a folder for"
    " SentenceTransformer; transformers: a checkpoint of the inner transformer."
)


def export(
    model: Annotated[
        str, typer.Argument(help="A model folder, a bundled model's name, or an id on the Hub.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder to write.")],
    form: Annotated[Format | None, typer.Option("--to", help=_FORMATS)] = None,
    side: Annotated[
        SideOption | None,
        typer.Option(help="With --to sentence-transformers: the side that `encode` uses."),
    ] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Write a trained model in another format.

    Example: rejoinder export demo/run/model --to quantized -o demo/small
    """
    if form is None:
        raise InputError(f"give a format with --to: {', '.join(get_args(Format))}")
    if side is not None and form != "sentence-transformers":
        raise InputError(f"--side is for --to sentence-transformers; {form} has both sides")
    result, lines = _write(form, model, output, side or "context", overwrite)
    result = {"model": model, "form": form, **result}
    emit(result, as_json, lambda _: "\n".join(lines))


def _write(
    form: Format, model: str, output: Path, side: SideOption, overwrite: bool
) -> tuple[dict[str, Any], list[str]]:
    """Write the model; return facts about it and the lines to print."""
    from rejoinder.encoders.export import folder as export
    from rejoinder.encoders.export import sentence_module
    from rejoinder.encoders.export.onnx import export_onnx

    if form == "sentence-transformers":
        result = sentence_module.export_sentence_transformers(
            model, output, side, overwrite=overwrite
        )
        uses = f"encode_query for contexts, encode_document for responses, encode for {side}s"
        opened = f'SentenceTransformer("{result["path"]}", trust_remote_code=True)'
        return result, [f"{opened}: {uses}", f"model: {result['path']}"]
    if form == "onnx":
        result = export_onnx(model, output, overwrite=overwrite)
        opened = f'OnnxEncoder("{result["path"]}"), from rejoinder.runtime'
        if any("/" in name for name in result["files"]):  # of a joined model's parts
            opened = f'rejoinder.load("{result["path"]}", engine="onnx")'
        return result, [
            f"{len(result['files'])} files, {megabytes(result)}: {opened}",
            f"folder: {result['path']}",
        ]
    if form == "transformers":
        result = export.export_transformer(model, output, overwrite=overwrite)
        start = f"to start a model from it: --set init.transformer={result['path']}"
        return result, [f"{result['parameters']:,} parameters, {megabytes(result)}", start]
    linear_bits: Literal[8, 16] = 8 if form == "eight-bits" else 16
    result = export.export_quantized(model, output, linear_bits=linear_bits, overwrite=overwrite)
    sizes = f"{megabytes(result)} instead of {result['full_bytes'] / 1e6:.1f}"
    untrained = (
        "rounded after training, which changes the vectors a little;"
        " quantization.enabled = true in the recipe trains a model for it"
    )
    lines = [
        (
            f"{sizes}: embeddings{' and linear layers' * (linear_bits == 8)} in 8 bits,"
            f" the rest in {result['half']}"
        ),
        *([] if result["trained"] else [untrained]),
    ]
    return result, [*lines, f"model: {result['path']}"]


SHARES = tuple(twentieth / 20 for twentieth in range(21))

CANDIDATES = 100


def join(
    first: Annotated[str, typer.Argument(help="A model folder, or the name of a model.")],
    second: Annotated[str, typer.Argument(help="A second model.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder to write.")],
    share: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="S", help="Weight of the second model in a score."),
    ] = None,
    opening_share: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, metavar="S", help="Weight of the second model for the first message."
        ),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DATA",
            help="Conversations to choose the weight on, of a folder its split valid: up to"
            f" {EXAMPLES:,} at random. Repeatable, with equal weights.",
        ),
    ] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Join two models into one that scores by their weighted mean.

    With --data, the share with the best mean reciprocal rank among up to 100 candidates is chosen.

    Example: rejoinder join bi-base support/run/model --data data/support -o support/joined
    """
    from rejoinder.encoders.conversation import track_truncation
    from rejoinder.encoders.folders import FOLDER
    from rejoinder.encoders.joined import JoinedEncoder
    from rejoinder.encoders.persistence import load, save_joined

    if (share is None) == (not data):
        raise InputError(
            "give the second model's share (--share 0.3), or conversations to choose it on (--data)"
        )
    check_replaceable(output, FOLDER, overwrite=overwrite)  # before the work
    joined = JoinedEncoder(load(first), load(second), opening_share=opening_share)
    tried = list[dict[str, float]]()
    if data:
        tried = _try(track_truncation(joined), data)
        report_truncated(joined, "messages")
        share = max(tried, key=lambda row: row["mrr"])["share"]
    assert share is not None
    save_joined(output, joined.with_share(share), overwrite=overwrite)
    made = {"model": str(output), "share": share, "opening_share": opening_share, "tried": tried}
    emit(made, as_json, _text)


def _try(joined: JoinedEncoder, data: Sequence[Path]) -> list[dict[str, float]]:
    """Return share, recall at 1 and mean reciprocal rank of each of `SHARES`.

    Both are means over the data.
    """
    from statistics import fmean

    from rejoinder.evaluation.ranking import evaluate_task
    from rejoinder.evaluation.tasks import ranking_task

    tasks = []
    for path in data:
        with track(f"Reading {path}") as advance:
            examples = read_sample(path, advance)
        if len(examples) < 2:
            part = " (its split valid)" if path.is_dir() else ""
            raise InputError(
                f"{path}{part} has {len(examples)} examples; a share is chosen on 2 or more,"
                " or given: --share 0.3"
            )
        most = min(CANDIDATES, len(examples))
        tasks.append(ranking_task(examples, candidates=most, copies="right"))
    known = joined.with_cache()
    rows = []
    shares = SHARES if joined.config.opening_share is None else SHARES[1:-1]
    with track("Ranking", total=len(shares) * sum(map(len, tasks)), unit="examples") as advance:
        for share in shares:
            ranker = known.with_share(share)
            results = [evaluate_task(ranker, task, progress=advance) for task in tasks]
            recall = fmean(result.recall[1].value for result in results)
            rows.append(
                {
                    "share": share,
                    "recall@1": recall,
                    "mrr": fmean(result.mrr.value for result in results),
                }
            )
    return rows


def _text(result: Mapping[str, Any]) -> str:
    lines = ["share of the second   R@1    MRR"] if result["tried"] else []
    lines += [
        f"{row['share']:19.2f}  {row['recall@1']:.1%}  {row['mrr']:.1%}" for row in result["tried"]
    ]
    opening = result["opening_share"]
    opening_text = "" if opening is None else f", {opening:g} where nothing was said before"
    return "\n".join(
        [
            *lines,
            f"the second model's share is {result['share']:g}{opening_text}",
            f"model: {result['model']}",
        ]
    )
