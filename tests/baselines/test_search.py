"""Searching a whole index: the best k, and the same scores as ranking a list of everything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.baselines import keywords, search, sparse
from rejoinder.baselines.encoders import TextVectors
from rejoinder.baselines.keywords import BM25
from rejoinder.baselines.search import best
from rejoinder.baselines.sparse import Data19BM25, TfIdf
from rejoinder.baselines.vectors import Map, Sim
from rejoinder.corpora.example import Example
from rejoinder.errors import InputError


@settings(deadline=None)
@given(
    st.integers(0, 4).flatmap(
        lambda n: st.integers(1, 7).flatmap(
            lambda m: st.lists(st.lists(st.sampled_from([0.0, 1.0, 2.0, -1.5]), min_size=m, max_size=m), min_size=n,
                               max_size=n).map(lambda rows: np.array(rows).reshape(n, m))
        )
    ),
    st.integers(1, 9),
)
def test_best_is_the_head_of_a_stable_sort(scores, k):
    hits = best(scores, k)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    assert hits.positions.tolist() == expected.tolist()
    assert hits.scores.tolist() == np.take_along_axis(scores, expected, axis=1).tolist()


def letters(texts):
    """Counts of letters: an encoder whose vectors say what a text is."""
    return np.array([[text.count(letter) for letter in "abcdefgh"] for text in texts], dtype=np.float32)


def rankers():
    examples = [Example((f"{a} {b}",), f"{b} {a}{a}") for a in "abcdefgh" for b in ("aa", "bb", "cd")]
    for ranker in (BM25(), TfIdf(), Data19BM25(), Sim(TextVectors(letters)), Map(TextVectors(letters))):
        if hasattr(ranker, "fit"):
            ranker.fit(examples)
        yield ranker


TEXTS = ["aa bb", "cd", "", "bb bb aa", "ef gh", "aa bb", "hh cd ef", "gg"]
QUERIES = [["ignored", "aa cd"], ["bb"], ["zz yy"], ["ef", "gh hh"], [""]]


@pytest.mark.parametrize("ranker", list(rankers()), ids=lambda ranker: type(ranker).__name__)
@pytest.mark.parametrize("cells", [1, 1 << 20])
def test_search_finds_what_ranking_everything_finds(ranker, cells, monkeypatch):
    for module in (keywords, search, sparse):
        monkeypatch.setattr(module, "CELLS", cells)
    texts = list(dict.fromkeys(TEXTS))  # BM25 counts copies in an index, and distinct candidates in a list
    index = ranker.index(texts)
    assert len(index) == len(texts)
    expected = ranker.score(QUERIES, [texts] * len(QUERIES))
    hits = index.search(QUERIES, 3)
    assert hits.positions.shape == (5, 3)
    assert np.allclose(hits.scores, np.take_along_axis(expected, hits.positions, axis=1), atol=1e-6)
    assert np.allclose(hits.scores, -np.sort(-expected, axis=1)[:, :3], atol=1e-6)


@pytest.mark.parametrize("ranker", list(rankers()), ids=lambda ranker: type(ranker).__name__)
def test_equal_texts_stand_in_the_order_of_the_index(ranker):
    (found,) = ranker.index(TEXTS).search([["aa bb"]], 100).positions.tolist()
    assert sorted(found) == list(range(len(TEXTS)))
    assert found.index(5) == found.index(0) + 1  # both are "aa bb"


@pytest.mark.parametrize("ranker", list(rankers()), ids=lambda ranker: type(ranker).__name__)
def test_the_ends(ranker):
    assert ranker.index(TEXTS).search([], 3).positions.shape == (0, 3)
    with pytest.raises(InputError, match="1 result or more, not 0"):
        ranker.index(TEXTS).search([["a"]], 0)
    assert ranker.index([]).search([["a"]], 3).positions.shape == (1, 0)
