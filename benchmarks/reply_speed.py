"""Time to pick a reply (POLY, Tables 5 and 9): every architecture, 1,000 and 100,000 candidates.

Encoding and scoring are timed apart. The candidates of a model that encodes them ahead of time are
in an index; picking is encoding the conversation and searching the index, both measured alone. A
cross-encoder has nothing ahead of time: it reads every candidate with the conversation. That is
measured for a part of them (`--cross-candidates`) and multiplied, and the result says so. Vectors
of the candidates are random, of the model's size: speed does not depend on them, and encoding a
hundred thousand replies takes minutes. Models are folders, named on the command line; without any,
a ConveRT with random weights of the paper's sizes stands for its architecture. `--poly` measures
all rows of POLY's two tables, with random weights of BERT-base's size. With `--device` models and
candidates are on a card, as in the tables' GPU columns.

    python benchmarks/reply_speed.py
    python benchmarks/reply_speed.py runs/bi/model runs/poly/model runs/cross/model
    python benchmarks/reply_speed.py --poly --device cuda
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import rejoinder
from common import write_result
from encoding import SIZES, chat
from rejoinder.arrays import FloatArray
from rejoinder.conversations import Context
from rejoinder.encoders.export.checkpoints import find_checkpoint, load_tokenizer
from rejoinder.encoders.families import build_module
from rejoinder.encoders.persistence import save
from rejoinder.encoders.protocol import Ranker
from rejoinder.encoders.torch import Encoder
from rejoinder.encoders.vectors import ContextVectors
from rejoinder.memory import keep_memory
from rejoinder.networks.inference import choose_precision, pack_linears
from rejoinder.networks.poly import BiEncoderConfig, CrossEncoderConfig, PolyEncoderConfig
from rejoinder.stores.scan import Rows, search
from rejoinder.stores.writing import longest_of
from rejoinder.text.subwords import Subwords
from rejoinder.training.recipe_files import load_recipe
from threads import use_threads

ROOT = Path(__file__).parent.parent
BEST, TURNS = 1, 4
"""Replies that are picked; messages of a conversation."""


def main() -> None:
    """Measure, print, write `results/reply_speed.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "models",
        nargs="*",
        metavar="MODEL",
        help="model folders; none: ConveRT with random weights",
    )
    parser.add_argument("--candidates", type=int, nargs="+", default=[1000, 100_000])
    parser.add_argument(
        "--cross-candidates", type=int, default=200, help="that a cross-encoder really reads"
    )
    parser.add_argument("--contexts", type=int, default=20)
    parser.add_argument("--repetitions", type=int, default=3, help="of each context")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", help="as PyTorch names it")
    parser.add_argument("--poly", action="store_true", help="the rows of POLY's Tables 5 and 9")
    parser.add_argument("--blocks", type=int, default=12, help="of --poly's transformers")
    options = parser.parse_args()
    use_threads(options.threads)
    keep_memory()
    messages, subwords = chat()
    contexts = [messages[i * TURNS : (i + 1) * TURNS] for i in range(options.contexts)]
    rankers: dict[str, Any] = {
        name: rejoinder.load(name, device=options.device) for name in options.models
    }
    if options.poly:
        rankers |= poly_systems(options.blocks, options.device)
    if not rankers:
        if options.device != "cpu":
            parser.error("name models, or --poly: ConveRT's stand-in is on the processor")
        rankers = {"ConveRT paper": random_convert(subwords)}
    rows = []
    for count in options.candidates:
        programs = {
            name: picker(ranker, count, messages, options) for name, ranker in rankers.items()
        }
        rows.extend(race(programs, contexts, count, options.repetitions))
    show(rows)
    settings = {
        key: value for key, value in vars(options).items() if key not in ("candidates", "models")
    }
    name = "reply_speed" if options.device == "cpu" else "reply_speed_card"
    write_result(name, {**settings, "rows": rows})


def random_convert(subwords: Subwords) -> Encoder:
    """Return a ConveRT of the paper's sizes with random weights.

    Its precision is the one that `rejoinder.load` would choose.
    """
    config = load_recipe(ROOT / "recipes" / SIZES["paper"]).model
    module = build_module(config, max(subwords.rows, 32_477))
    pack_linears(module, choose_precision("auto", module.config.kind))
    return Encoder(module, subwords, max_length=60, fingerprint="", name="ConveRT paper")


def poly_configs(blocks: int) -> dict[str, Any]:
    """Return the systems of POLY's Tables 5 and 9, of BERT-base's size."""
    learnt = {f"poly-{m}": PolyEncoderConfig(m=m, blocks=blocks) for m in (16, 64, 360)}
    first = {
        f"first-{m}": PolyEncoderConfig(m=m, codes="first", blocks=blocks) for m in (16, 64, 360)
    }
    return {
        "bi": BiEncoderConfig(blocks=blocks),
        **learnt,
        **first,
        "cross": CrossEncoderConfig(blocks=blocks),
    }


def poly_systems(blocks: int, device: str) -> dict[str, Any]:
    """Return the systems of POLY's Tables 5 and 9, with random weights."""
    configs = poly_configs(blocks)
    tokenizer = load_tokenizer(find_checkpoint("minilm"))
    opened = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, config in configs.items():
            torch.manual_seed(0)
            module = build_module(config, tokenizer.rows)
            place = Path(folder) / name
            save(place, module, tokenizer, max_length=72, card="")
            opened[name] = rejoinder.load(place, device=device)
            shutil.rmtree(place)
    return opened


class Indexed:
    """Picks out of an index: encodes the conversation, then searches.

    Args:
        encoder: gives one vector a context, or several.
        count: candidates.
    """

    measured_share = 1.0

    def __init__(self, encoder: Any, count: int) -> None:
        self.encoder = encoder
        example = encoder.encode_responses(["How are you?"])
        vectors = np.random.default_rng(0).standard_normal(
            (count, example.shape[1]), dtype=np.float32
        )
        vectors *= np.linalg.norm(example) / np.linalg.norm(vectors, axis=1, keepdims=True)
        self.segments = [Rows.of(0, vectors, None, longest_of(vectors))]

    def encode(self, context: Context) -> FloatArray | ContextVectors:
        """The context's vector or vectors."""
        encoded: FloatArray | ContextVectors = self.encoder.encode_contexts([context])
        return encoded

    def pick(self, context: Context, encoded: FloatArray | ContextVectors) -> int:  # noqa: ARG002
        """Find the best candidate."""
        if not isinstance(encoded, ContextVectors) and encoded.ndim == 2:
            encoded = encoded[:, None]
        ((positions, _),) = search(self.segments, list(encoded), BEST)
        return int(positions[0])


class OnCard(Indexed):
    """Picks among candidates on a card: one product with all of them, and attention over it."""

    def __init__(self, encoder: Any, count: int, device: str) -> None:
        super().__init__(encoder, count)
        self.rows = torch.from_numpy(self.segments[0].vectors).to(device)

    def pick(self, context: Context, encoded: FloatArray | ContextVectors) -> int:  # noqa: ARG002
        """Find the best candidate; reading its number waits for the card."""
        vectors = torch.from_numpy(np.asarray(encoded[0])).to(self.rows.device)
        products = self.rows @ vectors.reshape(-1, self.rows.shape[1]).T
        scores = (products.softmax(dim=1) * products).sum(dim=1)
        return int(scores.argmax())


class Scored:
    """Picks with a ranker that reads every candidate with the conversation.

    Args:
        ranker: a cross-encoder, say.
        replies: texts to read.
        count: candidates that there would be.
    """

    def __init__(self, ranker: Ranker, replies: Sequence[str], count: int) -> None:
        self.ranker = ranker
        self.replies = list(replies[:count])
        self.measured_share = len(self.replies) / count

    def encode(self, context: Context) -> None:
        """Nothing can be computed before the candidates are known."""

    def pick(self, context: Context, encoded: None) -> None:  # noqa: ARG002
        """Score the candidates and take the best."""
        self.ranker.score([context], [self.replies]).argmax()


def picker(
    ranker: Any, count: int, messages: Sequence[str], options: argparse.Namespace
) -> Indexed | Scored:
    """What picks with this model: through an index where it encodes responses."""
    if hasattr(ranker, "encode_responses"):
        if options.device != "cpu":
            return OnCard(ranker, count, options.device)
        return Indexed(ranker, count)
    return Scored(ranker, messages[-options.cross_candidates :], count)


def race(
    programs: dict[str, Any], contexts: Sequence[Context], count: int, repetitions: int
) -> list[dict[str, Any]]:
    """Return median milliseconds of encoding and of scoring; programs take turns."""
    encoding: dict[str, list[float]] = {name: [] for name in programs}
    scoring: dict[str, list[float]] = {name: [] for name in programs}
    for turn in range(repetitions + 1):
        for context in contexts[: None if turn else 1]:  # the first turn warms up
            for name, program in programs.items():
                encode_seconds, encoded = timed(partial(program.encode, context))
                pick_seconds, _ = timed(partial(program.pick, context, encoded))
                if turn:
                    encoding[name].append(1000 * encode_seconds)
                    scoring[name].append(1000 * pick_seconds / program.measured_share)
    return [
        {
            "model": name,
            "candidates": count,
            "encoding_ms": statistics.median(encoding[name]),
            "scoring_ms": statistics.median(scoring[name]),
            "measured_share": program.measured_share,
        }
        for name, program in programs.items()
    ]


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what came out."""
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def show(rows: Sequence[dict[str, Any]]) -> None:
    """Print the table."""
    table = Table("model", "candidates", "encoding, ms", "scoring, ms", "both, ms")
    for row in rows:
        scoring = row["scoring_ms"]
        part = "" if row["measured_share"] == 1 else f" (from {100 * row['measured_share']:.1f} %)"
        table.add_row(
            row["model"],
            f"{row['candidates']:,}",
            f"{row['encoding_ms']:.2f}",
            f"{scoring:,.2f}{part}",
            f"{row['encoding_ms'] + scoring:,.2f}",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
