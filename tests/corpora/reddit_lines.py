"""Lines of Reddit's dumps for tests, and a job without an engine: blocks in, partitions of threads, examples out."""

import itertools
import json
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rejoinder.corpora.schema import Example
from rejoinder.corpora.lines import Block, Reading
from rejoinder.corpora.reddit.corpus import CORPUS
from rejoinder.corpora.reddit.settings import RedditSettings

DUMP = Path("RC_2018-01.zst")


def comment(name: str, parent: str = "", body: str | None = "", thread: str = "t", **fields: Any) -> dict[str, Any]:
    """A comment as a dump has it; no parent: it answers the submission. Its body tells its name unless given."""
    above = f"t1_{parent}" if parent else f"t3_{thread}"
    text = f"this is comment {name}" if body == "" else body
    return {
        "author": "alice", "author_flair_text": None, "body": text, "can_gild": True, "controversiality": 0,
        "created_utc": 1514764968, "edited": False, "gildings": {"gid_1": 0, "gid_2": 0}, "id": name,
        "link_id": f"t3_{thread}", "parent_id": above, "score": 3, "stickied": False, "subreddit": "pics",
        "subreddit_id": "t5_2qh0u", **fields,
    }  # fmt: skip


def dump(records: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(record, separators=(",", ":")).encode() + b"\n" for record in records)


def blocks(data: bytes, cuts: Sequence[int] = ()) -> list[Block]:
    """The data in blocks, cut after the lines with these numbers."""
    lines = data.splitlines(keepends=True)
    places = [0, *sorted(set(cuts)), len(lines)]
    return [Block(DUMP, a + 1, b"".join(lines[a:b])) for a, b in itertools.pairwise(places) if a < b]


def run(
    records: Iterable[dict[str, Any]] | bytes,
    settings: RedditSettings | None = None,
    reading: Reading | None = None,
    cuts: Sequence[int] = (),
    partitions: int = 1,
) -> list[Example]:
    """The examples of a dump: each block by `scatter`, each partition of the threads by `assemble`."""
    settings, reading = settings or RedditSettings(), reading or Reading()
    data = records if isinstance(records, bytes) else dump(records)
    assert CORPUS.scatter is not None
    assert CORPUS.assemble is not None
    scattered = [CORPUS.scatter(block, reading, settings) for block in blocks(data, cuts) or [Block(DUMP, 1, b"")]]
    records = pa.concat_batches(scattered)
    places = np.array([zlib.crc32(thread.encode()) % partitions for thread in records["thread"].to_pylist()])
    parts = [records.filter(pa.array(places == number)) for number in range(partitions)]
    return [
        Example(**row | {"context": tuple(row["context"])})
        for part in parts
        for batch in CORPUS.assemble(part, reading, settings)
        for row in batch.to_pylist()
    ]
