"""BM25 and DATA19's TF-IDF and BM25 against their formulas, written out with dictionaries and logarithms only."""

import math
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rejoinder.corpora.schema import Example
from rejoinder.encoders.words.keywords import BM25, BUCKETS, TfIdf
from rejoinder.lab.data19 import Data19BM25

murmurhash = pytest.importorskip("sklearn.utils").murmurhash3_32
K1, B = st.sampled_from([0.0, 1.2, 1.5, 2.0]), st.sampled_from([0.0, 0.4, 0.75, 1.0])


def textbook(query, document, corpus, k1, b):
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


@pytest.mark.parametrize(("k1", "b"), [(1.5, 0.75), (0.0, 0.0), (2.0, 1.0)])
def test_weights_are_those_of_bm25s(k1, b):
    library = pytest.importorskip("bm25s").BM25(k1=k1, b=b, method="lucene", dtype="float64")
    rng = np.random.default_rng(0)
    documents = [rng.integers(0, 50, size=size).tolist() for size in rng.integers(0, 30, size=200)]
    library.index((documents, {str(word): word for word in range(50)}), create_empty_token=False, show_progress=False)
    expected = np.zeros((50, 200))
    starts = library.scores["indptr"]
    for word in range(50):
        places = slice(starts[word], starts[word + 1])
        expected[word, library.scores["indices"][places]] = library.scores["data"][places]
    weights = BM25(k1=k1, b=b).weights(documents)
    found = np.zeros((50, 200))
    found[weights.words, weights.rows] = weights.values
    assert np.allclose(found, expected, rtol=1e-12, atol=0)


def check_textbook(queries, lists, k1, b):
    corpus = [text.split() for text in dict.fromkeys(text for texts in lists for text in texts)]
    pairs = zip(queries, lists, strict=True)
    expected = [
        [textbook(query.split(), text.split(), corpus, k1, b) for text in texts]
        for query, texts in pairs
    ]
    found = BM25(k1=k1, b=b).score([["ignored", query] for query in queries], lists)
    assert found.dtype == np.float32
    assert np.allclose(found, expected, rtol=1e-6, atol=1e-7)


def words(text):
    return [word for word in re.findall(r"\w+", text.lower()) if len(word) > 1]


class Naive:
    """DATA19's formulas; `texts` are the contexts and responses of the training examples."""

    def __init__(self, texts):
        self.n = len(texts)
        self.df = Counter(word for text in texts for word in set(words(text)))
        self.mean_length = sum(sum(self.tfidf(text).values()) for text in texts) / self.n

    def tfidf(self, text):
        raw = {
            w: tf * (1 + math.log((1 + self.n) / (1 + self.df[w])))
            for w, tf in Counter(words(text)).items()
        }
        norm = math.sqrt(sum(value * value for value in raw.values()))
        return {w: value / norm for w, value in raw.items()}

    def bm25(self, text, k1, b):
        vector = self.tfidf(text)
        length = sum(vector.values())
        found = {}
        for w, value in vector.items():
            idf = math.log((self.n - self.df[w] + 0.5) / (self.df[w] + 0.5))
            found[w] = (
                idf * value * (k1 + 1) / (value + k1 * (1 - b + b * length / self.mean_length))
            )
        return found


def dot(one, other):
    return sum(value * other.get(word, 0.0) for word, value in one.items())


def check_data19(training, queries, lists, k1, b):
    texts = [text for pair in training for text in pair]
    known = {
        word
        for text in [*texts, *queries, *(text for each in lists for text in each)]
        for word in words(text)
    }
    # The formulas keep words apart that the rankers hash to one bucket.
    assert len({abs(murmurhash(word)) % BUCKETS for word in known}) == len(known)
    naive = Naive(texts)
    examples = [Example(("earlier", context), response) for context, response in training]
    contexts = [["earlier", query] for query in queries]
    pairs = list(zip(queries, lists, strict=True))
    tfidf, bm25 = TfIdf(), Data19BM25(k1=k1, b=b)
    tfidf.fit(examples)
    bm25.fit(examples)
    expected = [
        [dot(naive.tfidf(query), naive.tfidf(text)) for text in texts] for query, texts in pairs
    ]
    assert np.allclose(tfidf.score(contexts, lists), expected, rtol=1e-5, atol=1e-6)
    expected = [
        [dot(naive.bm25(query, k1, b), naive.bm25(text, k1, b)) for text in texts]
        for query, texts in pairs
    ]
    assert np.allclose(bm25.score(contexts, lists), expected, rtol=1e-5, atol=1e-5)


def texts_of(*vocabulary):
    return st.lists(st.sampled_from(vocabulary), max_size=6).map(" ".join)


def queries_of(texts):
    return st.lists(
        st.tuples(texts, st.lists(texts, min_size=3, max_size=3)), min_size=1, max_size=5
    )


WORDS = texts_of("aa", "bb", "cc", "Dd", "ee!", "f1", "x")


@settings(max_examples=100)
@given(queries_of(texts_of("a", "b", "c", "dd", "ee", "f1")), K1, B)
def test_bm25_of_small_corpora(pairs, k1, b):
    check_textbook([query for query, _ in pairs], [texts for _, texts in pairs], k1, b)


@settings(max_examples=40)
@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=5), queries_of(WORDS), K1, B)
def test_data19_of_small_corpora(training, pairs, k1, b):
    assume(any(words(text) for pair in training for text in pair))  # else the mean length is 0
    check_data19(training, [query for query, _ in pairs], [texts for _, texts in pairs], k1, b)


@pytest.mark.parametrize("shared", [True, False])
def test_a_corpus_with_the_frequencies_of_language(shared):
    rng = np.random.default_rng(0)
    frequencies = 1 / np.arange(1, 301)
    frequencies /= frequencies.sum()
    texts = [
        " ".join(f"w{word}" for word in rng.choice(300, rng.integers(0, 25), p=frequencies))
        for _ in range(160)
    ]
    if shared:
        lists = [texts[start : start + 20] for start in range(80, 140, 20) for _ in range(20)]
    else:
        lists = [[texts[i] for i in rng.choice(160, 20)] for _ in range(60)]
    check_textbook(texts[-60:], lists, 1.5, 0.75)
    # so that some words are new, some in most texts
    training = list(zip(texts[:40], texts[40:80], strict=True))
    check_data19(training, texts[-60:], lists, 2.0, 0.75)
