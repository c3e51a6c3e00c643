"""BM25 against the textbook formula, written out with dictionaries and logarithms only."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.baselines.keywords import BM25


def textbook(query: list[str], document: list[str], corpus: list[list[str]], k1: float, b: float) -> float:
    """Robertson and Zaragoza (2009), eq. 3.15, with Lucene's idf; `corpus` holds each distinct document once."""
    average = sum(len(other) for other in corpus) / len(corpus)
    counts = Counter(document)
    total = 0.0
    for word in query:
        if word not in counts:
            continue
        df = sum(word in other for other in corpus)
        idf = math.log(1 + (len(corpus) - df + 0.5) / (df + 0.5))
        tf = counts[word]
        total += idf * tf / (tf + k1 * (1 - b + b * len(document) / average))
    return total


def check(queries: list[str], lists: list[list[str]], k1: float, b: float) -> None:
    corpus = [text.split() for text in dict.fromkeys(text for texts in lists for text in texts)]
    expected = [
        [textbook(query.split(), text.split(), corpus, k1, b) for text in texts]
        for query, texts in zip(queries, lists, strict=True)
    ]
    found = BM25(k1=k1, b=b).score([["ignored", query] for query in queries], lists)
    assert found.dtype == np.float32
    assert np.allclose(found, expected, rtol=1e-6, atol=1e-7)


WORDS = st.lists(st.sampled_from(["a", "b", "c", "dd", "ee", "f1"]), max_size=6).map(" ".join)


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.tuples(WORDS, st.lists(WORDS, min_size=3, max_size=3)), min_size=1, max_size=5),
    st.sampled_from([0.0, 1.2, 1.5, 2.0]),
    st.sampled_from([0.0, 0.4, 0.75, 1.0]),
)
def test_small_corpora(pairs, k1, b):
    check([query for query, _ in pairs], [texts for _, texts in pairs], k1, b)


@pytest.mark.parametrize("shared", [True, False])
def test_a_corpus_with_the_frequencies_of_language(shared):
    rng = np.random.default_rng(0)
    frequencies = 1 / np.arange(1, 301)
    frequencies /= frequencies.sum()
    texts = [" ".join(f"w{word}" for word in rng.choice(300, rng.integers(0, 25), p=frequencies)) for _ in range(120)]
    if shared:
        lists = [texts[start : start + 20] for start in range(0, 60, 20) for _ in range(20)]
    else:
        lists = [[texts[i] for i in rng.choice(120, 20)] for _ in range(60)]
    check(texts[-60:], lists, 1.5, 0.75)
