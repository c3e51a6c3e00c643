"""Bi-, poly- and cross-encoders from one start on a card, in minutes (POLY, Table 4).

    python benchmarks/poly_card.py --data DATA --start minilm -o FOLDER
    python benchmarks/poly_card.py --data DATA --start minilm -o FOLDER --device cpu --steps 2

DATA is a folder of examples with whole conversations (`rejoinder data ... --history all`) whose
test split has 4,000 or more. Each system ranks the same test examples among 19 other responses;
differences from the bi-encoder are paired. A run that was stopped continues, a finished one is only
ranked.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from common import write_result
from rejoinder.corpora.forms.examples import read_examples
from rejoinder.corpora.schema import Example
from rejoinder.encoders.persistence import load
from rejoinder.training.loop import train
from rejoinder.training.metrics import read_metrics
from rejoinder.training.recipe_files import load_recipe

RECIPES = Path(__file__).parent.parent / "recipes" / "poly"
EXAMPLES = 4000
CANDIDATES = 20
AT_ONCE = 500  # examples that are scored in one call
DRAWS = 10_000  # of the bootstrap


@dataclass(frozen=True)
class System:
    """A recipe of POLY, with what a card allows."""

    recipe: str
    steps: int
    settings: Sequence[str]


LARGE_BATCH = ("stage.0.batch_size=512", "stage.0.learning_rate=1e-4")
SYSTEMS = {
    "bi-encoder": System("bi-small", 500, LARGE_BATCH),
    "poly-encoder, m = 16": System("poly-small", 500, ("model.m=16", *LARGE_BATCH)),
    "poly-encoder, m = 64": System("poly-small", 500, ("model.m=64", *LARGE_BATCH)),
    "poly-encoder, m = 360": System("poly-small", 500, ("model.m=360", *LARGE_BATCH)),
    "cross-encoder": System("cross-small", 1000, ("stage.0.batch_size=64",)),
}


def main() -> None:
    """Train, rank, print and write `results/poly_card.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--start", required=True, help="a checkpoint, as init.transformer names it")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, help="of every system")
    options = parser.parse_args()
    examples = list(islice(read_examples(options.data, "test"), EXAMPLES))
    hits: dict[str, npt.NDArray[np.bool_]] = {}
    rows = []
    for name, system in SYSTEMS.items():
        run = options.output / name.replace(", m = ", "-")
        settings = [
            f"init.transformer={options.start}",
            f"data.train={options.data}",
            f"data.cache={options.output / 'tokens'}",
            "validation.examples=0",
            "log.every_steps=50",
            f"compute.device={options.device}",
            f"stage.0.steps={options.steps or system.steps}",
            *system.settings,
        ]
        train(load_recipe(RECIPES / f"{system.recipe}.toml", settings), run)
        speed = [
            line["examples_per_second"]
            for line in read_metrics(run / "metrics.jsonl")
            if "examples_per_second" in line
        ]
        hits[name] = rank_first(run / "model", examples, options.device)
        first = hits["bi-encoder"]
        row = {
            "system": name,
            "recall": interval(hits[name].astype(float)),
            "difference": interval(hits[name].astype(float) - first.astype(float)),
            "pairs_per_second": statistics.median(speed),
        }
        rows.append(row)
        print(row, flush=True)
    cuda = options.device.startswith("cuda")
    card = torch.cuda.get_device_name() if cuda else "no card"
    write_result("poly_card", {"card": card, "examples": len(examples), "rows": rows})


def rank_first(folder: Path, examples: Sequence[Example], device: str) -> npt.NDArray[np.bool_]:
    """Return whether each example's response scores above 19 others, ties against the model."""
    model = load(folder, device=device)
    generator = random.Random(1)
    responses = [each.response for each in examples]
    lists = []
    for each in examples:
        drawn = generator.sample(responses, min(2 * CANDIDATES, len(responses)))
        others = [text for text in drawn if text != each.response]
        lists.append([each.response, *others[: CANDIDATES - 1]])
    found = []
    for start in range(0, len(examples), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        scores = model.score([each.context for each in examples[part]], lists[part])
        found.append((scores[:, 1:] < scores[:, :1]).all(axis=1))
    return np.concatenate(found)


def interval(values: npt.NDArray[np.float64]) -> list[float]:
    """Return the mean and its 95 % interval by the bootstrap, in %."""
    generator = np.random.default_rng(0)
    drawn = generator.integers(0, len(values), (DRAWS, len(values)))
    low, high = np.percentile(values[drawn].mean(axis=1), [2.5, 97.5])
    return [100 * float(values.mean()), 100 * float(low), 100 * float(high)]


if __name__ == "__main__":
    main()
