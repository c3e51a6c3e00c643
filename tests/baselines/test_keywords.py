"""BM25: what counts, what does not, and how fast."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.baselines.keywords import BM25, words
from rejoinder.errors import InputError, MissingExtraError
from rejoinder.ranker import Ranker

CATS = ["I have two cats.", "The weather is fine.", "cats, cats, cats!", "Dogs chase cats", ""]


def scores(query, candidates, **settings) -> list[float]:
    return BM25(**settings).score([[query]], [candidates])[0].tolist()


def test_it_is_a_ranker():
    assert isinstance(BM25(), Ranker)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Hello, World!", ["hello", "world"]),
        ("It's 3.5 km", ["it", "s", "3", "5", "km"]),
        ("ÜBER naïve", ["über", "naïve"]),
        ("\u043f\u0440\u0438\u0432\u0435\u0442 \u4f60\u597d", ["\u043f\u0440\u0438\u0432\u0435\u0442", "\u4f60\u597d"]),
        ("\U0001f600 ... \n", []),
        ("", []),
    ],
)
def test_words(text, found):
    assert words(text) == found


def test_shared_rare_words_win():
    found = scores("do you have cats or a dog?", CATS)
    assert int(np.argmax(found)) == 0  # "have" is rarer than "cats"
    assert found[1] == found[4] == 0.0
    assert scores("CATS", CATS)[2] > scores("cats", CATS)[0] > 0


def test_only_the_newest_message_counts_unless_told_otherwise():
    context = ["Is the weather fine?", "I love cats"]
    newest, whole = (BM25(whole_context=flag).score([context], [CATS])[0] for flag in (False, True))
    assert newest.tolist() == scores("I love cats", CATS)
    assert newest[1] == 0.0
    assert whole.tolist() == pytest.approx(scores("Is the weather fine? I love cats", CATS))
    assert whole[1] > 0


def test_stop_words_are_left_out_on_both_sides():
    found = scores("the cats", CATS, stop_words={"the", "is"})
    assert found == pytest.approx(scores("cats", ["I have two cats.", "weather fine", *CATS[2:]]))
    assert found[1] == 0.0
    with pytest.raises(InputError, match="stop_words"):
        BM25(stop_words="english")


def test_k1_and_b():
    texts = ["cat", "cat cat", "cat and many more words here"]
    once, twice, long = scores("cat", texts, k1=0.0)
    assert once == twice == long > 0  # with k1 = 0 a word is there or not
    once, twice, long = scores("cat", texts, b=0.0)
    assert once == long < twice  # with b = 0 length does not matter
    assert scores("cat", texts, b=1.0)[2] < scores("cat", texts, b=0.5)[2]


@pytest.mark.parametrize("setting", [{"k1": -1}, {"k1": float("nan")}, {"k1": float("inf")}, {"b": 1.1}, {"b": -0.1}])
def test_settings_out_of_range(setting):
    with pytest.raises(InputError, match=next(iter(setting))):
        BM25(**setting)


@pytest.mark.parametrize("query", ["", "!!!", "\U0001f600", "unheard of"])
def test_a_query_that_says_nothing_scores_zero(query):
    assert scores(query, CATS) == [0.0] * 5


def test_candidates_without_any_word():
    assert scores("cats", ["", "!!", "\u2026"]) == [0.0, 0.0, 0.0]


def test_empty_calls():
    assert BM25().score([], []).shape == (0, 0)
    assert BM25().score([["cats"], ["dogs"]], [[], []]).shape == (2, 0)
    assert BM25().score([[]], [CATS]).tolist() == [[0.0] * 5]


def test_calls_that_do_not_fit():
    with pytest.raises(InputError, match="1 contexts, but 2 lists"):
        BM25().score([["a"]], [["a"], ["b"]])
    with pytest.raises(InputError, match="lists of 1 to 2 candidates"):
        BM25().score([["a"], ["b"]], [["a"], ["b", "c"]])


TEXTS = st.lists(st.lists(st.sampled_from("abcde"), max_size=5).map(" ".join), min_size=1, max_size=5)


@settings(deadline=None, max_examples=50)
@given(TEXTS, st.lists(TEXTS.filter(lambda texts: len(texts) == 3), min_size=1, max_size=3))
def test_shared_lists_repeated_texts_and_order_change_nothing(queries, lists):
    contexts = [[query] for query in queries]
    given = [lists[i % len(lists)] for i in range(len(queries))]
    shared = BM25().score(contexts, given)
    apart = BM25().score(contexts, [list(texts) for texts in given])
    turned = BM25().score(contexts[::-1], [texts[::-1] for texts in given[::-1]])
    assert shared.tolist() == apart.tolist()
    assert np.allclose(shared, turned[::-1, ::-1])


@settings(deadline=None, max_examples=50)
@given(TEXTS, TEXTS)
def test_candidates_of_the_same_words_tie_exactly(queries, texts):
    shouted = [text.upper() + "!" for text in texts]
    found = BM25().score([[query] for query in queries], [[*texts, *shouted]] * len(queries))
    assert found[:, : len(texts)].tolist() == found[:, len(texts) :].tolist()


def test_ten_thousand_examples_take_seconds():
    rng = np.random.default_rng(0)
    vocabulary = np.array([f"w{i}" for i in range(5000)])
    frequencies = 1 / np.arange(1, 5001)
    frequencies /= frequencies.sum()
    texts = [" ".join(vocabulary[rng.choice(5000, 10, p=frequencies)]) for _ in range(10_000)]
    groups = [texts[start : start + 100] for start in range(0, 10_000, 100)]
    start = time.process_time()
    found = BM25().score([[text] for text in texts], [groups[i // 100] for i in range(10_000)])
    assert time.process_time() - start < 10
    assert found.shape == (10_000, 100)
    assert (found.argmax(axis=1) == np.arange(10_000) % 100).mean() > 0.8  # every text looks for itself


def test_the_base_install_can_import_the_room():
    code = "import sys; import rejoinder.baselines.keywords; assert 'bm25s' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_bm25s_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(MissingExtraError, match=r"rejoinder\[baselines\]"):
        BM25()
