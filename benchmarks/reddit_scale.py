"""What all of Reddit takes, worked out from measured rates: for `benchmarks/reddit.py` and docs/scale.md.

Most of the work grows in proportion to the comments, so a run of some million says what it takes. Two things do not
show in such a run and are measured apart: one process cuts the dumps into blocks whatever the number of workers, and
each file of records has a segment for every partition, of which a large job has many more.
"""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from rejoinder.corpora.job import Sizes
from rejoinder.corpora.lines import Reading, open_blocks
from rejoinder.corpora.reddit import scatter
from rejoinder.corpora.reddit_rules import RedditSettings
from rejoinder.corpora.segments import merge_segments, pack_rows, write_segments

ALL_COMMENTS = 3_680_000_000
"""Comments of 2015 to 2018 (DATA19)."""
SIZES = Sizes()
CORES = (2, 16, 64)
_STEPS = ("cut_into_blocks_per_second", "cut_parsed_and_judged_per_second")
_FILES = 64


def limits(path: Path) -> dict[str, float]:
    """Rates of single steps in this process, from one month of a dump: comments per second, and bytes of a comment.

    They count processor time: one thread does them, and other programs do not matter then.

    Args:
        path: the month; it is read twice.
    """
    begin, lines, size = time.process_time(), 0, 0
    for block in open_blocks(path):
        lines, size = lines + block.data.count(b"\n"), size + len(block.data)
    cut = time.process_time() - begin
    begin, records = time.process_time(), 0
    for block in open_blocks(path):
        rows = scatter(block, Reading(), RedditSettings())
        records += pc.sum(pc.binary_length(pack_rows(rows.columns))).as_py()
    return {
        "cut_into_blocks_per_second": lines / cut,
        "cut_parsed_and_judged_per_second": lines / (time.process_time() - begin),
        "bytes_per_comment": size / lines,
        "record_bytes_per_comment": records / lines,
    }


def all_of_reddit(comments: int, cpu_seconds: float, disk_bytes: int, steps: dict[str, float]) -> dict[str, Any]:
    """What `ALL_COMMENTS` take.

    Args:
        comments: of a run that was measured.
        cpu_seconds: of that run, with one process.
        disk_bytes: that it used at most.
        steps: what `limits` gave.
    """
    times = ALL_COMMENTS / comments
    shuffled = ALL_COMMENTS * steps["record_bytes_per_comment"]
    partitions = math.ceil(shuffled / SIZES.partition)
    blocks = math.ceil(ALL_COMMENTS * steps["bytes_per_comment"] / SIZES.block)
    cut, scatter_ = (ALL_COMMENTS / steps[name] / 3600 for name in _STEPS)
    merging = blocks * partitions * segment_seconds(partitions) / 3600
    total = times * cpu_seconds / 3600 + merging
    return {
        "comments": ALL_COMMENTS,
        "core_hours": total,
        "core_hours_of_cutting": cut,
        "core_hours_of_scattering": scatter_ - cut,
        "core_hours_of_merging": merging,
        # While blocks are scattered, one process cuts them; the other stages have no such bottleneck.
        "hours_by_cores": {cores: max(cut, scatter_ / cores) + (total - scatter_) / cores for cores in CORES},
        "decompressed_bytes": ALL_COMMENTS * steps["bytes_per_comment"],
        "shuffled_bytes": shuffled,
        "disk_bytes": times * disk_bytes,
        "blocks": blocks,
        "partitions": partitions,
    }


def segment_seconds(partitions: int) -> float:
    """Processor time to merge one segment of one block's file when there are so many partitions."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, str(number)) for number in range(_FILES)]
        for file in files:
            rows, more = divmod(SIZES.block // 1000, partitions)
            write_segments(file, [bytes(97 * (rows + (number < more))) for number in range(partitions)])
        begin = time.process_time()
        merge_segments(files, Path(folder, "merged"))
        return (time.process_time() - begin) / (partitions * _FILES)
