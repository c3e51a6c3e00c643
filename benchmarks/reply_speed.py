"""Time to pick a reply (POLY, table 5): every architecture, 1,000 and 100,000 candidates.

Encoding and scoring are timed apart. The candidates of a model that encodes them ahead of time are
in an index; picking is encoding the conversation and searching the index, both measured alone. A
cross-encoder has nothing ahead of time: it reads every candidate with the conversation. That is
measured for a part of them (`--cross-candidates`) and multiplied, and the result says so. Vectors
of the candidates are random, of the model's size: speed does not depend on them, and encoding a
hundred thousand replies takes minutes. Models are folders, named on the command line; without any,
a ConveRT with random weights of the paper's sizes stands for its architecture.

    python benchmarks/reply_speed.py
    python benchmarks/reply_speed.py runs/bi/model runs/poly/model runs/cross/model
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import rejoinder
from common import use_threads, write_result
from encoding import SIZES, chat
from rejoinder.arrays import FloatArray
from rejoinder.conversations import Context
from rejoinder.encoders import ContextVectors, Ranker
from rejoinder.encoders.torch import Encoder, build_module
from rejoinder.environment import keep_memory
from rejoinder.networks.inference import choose_precision, pack_linears
from rejoinder.retrieval.scan import Rows, search
from rejoinder.retrieval.writing import longest_of
from rejoinder.text.subwords import Subwords
from rejoinder.training.recipe_files import load_recipe

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
    options = parser.parse_args()
    use_threads(options.threads)
    keep_memory()
    messages, subwords = chat()
    contexts = [messages[i * TURNS : (i + 1) * TURNS] for i in range(options.contexts)]
    rankers: dict[str, Any] = {name: rejoinder.load(name) for name in options.models}
    rankers = rankers or {"ConveRT paper": random_convert(subwords)}
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
    write_result("reply_speed", {**settings, "device": "cpu", "rows": rows})


def random_convert(subwords: Subwords) -> Encoder:
    """Return a ConveRT of the paper's sizes with random weights.

    Its precision is the one that `rejoinder.load` would choose.
    """
    config = load_recipe(ROOT / "recipes" / SIZES["paper"]).model
    module = build_module(config, max(subwords.rows, 32_477))
    pack_linears(module, choose_precision("auto", module.config.kind))
    return Encoder(module, subwords, max_length=60, fingerprint="", name="ConveRT paper")


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
        self.segments = [Rows(0, vectors, None, longest_of(vectors))]

    def encode(self, context: Context) -> FloatArray | ContextVectors:
        """The context's vector or vectors."""
        encoded: FloatArray | ContextVectors = self.encoder.encode_contexts([context])
        return encoded

    def pick(self, context: Context, encoded: FloatArray | ContextVectors) -> None:  # noqa: ARG002
        """Find the best candidate."""
        if not isinstance(encoded, ContextVectors) and encoded.ndim == 2:
            encoded = encoded[:, None]
        search(self.segments, list(encoded), BEST)


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
