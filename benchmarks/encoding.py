"""Encoding speed of ConveRT beside all-MiniLM-L6-v2, and beside what the machine could do at most.

ConveRT: the paper's size, the small recipe's, and the models that are installed by name.

All programs encode the same chat messages, none longer than ConveRT's 60 subwords, in the same run,
taking turns, tokenisation included. Every turn has other messages. Each program gets all of them at
once, sorts them by length and computes them in parts: MiniLM 128 messages at a time, ConveRT 4,096
tokens. The limit of a model is
the time that the floating-point operations of its matrix products on the real tokens take at the
best matrix-multiply rate of this machine, measured before and after in the same run, in the same
precision, over the shapes that the model uses. Weights of both sizes are random: speed does not
depend on them.

    python benchmarks/encoding.py
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from common import write_result
from limit import Shape, best_rate, gemm_shapes, multiplications
from peers import minilm_forms
from rejoinder.encoders import bundled
from rejoinder.encoders.families import text_encoder
from rejoinder.encoders.open import open_encoder
from rejoinder.encoders.torch import Encoder
from rejoinder.memory import keep_memory
from rejoinder.networks.convert import Convert, ConvertConfig
from rejoinder.networks.inference import Precision, pack_linears
from rejoinder.processor import has_fast_bfloat16
from rejoinder.text.subwords import Subwords
from rejoinder.text.vocabulary_building import build_subwords
from rejoinder.training.recipe_files import load_recipe

SINGLES = 50
"""Sentences that are encoded one by one."""
ROOT = Path(__file__).parent.parent
SIZES = {"paper": "convert.toml", "small": "convert-quick.toml"}
MODELS = tuple(bundled.names())


@dataclass(frozen=True)
class Measured:
    """One program's figures."""

    sentences_per_second: float
    one_sentence_ms: float
    limit_share: float | None = None
    """Share of the machine's limit, where the operations are known."""


