"""Scoring cached candidates with a poly-encoder, with and without the attended vectors.

Without, scores come from dot products alone. For one context of m vectors and n candidates of 768
numbers, the programs take turns in one run:

- the usual implementation: softmax(Y·C^T)·C, then its products with Y, in blocks that stay in the
  cache, with the faster one of PyTorch's and oneDNN's matrix products. oneDNN packs the context
  first, in the time that is measured, since each search has a context of its own;
- the least work of any form: Y·C^T with a context packed before, and a softmax;
- all scores out of Y·C^T alone, in float32 (`all_scores`);
- the best ten (`search`);
- a bi-encoder's best ten (`search` with one vector, and the plain product in float32), from the
  same rows.

The candidates lie around a thousand topics, a context around one of them; unrelated products are a
few units wide, and the best ones ten times that, as after a training. `--scattered` takes normal
random numbers instead. The best ten are held against the usual implementation's for many contexts,
and so are all scores. The extra memory is the rise of the process' resident memory in a search.

    python benchmarks/poly_scoring.py
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from common import write_result
from limit import best_rate
from rejoinder.arrays import FloatArray
from rejoinder.memory import keep_memory
from rejoinder.stores.scan import Rows, all_scores, search
from rejoinder.stores.writing import longest_of
from threads import use_threads

TOPICS, LENGTH = 1000, 7.75
"""Topics of the candidates; length of a vector: the product of two is at most 60."""
BEST = 10
BLOCK = 2048
"""Candidates that the usual implementation attends with at once."""

Program = Callable[[], object]
Product = Callable[[Tensor], Tensor]


def main() -> None:
    """Measure, print, write `results/poly_scoring.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--candidates", type=int, nargs="+", default=[1000, 100_000])
    parser.add_argument(
        "--vectors", type=int, nargs="+", default=[16, 64, 360], help="of a context"
    )
    parser.add_argument("--size", type=int, default=768)
    parser.add_argument("--contexts", type=int, default=100, help="whose best ten are compared")
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--scattered", action="store_true", help="vectors without topics")
    options = parser.parse_args()
    use_threads(options.threads)
    keep_memory()
    results = []
    for count in options.candidates:
        data = Data(count, options.size, options.scattered)
        for m in options.vectors:
            results.append(measure(data, m, options))
            show(results[-1])
    settings = {
        key: value for key, value in vars(options).items() if key not in ("candidates", "vectors")
    }
    write_result("poly_scoring", {**settings, "rows": results})


class Data:
    """Candidates and contexts."""

    def __init__(self, count: int, size: int, scattered: bool) -> None:
        self.count, self.size, self.scattered = count, size, scattered
        self.random = np.random.default_rng(0)
        self.topics = self.random.standard_normal((TOPICS, size), dtype=np.float32)
        self.rows = self._around(self.random.integers(0, TOPICS, count), 0.5)
        self.segments = [Rows.of(0, self.rows, None, longest_of(self.rows))]

    def contexts(self, count: int, m: int) -> FloatArray:
        """(count, m, d): the vectors of a context share its topic."""
        topics = np.repeat(self.random.integers(0, TOPICS, count), m)
        return self._around(topics, 0.35).reshape(count, m, self.size)

    def _around(self, topics: Any, share: float) -> FloatArray:
        """Vectors of one length; the topic has this share of a vector's square."""
        vectors = self.random.standard_normal((len(topics), self.size), dtype=np.float32)
        if not self.scattered:
            vectors = share**0.5 * self.topics[topics] + (1 - share) ** 0.5 * vectors
        scaled: FloatArray = LENGTH * vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return scaled


class Attended:
    """The usual implementation: builds the attended vector of every candidate.

    Args:
        rows: (n, d) candidates.
        context: (m, d).
        packed: multiply with the context in oneDNN's order, instead of PyTorch's plain product.
    """

    def __init__(self, rows: FloatArray, context: FloatArray, packed: bool) -> None:
        self.rows = torch.from_numpy(rows)
        self.context = torch.from_numpy(context)
        self.packed = packed

    def __call__(self) -> Tensor:
        """Scores (n,)."""
        to_logits = _linear(self.context, self.packed)
        to_attended = _linear(self.context.T.contiguous(), self.packed)
        blocks = torch.split(self.rows, BLOCK)
        return torch.cat([self._block(rows, to_logits, to_attended) for rows in blocks])

    def _block(self, rows: Tensor, to_logits: Product, to_attended: Product) -> Tensor:
        weights = torch.softmax(to_logits(rows), 1)
        return to_attended(weights).mul_(rows).sum(1)


class Least:
    """Products with a context that oneDNN has packed before, and the softmax over them."""

    def __init__(self, rows: FloatArray, context: FloatArray) -> None:
        self.rows = torch.from_numpy(rows)
        self.to_logits = _linear(torch.from_numpy(context), packed=True)

    def __call__(self) -> Tensor:
        """Scores (n,)."""
        return torch.cat([self._block(rows) for rows in torch.split(self.rows, BLOCK)])

    def _block(self, rows: Tensor) -> Tensor:
        logits = self.to_logits(rows)
        return torch.softmax(logits, 1).mul_(logits).sum(1)


def _linear(weight: Tensor, packed: bool) -> Product:
    if not packed:
        return lambda x: torch.mm(x, weight.T)
    ordered = torch.ops.mkldnn._reorder_linear_weight(weight)
    return lambda x: torch.ops.mkldnn._linear_pointwise(x, ordered, None, "none", [], "")


def measure(data: Data, m: int, options: argparse.Namespace) -> dict[str, Any]:
    """One row of the result: milliseconds of every program, ratios, agreement, memory."""
    context = data.contexts(1, m)
    vectors, single = list(context), [np.ascontiguousarray(context[0, :1])]
    programs: dict[str, Program] = {
        "attended, PyTorch": Attended(data.rows, context[0], packed=False),
        "attended, oneDNN": Attended(data.rows, context[0], packed=True),
        "least work": Least(data.rows, context[0]),
        "scores, float32": partial(all_scores, data.rows, vectors),
        "best ten, float32": partial(search, data.segments, vectors, BEST),
        "bi-encoder product, float32": partial(
            torch.mv, torch.from_numpy(data.rows), torch.from_numpy(single[0][0])
        ),
        "bi-encoder best ten, float32": partial(search, data.segments, single, BEST),
    }
    memory = extra_memory(programs["best ten, float32"])
    rate = best_rate({(BLOCK, data.size, m)}, "fp32")
    taken = race(programs, options.repetitions)
    rate = max(rate, best_rate({(BLOCK, data.size, m)}, "fp32"))
    median = {name: statistics.median(seconds) for name, seconds in taken.items()}
    return {
        "candidates": data.count,
        "vectors": m,
        "milliseconds": {name: 1000 * seconds for name, seconds in median.items()},
        "fastest_and_slowest": {
            name: [1000 * min(all_), 1000 * max(all_)] for name, all_ in taken.items()
        },
        "share_of_limit": 2 * data.count * data.size * m / rate / median["scores, float32"],
        "ratios": ratios(median),
        "extra_megabytes": memory,
        **agreement(data, m, options.contexts),
    }


def race(programs: dict[str, Program], repetitions: int) -> dict[str, list[float]]:
    """Seconds of each repetition, the programs taking turns."""
    taken: dict[str, list[float]] = {name: [] for name in programs}
    for turn in range(repetitions + 1):
        for name, program in programs.items():
            started = time.perf_counter()
            program()
            if turn:  # the first warms up
                taken[name].append(time.perf_counter() - started)
    return taken


def ratios(seconds: dict[str, float]) -> dict[str, float]:
    """The comparisons that the project holds itself to."""
    usual = min(seconds["attended, PyTorch"], seconds["attended, oneDNN"])
    plain = min(seconds["bi-encoder product, float32"], seconds["bi-encoder best ten, float32"])
    return {
        "attended / least work": usual / seconds["least work"],
        "attended / scores, float32": usual / seconds["scores, float32"],
        "attended / best ten, float32": usual / seconds["best ten, float32"],
        "best ten, float32 / bi-encoder": seconds["best ten, float32"] / plain,
    }


def agreement(data: Data, m: int, contexts: int) -> dict[str, float]:
    """Largest relative difference of scores, and the share of contexts with the same best ten.

    Scores below 1, a sixtieth of the largest, are compared as if they were 1: they are differences
    of larger numbers.
    """
    encoded = data.contexts(contexts, m)
    best = min(BEST, data.count)
    same, difference = 0, 0.0
    for context in encoded:
        usual = Attended(data.rows, context, packed=True)().numpy()
        ours = all_scores(data.rows, [context])[0]
        difference = max(difference, float((np.abs(ours - usual) / np.abs(usual).clip(1.0)).max()))
        [(positions, _)] = search(data.segments, [context], best)
        same += set(positions.tolist()) == set(np.argsort(-usual, kind="stable")[:best].tolist())
    return {"relative_difference": difference, "same_best_ten": same / contexts}


def extra_memory(program: Program) -> float | None:
    """Return by how many megabytes the process' resident memory rises at most in a call.

    None where that cannot be measured.
    """
    clear, status = Path("/proc/self/clear_refs"), Path("/proc/self/status")
    if not clear.exists():
        return None
    before = _kilobytes(status, "VmRSS")
    clear.write_text("5")  # forget the highest so far
    program()
    return (_kilobytes(status, "VmHWM") - before) / 1024


def _kilobytes(status: Path, name: str) -> int:
    lines = status.read_text(encoding="utf-8").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(name)))


def show(row: dict[str, Any]) -> None:
    """Print a row as a table."""
    table = Table(
        "program",
        "ms",
        title=f"{row['candidates']:,} candidates, {row['vectors']} vectors a context",
    )
    for name, milliseconds in row["milliseconds"].items():
        table.add_row(name, f"{milliseconds:.2f}")
    console = Console()
    console.print(table)
    for name, ratio in row["ratios"].items():
        console.print(f"{name}: {ratio:.2f}")
    console.print(f"scores, float32: {100 * row['share_of_limit']:.0f} % of the machine's limit")
    console.print(f"largest relative difference of a score: {row['relative_difference']:.1e}")
    console.print(f"same best ten: {100 * row['same_best_ten']:.1f} % of contexts")
    if row["extra_megabytes"] is not None:
        console.print(f"extra memory of the best ten: {row['extra_megabytes']:.0f} MB")


if __name__ == "__main__":
    main()
