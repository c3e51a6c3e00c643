import numpy as np
import pytest
import torch

from rejoinder.errors import InputError
from rejoinder.models import encoder as encoder_module
from rejoinder.models.convert import Convert
from rejoinder.models.encoder import Encoder
from rejoinder.ranker import DualEncoder, Ranker
from rejoinder.text.subwords import Subwords

from .conftest import lively, small_config

SUBWORDS = Subwords([chr(0xFE4F), *"abcdefghijklmnopqrstuvwxyz .,?!'", chr(0xFE4F) + "the"])
TEXTS = ["how are you?", "fine, thanks", "", "the " * 40, "x", "bye!", "how are you?", "日本語 😀"]


@pytest.fixture(scope="module")
def encoder():
    torch.manual_seed(0)
    network = lively(Convert(small_config(), SUBWORDS.rows))
    return Encoder(network, SUBWORDS, max_length=60, fingerprint="f")


def test_an_encoder_fulfils_both_protocols(encoder):
    assert isinstance(encoder, Ranker)
    assert isinstance(encoder, DualEncoder)


def test_order_and_number_of_texts_are_kept_over_many_chunks(encoder, monkeypatch):
    alone = np.concatenate([encoder.encode_responses([text]) for text in TEXTS])
    for chunk in (1, 7, 10_000):
        monkeypatch.setattr(encoder_module, "CHUNK_TOKENS", chunk)
        done = []
        together = encoder.encode_responses(TEXTS, done.append)
        assert np.abs(together - alone).max() < 1e-5
        assert sum(done) == len(TEXTS)
    assert np.allclose(np.linalg.norm(alone, axis=1), 1, atol=1e-5)


def test_a_context_is_encoded_by_its_newest_message(encoder):
    long = encoder.encode_contexts([["something else", "how are you?"]])
    assert np.allclose(long, encoder.encode_contexts([["how are you?"]]), atol=1e-6)
    assert not np.allclose(long, encoder.encode_responses(["how are you?"]), atol=1e-2)


def test_scores_are_the_cosines_of_each_contexts_own_candidates(encoder):
    contexts = [["how are you?"], ["bye!"]]
    candidates = [["fine, thanks", "x"], ["x", "see the cat"]]
    scores = encoder.score(contexts, candidates)
    for i, context in enumerate(contexts):
        expected = encoder.encode_responses(candidates[i]) @ encoder.encode_contexts([context])[0]
        assert np.allclose(scores[i], expected, atol=1e-5)


def test_each_distinct_candidate_is_encoded_once(encoder, monkeypatch):
    seen = []
    original = encoder.encode_responses
    monkeypatch.setattr(encoder, "encode_responses", lambda texts: seen.extend(texts) or original(texts))
    shared = ["a", "b", "a"]
    scores = encoder.score([["x"], ["y"]], [shared, shared])
    assert sorted(seen) == ["a", "b"]
    assert np.allclose(scores[:, 0], scores[:, 2], atol=1e-6)


def test_the_reduction_transfers_with_its_own_size(encoder):
    vectors = encoder.transfer(["how are you?", "bye!"])
    assert vectors.shape == (2, 64)
    assert encoder.transfer([]).shape == (0, 64)


def test_nothing_gives_nothing(encoder):
    assert encoder.encode_responses([]).shape == (0, 24)
    assert encoder.encode_contexts([]).shape == (0, 24)
    assert encoder.score([], []).shape == (0, 0)


@pytest.mark.parametrize(
    ("contexts", "candidates", "message"),
    [
        ([[]], [["a"]], "no message"),
        (["hello"], [["a"]], "list of messages"),
        ([["a"]], [], "one for each"),
        ([["a"], ["b"]], [["a"], ["a", "b"]], "differ in length"),
    ],
)
def test_wrong_input_is_explained(encoder, contexts, candidates, message):
    with pytest.raises(InputError, match=message):
        encoder.score(contexts, candidates)


def test_a_message_of_a_million_characters_is_cut(encoder):
    huge = "the cat sat. " * 80_000
    assert np.allclose(encoder.encode_responses([huge]), encoder.encode_responses([huge[:2000]]), atol=1e-6)
