"""Embeddings to start from: what a sentence encoder makes of each subword by itself.

A text's vector is then about the mean of its words' vectors, which ranks replies like BM25 before anything is learned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn

from rejoinder.baselines.encoders import EncodeTexts, open_encoder
from rejoinder.ranker import FloatArray
from rejoinder.text.subwords import MARK, Subwords
from rejoinder.training.tokens import Ids, Rows, TokenStore

COMMON = 1e-3
"""a of the weight a / (a + p) of a word with the share p of all words (Arora et al. 2017: smooth inverse frequency)."""

SAMPLE = 500_000
"""Examples whose tokens are counted, at most."""


def word_vectors(encode: EncodeTexts, tokenizer: Subwords, counts: Rows, size: int, seed: int = 0) -> FloatArray:
    """A row for each id of the tokenizer.

    Each subword's text is encoded alone. The vectors, less their mean, are reduced to their first principal components,
    where a word counts as often as it is used times its squared weight, and multiplied by the weight a / (a + p).
    The values of the subwords have unit variance on the average; buckets get random values a tenth as large, padding 0.

    Args:
        encode: the sentence encoder.
        tokenizer: the vocabulary.
        counts: how often each id is used, (rows,).
        size: d, at most the encoder's.
        seed: of the buckets.

    Returns:
        Array (rows, d).
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


def count_ids(store: TokenStore, rows: int, seed: int = 0) -> Rows:
    """How often each id is used in (a sample of) the store's inputs and responses, (rows,)."""
    examples = np.arange(len(store))
    if len(store) > SAMPLE:
        examples = np.random.default_rng(seed).choice(len(store), SAMPLE, replace=False)
    counts = np.zeros(rows, dtype=np.int64)
    for side in (store.input, store.response):
        ids: Ids = side.gather(examples)[0]
        counts += np.bincount(ids, minlength=rows)
    return counts


def set_embedding(embedding: nn.Embedding, table: FloatArray) -> None:
    """Give the subword table these rows."""
    with torch.no_grad():
        embedding.weight.copy_(torch.from_numpy(table))


def open_sentence_encoder(name: str, advance: Callable[[int], object]) -> EncodeTexts:
    """A sentence encoder by its name: "minilm", "use", or a folder or an id of sentence-transformers.

    Args:
        name: which one.
        advance: called with the number of texts just encoded.

    Raises:
        MissingExtraError: it needs a library that is not installed.
    """
    encoder = open_encoder(name)

    def encode(texts: Sequence[str]) -> FloatArray:
        def shown(count: int) -> None:
            advance(count)

        return encoder.encode_responses(texts, shown)

    return encode
