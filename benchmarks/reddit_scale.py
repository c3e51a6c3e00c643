"""Estimate of time and memory for all of Reddit, from measured rates.

It is for `benchmarks/reddit.py` and docs/scale.md. Most of the work grows in proportion to the
comments, so a run of some million says what it takes. Two things do not show in such a run and are
measured apart: one process cuts the dumps into blocks whatever the number of workers, and a large
job reads each of its many partitions out of all runs of records.
"""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rejoinder.corpora.lines import Reading, open_blocks
from rejoinder.corpora.pipeline.chunks import ChunkJob, ChunkSizes
from rejoinder.corpora.pipeline.gather import LARGEST, read_partition, write_run
from rejoinder.corpora.reddit.comment_trees import COLUMNS, scatter
from rejoinder.corpora.reddit.corpus import CORPUS
from rejoinder.corpora.reddit.settings import RedditSettings

ALL_COMMENTS = 3_680_000_000
"""Comments of 2015 to 2018 (DATA19)."""
SIZES = ChunkSizes()
RUN_BYTES = SIZES.partition * LARGEST
CORES = (2, 16, 64)
RUNS = 16
"""Runs out of which a partition is read to measure that."""
_STEPS = ("cut_into_blocks_per_second", "cut_parsed_and_judged_per_second")


def limits(path: Path) -> dict[str, float]:
    """Return rates of single steps in this process, from one month of a dump.

    They are comments per second, and bytes of a comment. They count processor time: one thread does
    them, and other programs do not matter then.

    Args:
        path: the month; it is read twice.
    """
    begin, lines, size = time.process_time(), 0, 0
    for block in open_blocks(path):
        lines, size = lines + block.data.count(b"\n"), size + len(block.data)
    cut = time.process_time() - begin
    begin, records = time.process_time(), 0
    for block in open_blocks(path):
        records += scatter(block, Reading(), RedditSettings()).nbytes
    return {
        "cut_into_blocks_per_second": lines / cut,
        "cut_parsed_and_judged_per_second": lines / (time.process_time() - begin),
        "bytes_per_comment": size / lines,
        "record_bytes_per_comment": records / lines,
    }


def all_of_reddit(
    comments: int, cpu_seconds: float, disk_bytes: int, steps: dict[str, float]
) -> dict[str, Any]:
    """What `ALL_COMMENTS` take.

    Args:
        comments: of a run that was measured.
        cpu_seconds: of that run, with one process.
        disk_bytes: that it used at most.
        steps: what `limits` gave.
    """
    times = ALL_COMMENTS / comments
    shuffled = ALL_COMMENTS * steps["record_bytes_per_comment"]
    partitions = math.ceil(shuffled / SIZES.partition / LARGEST)
    blocks = math.ceil(ALL_COMMENTS * steps["bytes_per_comment"] / SIZES.block)
    cut, scatter_ = (ALL_COMMENTS / steps[name] / 3600 for name in _STEPS)
    runs = math.ceil(shuffled / RUN_BYTES)
    read = partition_seconds(partitions, steps["record_bytes_per_comment"])
    reading = runs * partitions * read / 3600
    total = times * cpu_seconds / 3600 + reading
    return {
        "comments": ALL_COMMENTS,
        "core_hours": total,
        "core_hours_of_cutting": cut,
        "core_hours_of_scattering": scatter_ - cut,
        "core_hours_of_reading_partitions_from_many_runs": reading,
        # While blocks are scattered, one process cuts them; the other stages have no such
        # bottleneck.
        "hours_by_cores": {
            cores: max(cut, scatter_ / cores) + (total - scatter_) / cores for cores in CORES
        },
        "decompressed_bytes": ALL_COMMENTS * steps["bytes_per_comment"],
        "shuffled_bytes": shuffled,
        "disk_bytes": times * disk_bytes,
        "blocks": blocks,
        "runs": runs,
        "partitions": partitions,
    }


def partition_seconds(partitions: int, record_bytes: float) -> float:
    """Return the processor time of reading one partition out of one run, without its bytes.

    Args:
        partitions: how many there are.
        record_bytes: bytes of a record.
    """
    generator = np.random.default_rng(0)
    text = "x" * max(0, round(record_bytes) - 40)
    count = round(RUN_BYTES / record_bytes)
    threads = [f"{number:06x}" for number in generator.integers(0, 1 << 24, count)]
    columns = [threads, [0] * count, ["dqxyz12"] * count, ["dqxyz11"] * count, [text] * count]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, COLUMNS, strict=True)]
    records = pa.RecordBatch.from_arrays(arrays, schema=COLUMNS)
    with tempfile.TemporaryDirectory() as folder:
        job = ChunkJob(CORPUS, RedditSettings(), Path(folder))
        runs = [f"{number}" for number in range(RUNS)]
        for run in runs:
            write_run(job, run, [records], partitions)
        begin = time.process_time()
        numbers = range(0, partitions, max(1, partitions // 50))
        for number in numbers:
            for _ in read_partition(job, runs, number, partitions):
                pass
        return (time.process_time() - begin) / (len(numbers) * len(runs))
