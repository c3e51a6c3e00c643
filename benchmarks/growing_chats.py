"""`rejoinder serve` in chats that grow, beside the same requests from chats that it has forgotten.

A chat is asked about after each message of its customer, with all that was said before. A server
keeps what it has read of the texts that it read last. Both loads are the same requests, in other
orders: a wave of chats from their first turn to their last, or the turns of a chat so far apart
that thousands of other texts are read between them. The loads take turns; one server answers, with
the load generator beside it.

    python benchmarks/growing_chats.py
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import rejoinder
from common import write_result
from encoding import chat
from rejoinder.encoders.open import open_encoder
from serving import load, ours, serving

TURNS = (1, 3, 5, 7, 9)
"""Messages of a chat at each request."""


def main() -> None:
    """Measure, print, write `results/growing_chats.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", default=["convert-small", "bi-small", "bi-base"])
    parser.add_argument("--candidates", type=int, default=1000)
    parser.add_argument("--chats", type=int, default=2000)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=15.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # of the servers
    messages, _ = chat()
    distinct = list(dict.fromkeys(messages))
    replies = distinct[: options.candidates]
    said = distinct[options.candidates :]
    chats = [said[at * TURNS[-1] :][: TURNS[-1]] for at in range(options.chats)]
    loads = {"growing": growing(chats, options.connections), "forgotten": forgotten(chats)}
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for model in options.models:
            index = str(Path(folder, model))
            rejoinder.Index.build(open_encoder(model), replies, index)
            result[model] = measure(index, loads, options)
            print(model, result[model], flush=True)
    write_result("growing_chats", {**vars(options), "servers": result})


def growing(chats: Sequence[Sequence[str]], wave: int) -> list[Sequence[str]]:
    """Return the requests of a wave of chats from their first turn to their last; then the next."""
    waves = [chats[start : start + wave] for start in range(0, len(chats), wave)]
    return [own[:turn] for each in waves for turn in TURNS for own in each]


def forgotten(chats: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Return the same requests, a fifth of all between one of a chat and its next."""
    step = len(chats) // len(TURNS)
    return [
        chats[(place - number * step) % len(chats)][:turn]
        for place in range(len(chats))
        for number, turn in enumerate(TURNS)
    ]


def measure(
    index: str, loads: dict[str, list[Sequence[str]]], options: argparse.Namespace
) -> dict[str, Any]:
    """Return the medians of the rounds of each load, and the ratio of their requests a second."""
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in loads}
    with serving(ours(index)) as server:
        for number in range(options.rounds):
            for name, contexts in loads.items():
                start = number * len(contexts) // options.rounds
                asked = itertools.cycle([*contexts[start:], *contexts[:start]])
                found = asyncio.run(load(server.port, asked, options.connections, options.seconds))
                rounds[name].append(found.facts())
    medians = {
        name: {
            fact: statistics.median(each[fact] for each in facts)
            for fact in ("per_second", "p50_ms", "p99_ms")
        }
        for name, facts in rounds.items()
    }
    ratio = medians["growing"]["per_second"] / medians["forgotten"]["per_second"]
    return {**medians, "ratio": ratio}


if __name__ == "__main__":
    main()
