import numpy as np
import pytest
import torch

import rejoinder
from rejoinder.errors import InputError
from rejoinder.models import encoder as encoder_module
from rejoinder.models.convert import Convert, MultiContextConvert
from rejoinder.models.encoder import Encoder
from rejoinder.models.export import export_quantized
from rejoinder.models.families import build_module
from rejoinder.models.inference import pack_linears
from rejoinder.models.persistence import load_module, save
from rejoinder.ranker import DualEncoder, Ranker
from tests.models.conftest import SUBWORDS, lively, small_config

TEXTS = ["how are you?", "fine, thanks", "", "the " * 40, "x", "bye!", "how are you?", "日本語 😀"]


@pytest.fixture(scope="module")
def encoder():
    torch.manual_seed(0)
    network = lively(Convert(small_config(), SUBWORDS.rows))
    return Encoder(network, SUBWORDS, max_length=60, fingerprint="f")


def test_order_and_number_of_texts_are_kept_over_many_chunks(encoder, monkeypatch):
    alone = np.concatenate([encoder.encode_responses([text]) for text in TEXTS])
    for chunk in (1, 7, 10_000):
        monkeypatch.setattr(encoder_module, "CHUNK_TOKENS", chunk)
        done = []
        together = encoder.encode_responses(TEXTS, done.append)
        assert np.abs(together - alone).max() < 1e-5
        assert sum(done) == len(TEXTS)
    assert np.allclose(np.linalg.norm(alone, axis=1), 1, atol=1e-5)


def test_the_reduction_transfers_with_its_own_size_and_nothing_gives_nothing(encoder):
    assert isinstance(encoder, Ranker)
    assert isinstance(encoder, DualEncoder)
    assert encoder.encode_responses([]).shape == encoder.encode_contexts([]).shape == (0, 24)
    assert encoder.score([], []).shape == (0, 0)
    vectors = encoder.transfer(["how are you?", "bye!"])
    assert vectors.shape == (2, 64)
    assert encoder.transfer([]).shape == (0, 64)


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
    return lively(build_module(small_config(history=10, **changes), SUBWORDS.rows))


def encoder_of(module):
    return Encoder(module, SUBWORDS, max_length=60, fingerprint="f", name="m")


@pytest.fixture(scope="module")
def multi():
    """The encoder of a multi-context model."""
    return encoder_of(network())


def test_a_context_alone_and_among_others_has_the_same_vector(multi, monkeypatch):
    """Mistake 1, through the encoder: alone, in one batch, and over many chunks."""
    for part in ("all", "input", "history"):
        chosen = multi.by(part)
        alone = np.concatenate([chosen.encode_contexts([context]) for context in CONTEXTS])
        for tokens, contexts in ((4096, 1024), (7, 1024), (4096, 2), (1, 1)):
            monkeypatch.setattr(encoder_module, "CHUNK_TOKENS", tokens)
            monkeypatch.setattr(encoder_module, "CHUNK_CONTEXTS", contexts)
            done = []
            together = chosen.encode_contexts(CONTEXTS, done.append)
            assert np.abs(together - alone).max() < 1e-5
            assert sum(done) == len(CONTEXTS)


def test_the_parts_of_a_context(multi):
    x, z = multi.by("input").encode_contexts(CONTEXTS), multi.by("history").encode_contexts(CONTEXTS)
    assert np.allclose(x, multi.by("input").encode_contexts([c[-1:] for c in CONTEXTS]), atol=1e-6)
    has_history = [1, 2, 3, 4, 6]
    assert np.allclose(np.linalg.norm(z[has_history], axis=1), 1, atol=1e-5)
    assert not z[[0, 5]].any(), "zero without history"
    assert np.allclose(z[1], z[6], atol=1e-5), "the input is no part of it"
    with torch.no_grad():
        expected = multi.module.combine(torch.from_numpy(x), torch.from_numpy(z)).numpy()
    assert np.allclose(multi.encode_contexts(CONTEXTS), expected, atol=1e-5)
    assert np.allclose(multi.by("input").by("all").encode_contexts(CONTEXTS), expected, atol=1e-5)
    y = multi.encode_responses(["fine, thanks", "x"])
    for part, vectors in (("all", expected), ("input", x), ("history", z)):
        scores = multi.by(part).score(CONTEXTS, [["fine, thanks", "x"]] * len(CONTEXTS))
        assert np.allclose(scores, vectors @ y.T, atol=1e-5)


def test_wrong_parts_are_explained(multi):
    assert multi.by("history").encode_contexts([]).shape == (0, 24)
    with pytest.raises(InputError, match="'newest' is no part of a context; allowed are all, input, history"):
        multi.by("newest")
    plain = Encoder(lively(Convert(small_config(), SUBWORDS.rows)), SUBWORDS, max_length=60, fingerprint="f", name="s")
    assert plain.by("all") is not plain
    with pytest.raises(InputError, match="s reads the newest message alone, so it has no part 'history'"):
        plain.by("history")


def test_a_remembering_encoder_gives_the_same_and_computes_no_text_twice(multi, monkeypatch):
    parts = ("all", "input", "history", "all")
    expected = [multi.by(part).encode_contexts(CONTEXTS) for part in parts]
    computed = []
    compute = Encoder._compute

    def counting(self, texts, side, advance):
        computed.extend((side, text) for text in texts)
        return compute(self, texts, side, advance)

    monkeypatch.setattr(Encoder, "_compute", counting)
    known = multi.remembering()
    for part, vectors in zip(parts, expected, strict=True):
        done = []
        assert np.abs(known.by(part).encode_contexts(CONTEXTS, done.append) - vectors).max() < 1e-5
        assert sum(done) == len(CONTEXTS)
    assert len(computed) == len(set(computed)) > 0
    assert known.encode_responses([]).shape == (0, 24)
    assert multi._known is None


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
def test_a_quantised_folder_encodes_conversations(tmp_path, multi, precision):
    save(tmp_path / "m", network(), SUBWORDS, max_length=60, card="")
    export_quantized(tmp_path / "m", tmp_path / "q")
    few_bits = rejoinder.load(tmp_path / "q", precision=precision)
    for part in ("all", "input"):
        cosines = few_bits.by(part).encode_contexts(CONTEXTS) * multi.by(part).encode_contexts(CONTEXTS)
        assert cosines.sum(axis=1).min() > 0.99


def test_one_conversation_at_a_time_is_encoded_by_recordings_to_the_same_vector():
    network_ = pack_linears(network(), "int8")
    multi, ordinary = encoder_of(network_), encoder_of(network_)
    ordinary._single_texts = lambda *_: None
    for context in CONTEXTS * 2:
        found, expected = (each.encode_contexts([context]) for each in (multi, ordinary))
        assert np.abs(found - expected).max() < 1e-5
    assert set(multi._single_texts._recordings) == {"context", "history"}
