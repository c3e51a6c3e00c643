"""Speed of the cross-encoder beside sentence-transformers' CrossEncoder.

Both have the same weights and the same precision.

    python benchmarks/cross_scoring.py
    python benchmarks/cross_scoring.py --contexts 2 --candidates 10 --rounds 1    # a smoke test

Both score the same pairs: conversations of the chit-chat test split, each with its own and other
responses. The weights are MiniLM's with a random linear layer on top; scores need not mean anything
to take their time. The peer gets the context as one text, and cuts the pair where ours cuts. Turns
alternate, after one that is not counted. The result file also has the share of useful tokens, those
that are not padding, of all that ours computes.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from sentence_transformers import CrossEncoder

from common import write_result
from rejoinder.corpora.forms.examples import read_examples
from rejoinder.corpora.pipeline.build import build_data
from rejoinder.corpora.schema import Example
from rejoinder.encoders.export.checkpoints import fill, find_checkpoint, load_tokenizer, read_shape
from rejoinder.encoders.families import build_module, parse_config
from rejoinder.encoders.persistence import load, save
from rejoinder.encoders.torch import CrossRanker
from rejoinder.processor import has_fast_bfloat16

CONTEXT_LENGTH, MAX_LENGTH = 360, 72


def main() -> None:
    """Measure, print a table, write `results/cross_scoring.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--contexts", type=int, default=20)
    parser.add_argument("--candidates", type=int, default=100, help="of each context")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each")
    parser.add_argument(
        "--peer-batch", type=int, default=32, help="pairs of the peer's batches (its default)"
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    precisions = ["fp32", *(["bf16"] if has_fast_bfloat16() else [])]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build_data("chitchat", [], folder / "data")
        examples = list(
            islice(
                read_examples(folder / "data", "test"), max(options.contexts, options.candidates)
            )
        )
        write_model(folder)
        figures = {each: measure(folder, examples, each, options) for each in precisions}
    table = Table(
        "cross-encoder", "pairs/s ours", "pairs/s sentence-transformers", "ratio", "useful tokens"
    )
    for precision, found in figures.items():
        ours, peer = found["ours"], found["peer"]
        table.add_row(
            precision,
            f"{ours:.1f}",
            f"{peer:.1f}",
            f"{ours / peer:.2f}",
            f"{found['useful_tokens']:.1%}",
        )
    Console().print(table)
    write_result("cross_scoring", {**vars(options), "precisions": figures})


def write_model(folder: Path) -> None:
    """The same cross-encoder in both forms: `ours` and `peer`."""
    source = find_checkpoint("minilm")
    tokenizer = load_tokenizer(source)
    shape = {**dataclasses.asdict(read_shape(source)), "context_length": CONTEXT_LENGTH}
    module = build_module(parse_config({**shape, "kind": "cross-encoder"}), tokenizer.rows)
    fill(module.transformer, source)
    save(folder / "ours", module, tokenizer, max_length=MAX_LENGTH, card="# Benchmark\n")
    peer = CrossEncoder(
        str(source), num_labels=1, device="cpu", max_length=CONTEXT_LENGTH + MAX_LENGTH
    )
    peer.save_pretrained(str(folder / "peer"))


def measure(
    folder: Path, examples: list[Example], precision: str, options: argparse.Namespace
) -> dict[str, Any]:
    """Medians of pairs per second, and the share of useful tokens of ours."""
    ours = load(folder / "ours", precision=precision, threads=options.threads)
    assert isinstance(ours, CrossRanker)
    peer = CrossEncoder(str(folder / "peer"), device="cpu", max_length=CONTEXT_LENGTH + MAX_LENGTH)
    peer.model.to(torch.bfloat16 if precision == "bf16" else torch.float32)
    contexts = [each.context for each in examples[: options.contexts]]
    pool = [each.response for each in examples[: options.candidates]]
    pairs = [(" [SEP] ".join(context), response) for context in contexts for response in pool]
    seconds: dict[str, list[float]] = {"ours": [], "peer": []}
    for turn in range(options.rounds + 1):
        for name in seconds:
            started = time.perf_counter()
            if name == "ours":
                ours.score(contexts, [pool] * len(contexts))
            else:
                peer.predict(pairs, batch_size=options.peer_batch, show_progress_bar=False)
            if turn:
                seconds[name].append(time.perf_counter() - started)
    rates = {name: len(pairs) / statistics.median(turns) for name, turns in seconds.items()}
    return {**rates, "useful_tokens": ours.real_tokens / ours.computed_tokens, "turns": seconds}


if __name__ == "__main__":
    main()
