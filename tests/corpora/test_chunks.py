"""Copies among examples: by digest, in buckets, over all chunks and splits; the first stays."""

from __future__ import annotations

from collections import Counter

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora import gather
from rejoinder.corpora.chunks import (
    Chunk,
    Job,
    Sizes,
    example_digests,
    find_copies,
    plan_shards,
    with_splits,
    write_chunks,
    write_shard,
)
from rejoinder.corpora.corpus import Input
from rejoinder.corpora.example import SPLITS, Example
from rejoinder.corpora.examples import batch_of, read_examples
from rejoinder.corpora.formats import JSONL


def digest(example):
    (found,) = example_digests(batch_of([example]))
    return found


TEXT = st.text("ab", max_size=3)
TEXTS = st.lists(TEXT, min_size=1, max_size=3).map(tuple)
EXAMPLES = st.builds(Example, TEXTS, TEXT, id=TEXT, candidates=st.one_of(st.just(()), TEXTS))


@settings(max_examples=300, deadline=None)
@given(EXAMPLES, EXAMPLES)
def test_equal_digests_are_equal_contexts_responses_and_candidates(one, two):
    same = (one.context, one.response, one.candidates) == (two.context, two.response, two.candidates)
    assert (digest(one) == digest(two)) == same


BATCHES = st.lists(st.tuples(st.sampled_from(SPLITS), st.lists(st.integers(0, 20), min_size=1, max_size=9)), max_size=6)


@settings(max_examples=60, deadline=None)
@given(tasks=st.lists(BATCHES, min_size=1, max_size=3), buckets=st.integers(1, 5), most=st.integers(1, 20))
def test_the_first_of_equal_ones_stays(tmp_path_factory, tasks, buckets, most):
    """Against a set, whatever the sizes of chunks, buckets and files."""
    job = Job(JSONL, None, tmp_path_factory.mktemp("job"), sizes=Sizes(chunk=most, shard=most))
    chunks, expected, seen = [], {split: [] for split in SPLITS}, set()
    for number, batches in enumerate(tasks):
        rows = [[Example((f"message {value}",), "reply", str(value)) for value in values] for _, values in batches]
        placed = (with_splits(job, batch_of(each), split) for each, (split, _) in zip(rows, batches, strict=True))
        chunks += [Chunk(**fields) for fields in write_chunks(job, placed, f"task-{number}")]
        for split, values in batches:
            for value in values:
                if value not in seen:
                    expected[split].append(str(value))
                seen.add(value)
    copies = Counter()
    for bucket in range(buckets if chunks else 0):
        for chunk, split, count in find_copies(job, chunks, buckets, "copies", bucket)["copies"]:
            copies[chunk, split] += count
    assert sum(chunk.total for chunk in chunks) - copies.total() == len(seen)
    shards = plan_shards(chunks, copies, job.sizes)
    found = {split: [] for split in SPLITS}
    for shard in shards:
        write_shard(job, chunks, buckets, shard)
        found[shard.split] += [example.id for example in read_examples(job.folder / "shards" / shard.name)]
    assert found == expected


MIB = 1 << 20


def stream(path, window_log=None):
    """A zstd file whose size is not in its header, as those of dumps."""
    parameters = zstandard.ZstdCompressionParameters(window_log=window_log) if window_log else None
    compressor = zstandard.ZstdCompressor(compression_params=parameters)
    with path.open("wb") as file, compressor.stream_writer(file) as writer:
        writer.write(b'{"id": "a"}\n' * 100)
    return Input(path)


def written(path, data):
    path.write_bytes(data)
    return Input(path)


@pytest.mark.parametrize(
    ("workers", "expected"),
    [(1, []), (2, [0, 1, 2, 8]), (5, [0, 1, 2, 8, 9]), (3, [0, 1, 2]), (8, [])],  # dealt out evenly, or cut here
)
def test_files_with_small_windows_are_read_by_workers(tmp_path, workers, expected):
    plain = [written(tmp_path / "a.jsonl", b"{}\n")]
    small = [stream(tmp_path / f"small{number}.zst") for number in range(2)]
    large = [stream(tmp_path / f"large{number}.zst", 27) for number in range(5)]
    slow = [written(tmp_path / f"{number}.bz2", b"") for number in range(2)]
    assert gather.files_for_workers([*plain, *small, *large, *slow], workers) == expected
