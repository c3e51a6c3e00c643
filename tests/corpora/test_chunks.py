"""Copies among examples: by digest, in buckets, over all chunks and splits; the first stays."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora.chunks import (
    Chunk,
    Job,
    Sizes,
    example_digests,
    find_copies,
    plan_shards,
    shard_folder,
    with_splits,
    write_chunks,
    write_shard,
)
from rejoinder.corpora.example import SPLITS, Example
from rejoinder.corpora.examples import batch_of, read_examples
from rejoinder.corpora.formats import JSONL
from rejoinder.errors import InputError


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


def test_texts_of_many_lengths_and_letters():
    texts = ["", "a", "é", "日本", "\0", "a\0", "a" * 70_000]
    examples = [Example((one, two), three) for one in texts for two in texts for three in texts]
    assert len({digest(example) for example in examples}) == len(texts) ** 3
    assert {len(digest(example)) for example in examples} == {16}


def test_half_of_a_surrogate_pair_is_an_error():
    with pytest.raises(InputError, match="example x: a text holds half of a surrogate pair"):
        digest(Example(("\ud800",), "b", "x"))


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
        found[shard.split] += [example.id for example in read_examples(shard_folder(job.folder) / shard.name)]
    assert found == expected
