"""Embeddings to start from: pretrained vectors of words, reduced to a model's size."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.text.subwords import MARK, Subwords
from rejoinder.training.data.tokens import TokenRows, TokenStore

COMMON = 1e-3
"""a of the weight a / (a + p) of a word with the share p of all words (Arora et al. 2017: smooth
inverse frequency)."""
COUNTED = 500_000  # examples whose tokens are counted, at most


def word_vectors(
    encode: Callable[[Sequence[str]], FloatArray],
    tokenizer: Subwords,
    counts: TokenRows,
    size: int,
    seed: int = 0,
) -> FloatArray:
    """Return an embedding to start from, (rows, size).

    It is a sentence encoder's vector of each subword by itself. A text's vector is then about the
    mean of its words' vectors, which ranks replies like BM25 before anything is learned. The
    vectors, less their mean, are reduced to their first principal components, where a word counts
    as often as it is used (`counts`) times its squared weight, and multiplied by the weight a / (a
    + p). The subwords' values have unit variance on average; buckets get random values a tenth as
    large, padding 0.
    """
    texts = [subword.replace(MARK, "") or " " for subword in tokenizer.subwords]
    vectors = encode(texts).astype(np.float64)
    shares = (counts[: len(vectors)] + 0.5) / (counts[: len(vectors)] + 0.5).sum()
    weights = COMMON / (COMMON + shares)
    vectors -= shares @ vectors
    _, components = np.linalg.eigh((vectors * (shares * weights**2)[:, None]).T @ vectors)
    rows = (vectors @ components[:, ::-1][:, :size]) * weights[:, None]
    rows /= np.sqrt((rows**2).mean())
    table = np.zeros((tokenizer.rows, size), dtype=np.float32)
    table[: len(rows), : rows.shape[1]] = rows
    buckets = slice(tokenizer.size, tokenizer.size + tokenizer.buckets)
    table[buckets] = np.random.default_rng(seed).normal(0, 0.1, (tokenizer.buckets, size))
    return table


def count_ids(store: TokenStore, rows: int, seed: int = 0) -> TokenRows:
    """Return how often each id is used in a sample of the store's texts, (rows,).

    These are inputs and responses.
    """
    examples = np.arange(len(store))
    if len(store) > COUNTED:
        examples = np.random.default_rng(seed).choice(len(store), COUNTED, replace=False)
    sides = (side.gather(examples)[0] for side in (store.input, store.response))
    return sum((np.bincount(ids, minlength=rows) for ids in sides), np.zeros(rows, dtype=np.int64))
