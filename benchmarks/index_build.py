"""How fast an index is built beside its encoder alone, and in how much memory.

Each of three rounds encodes all replies in batches as `Index.build` does, and builds an index of
them, in a process of its own each; the ratio of the rates and the processes' greatest resident
memory are reported.

    python benchmarks/index_build.py
    python benchmarks/index_build.py --replies replies.txt --count 200000
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

import rejoinder
from common import write_result
from encoding import chat
from rejoinder.encoders.open import open_encoder
from rejoinder.memory import keep_memory, limit_onednn_cache

BATCH = 1024


def main() -> None:
    """Measure, print, write `results/index_build.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="convert-small")
    parser.add_argument(
        "--replies", metavar="FILE", help="one a line; if not given messages of chit-chat, repeated"
    )
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", choices=["encode", "build"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        measure(options)
        return
    found: dict[str, list[dict[str, float]]] = {"encode": [], "build": []}
    for _, (what, runs) in itertools.product(range(options.rounds), found.items()):
        command = [sys.executable, __file__, *sys.argv[1:], "--only", what]
        runs.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
        print(what, {name: round(value, 1) for name, value in runs[-1].items()})
    rates = {
        what: statistics.median(run["replies_per_second"] for run in runs)
        for what, runs in found.items()
    }
    memory = {what: max(run["peak_mb"] for run in runs) for what, runs in found.items()}
    ratios = [
        b["replies_per_second"] / a["replies_per_second"]
        for a, b in zip(*found.values(), strict=True)
    ]
    result = {
        "count": options.count,
        "threads": options.threads,
        "replies_per_second": rates,
        "peak_mb": memory,
        "ratio": statistics.median(ratios),
        "ratios": ratios,
    }
    print(
        f"build at {result['ratio']:.2f} of the encoder's rate;"
        f" {write_result('index_build', result)}"
    )


def measure(options: argparse.Namespace) -> None:
    """Print the rate of one of the two, and the memory that this process took."""
    torch.set_num_threads(options.threads)
    limit_onednn_cache()  # as the command does
    keep_memory()
    lines = (
        Path(options.replies).read_text(encoding="utf-8").splitlines()
        if options.replies
        else chat()[0]
    )
    texts = list(itertools.islice(itertools.cycle(lines), options.count))
    model = open_encoder(options.model)
    model.encode_responses(texts[:BATCH])
    start = time.perf_counter()
    if options.only == "encode":
        for first in range(0, len(texts), BATCH):
            model.encode_responses(texts[first : first + BATCH])
    else:
        with tempfile.TemporaryDirectory() as folder:
            rejoinder.Index.build(model, texts, Path(folder) / "index", batch=BATCH)
    rate = len(texts) / (time.perf_counter() - start)
    # Linux counts kilobytes.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(json.dumps({"replies_per_second": rate, "peak_mb": peak}))


if __name__ == "__main__":
    main()
