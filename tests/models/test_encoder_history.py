"""The encoder of a multi-context model: whole conversations in, vectors out."""

import copy

import numpy as np
import pytest
import torch

import rejoinder
from rejoinder.errors import InputError
from rejoinder.models import encoder as encoder_module
from rejoinder.models.convert import Convert
from rejoinder.models.encoder import Encoder
from rejoinder.models.export import export_quantized
from rejoinder.models.inference import pack_linears
from rejoinder.models.multi_context import MultiContextConvert
from rejoinder.models.persistence import load_module, save
from rejoinder.ranker import DualEncoder

from .conftest import lively, small_config
from .test_encoder import SUBWORDS

CONTEXTS = [
    ["how are you?"],
    ["hello there", "how are you?"],
    ["bye!", "hello there", "how are you?"],
    [*(f"number {i}" for i in range(12)), "x"],
    ["the " * 100, "see the cat", "fine, thanks"],
    ["  ", "how are you?"],
    ["hello there", "bye!"],
]


def network(**changes):
    torch.manual_seed(0)
    return lively(MultiContextConvert(small_config(history=10, **changes), SUBWORDS.rows))


def encoder_of(module):
    return Encoder(module, SUBWORDS, max_length=60, fingerprint="f", name="m")


@pytest.fixture(scope="module")
def encoder():
    return encoder_of(network())


def test_it_fulfils_the_protocol_and_reads_history(encoder):
    assert isinstance(encoder, DualEncoder)
    assert encoder.reads_history
    assert not encoder_of(lively(Convert(small_config(), SUBWORDS.rows))).reads_history


def test_a_context_alone_and_among_others_has_the_same_vector(encoder, monkeypatch):
    """Mistake 1, through the encoder: alone, in one batch, and over many chunks."""
    for part in ("all", "input", "history"):
        chosen = encoder.by(part)
        alone = np.concatenate([chosen.encode_contexts([context]) for context in CONTEXTS])
        for tokens, contexts in ((4096, 1024), (7, 1024), (4096, 2), (1, 1)):
            monkeypatch.setattr(encoder_module, "CHUNK_TOKENS", tokens)
            monkeypatch.setattr(encoder_module, "CHUNK_CONTEXTS", contexts)
            done = []
            together = chosen.encode_contexts(CONTEXTS, done.append)
            assert np.abs(together - alone).max() < 1e-5
            assert sum(done) == len(CONTEXTS)


def test_earlier_messages_count(encoder):
    vectors = encoder.encode_contexts(CONTEXTS)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert np.allclose(vectors[0], vectors[5], atol=1e-6), "a blank message is none"
    assert not np.allclose(vectors[0], vectors[1], atol=1e-3)
    assert not np.allclose(vectors[1], vectors[2], atol=1e-3)


def test_only_ten_earlier_messages_and_sixty_tokens_of_them_are_read(encoder):
    def same(one, other):
        a, b = encoder.encode_contexts([one, other])
        return np.allclose(a, b, atol=1e-5)

    ten = list("abcdefghij")
    assert same(["anything", *ten, "x"], ["else", *ten, "x"])
    assert not same(["anything", *ten[1:], "x"], ["else", *ten[1:], "x"])
    long = "a cat sat and a cat ran and a cat slept and a cat ate and a cat saw a dog"  # nearly a token a character
    assert same(["anything", long, "x"], ["else", long, "x"]), "the oldest is cut"
    assert not same([long, "anything", "x"], [long, "else", "x"]), "the newest is not"


def test_the_parts_of_a_context(encoder):
    x, z = encoder.by("input").encode_contexts(CONTEXTS), encoder.by("history").encode_contexts(CONTEXTS)
    assert np.allclose(x, encoder.by("input").encode_contexts([c[-1:] for c in CONTEXTS]), atol=1e-6)
    has_history = [1, 2, 3, 4, 6]
    assert np.allclose(np.linalg.norm(z[has_history], axis=1), 1, atol=1e-5)
    assert not z[[0, 5]].any(), "zero without history"
    assert np.allclose(z[1], z[6], atol=1e-5), "the input is no part of it"
    with torch.no_grad():
        expected = encoder.module.combine(torch.from_numpy(x), torch.from_numpy(z)).numpy()
    assert np.allclose(encoder.encode_contexts(CONTEXTS), expected, atol=1e-5)
    assert np.allclose(encoder.by("input").by("all").encode_contexts(CONTEXTS), expected, atol=1e-5)


