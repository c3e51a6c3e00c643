"""Embeddings that start from a sentence encoder's vectors of single subwords."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from rejoinder.ranker import FloatArray
from rejoinder.text.subwords import MARK, Subwords
from rejoinder.training import prepare as prepare_module
from rejoinder.training.loop import train
from rejoinder.training.prepare import count_ids, prepare, word_vectors
from rejoinder.training.recipe import Init
from tests.training.tiny import MODEL, recipe

WORDS = Subwords([MARK, MARK + "yes", MARK + "no", "ing", MARK + "the"], buckets=3)
SIZE = 3


def encode(texts: Sequence[str]) -> FloatArray:
    """Vectors of six numbers that depend on the text alone."""
    return np.stack([np.random.default_rng(list(text.encode())).normal(size=6) for text in texts]).astype(np.float32)


def test_components_keep_the_weighted_inner_products_as_well_as_three_numbers_can() -> None:
    counts = np.array([5, 20, 30, 2, 10_000, 0, 0, 0, 0])
    table = word_vectors(encode, WORDS, counts, SIZE)
    full = word_vectors(encode, WORDS, counts, 6)
    shares = (counts[:5] + 0.5) / (counts[:5] + 0.5).sum()
    centred = encode([" ", "yes", "no", "ing", "the"]).astype(np.float64)
    centred = (centred - shares @ centred) * (1e-3 / (1e-3 + shares))[:, None]
    products = centred @ centred.T
    given = full[:5].astype(np.float64) @ full[:5].T.astype(np.float64)
    assert np.allclose(given / given[0, 0], products / products[0, 0], rtol=1e-4)  # nothing but a rotation and a factor
    left = shares @ ((full[:5, SIZE:]) ** 2).sum(axis=1)
    for seed in range(20):  # no other three directions lose less
        directions, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(6, SIZE)))
        lost = full[:5] - full[:5] @ directions @ directions.T
        assert left <= shares @ (lost**2).sum(axis=1) + 1e-9
    assert np.isclose((table[:5] ** 2).mean(), 1.0, atol=1e-5)


def test_a_frequent_word_is_short_and_padding_is_zero() -> None:
    table = word_vectors(encode, WORDS, np.array([10, 10, 10, 10, 100_000, 0, 0, 0, 0]), SIZE)
    lengths = np.linalg.norm(table, axis=1)
    assert lengths[4] < 0.05 * lengths[:4].min()
    assert not table[WORDS.padding_id].any()
    assert (lengths[WORDS.size : WORDS.padding_id] > 0).all()


def test_counts_are_of_inputs_and_responses(tmp_path: Path, data: Path) -> None:
    store = prepare(recipe(data), tmp_path).train
    counts = count_ids(store, 200)
    assert counts.sum() == len(store.input.ids) + len(store.response.ids)
    assert counts[store.input.ids[0]] >= 1


def test_a_run_starts_from_them_and_computes_them_once(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def opened(name: str) -> object:
        calls.append(name)
        return SimpleNamespace(encode_responses=lambda texts, **_: encode(texts))

    monkeypatch.setattr(prepare_module, "open_encoder", opened)
    settings = {"init": {"words": "some encoder"}, "model": {**MODEL, "embedding_size": 6}}
    wanted = recipe(data, **settings)
    first, again = prepare(wanted, tmp_path / "tokens"), prepare(wanted, tmp_path / "tokens")
    assert first.words is not None
    assert again.words is not None
    assert calls == ["some encoder"]
    assert np.array_equal(first.words, again.words)
    frozen = {"rates": {"embedding": 0.0}, "steps": 1}
    stage = {**wanted_stage(), **frozen}
    summary = train(recipe(data, **settings, stage=[stage], validation={"examples": 0}), tmp_path / "run")
    import rejoinder

    weights = rejoinder.load(summary.model, precision="fp32").module.embedding.weight.numpy()
    assert np.array_equal(weights, first.words)


def wanted_stage() -> dict[str, object]:
    return {"name": "only", "batch_size": 32, "optimizer": "adamw", "learning_rate": 0.01}


def test_a_model_and_words_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="at most one of model, transformer, words"):
        Init(model="folder", words="minilm")
