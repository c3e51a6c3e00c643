"""DATA19's TF-IDF and BM25 against their formulas, written out with dictionaries and logarithms only.

The computations here keep words apart that the ranker hashes to one bucket, so the words are checked not to collide.
"""

from __future__ import annotations

import math
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rejoinder.baselines.keywords import BUCKETS, Data19BM25, TfIdf
from rejoinder.corpora.example import Example

murmurhash = pytest.importorskip("sklearn.utils").murmurhash3_32


def words(text: str) -> list[str]:
    return [word for word in re.findall(r"\w+", text.lower()) if len(word) > 1]


class Naive:
    """Both formulas; `texts` are the contexts and responses of the training examples."""

    def __init__(self, texts: list[str]) -> None:
        self.n = len(texts)
        self.df = Counter(word for text in texts for word in set(words(text)))
        self.mean_length = sum(sum(self.tfidf(text).values()) for text in texts) / self.n

    def tfidf(self, text: str) -> dict[str, float]:
        raw = {w: tf * (1 + math.log((1 + self.n) / (1 + self.df[w]))) for w, tf in Counter(words(text)).items()}
        norm = math.sqrt(sum(value * value for value in raw.values()))
        return {w: value / norm for w, value in raw.items()}

    def bm25(self, text: str, k1: float, b: float) -> dict[str, float]:
        vector = self.tfidf(text)
        length = sum(vector.values())
        found = {}
        for w, value in vector.items():
            idf = math.log((self.n - self.df[w] + 0.5) / (self.df[w] + 0.5))
            found[w] = idf * value * (k1 + 1) / (value + k1 * (1 - b + b * length / self.mean_length))
        return found


def dot(one: dict[str, float], other: dict[str, float]) -> float:
    return sum(value * other.get(word, 0.0) for word, value in one.items())


def assert_no_collision(texts: list[str]) -> None:
    found = {word for text in texts for word in words(text)}
    assert len({abs(murmurhash(word)) % BUCKETS for word in found}) == len(found)


def check(training: list[tuple[str, str]], queries: list[str], lists: list[list[str]], k1: float, b: float) -> None:
    texts = [text for pair in training for text in pair]
    assert_no_collision([*texts, *queries, *(text for each in lists for text in each)])
    naive = Naive(texts)
    examples = [Example(("earlier", context), response) for context, response in training]
    contexts = [["earlier", query] for query in queries]
    pairs = list(zip(queries, lists, strict=True))
    tfidf, bm25 = TfIdf(), Data19BM25(k1=k1, b=b)
    tfidf.fit(examples)
    bm25.fit(examples)
    expected = [[dot(naive.tfidf(query), naive.tfidf(text)) for text in texts] for query, texts in pairs]
    assert np.allclose(tfidf.score(contexts, lists), expected, rtol=1e-5, atol=1e-6)
    expected = [[dot(naive.bm25(query, k1, b), naive.bm25(text, k1, b)) for text in texts] for query, texts in pairs]
    assert np.allclose(bm25.score(contexts, lists), expected, rtol=1e-5, atol=1e-5)


WORDS = st.lists(st.sampled_from(["aa", "bb", "cc", "Dd", "ee!", "f1", "x"]), max_size=6).map(" ".join)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=5),
    st.lists(st.tuples(WORDS, st.lists(WORDS, min_size=3, max_size=3)), min_size=1, max_size=4),
    st.sampled_from([0.0, 1.2, 2.0]),
    st.sampled_from([0.0, 0.75, 1.0]),
)
def test_small_corpora(training, pairs, k1, b):
    assume(any(words(text) for pair in training for text in pair))  # else the mean length is 0
    check(training, [query for query, _ in pairs], [texts for _, texts in pairs], k1, b)


@pytest.mark.parametrize("shared", [True, False])
def test_a_corpus_with_the_frequencies_of_language(shared):
    rng = np.random.default_rng(0)
    frequencies = 1 / np.arange(1, 201)
    frequencies /= frequencies.sum()
    texts = [" ".join(f"w{word}" for word in rng.choice(200, rng.integers(0, 25), p=frequencies)) for _ in range(160)]
    training = list(zip(texts[:40], texts[40:80], strict=True))  # so that some words are new, some in most texts
    if shared:
        lists = [texts[start : start + 20] for start in range(80, 140, 20) for _ in range(10)]
    else:
        lists = [[texts[i] for i in rng.choice(160, 20)] for _ in range(30)]
    check(training, texts[-30:], lists, 2.0, 0.75)
