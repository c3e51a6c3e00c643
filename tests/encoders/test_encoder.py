import pickle

import numpy as np
import pytest
import torch

import rejoinder
from rejoinder import devices
from rejoinder.encoders import conversation as texts_module
from rejoinder.encoders.export.folder import export_quantized
from rejoinder.encoders.protocol import DualEncoder, Ranker
from rejoinder.encoders.torch import Encoder
from rejoinder.processor import has_onednn
from rejoinder.errors import InputError
from rejoinder.networks.inference import choose_precision
from rejoinder.text import tokenizer
from tests.encoders import tiny_transformer
from tests.encoders.conftest import SUBWORDS, convert, saved

TEXTS = ["how are you?", "fine, thanks", "", "the " * 40, "x", "bye!", "how are you?", "日本語 😀"]
CONTEXTS = [
    ["how are you?"],
    ["hello there", "how are you?"],
    ["bye!", "hello there", "how are you?"],
    [*(f"number {i}" for i in range(12)), "x"],
    ["the " * 100, "see the cat", "fine, thanks"],
    ["  ", "how are you?"],
    ["hello there", "bye!"],
]


def encoder_of(module):
    return Encoder(module, SUBWORDS, max_length=60, fingerprint="f", name="m")


@pytest.fixture(scope="module")
def multi():
    """The encoder of a multi-context model."""
    return encoder_of(convert(history=10))


@pytest.mark.parametrize("part", ["all", "input", "history", "response"])
def test_a_text_alone_and_among_others_has_the_same_vector(multi, monkeypatch, part):
    """Mistake 1, through the encoder: alone, in one batch, and over many chunks."""
    encode, texts = multi.encode_responses, TEXTS
    if part != "response":
        encode, texts = multi.by(part).encode_contexts, CONTEXTS
    alone = np.concatenate([encode([text]) for text in texts])
    sizes = ((4096, 1024, 99), (7, 1024, 99), (4096, 2, 99), (1, 1, 99), (4096, 1024, 3), (7, 2, 2))
    for tokens, contexts, block in sizes:
        monkeypatch.setattr(multi, "_chunk_tokens", tokens)
        monkeypatch.setattr(texts_module, "CHUNK_CONTEXTS", contexts)
        monkeypatch.setattr(tokenizer, "BLOCK_TEXTS", block)
        done = []
        assert np.abs(encode(texts, done.append) - alone).max() < 1e-5
        assert sum(done) == len(texts)


def test_the_reduction_transfers_with_its_own_size_and_nothing_gives_nothing(multi):
    assert isinstance(multi, Ranker)
    assert isinstance(multi, DualEncoder)
    assert multi.encode_responses([]).shape == multi.encode_contexts([]).shape == (0, 24)
    assert multi.by("history").encode_contexts([]).shape == (0, 24)
    assert multi.score([], []).shape == (0, 0)
    assert multi.transfer(["how are you?", "bye!"]).shape == (2, 64)
    assert multi.transfer([]).shape == (0, 64)


def test_the_parts_of_a_context(multi):
    x, z = (
        multi.by("input").encode_contexts(CONTEXTS),
        multi.by("history").encode_contexts(CONTEXTS),
    )
    assert np.allclose(x, multi.by("input").encode_contexts([c[-1:] for c in CONTEXTS]), atol=1e-6)
    has_history = [1, 2, 3, 4, 6]
    assert np.allclose(np.linalg.norm(z[has_history], axis=1), 1, atol=1e-5)
    assert not z[[0, 5]].any(), "zero without history"
    assert np.allclose(z[1], z[6], atol=1e-5), "the input is not a part of it"
    with torch.no_grad():
        expected = multi.module.combine(torch.from_numpy(x), torch.from_numpy(z)).numpy()
    assert np.allclose(multi.encode_contexts(CONTEXTS), expected, atol=1e-5)
    assert np.allclose(multi.by("input").by("all").encode_contexts(CONTEXTS), expected, atol=1e-5)
    y = multi.encode_responses(["fine, thanks", "x"])
    for part, vectors in (("all", expected), ("input", x), ("history", z)):
        scores = multi.by(part).score(CONTEXTS, [["fine, thanks", "x"]] * len(CONTEXTS))
        assert np.allclose(scores, vectors @ y.T, atol=1e-5)


def test_wrong_parts_are_explained(multi):
    with pytest.raises(
        InputError, match="'newest' is not a part of a context; allowed are all, input, history"
    ):
        multi.by("newest")
    plain = encoder_of(convert())
    assert plain.by("all") is not plain
    with pytest.raises(
        InputError, match="m reads the newest message alone, so it has no part 'history'"
    ):
        plain.by("history")


