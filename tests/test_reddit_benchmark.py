"""The benchmark on Reddit: its dumps are what they should be, its Beam pipeline has our rules, and it runs."""

import argparse
import json
import statistics
from collections import Counter
from itertools import islice

import pytest
import zstandard

from reddit import measure, show
from reddit_beam import SPLITS, normalise, split_number, thread_examples
from reddit_dump import dump_lines, write_dump
from rejoinder.corpora.splits import split_of
from rejoinder.corpora.lines import Reading
from tests.corpora.reddit_lines import run


@pytest.fixture(scope="module")
def lines():
    return list(islice(dump_lines(7), 20_000))


def test_the_same_seed_gives_the_same_dump_and_a_prefix_of_a_longer_one(tmp_path):
    months = write_dump(tmp_path / "a", 900, files=3, seed=1)
    assert [path.name for path in months] == [f"RC_2018-0{n}.zst" for n in (1, 2, 3)]
    (whole,) = write_dump(tmp_path / "b", 900, seed=1)
    (other,) = write_dump(tmp_path / "c", 900, seed=2)
    texts = [zstandard.open(path, "rb").read() for path in (*months, whole, other)]
    assert b"".join(texts[:3]) == texts[3] != texts[4]
    assert texts[3].count(b"\n") == 900


def test_a_dump_is_like_a_real_one(lines):
    records = [json.loads(line) for line in lines]
    assert 900 < statistics.mean(map(len, lines)) < 1100
    assert {
        "author",
        "body",
        "created_utc",
        "id",
        "link_id",
        "parent_id",
        "score",
        "subreddit",
    } < set(records[0])
    times = [record["created_utc"] for record in records]
    assert times == sorted(times)
    sizes = sorted(Counter(record["link_id"] for record in records).values())
    assert sizes[len(sizes) // 2] <= 4 < 100 < sizes[-1]
    names = {f"t1_{record['id']}" for record in records}
    assert (
        0
        < sum(
            record["parent_id"][:2] == "t1" and record["parent_id"] not in names
            for record in records
        )
        < 750
    )
    assert 0 < len(records) - len(names) < 100
    reading = Reading()
    examples = run(b"".join(lines), reading=reading)
    assert 0.17 < len(examples) / len(lines) < 0.23  # DATA19: 727M of 3.68 billion
    assert max(len(example.context) for example in examples) == 10
    assert reading.dropped["deleted or removed"] > 0.05 * len(lines)


def test_the_pipeline_in_beam_has_the_same_rules(lines):
    threads: dict[str, list] = {}
    for line in lines:
        thread, comment = normalise(json.loads(line))
        threads.setdefault(thread, []).append(comment)
    rows = [row for group in threads.items() for row in thread_examples(group)]
    theirs = {(row["id"], row["thread"], tuple(row["context"]), row["response"]) for row in rows}
    ours = {(each.id, each.thread, each.context, each.response) for each in run(b"".join(lines))}
    assert theirs == ours
    assert len(ours) == len(rows) > 1000
    assert all(SPLITS[split_number(row)] == split_of(row["thread"]) for row in rows)


@pytest.mark.slow
def test_the_benchmark_runs_at_the_smallest_size(tmp_path):
    options = argparse.Namespace(
        comments=1_500, part=None, beam_python=None, repetitions=1, dump=None
    )
    result = measure(tmp_path, options)
    assert result["examples_of_part"] > 0
    assert {len(runs) for runs in result["rejoinder"].values()} == {1}
    assert result["two_processes_to_one"] > 0
    assert all(run["peak_bytes"] > 10e6 for runs in result["rejoinder"].values() for run in runs)
    assert json.dumps(result)
    show(result)
