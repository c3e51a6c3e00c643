"""`benchmarks/mining.py` on a few chats: the generator, the judge, the lists that are compared."""

import json
from collections import Counter

import numpy as np
import pytest

import mining
from rejoinder.corpora.schema import Example
from tests.retrieval.test_examples import WordEncoder


@pytest.fixture(autouse=True)
def few_messages(monkeypatch):
    others = [
        f"purple {word} dance over {word} hills"
        for word in ["ants", "bees", "cats", "dogs", "elks"]
    ]
    monkeypatch.setattr(mining, "other_messages", lambda: others)
    monkeypatch.setattr(mining, "SIZES", (2, 5))


def test_generated_chats_are_covered_by_their_templates():
    made = list(mining.desk_chats(300))
    numbers = Counter(number for _, number in made)
    assert numbers[0] > numbers[9]
    assert 0.1 < numbers[None] / 300 < 0.3
    assert made == list(mining.desk_chats(300))
    row = mining.generated(WordEncoder(), 300)
    assert set(row["sizes"]) == {"2", "5"}
    for shares in row["sizes"].values():
        assert 0 < shares["template"]["mined"] <= 1
        assert shares["template"]["by_hand"] > 0.2


def test_real_chats_are_compared_with_the_best_lists(tmp_path):
    zstandard = pytest.importorskip("zstandard")
    turns = [
        "hi",
        "We open at nine.",
        "and when do you close?",
        "We close at six.",
        "bye",
        "Goodbye then.",
    ]
    lines = [json.dumps({"turns": [f"hi {number}", *turns[1:]]}) for number in range(8)]
    path = tmp_path / "chats.jsonl.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress("\n".join(lines).encode()))
    row = mining.real(WordEncoder(), WordEncoder(), "chats", path)
    assert row["messages"] == 12
    assert row["sizes"]["2"]["0.7"] == {
        "mined": 0.667,
        "by_hand": 0.667,
        "share": 1.0,
        "bound": 0.667,
    }


def test_the_best_list_is_greedy():
    vectors = np.eye(3, dtype=np.float32)
    assert mining.best_cover(vectors, np.array([1, 5, 2], np.float32), 0.5, 2) == [1, 2]


def test_speed_is_measured():
    measured = mining.speed(WordEncoder(), 50)
    assert (measured["messages"], measured["replies"] > 0) == (50, True)
    assert isinstance(next(iter(mining.desk_chats(1)))[0], Example)
