"""The keyword rankers: what counts, what does not, what they learn, and how fast."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora.schema import Example
from rejoinder.encoders.words.keywords import BM25, TfIdf, words
from rejoinder.encoders.protocol import FittedRanker, Ranker
from rejoinder.errors import InputError, MissingExtraError, RejoinderError
from rejoinder.lab.data19 import Data19BM25

CATS = ["I have two cats.", "The weather is fine.", "cats, cats, cats!", "Dogs chase cats", ""]
SMALL = st.lists(
    st.lists(st.sampled_from("abcde"), max_size=5).map(" ".join), min_size=1, max_size=5
)
BOTH = pytest.mark.parametrize("kind", [TfIdf, Data19BM25])
TRAINING = [
    Example(("hello", "do you have the cats"), "the cats are fine"),
    Example(("what is the weather",), "the sun is out"),
    Example(("is the dog out",), "no the dog sleeps"),
]
TEXTS = ["the sun", "cats everywhere", "the dog", "zebra zebra", "", "CATS, everywhere!"]


def scores(query, candidates, **settings):
    return BM25(**settings).score([[query]], [candidates])[0].tolist()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Hello, World!", ["hello", "world"]),
        ("It's 3.5 km", ["it", "s", "3", "5", "km"]),
        ("ÜBER naïve", ["über", "naïve"]),
        (
            "\u043f\u0440\u0438\u0432\u0435\u0442 \u4f60\u597d",
            ["\u043f\u0440\u0438\u0432\u0435\u0442", "\u4f60\u597d"],
        ),
        ("\U0001f600 ... \n", []),
        ("", []),
    ],
)
def test_words(text, found):
    assert words(text) == found


@pytest.mark.parametrize("kind", [BM25, TfIdf, Data19BM25])
def test_only_the_newest_message_counts(kind):
    ranker = kind() if kind is BM25 else fitted(kind)
    found = ranker.score([["Is the weather fine?", "I love cats"], ["I love cats"]], [CATS] * 2)
    assert found[0].tolist() == found[1].tolist()
    assert found[0, 2] > found[0, 1] == 0


@pytest.mark.parametrize(
    "setting", [{"k1": -1}, {"k1": float("nan")}, {"k1": float("inf")}, {"b": 1.1}, {"b": -0.1}]
)
def test_settings_out_of_range(setting):
    for kind in (BM25, Data19BM25):
        with pytest.raises(InputError, match=next(iter(setting))):
            kind(**setting)


def test_queries_and_candidates_that_say_nothing_score_zero():
    assert all(
        scores(query, CATS) == [0.0] * 5 for query in ("", "!!!", "\U0001f600", "unheard of")
    )
    assert scores("cats", ["", "!!", "\u2026"]) == [0.0, 0.0, 0.0]
    assert BM25().score([[]], [CATS]).tolist() == [[0.0] * 5]


@pytest.mark.parametrize("kind", [BM25, TfIdf, Data19BM25])
def test_empty_calls_and_calls_that_do_not_fit(kind):
    ranker = kind() if kind is BM25 else fitted(kind)
    assert isinstance(ranker, Ranker)
    assert ranker.score([], []).shape == (0, 0)
    assert ranker.score([["cats"], ["dogs"]], [[], []]).shape == (2, 0)
    with pytest.raises(InputError, match="1 contexts but 2 lists"):
        ranker.score([["a"]], [["a"], ["b"]])
    with pytest.raises(InputError, match="differ in length"):
        ranker.score([["a"], ["b"]], [["a"], ["b", "c"]])


@settings(max_examples=50)
@given(SMALL, SMALL)
def test_candidates_of_the_same_words_tie_exactly(queries, texts):
    shouted = [text.upper() + "!" for text in texts]
    found = BM25().score([[query] for query in queries], [[*texts, *shouted]] * len(queries))
    assert found[:, : len(texts)].tolist() == found[:, len(texts) :].tolist()


def fitted(kind, **settings):
    ranker = kind(**settings)
    ranker.fit(TRAINING)
    return ranker


@BOTH
def test_rarity_is_learned_anew_by_each_fit(kind):
    ranker = kind()
    texts = [["sun moon"], ["dog moon"]]
    ranker.fit([Example((f"sun {i}",), "sun") for i in range(5)] + [Example(("dog",), "yes")])
    sun, dog = ranker.score([["sun dog"]] * 2, texts)[:, 0]
    assert dog > sun
    learned = ranker.fit(
        [Example((f"dog {i}",), "dog") for i in range(5)] + [Example(("sun",), "yes")]
    )
    sun, dog = ranker.score([["sun dog"]] * 2, texts)[:, 0]
    assert sun > dog
    assert learned["examples"] == 6


@BOTH
def test_fitting(kind):
    ranker, steps = kind(), []
    assert isinstance(ranker, FittedRanker)
    with pytest.raises(RejoinderError, match="call fit"):
        ranker.score([["cats"]], [TEXTS])
    with pytest.raises(InputError, match="0 given, 1 or more"):
        ranker.fit([])
    ranker.fit([Example(("!",), "?")])  # texts without words
    assert np.isfinite(ranker.score([["cats"], ["!"]], [["cats", "..."], ["", "x"]])).all()
    ranker.fit(TRAINING, steps.append)
    assert sum(steps) == 6, "two texts an example"


def test_the_base_install_can_import_the_room():
    code = "import sys, rejoinder.encoders.words.keywords; assert not {'bm25s', 'scipy', 'sklearn'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("kind", "library"),
    [
        (TfIdf, "sklearn.feature_extraction.text"),
        (Data19BM25, "sklearn.feature_extraction.text"),
    ],
)
def test_without_its_library_the_extra_is_named(kind, library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=r"needs the extra .baselines.: pip install"):
        kind()


def test_messages_may_have_roles():
    chat = [{"role": "assistant", "content": "hello"}, {"role": "user", "content": "where is"}, {"role": "user", "content": "my card"}]
    candidates = [["my card is here", "hello"]]
    np.testing.assert_array_equal(BM25().score([chat], candidates), BM25().score([["where is my card"]], candidates))