def test_a_remembering_encoder_gives_the_same_and_computes_no_text_twice(multi, monkeypatch):
    parts = ("all", "input", "history", "all")
    expected = [multi.by(part).encode_contexts(CONTEXTS) for part in parts]
    read = read_texts_of(monkeypatch)
    known = multi.with_cache()
    for part, vectors in zip(parts, expected, strict=True):
        done = []
        assert np.abs(known.by(part).encode_contexts(CONTEXTS, done.append) - vectors).max() < 1e-5
        assert sum(done) == len(CONTEXTS)
    texts = [text for texts in read for text in texts]
    histories = {multi.history.join(context) for context in CONTEXTS} - {""}
    assert sorted(texts) == sorted([*{context[-1] for context in CONTEXTS}, *histories])
    assert known.encode_responses([]).shape == (0, 24)
    assert multi._cache is None


def test_what_was_read_ahead_is_read_in_one_pass_and_serves_all_sides(multi, monkeypatch):
    newest = [context[-1] for context in CONTEXTS]
    expected = [multi.by("input").encode_contexts(CONTEXTS), multi.encode_responses(newest), multi.transfer(newest)]
    read = read_texts_of(monkeypatch)
    multi.read_ahead(CONTEXTS)
    assert not read  # without a cache it would be lost
    known = multi.with_cache()
    known.read_ahead(CONTEXTS)
    found = [known.by("input").encode_contexts(CONTEXTS), known.encode_responses(newest), known.transfer(newest)]
    assert read == [list(dict.fromkeys(newest))]
    for vectors, own in zip(found, expected, strict=True):
        np.testing.assert_allclose(vectors, own, atol=1e-5)


def read_texts_of(monkeypatch):
    """Return a list to which each pass of an encoder adds the texts that it reads."""
    read = []
    blocks = Encoder._blocks

    def recorded(self, texts, side):
        read.append(list(texts))
        return blocks(self, texts, side)

    monkeypatch.setattr(Encoder, "_blocks", recorded)
    return read


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_a_quantised_folder_encodes_conversations(tmp_path, multi, precision):
    export_quantized(saved(tmp_path / "m", history=10), tmp_path / "q")
    few_bits = rejoinder.load(tmp_path / "q", precision=precision)
    for part in ("all", "input"):
        cosines = few_bits.by(part).encode_contexts(CONTEXTS) * multi.by(part).encode_contexts(
            CONTEXTS
        )
        assert cosines.sum(axis=1).min() > 0.99


@pytest.mark.skipif(not has_onednn(), reason="a PyTorch without oneDNN")
@pytest.mark.parametrize("kind", ["multi-context-bi-encoder", "bi mean"])
def test_in_eight_bits_texts_of_all_lengths_keep_their_vectors_in_a_batch(tmp_path, kind):
    """With padding, three of these texts get another vector (a difference of up to 2e-3)."""
    sizes = {"hidden_size": 128, "blocks": 4, "feed_forward_size": 256}
    if kind == "multi-context-bi-encoder":
        sizes["context_length"] = None
    encoder = tiny_transformer.opened(tmp_path / "model", kind, precision="int8", **sizes)
    generator = np.random.default_rng(0)
    texts = [
        " ".join(generator.choice(tiny_transformer.WORDS, n)) for n in range(20) for _ in range(9)
    ]
    alone = np.concatenate([encoder.encode_responses([text]) for text in texts])
    np.testing.assert_allclose(encoder.encode_responses(texts), alone, rtol=0, atol=1e-6)
    some = list(range(0, len(texts), 7))
    found = encoder.encode_responses([texts[i] for i in some])
    np.testing.assert_allclose(found, alone[some], rtol=0, atol=1e-6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("model") / "model", history=10)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda model: model.encode_responses("hello"), "a list of texts, .*given: 'hello'"),
        (lambda model: model.encode_responses([b"hello"]), "a list of texts"),
        (lambda model: model.transfer("hello"), "a list of texts"),
        (lambda model: model.encode_contexts("hello"), "a list of conversations"),
        (lambda model: model.encode_contexts(["hello"]), "a conversation is a list of messages"),
        (
            lambda model: model.encode_contexts([{"role": "user", "content": "hello"}]),
            "a conversation is a list",
        ),
        (lambda model: model.encode_contexts([[]]), "no message"),
        (
            lambda model: model.encode_contexts([[{"role": "system", "content": "hello"}]]),
            "no message",
        ),
        (
            lambda model: model.encode_contexts([[{"role": "user"}]]),
            "a message is a text, .*given: {'role'",
        ),
        (lambda model: model.encode_contexts([[None]]), "a message is a text"),
        (lambda model: model.score([["hello"]], ["hello"]), "a list of candidates"),
        (
            lambda model: model.encode_contexts([[{"role": ["user"], "content": "hello"}]]),
            "a message is a text, .*given",
        ),
        (lambda model: model.encode_contexts(None), "a list of conversations, .*given: None"),
        (
            lambda model: model.encode_contexts(each for each in [["hello"]]),
            "a list of conversations, .*generator",
        ),
        (
            lambda model: model.encode_responses(text for text in ["hello"]),
            "a list of texts, .*generator",
        ),
        (
            lambda model: model.encode_responses({"text": "hello"}),
            "a list of texts, .*given: {'text'",
        ),
        (lambda model: model.encode_responses(3), "a list of texts, .*given: 3"),
        (lambda model: model.score([["hello"]], [[1]]), "a list of texts"),
        (lambda model: model.score("hello", [["x"]]), "a list of conversations, .*given: 'hello'"),
        (lambda model: model.score(None, [["x"]]), "a list of conversations, .*given: None"),
        (lambda model: model.score([["hello"]], None), "a list of candidates; given: None"),
        (
            lambda model: model.score([["hello"]], [{"text": "x"}]),
            "a list of candidates; given: {'text'",
        ),
    ],
)
def test_a_wrong_call_is_explained(multi, call, reason):
    with pytest.raises(InputError, match=reason):
        call(multi)


