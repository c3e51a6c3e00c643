"""ONNX programs that multiply in 8 bits, beside those in float32: speed, and replies found.

The models' programs and MiniLM's take turns on chat messages, tokenisation included, on one thread;
then each model ranks the same validation examples by both programs, 1-of-100. Both once as the
processor is, and once with AVX-512 and VNNI hidden from onnxruntime (`hidden_instructions.py`, by
gdb), as most laptops are. That is no other machine: clock rate, caches and memory stay.

    python benchmarks/onnx_int8.py corpus
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from common import write_result
from encoding import SINGLES, Encode, chat, in_turns, race
from peers import minilm_forms
from rejoinder.corpora.forms.examples import read_examples
from rejoinder.encoders.open import open_encoder
from rejoinder.evaluation.ranking import evaluate
from rejoinder.evaluation.tasks import sample

MODELS = ("bi-small", "bi-base")
PRECISIONS = ("fp32", "int8")
HIDING = Path(__file__).with_name("hidden_instructions.py")
RESAMPLES = 2_000


def main() -> None:
    """Measure, print tables, write `results/onnx_int8.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder of examples with a validation part")
    parser.add_argument("--limit", type=int, default=4_000, help="examples")
    parser.add_argument("--sentences", type=int, default=320)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--here", type=Path, help="measure in this process, write JSON there")
    given = parser.parse_args()
    if given.here:
        torch.set_num_threads(1)
        found = {
            "speed": speed(given.sentences, given.repetitions),
            "recall": recall(given.data, given.limit),
        }
        given.here.write_text(json.dumps(found), encoding="utf-8")
        return
    processors = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, before in {
            "as it is": [],
            "AVX2": ["gdb", "-q", "-batch", "-x", str(HIDING), "--args"],
        }.items():
            part = Path(folder, name)
            command = [*before, sys.executable, *sys.argv, "--here", str(part)]
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            processors[name] = json.loads(part.read_text(encoding="utf-8"))
    show(processors)
    write_result("onnx_int8", {"examples": given.limit, "threads": 1, "processors": processors})


def speed(sentences: int, repetitions: int) -> dict[str, dict[str, float]]:
    """Return each program's sentences a second, and milliseconds of one alone."""
    messages = chat()[0]
    turns = repetitions + 1
    texts = in_turns(messages, sentences, turns)
    singles = in_turns(messages[sentences * turns :], SINGLES, turns)
    programs: dict[str, Encode] = {
        f"{name} {each}": open_encoder(name, light=True, precision=each, threads=1).encode_responses
        for name in MODELS
        for each in PRECISIONS
    }
    with tempfile.TemporaryDirectory() as folder:
        forms = minilm_forms(Path(folder), threads=1, batch=128)
        programs |= {f"MiniLM {each}": forms[f"MiniLM onnxruntime {each}"] for each in PRECISIONS}
        together = race(programs, [[part] for part in texts])
        alone = race(programs, [[[text] for text in part] for part in singles])
    return {
        name: {
            "sentences_per_second": sentences / together[name],
            "one_sentence_ms": 1000 * alone[name] / SINGLES,
        }
        for name in programs
    }


def recall(data: Path, limit: int) -> dict[str, Any]:
    """Return R@1 of each model by both programs, in %, and the difference with its interval."""
    examples = sample(read_examples(data, "valid"), limit, seed=0)
    rows = {}
    for name in MODELS:
        hits = []
        for each in PRECISIONS:
            encoder = open_encoder(name, light=True, precision=each, threads=1)
            ranks = np.asarray(evaluate(encoder, examples, copies="right").ranks)
            hits.append(100.0 * (ranks == 1))
        low, high = interval(hits[1] - hits[0])
        rows[name] = {
            **{each: float(found.mean()) for each, found in zip(PRECISIONS, hits, strict=True)},
            "difference": float((hits[1] - hits[0]).mean()),
            "low": low,
            "high": high,
        }
    return rows


def interval(differences: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Return the bounds of 95 % of the means of resampled differences."""
    draw = np.random.default_rng(0)
    values = np.asarray(differences)
    means = [draw.choice(values, len(values)).mean() for _ in range(RESAMPLES)]
    low, high = np.quantile(means, [0.025, 0.975]).tolist()
    return low, high


def show(processors: dict[str, Any]) -> None:
    """Print both tables."""
    speeds = Table("program, processor", "sentences/s", "one sentence, ms")
    recalls = Table("model, processor", *PRECISIONS, "difference")
    for processor, found in processors.items():
        for name, row in found["speed"].items():
            rate = f"{row['sentences_per_second']:,.0f}"
            speeds.add_row(f"{name}, {processor}", rate, f"{row['one_sentence_ms']:.2f}")
        for name, row in found["recall"].items():
            shares = [f"{row[each]:.1f}" for each in PRECISIONS]
            difference = f"{row['difference']:+.2f} [{row['low']:+.2f}, {row['high']:+.2f}]"
            recalls.add_row(f"{name}, {processor}", *shares, difference)
    Console().print(speeds, recalls)


if __name__ == "__main__":
    main()
