"""Jobs to build examples with: sizes, inputs of both kinds of corpora, what came out."""

import functools
import gzip
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

from rejoinder.corpora.pipeline.build import _run_task, build_data
from rejoinder.corpora.pipeline.chunks import ChunkSizes
from rejoinder.corpora.forms.examples import read_examples
from tests.corpora.toy import TOY, toy_lines

SMALL = ChunkSizes(files=4_000, block=1_000, partition=3_000, chunk=64, bucket=100, shard=150)
"""Pieces of a few examples, so that there are many of each."""
build = functools.partial(build_data, sizes=SMALL)
TINY = ChunkSizes(files=77, block=333, partition=999, chunk=7, bucket=33, shard=33)


ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parent.parent.parent)])}
"""For a script elsewhere, so that it finds this package of tests."""


def wait_for(condition, seconds=30):
    """What the condition gives as soon as it is true; None if that takes too long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.02)
    return None


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Watched:
    """An engine that notes which work was done."""

    def __init__(self, processes=1):
        self.processes = processes
        self.done = Counter()

    def map(self, work, tasks, _on_wait=None):
        function = work.args[2] if work.func is _run_task else work
        while isinstance(function, functools.partial):
            function = function.func
        for task in tasks:
            self.done[function.__name__] += 1
            yield work(task)


def dialogues(path, start, stop, tail="end"):
    lines_ = (json.dumps({"turns": [f"{number} says", f"reply {number}", tail]}) for number in range(start, stop))
    path.write_text("".join(f"{line}\n" for line in lines_))
    return path


def streamed(folder):
    files = [dialogues(folder / f"{place}.jsonl", 40 * place, 40 * place + 55) for place in range(6)]
    return "jsonl", [*files[:4], f"test={files[4]}", f"valid={files[5]}", files[0]]


def scattered(folder):
    lines_ = toy_lines(150)
    halves = folder / "one.txt", folder / "two.txt.gz"
    halves[0].write_text("".join(f"{line}\n" for line in lines_[::2]))
    halves[1].write_bytes(gzip.compress("".join(f"{line}\n" for line in lines_[1::2]).encode()))
    test = folder / "test.txt"
    test.write_text("".join(f"{line}\n" for line in [*toy_lines(20, seed=1), *lines_[:40]]))
    return TOY, [*halves, f"test={test}"]


KINDS = {"streamed": streamed, "scattered": scattered}


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def pairs(folder, split=None):
    return [(example.context, example.response) for example in read_examples(folder, split)]
