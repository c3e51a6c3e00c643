"""The n-gram dual encoder's speed: training beside ConveRT's, encoding beside all-MiniLM-L6-v2's.

Training: both with their paper's sizes and recipes (batches of 500 and of 512, the n-gram encoder
with plain SGD and sparse updates, ConveRT with Adadelta), on chit-chat pairs, with the real
training loop, in turns. The n-gram table has more rows than the paper's 355,000, so that nothing is
won by a small one. Encoding: as in encoding.py, the same messages for all, in turns, tokenisation
included, every precision that the processor computes itself. Weights are random: speed does not
depend on them. Parameters: at the paper's vocabulary, beside the paper's counts.

On one thread a step of ConveRT takes about ten seconds, so training needs some; all of it takes
four minutes.

    python benchmarks/ngram.py
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from common import write_result
from encoding import Encode, chat, in_turns, race
from peers import minilm_forms
from rejoinder.corpora.pipeline.build import build_data
from rejoinder.encoders.torch import Encoder
from rejoinder.memory import keep_memory
from rejoinder.networks.inference import Precision, pack_linears
from rejoinder.networks.meta_device import on_meta_device
from rejoinder.networks.ngram import NGramConfig, NGramDual
from rejoinder.processor import has_fast_bfloat16
from rejoinder.text.ngrams import NGrams, build_ngrams
from rejoinder.training.loop import train
from rejoinder.training.recipe.settings import Checkpoint, Recipe, Validation
from rejoinder.training.recipe_files import load_recipe

RECIPES = Path(__file__).parent.parent / "recipes"
VOCABULARY = {"minimum_count": 1, "bigrams": 300_000, "buckets": 50_000}
"""As many unigrams and bigrams as the messages have, so that the table is as large as the
paper's."""
PAPER_ROWS = 105_000 + 200_000 + 50_000 + 1
"""The paper's unigrams, bigrams and buckets, and padding."""
PAPER = {"embeddings": 104e6, "others": 7e6}
"""Its counts of parameters."""


@dataclass(frozen=True)
class Speeds:
    """Examples (training) or texts (encoding) per second of each program.

    They are the median of the rounds, and all of them.
    """

    median: dict[str, float]
    rounds: dict[str, list[float]]


def main() -> None:
    """Measure, print, write `results/ngram.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="of training for each program and round"
    )
    parser.add_argument("--rounds", type=int, default=2, help="of training")
    parser.add_argument("--sentences", type=int, default=640)
    parser.add_argument("--repetitions", type=int, default=3, help="of encoding")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    keep_memory()
    with tempfile.TemporaryDirectory() as folder:
        training = train_in_turns(Path(folder), options.seconds, options.rounds)
        encoding, rows = encode_in_turns(
            Path(folder), options.sentences, options.repetitions, options.threads
        )
    result = {
        "training": training.median,
        "training_rounds": training.rounds,
        "encoding": encoding,
        "rows": rows,
    }
    ratios = compare(training.median, encoding)
    result["parameters"] = count = parameters()
    show(training.median, encoding, ratios)
    for part, value in count.items():
        Console().print(f"parameters, {part}: {value / 1e6:.1f}M (paper: {PAPER[part] / 1e6:.0f}M)")
    write_result("ngram", {"threads": options.threads, **result, "ratios": ratios})


def parameters() -> dict[str, int]:
    """Numbers in the table of n-grams and elsewhere, at the paper's sizes."""
    with on_meta_device():
        module = NGramDual(NGramConfig(), PAPER_ROWS)
    table = module.embedding.weight.numel()
    return {
        "embeddings": table,
        "others": sum(each.numel() for each in module.parameters()) - table,
    }


def train_in_turns(folder: Path, seconds: float, rounds: int) -> Speeds:
    """Examples per second of both recipes, each trained anew in every round."""
    data = folder / "data"
    build_data("chitchat", [], data)
    changes = [f"vocabulary.{key}={value}" for key, value in VOCABULARY.items()]
    recipes = {
        "ConveRT": load_recipe(
            RECIPES / "convert.toml", ["vocabulary.minimum_count=6", "quantization.enabled=false"]
        ),
        "n-gram": load_recipe(RECIPES / "ngram.toml", changes),
    }
    found: dict[str, list[float]] = {name: [] for name in recipes}
    for number in range(rounds):
        for name, recipe in recipes.items():
            summary = train(_timed(recipe, data, folder, seconds), folder / f"{name}-{number}")
            found[name].append(summary.examples / summary.seconds)
    return Speeds({name: statistics.median(values) for name, values in found.items()}, found)


def _timed(recipe: Recipe, data: Path, folder: Path, seconds: float) -> Recipe:
    """The recipe's first stage for some seconds, without validation and checkpoints."""
    return replace(
        recipe,
        data=replace(recipe.data, train=str(data), cache=str(folder / "tokens")),
        stage=(replace(recipe.stage[0], steps=None, epochs=None, minutes=seconds / 60),),
        validation=Validation(examples=0),
        checkpoint=Checkpoint(every_seconds=None),
        compute=replace(recipe.compute, threads=torch.get_num_threads()),
    )


def encode_in_turns(
    folder: Path, count: int, repetitions: int, threads: int
) -> tuple[dict[str, float], int]:
    """Texts per second of every form, ours and MiniLM's; and the rows of our table."""
    messages, _ = chat()
    tokenizer = build_ngrams(messages, **VOCABULARY)
    programs = our_programs(tokenizer) | minilm_forms(folder, threads, 128)
    seconds = race(programs, [[part] for part in in_turns(messages, count, repetitions + 1)])
    return {name: count / taken for name, taken in seconds.items()}, tokenizer.rows


def our_programs(tokenizer: NGrams) -> dict[str, Encode]:
    """The paper's sizes in every precision that the processor computes itself."""
    precisions: tuple[Precision, ...] = (
        ("fp32", "bf16", "int8") if has_fast_bfloat16() else ("fp32", "int8")
    )
    programs: dict[str, Encode] = {}
    for precision in precisions:
        module: Any = NGramDual(NGramConfig(), tokenizer.rows)
        pack_linears(module, precision)
        encoder = Encoder(module, tokenizer, max_length=128, fingerprint="")
        programs[f"n-gram {precision}"] = encoder.encode_responses
    return programs


def compare(training: dict[str, float], encoding: dict[str, float]) -> dict[str, float]:
    """The two ratios that the project holds itself to."""
    ours = max(value for name, value in encoding.items() if name.startswith("n-gram"))
    fastest = max(value for name, value in encoding.items() if name.startswith("MiniLM"))
    return {
        "training, n-gram / ConveRT": training["n-gram"] / training["ConveRT"],
        "encoding, n-gram / fastest MiniLM": ours / fastest,
    }


def show(training: dict[str, float], encoding: dict[str, float], ratios: dict[str, Any]) -> None:
    """Print the tables."""
    console = Console()
    for title, column, rows in (
        ("training", "examples/s", training),
        ("encoding", "texts/s", encoding),
    ):
        table = Table(title, column)
        for name, value in rows.items():
            table.add_row(name, f"{value:,.0f}")
        console.print(table)
    for name, ratio in ratios.items():
        console.print(f"{name}: {ratio:.1f}")


if __name__ == "__main__":
    main()
