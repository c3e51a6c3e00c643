"""Training speed of both ConveRT sizes: real tokens and examples per second.

Beside them stands the machine's own limit. Each size trains a few steps on chit-chat pairs with the
real training loop: tokens gathered, packed, encoded, loss, backward pass, clipping, optimiser,
everything but validation. The limit is the time that the floating-point operations of the matrix
products over weights, on the real tokens, forward and twice that backward, take at the best
matrix-multiply rate of this machine, measured in the same run, in the same precision, over the
shapes that the model uses. Products between tokens inside attention are not counted, so the share
is a little understated.

    python benchmarks/training.py
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from common import write_result
from limit import best_rate, gemm_shapes, multiplications
from rejoinder.corpora.pipeline.build import build_data
from rejoinder.encoders.families import build_module
from rejoinder.training.data.batches import EpochOrder, make_batch
from rejoinder.training.distributed import set_up
from rejoinder.training.loop import train
from rejoinder.training.preparation.inputs import prepare
from rejoinder.training.recipe.settings import Checkpoint, Recipe, Validation
from rejoinder.training.recipe.stages import Stage
from rejoinder.training.recipe_files import load_recipe

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Measured:
    """Figures of one kind of training step."""

    examples_per_second: float
    real_tokens_per_second: float
    padding_share: float
    """Padding among the tokens computed."""
    limit_share: float
    precision: str


def main() -> None:
    """Measure, print a table, write `results/training.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=45.0, help="of training for each row")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows: dict[str, Measured] = {}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        build_data("chitchat", [], data)
        for size, file in (("paper", "convert.toml"), ("small", "convert-quick.toml")):
            recipe = load_recipe(
                ROOT / "recipes" / file,
                ["vocabulary.minimum_count=6", "quantization.enabled=false"],
            )
            for stage in recipe.stage:
                rows[f"{size}, stage '{stage.name}'"] = measure(
                    recipe, stage, data, Path(folder), options.seconds
                )
    show(rows)
    write_result(
        "training", {"threads": options.threads, "rows": {k: asdict(v) for k, v in rows.items()}}
    )


def measure(recipe: Recipe, stage: Stage, data: Path, folder: Path, seconds: float) -> Measured:
    """Train one stage of a recipe from random weights for some seconds."""
    one_stage = replace(
        recipe,
        data=replace(recipe.data, train=str(data), cache=str(folder / "tokens")),
        stage=(replace(stage, steps=None, epochs=None, minutes=seconds / 60),),
        validation=Validation(examples=0),
        checkpoint=Checkpoint(every_seconds=None),
        compute=replace(recipe.compute, threads=torch.get_num_threads()),
    )
    run = folder / f"{recipe.name}-{stage.name}"
    summary = train(one_stage, run)
    precision = set_up(one_stage.compute, one_stage.quantization).precision
    prepared = prepare(one_stage, run / "tokens")
    module = build_module(recipe.model, prepared.tokenizer.rows)
    if stage.active_blocks != "all":
        module.set_active_blocks(stage.active_blocks)
    order = EpochOrder(len(prepared.train), stage.batch_size, (0,))
    sample = [make_batch(prepared.train, order.rows(i), module.padding_id).tokens for i in range(8)]
    padding = 1 - sum(b.real_tokens for b in sample) / sum(b.computed_tokens for b in sample)
    tokens = sum(b.real_tokens for b in sample) // len(sample)
    per_token, per_text = multiplications(module)
    operations = 3 * 2 * (summary.tokens * per_token + 2 * summary.examples * per_text)
    kept = gemm_shapes(module, tokens, stage.batch_size)
    rate = best_rate(kept, "bf16" if precision == "bf16" else "fp32", repetitions=10)
    return Measured(
        examples_per_second=summary.examples / summary.seconds,
        real_tokens_per_second=summary.tokens / summary.seconds,
        padding_share=padding,
        limit_share=operations / rate / summary.seconds,
        precision=precision,
    )


def show(rows: dict[str, Measured]) -> None:
    """Print the table."""
    table = Table(
        "training", "precision", "examples/s", "real tokens/s", "padding", "share of the limit"
    )
    for name, row in rows.items():
        table.add_row(
            name,
            row.precision,
            f"{row.examples_per_second:,.0f}",
            f"{row.real_tokens_per_second:,.0f}",
            f"{100 * row.padding_share:.1f} %",
            f"{100 * row.limit_share:.0f} %",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
