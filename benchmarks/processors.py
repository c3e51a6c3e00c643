"""Encoding speed of the installed models by precision, on a processor with fewer instructions.

Settings of oneDNN and PyTorch hide instructions of this machine's processor, for each row in a
process of its own. That is no other machine: clock rates, caches and memory stay. onnxruntime has
no such setting and is left out. In each process the precisions take turns.

    python benchmarks/processors.py
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import torch
from rich.console import Console
from rich.table import Table

from common import write_result
from encoding import chat, in_turns
from rejoinder.encoders import bundled
from rejoinder.encoders.open import open_encoder
from rejoinder.memory import keep_memory

PRECISIONS = ("fp32", "bf16", "int8")
RATIO = "int8 / fp32"
PROCESSORS = {
    "as it is": {},
    "AVX-512 with VNNI": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_VNNI"},
    "AVX-512": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"},
    "AVX2 with VNNI": {"ONEDNN_MAX_CPU_ISA": "AVX2_VNNI", "ATEN_CPU_CAPABILITY": "avx2"},
    "AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"},
}
HERE = "--here"


def main() -> None:
    """Measure, print a table, write `results/processors.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sentences", type=int, default=320)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(HERE, action="store_true", help="measure in this process, print JSON")
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measure(options.sentences, options.repetitions, options.threads)))
        return
    table = Table("model, processor", *PRECISIONS, RATIO)
    rows = {}
    for processor, settings in PROCESSORS.items():
        run = subprocess.run(
            [sys.executable, *sys.argv, HERE],
            env=os.environ | settings,
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        for model, row in json.loads(run.stdout).items():
            rows[f"{model}, {processor}"] = row
    for name, row in sorted(rows.items()):
        rates = [f"{row[precision]:,.0f}" for precision in PRECISIONS]
        table.add_row(name, *rates, f"{row[RATIO]:.2f}")
    Console().print(table)
    write_result("processors", {"threads": options.threads, "rows": dict(sorted(rows.items()))})


def measure(sentences: int, repetitions: int, threads: int) -> dict[str, dict[str, float]]:
    """Return each model's sentences a second by precision, and the ratio of int8 to fp32."""
    torch.set_num_threads(threads)
    keep_memory()
    turns = in_turns(chat()[0], sentences, repetitions + 1)
    rows = {}
    for name in bundled.names():
        models = {each: open_encoder(name, precision=each) for each in PRECISIONS}
        seconds: dict[str, list[float]] = {each: [] for each in PRECISIONS}
        for turn, texts in enumerate(turns):
            for precision, model in models.items():
                started = time.perf_counter()
                model.encode_responses(texts)
                if turn:  # the first one warms up
                    seconds[precision].append(time.perf_counter() - started)
        rows[name] = {each: sentences / statistics.median(seconds[each]) for each in PRECISIONS}
        pairs = zip(seconds["fp32"], seconds["int8"], strict=True)
        rows[name][RATIO] = statistics.median(fp32 / int8 for fp32, int8 in pairs)
    return rows


if __name__ == "__main__":
    main()
