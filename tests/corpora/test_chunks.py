"""Duplicates among examples: by digest, in buckets, over all chunks and splits; the first stays."""

from collections import Counter

import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora.pipeline import chunks as tasks
from rejoinder.corpora.pipeline import gather
from rejoinder.corpora.pipeline.chunks import Bucket, ChunkJob, ChunkSizes
from rejoinder.corpora.corpus import Input
from rejoinder.corpora.schema import Example
from rejoinder.corpora.splits import SPLITS
from rejoinder.corpora.forms.examples import read_examples
from rejoinder.corpora.parquet import batch_of
from rejoinder.corpora.forms.formats import JSONL

TEXT = st.text("ab", max_size=3)
TEXTS = st.lists(TEXT, min_size=1, max_size=3).map(tuple)
EXAMPLES = st.builds(Example, TEXTS, TEXT, id=TEXT, candidates=st.one_of(st.just(()), TEXTS))


@settings(max_examples=150)
@given(EXAMPLES, EXAMPLES)
def test_equal_digests_are_equal_contexts_responses_and_candidates(one, two):
    same = (one.context, one.response, one.candidates) == (two.context, two.response, two.candidates)
    digests = [tasks.example_digests(batch_of([each])) for each in (one, two)]
    assert (digests[0] == digests[1]) == same


BATCHES = st.lists(st.tuples(st.sampled_from(SPLITS), st.lists(st.integers(0, 20), min_size=1, max_size=9)), max_size=6)


@settings(max_examples=40)
@given(reads=st.lists(BATCHES, min_size=1, max_size=3), buckets=st.integers(1, 5), most=st.integers(1, 20))
def test_the_first_of_equal_ones_stays(tmp_path_factory, reads, buckets, most):
    """Against a set, whatever the sizes of chunks, buckets and files."""
    job = ChunkJob(JSONL, None, tmp_path_factory.mktemp("job"), sizes=ChunkSizes(chunk=most, shard=most))
    chunks, expected, seen = [], {split: [] for split in SPLITS}, set()
    for number, batches in enumerate(reads):
        rows = [[Example((f"message {value}",), "reply", str(value)) for value in values] for _, values in batches]
        placed = (tasks.with_splits(job, batch_of(each), split) for each, (split, _) in zip(rows, batches, strict=True))
        chunks += tasks.write_chunks(job, placed, f"task-{number}")
        for split, values in batches:
            for value in values:
                if value not in seen:
                    expected[split].append(str(value))
                seen.add(value)
    duplicates = Counter()
    for number in range(buckets if chunks else 0):
        result = tasks.find_duplicates(job, Bucket("bucket", number), chunks=chunks, buckets=buckets)
        for each in result.counts:
            duplicates[each.chunk, each.split] += each.count
    assert sum(chunk.total for chunk in chunks) - duplicates.total() == len(seen)
    found = {split: [] for split in SPLITS}
    for shard in tasks.plan_shards(chunks, duplicates, job.sizes):
        path = tasks.write_shard(job, shard, chunks=chunks, buckets=buckets)
        found[shard.split] += [example.id for example in read_examples(path)]
    assert found == expected


def stream(path, window_log):
    """A zstd file whose size is not in its header, as those of dumps."""
    parameters = zstandard.ZstdCompressionParameters(window_log=window_log)
    compressor = zstandard.ZstdCompressor(compression_params=parameters)
    with path.open("wb") as file, compressor.stream_writer(file) as writer:
        writer.write(b'{"id": "a"}\n' * 100)
    return Input(path)


def test_files_with_small_windows_are_read_by_workers(tmp_path):
    small = [stream(tmp_path / f"small{number}.zst", 21) for number in range(2)]
    large = [stream(tmp_path / f"large{number}.zst", 27) for number in range(5)]
    others = [Input(tmp_path / name) for name in ("a.jsonl", "1.bz2", "2.bz2")]
    files = [others[0], *small, *large, *others[1:]]
    every = list(range(len(files)))
    expected = {None: every, 1: every, 2: [0, 1, 2, 8], 5: [0, 1, 2, 8, 9], 3: [0, 1, 2], 8: []}  # dealt out evenly
    assert {workers: gather.files_for_workers(files, workers) for workers in expected} == expected
