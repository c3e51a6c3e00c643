"""TF-IDF and DATA19's BM25: what they learn, what they refuse."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest

from rejoinder.baselines.fitting import Fitted
from rejoinder.baselines.sparse import BUCKETS, Data19BM25, TfIdf
from rejoinder.corpora.example import Example
from rejoinder.errors import InputError, MissingExtraError, RejoinderError
from rejoinder.ranker import Ranker

BOTH = pytest.mark.parametrize("kind", [TfIdf, Data19BM25])
TRAINING = [
    Example(("hello", "do you have the cats"), "the cats are fine"),
    Example(("what is the weather",), "the sun is out"),
    Example(("is the dog out",), "no the dog sleeps"),
]
TEXTS = ["the sun", "cats everywhere", "the dog", "zebra zebra", "", "CATS, everywhere!"]


def fitted(kind, **settings):
    ranker = kind(**settings)
    ranker.fit(TRAINING)
    return ranker


@BOTH
def test_they_are_rankers_that_learn(kind):
    assert isinstance(kind(), Ranker)
    assert isinstance(kind(), Fitted)


@BOTH
def test_shared_rare_words_win_also_where_training_never_saw_them(kind):
    scores = fitted(kind).score([["where are cats"], ["a zebra"], ["?"]], [TEXTS] * 3)
    assert scores.dtype == np.float32
    assert scores[0].argmax() == 1
    assert scores[0][1] == scores[0][5] > 0
    assert scores[1].tolist().index(max(scores[1])) == 3
    assert not scores[2].any()
    assert not scores[:, 4].any()


@BOTH
def test_only_the_newest_message_counts_unless_told_otherwise(kind):
    context = ["any cats?", "a zebra"]
    assert fitted(kind).score([context], [TEXTS])[0][1] == 0
    assert fitted(kind, whole_context=True).score([context], [TEXTS])[0][1] > 0


@BOTH
def test_rarity_is_learned_anew_by_each_fit(kind):
    ranker = kind()
    texts = [["sun moon"], ["dog moon"]]
    ranker.fit([Example((f"sun {i}",), "sun") for i in range(5)] + [Example(("dog",), "yes")])
    sun, dog = ranker.score([["sun dog"]] * 2, texts)[:, 0]
    assert dog > sun
    told = ranker.fit([Example((f"dog {i}",), "dog") for i in range(5)] + [Example(("sun",), "yes")])
    sun, dog = ranker.score([["sun dog"]] * 2, texts)[:, 0]
    assert sun > dog
    assert told["examples"] == 6


def test_a_word_of_most_texts_counts_in_both():
    """In DATA19's BM25 although its logarithm is negative: that stands on both sides."""
    for kind in (TfIdf, Data19BM25):
        assert fitted(kind).score([["the"]], [["the sun", "cats"]])[0].tolist()[1] == 0
        assert fitted(kind).score([["the"]], [["the sun"]])[0, 0] > 0


def test_tfidf_of_a_text_with_itself_is_one():
    assert fitted(TfIdf).score([["the cats sleep"]], [["the cats sleep", "sleep, the cats"]])[0] == pytest.approx(1.0)


def test_two_words_of_one_bucket_are_one_word():
    """Found by the hash itself: among 4,000 words of 2^20 buckets some seven pairs collide."""
    from sklearn.utils import murmurhash3_32

    bucket_of = {f"w{i}": abs(murmurhash3_32(f"w{i}")) % BUCKETS for i in range(4000)}
    by_bucket = itertools.groupby(sorted(bucket_of, key=bucket_of.__getitem__), key=bucket_of.__getitem__)
    one, other = next(pair for _, group in by_bucket if len(pair := list(group)) == 2)
    assert fitted(Data19BM25).score([[one]], [[other]])[0, 0] > 0


@BOTH
def test_before_fitting_and_with_nothing_to_fit_to(kind):
    with pytest.raises(RejoinderError, match="call fit"):
        kind().score([["cats"]], [TEXTS])
    with pytest.raises(InputError, match="0 given, 1 or more"):
        kind().fit([])


@BOTH
def test_texts_without_words_break_nothing(kind):
    ranker = kind()
    ranker.fit([Example(("!",), "?")])
    assert np.isfinite(ranker.score([["cats"], ["!"]], [["cats", "..."], ["", "x"]])).all()


@BOTH
def test_empty_calls(kind):
    ranker = fitted(kind)
    assert ranker.score([], []).shape == (0, 0)
    assert ranker.score([["cats"]], [[]]).shape == (1, 0)
    with pytest.raises(InputError, match="1 contexts, but 2 lists"):
        ranker.score([["a"]], [["a"], ["b"]])


@BOTH
def test_progress_counts_two_texts_an_example(kind):
    steps: list[int] = []
    kind().fit(TRAINING, steps.append)
    assert sum(steps) == 6


@pytest.mark.parametrize("setting", [{"k1": -1}, {"k1": float("nan")}, {"b": 1.1}, {"b": -0.1}])
def test_settings_out_of_range(setting):
    with pytest.raises(InputError, match=next(iter(setting))):
        Data19BM25(**setting)


def test_the_base_install_can_import_it():
    code = "import sys; import rejoinder.baselines.sparse; assert 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@BOTH
def test_without_scikit_learn_the_extra_is_named(kind, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.feature_extraction.text", None)
    with pytest.raises(MissingExtraError, match=r"rejoinder\[baselines\]"):
        kind()
