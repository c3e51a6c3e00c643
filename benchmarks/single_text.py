"""One text at a time in 8 bits: the ordinary way beside the recording that takes over once a length is common.

python benchmarks/single_text.py
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import numpy as np
import torch

from common import write_result
from rejoinder.models.inference import pack_linears
from rejoinder.models.packing import TokenBatch, pack
from rejoinder.models.persistence import build_module
from rejoinder.models.single import SEEN_BEFORE, SingleTexts
from rejoinder.training.recipe_files import load_recipe

RECIPES = Path(__file__).parent.parent / "recipes"
TOKENS, TEXTS = 14, 200


def main() -> None:
    """Measure both sizes, print the figures, write `results/single_text.json`."""
    torch.set_num_threads(2)
    rows = {}
    for size, recipe in (("paper", "convert.toml"), ("small", "convert-small.toml")):
        module = build_module(load_recipe(RECIPES / recipe).model, 16_000)
        pack_linears(module, "int8")
        batch = pack(np.arange(TOKENS, dtype=np.int32), np.array([TOKENS], dtype=np.int32), 15_999)
        singles = SingleTexts(module)
        with torch.inference_mode():
            ordinary = milliseconds(lambda b, m=module: m.encode(b, "context"), batch)
            for _ in range(SEEN_BEFORE + 20):
                singles(batch, "context")
            recorded = milliseconds(lambda b, s=singles: s(b, "context"), batch)
        rows[size] = {"ordinary_ms": ordinary, "recorded_ms": recorded, "times_as_fast": ordinary / recorded}
        print(f"{size}: ordinary {ordinary:.2f} ms, recorded {recorded:.2f} ms, {ordinary / recorded:.1f} times")
    write_result("single_text", {"tokens": TOKENS, "threads": 2, "rows": rows})


def milliseconds(encode: object, batch: TokenBatch) -> float:
    """Median time of one call."""
    assert callable(encode)
    times = []
    for _ in range(TEXTS):
        started = time.perf_counter()
        encode(batch)
        times.append(time.perf_counter() - started)
    return 1000 * statistics.median(times)


if __name__ == "__main__":
    main()