def test_messages_of_a_chat_are_read(multi):
    chat = [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "hello"},
        {"content": "bye!"},
    ]
    assert np.array_equal(
        multi.encode_contexts([chat, ["x"]]), multi.encode_contexts([["hello", "bye!"], ["x"]])
    )


def test_a_model_comes_out_of_a_pickle_as_it_went_in_if_it_has_a_folder(folder, multi, monkeypatch):
    model = rejoinder.load(folder).by("history")
    stored = pickle.dumps(model)
    assert len(stored) < 1000
    monkeypatch.chdir("/")
    again = pickle.loads(stored)
    assert np.array_equal(again.encode_contexts(CONTEXTS), model.encode_contexts(CONTEXTS))
    model.fingerprint = "another"
    with pytest.raises(InputError, match="another model"):
        pickle.loads(pickle.dumps(model))

    with pytest.raises(InputError, match="save this one"):
        pickle.dumps(multi)


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        (None, {}, "a folder or a name, .*given: None"),
        ("nowhere", {}, "no model 'nowhere'"),
        (None, {"device": "nowhere"}, "device 'nowhere' cannot be used: .*'cuda:1'"),
        (None, {"device": None}, "device None cannot be used"),
        (None, {"precision": "int4"}, "precision 'int4' is unknown; allowed are auto"),
        (None, {"threads": 0}, "threads is 0; give a whole number, 1 or more"),
    ],
)
def test_what_cannot_be_loaded_is_explained(folder, name, settings, reason):
    with pytest.raises(InputError, match=reason):
        rejoinder.load(folder if settings else name, **settings)


def test_a_device_may_be_pytorchs_own(folder):
    assert rejoinder.load(folder, device=torch.device("cpu")).device == torch.device("cpu")


def test_eight_bits_are_for_processors():
    with pytest.raises(InputError, match="'int8' is for processors; on cuda:1 take"):
        choose_precision("int8", "convert", torch.device("cuda:1"))


def test_in_a_cards_layout_vectors_are_the_same(folder, monkeypatch):
    """The CPU stands for a card."""
    here = rejoinder.load(folder, precision="fp32").encode_contexts(CONTEXTS)
    monkeypatch.setattr(devices, "uses_segments", lambda _: False)
    there = rejoinder.load(folder, precision="fp32")
    assert there._segment_cost is None
    assert there.encode_contexts(CONTEXTS) == pytest.approx(here, abs=1e-5)


def test_a_model_is_shown_by_its_facts(folder):
    model = rejoinder.load(folder)
    assert (
        repr(model)
        == f"Encoder(name='{folder}', kind='convert', size=24, max_length=60, history=10, device='cpu')"
    )
    assert "<th>size</th><td>24</td>" in model._repr_html_()