def main() -> None:
    """Measure, print a table, write `results/encoding.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sentences", type=int, default=640)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    keep_memory()
    messages, subwords = chat()
    turns = options.repetitions + 1
    sentences = in_turns(messages, options.sentences, turns)
    singles = in_turns(messages[options.sentences * turns :], SINGLES, turns)
    programs, costs = our_programs(subwords, sentences[1:])
    programs |= model_programs()
    with tempfile.TemporaryDirectory() as folder:
        programs |= minilm_forms(Path(folder), options.threads, options.batch)
        seconds = race(programs, [[part] for part in sentences])
        latency = race(programs, [[[text] for text in part] for part in singles])
    rows = {}
    limits = {name: cost.seconds() for name, cost in costs.items()}
    for name in programs:
        rows[name] = Measured(
            sentences_per_second=options.sentences / seconds[name],
            one_sentence_ms=1000 * latency[name] / SINGLES,
            limit_share=limits[name] / seconds[name] if name in limits else None,
        )
    show(rows)
    figures = {name: asdict(row) for name, row in rows.items()}
    write_result(
        "encoding",
        {"threads": options.threads, "batch": options.batch, "rows": figures, **bars(rows)},
    )


def chat() -> tuple[list[str], Subwords]:
    """Return chit-chat messages of at most 60 subwords, and 16,000 subwords built from them.

    The messages are in a fixed random order.
    """
    import chitchat_dataset

    messages = [text for text in chitchat_dataset.MessageDataset() if text.strip()]
    order = torch.randperm(len(messages), generator=torch.Generator().manual_seed(0)).tolist()
    subwords = build_subwords(messages, minimum_count=6)
    lengths = subwords.encode_ragged(messages)[1]
    return [messages[i] for i in order if lengths[i] <= 60], subwords


@dataclass
class Cost:
    """The products of a program, and the best rate at which the machine computed such products."""

    operations: int
    shapes: set[Shape]
    precision: str
    rate: float = 0.0

    def seconds(self) -> float:
        """Time of the operations at the best rate.

        Measured before and after the race: the machine's speed varies.
        """
        self.rate = max(self.rate, best_rate(self.shapes, self.precision))
        return self.operations / self.rate


Encode = Callable[[Sequence[str]], object]


def our_programs(
    subwords: Subwords, turns: Sequence[Sequence[str]]
) -> tuple[dict[str, Encode], dict[str, Cost]]:
    """Measure both sizes in every precision that the processor computes itself.

    Each has its limit beside it, in seconds of a turn.
    """
    count = len(turns[0])
    lengths = subwords.encode_ragged([text for part in turns for text in part], 60)[1]
    tokens = int(lengths.sum()) // len(turns)
    programs: dict[str, Encode] = {}
    costs: dict[str, Cost] = {}
    for size, recipe in SIZES.items():
        config = ConvertConfig(**load_recipe(ROOT / "recipes" / recipe).model)
        for precision in precisions():
            module = Convert(config, max(subwords.rows, 32_477 if size == "paper" else 0))
            per_token, per_text = multiplications(module)
            operations = 2 * (tokens * per_token + count * per_text)
            cost = Cost(operations, gemm_shapes(module, tokens * 128 // count, 128), precision)
            cost.seconds()
            pack_linears(module, precision)
            encoder = Encoder(module, subwords, max_length=60, fingerprint="")
            name = f"ConveRT {size} {precision}"
            programs[name] = encoder.encode_responses
            costs[name] = cost
    return programs, costs


def precisions() -> tuple[Precision, ...]:
    """Those that the processor computes itself."""
    return ("fp32", "bf16", "int8") if has_fast_bfloat16() else ("fp32", "int8")


def model_programs() -> dict[str, Encode]:
    """The models that are installed, in every precision, and their ONNX programs."""
    models = {
        f"{name} {each}": open_encoder(name, precision=each)
        for name in MODELS
        for each in precisions()
    }
    programs: dict[str, Encode] = {
        name: text_encoder(model).encode_responses for name, model in models.items()
    }
    for name in MODELS:
        for each in ("fp32", "auto"):
            light = open_encoder(name, light=True, precision=each, threads=torch.get_num_threads())
            parts = getattr(light, "parts", [light])
            chosen = "int8" if "int8" in [part.precision for part in parts] else "fp32"
            programs[f"{name} onnxruntime {chosen}"] = light.encode_responses
    return programs


def in_turns(messages: Sequence[str], count: int, turns: int) -> list[Sequence[str]]:
    """Return so many messages for each turn, each of them once.

    In use messages are new: who had met their number and lengths would be too fast.
    """
    return [messages[count * turn : count * (turn + 1)] for turn in range(turns)]


def race(programs: dict[str, Encode], turns: Sequence[Sequence[Sequence[str]]]) -> dict[str, float]:
    """Return the median seconds of all batches of a turn, the programs taking turns.

    The first turn, in which they warm up, is not counted.
    """
    taken: dict[str, list[float]] = {name: [] for name in programs}
    for batches in turns:
        for name, encode in programs.items():
            started = time.perf_counter()
            for batch in batches:
                encode(batch)
            taken[name].append(time.perf_counter() - started)
    return {name: statistics.median(values[1:]) for name, values in taken.items()}


def bars(rows: dict[str, Measured]) -> dict[str, Any]:
    """The comparisons that the project holds itself to."""
    minilm = {name: row for name, row in rows.items() if name.startswith("MiniLM")}
    fastest = max(minilm.values(), key=lambda row: row.sentences_per_second)
    ours = {
        size: max(
            (r for n, r in rows.items() if f" {size} " in n), key=lambda r: r.sentences_per_second
        )
        for size in SIZES
    }
    quickest = {
        size: min((r for n, r in rows.items() if f" {size} " in n), key=lambda r: r.one_sentence_ms)
        for size in SIZES
    }
    installed = {
        f"{model} / fastest MiniLM, batches": max(
            row.sentences_per_second for name, row in rows.items() if name.startswith(f"{model} ")
        )
        / fastest.sentences_per_second
        for model in MODELS
    }
    int8 = rows["MiniLM onnxruntime int8"]
    alone = {}
    for model in MODELS:
        ours_alone = [row for name, row in rows.items() if name.startswith(f"{model} ")]
        best = min(row.one_sentence_ms for row in ours_alone)
        alone[f"{model} / MiniLM int8, time of one sentence"] = best / int8.one_sentence_ms
    return {
        "ratios": {
            "paper / fastest MiniLM, batches": ours["paper"].sentences_per_second
            / fastest.sentences_per_second,
            "paper / MiniLM sentence-transformers bf16, batches": ours["paper"].sentences_per_second
            / rows["MiniLM sentence-transformers bf16"].sentences_per_second,
            "small / fastest MiniLM, batches": ours["small"].sentences_per_second
            / fastest.sentences_per_second,
            **installed,
            **alone,
            "paper / MiniLM int8, time of one sentence": quickest["paper"].one_sentence_ms
            / int8.one_sentence_ms,
            "small / MiniLM int8, time of one sentence": quickest["small"].one_sentence_ms
            / int8.one_sentence_ms,
        }
    }


def show(rows: dict[str, Measured]) -> None:
    """Print the table."""
    table = Table("program", "sentences/s", "one sentence, ms", "share of the limit")
    for name, row in rows.items():
        share = "" if row.limit_share is None else f"{100 * row.limit_share:.0f} %"
        table.add_row(name, f"{row.sentences_per_second:,.0f}", f"{row.one_sentence_ms:.2f}", share)
    console = Console()
    console.print(table)
    for name, ratio in bars(rows)["ratios"].items():
        console.print(f"{name}: {ratio:.2f}")


if __name__ == "__main__":
    main()