def test_scores_use_the_chosen_part(encoder):
    candidates = [["fine, thanks", "x"]] * len(CONTEXTS)
    for part in ("all", "input", "history"):
        chosen = encoder.by(part)
        expected = chosen.encode_contexts(CONTEXTS) @ encoder.encode_responses(candidates[0]).T
        assert np.allclose(chosen.score(CONTEXTS, candidates), expected, atol=1e-5)


def test_transfer_gives_r_of_the_text(encoder):
    vectors = encoder.transfer(["how are you?"])
    single_context = Encoder(encoder.module, SUBWORDS, max_length=60, fingerprint="f").transfer(["how are you?"])
    assert vectors.shape == (1, 64)
    assert np.array_equal(vectors, single_context)


def test_nothing_gives_nothing_and_wrong_input_is_explained(encoder):
    for part in ("all", "input", "history"):
        assert encoder.by(part).encode_contexts([]).shape == (0, 24)
    with pytest.raises(InputError, match="no message"):
        encoder.encode_contexts([["a"], []])
    with pytest.raises(InputError, match="list of messages"):
        encoder.encode_contexts(["hello"])
    with pytest.raises(InputError, match="'newest' is no part of a context; allowed are all, input, history"):
        encoder.by("newest")
    plain = Encoder(lively(Convert(small_config(), SUBWORDS.rows)), SUBWORDS, max_length=60, fingerprint="f", name="s")
    assert plain.by("all") is not plain
    with pytest.raises(InputError, match="s reads the newest message alone, so it has no part 'history'"):
        plain.by("history")


def test_a_remembering_encoder_gives_the_same_and_computes_no_text_twice(encoder, monkeypatch):
    parts = ("all", "input", "history", "all")
    expected = [encoder.by(part).encode_contexts(CONTEXTS) for part in parts]
    computed = []
    compute = Encoder._compute

    def counting(self, texts, side, advance):
        computed.extend((side, text) for text in texts)
        return compute(self, texts, side, advance)

    monkeypatch.setattr(Encoder, "_compute", counting)
    known = encoder.remembering()
    for part, vectors in zip(parts, expected, strict=True):
        done = []
        assert np.abs(known.by(part).encode_contexts(CONTEXTS, done.append) - vectors).max() < 1e-5
        assert sum(done) == len(CONTEXTS)
    assert len(computed) == len(set(computed)) > 0
    assert known.encode_responses([]).shape == (0, 24)
    assert encoder._known is None


@pytest.mark.parametrize("numbered", [False, True])
def test_a_saved_model_comes_back_with_its_history(tmp_path, numbered):
    module = network(numbered_history=numbered)
    save(tmp_path / "m", module, SUBWORDS, max_length=60, card="")
    again, _, _ = load_module(tmp_path / "m")
    assert isinstance(again, MultiContextConvert)
    assert again.history == module.history
    for name, value in module.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])
    loaded = rejoinder.load(tmp_path / "m", precision="fp32")
    assert np.abs(loaded.encode_contexts(CONTEXTS) - encoder_of(module).encode_contexts(CONTEXTS)).max() < 1e-5


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_a_quantised_folder_encodes_conversations(tmp_path, encoder, precision):
    save(tmp_path / "m", network(), SUBWORDS, max_length=60, card="")
    export_quantized(tmp_path / "m", tmp_path / "q")
    few_bits = rejoinder.load(tmp_path / "q", precision=precision)
    for part in ("all", "input"):
        cosines = few_bits.by(part).encode_contexts(CONTEXTS) * encoder.by(part).encode_contexts(CONTEXTS)
        assert cosines.sum(axis=1).min() > 0.99


@pytest.mark.parametrize(("precision", "closeness"), [("fp32", 1 - 1e-5), ("bf16", 0.99), ("int8", 0.99)])
def test_every_precision_encodes_conversations(encoder, precision, closeness):
    expected = encoder.encode_contexts(CONTEXTS)
    packed = encoder_of(pack_linears(copy.deepcopy(network()), precision))
    assert (packed.encode_contexts(CONTEXTS) * expected).sum(axis=1).min() > closeness


def test_one_conversation_at_a_time_is_encoded_by_recordings_to_the_same_vector():
    network_ = pack_linears(network(), "int8")
    encoder, ordinary = encoder_of(network_), encoder_of(network_)
    ordinary._single_texts = lambda *_: None
    for context in CONTEXTS * 2:
        found, expected = (each.encode_contexts([context]) for each in (encoder, ordinary))
        assert np.abs(found - expected).max() < 1e-5
    assert set(encoder._single_texts._recordings) == {"context", "history"}
