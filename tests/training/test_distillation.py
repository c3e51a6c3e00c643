"""Learning from a better model's scores, or from a sentence encoder's cosines."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from rejoinder.arrays import unit_rows
from rejoinder.corpora.forms.examples import write_examples
from rejoinder.corpora.schema import Example
from rejoinder.encoders.persistence import load, save
from rejoinder.encoders.sentence import SentenceEncoder
from rejoinder.errors import InputError
from rejoinder.networks.layers import scores_of
from rejoinder.training import distillation, initialisation
from rejoinder.training.data.batches import Portion, make_step
from rejoinder.training.display import Display
from rejoinder.training.distillation import SimilarityDistiller, TeacherDistiller, text_vectors
from rejoinder.training.loop import TrainingInterrupted, train
from rejoinder.training.recipe.losses import ContextMask, Loss
from rejoinder.training.metrics import read_metrics
from rejoinder.training.preparation.inputs import prepare
from rejoinder.training.recipe.settings import Distillation
from rejoinder.training.data.tokens import RawExamples
from tests.encoders.tiny_transformer import KINDS, network, tokenizer
from tests.training.test_loop import interrupt_at
from tests.training.tiny import recipe, stage
from tests.training.transformers import write_checkpoint

ROWS = np.array([5, 0, 17, 40, 2, 8])
PORTIONS = [(Portion(), slice(0, 6)), (Portion(1, 2), slice(3, 6)), (Portion(0, 1, 2), slice(0, 6))]
START = Loss(torch.tensor(7.0), torch.tensor(0.5))


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """An untrained cross-encoder: it too has an opinion."""
    folder = tmp_path_factory.mktemp("teacher") / "model"
    save(folder, network("cross-encoder"), tokenizer(), max_length=20, card="# A teacher\n")
    return folder


def letters(texts):
    """How often a text has each letter: a sentence encoder of a kind."""
    counts = [[text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]
    return np.array(counts, dtype=np.float32) + 0.01


def encoder(encode=letters):
    return SentenceEncoder("letters", lambda texts, _: encode(texts))


@pytest.fixture(autouse=True)
def _encoder(monkeypatch):
    load = distillation.load
    monkeypatch.setattr(
        distillation, "load", lambda name, **_: encoder() if name == "letters" else load(name)
    )
    monkeypatch.setattr(distillation, "is_library", lambda name: name == "letters")
    monkeypatch.setattr(initialisation, "is_library", lambda name: name == "letters")


def cosines(texts):
    x, y = (
        unit_rows(letters(side))
        for side in ([context[-1] for context, _ in texts], [r for _, r in texts])
    )
    return x @ y.T


def divergence(student, taught):
    return F.kl_div(
        student.log_softmax(1), taught.log_softmax(1), reduction="batchmean", log_target=True
    )


def test_a_teacher_scores_the_texts_of_the_batch_and_the_loss_is_pytorchs_divergence(
    tmp_path, data, teacher
):
    wanted = recipe(data, distillation={"teacher": str(teacher), "candidates": 4, "share": 0.3})
    store = prepare(wanted, tmp_path).train
    distiller, texts = TeacherDistiller(wanted.distillation, store), store.texts.read(ROWS)
    for portion, own in PORTIONS:
        batch = make_step(store, ROWS, 0, portion)
        numbers = [[(i + j) % 6 for j in range(4)] for i in range(6)[own]]
        candidates = [[texts[number][1] for number in each] for each in numbers]
        expected = load(teacher).score([context for context, _ in texts[own]], candidates)
        np.testing.assert_allclose(distiller(batch).numpy(), expected, rtol=0.02, atol=0.02)
        assert distiller.columns(batch).tolist() == numbers
    batch = make_step(store, ROWS, 0, Portion())
    for shape in ((6, 5), (6, 3, 5)):  # one vector a context, and several
        x, y, taught = torch.randn(shape), torch.randn(6, 5), torch.randn(6, 4)
        found = distiller.add(START, batch, {"context": x, "response": y}, 1.5, taught)
        scores = scores_of(x, y).gather(1, torch.from_numpy(distiller.columns(batch))) * 1.5
        torch.testing.assert_close(
            found.value, 0.7 * START.value + 0.3 * divergence(scores, taught)
        )


def by_encoder(data, folder, **keys):
    wanted = recipe(data, distillation={"encoder": "letters", "sharpness": 5.0, **keys})
    prepared = prepare(wanted, folder)
    return prepared, SimilarityDistiller(
        wanted.distillation, prepared.teacher_vectors, SimpleNamespace(output_size=5)
    )


def scores(taught, name="input"):
    return 5 * (taught[name].float() @ taught["response"].float().T).numpy()


def test_an_encoder_teaches_what_reads_the_newest_message(tmp_path, data):
    prepared, distiller = by_encoder(data, tmp_path, share=0.3)
    expected = 5 * cosines(prepared.train.texts.read(ROWS))
    for portion, own in PORTIONS:
        taught = distiller(make_step(prepared.train, ROWS, 0, portion))
        np.testing.assert_allclose(scores(taught), expected[own], rtol=0.01, atol=0.01)
    batch = make_step(prepared.train, ROWS, 0, Portion())
    taught = distiller(batch)
    for names in (["context"], ["input", "history", "context"]):
        encodings = {name: torch.randn(6, 5) for name in (*names, "response")}
        found = distiller.add(START, batch, encodings, 1.5, taught)
        student = encodings[names[0]] @ encodings["response"].T * 1.5
        wanted = divergence(student, torch.from_numpy(scores(taught)))
        torch.testing.assert_close(found.value, 0.7 * START.value + 0.3 * wanted)


def test_of_a_sample_only_the_examples_that_were_read_are_taught(tmp_path, data):
    prepared, distiller = by_encoder(data, tmp_path, sample=30, share=1.0)
    read = distiller.texts.inputs >= 0
    assert (read.sum(), len(read)) == (30, len(prepared.train))
    rows = np.concatenate([np.flatnonzero(read)[:3], np.flatnonzero(~read)[:3]])[[3, 0, 4, 1, 5, 2]]
    batch = make_step(prepared.train, rows, 0, Portion())
    expected = 5 * cosines(prepared.train.texts.read(rows[1::2]))
    np.testing.assert_allclose(scores(distiller(batch)), expected, rtol=0.01, atol=0.01)
    x, y = torch.randn(2, 6, 5, generator=torch.Generator().manual_seed(0))
    found = distiller.add(START, batch, {"context": x, "response": y}, 2.0, distiller(batch))
    wanted = divergence(x[1::2] @ y[1::2].T * 2, torch.from_numpy(expected))
    torch.testing.assert_close(found.value, wanted, rtol=1e-2, atol=1e-4)
    unread = make_step(prepared.train, np.flatnonzero(~read)[:4], 0, Portion())
    assert scores(distiller(unread)).shape == (0, 0)
    nothing = distiller.add(
        START, unread, {"context": x[:4], "response": y[:4]}, 2.0, distiller(unread)
    )
    assert nothing.value == 0, "a batch that was not read has no teacher"


def test_each_text_is_encoded_once_and_an_interrupted_call_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(distillation, "CHUNK", 3)
    pairs = [(["old", f"say {n % 4}"], f"reply {chr(97 + n % 7)}") for n in range(20)]
    lines = [
        json.dumps({"context": context, "response": response}).encode()
        for context, response in pairs
    ]
    examples = RawExamples(
        np.frombuffer(b"".join(lines), np.uint8), np.cumsum([0, *map(len, lines)])
    )
    asked = []

    def ask(most):
        def encode(texts):
            if len(asked) >= most:
                raise KeyboardInterrupt
            asked.extend(texts)
            return letters(texts)

        monkeypatch.setattr(distillation, "load", lambda _, **__: encoder(encode))
        return text_vectors(
            tmp_path / "v.f16", examples, np.arange(20), Distillation(encoder="letters"), Display()
        )

    with pytest.raises(KeyboardInterrupt):
        ask(6)
    assert len(asked) == 6
    with (tmp_path / "v.f16").open("ab") as file:
        file.write(b"half a chunk")
    found = ask(99)
    assert sorted(asked) == sorted(
        {*(f"say {n}" for n in range(4)), *(f"reply {c}" for c in "abcdefg")}
    )
    for side, texts in (
        (found.inputs, [c[-1] for c, _ in pairs]),
        (found.responses, [r for _, r in pairs]),
    ):
        np.testing.assert_allclose(found.vectors[side], unit_rows(letters(texts)), atol=1e-3)
    again = ask(0)
    np.testing.assert_array_equal(again.vectors, found.vectors)
    monkeypatch.setattr(RawExamples, "read", None)  # a second start parses nothing
    again = ask(0)
    assert np.array_equal(again.vectors, found.vectors)
    assert np.array_equal(again.responses, found.responses)


def test_students_with_one_cache_are_taught_by_the_texts_of_their_own_examples(tmp_path, data):
    """A tokenizer leaves out an example that it has no token of, and numbers all after it otherwise."""
    start = write_checkpoint(tmp_path / "bert")
    others = [Example((f"ask {chr(97 + n)}",), f"say {chr(107 + n)}") for n in range(9)]
    write_examples([Example(("\u200b",), "odd"), *others], tmp_path / "data" / "train-0.parquet")
    sections = {
        "data": {"train": str(tmp_path / "data"), "cache": str(tmp_path / "cache")},
        "distillation": {"encoder": "letters"},
        "validation": {"examples": 0},
        "text": {"max_length": 20},
    }
    of_subwords = recipe(data, **sections, vocabulary={"minimum_count": 1})
    model = {"kind": "multi-context-bi-encoder"}
    init = {"transformer": str(start)}
    of_letters = recipe(data, **sections, vocabulary=None, model=model, init=init)
    counts = []
    for student in (of_subwords, of_letters):
        prepared = prepare(student, tmp_path / "run")
        rows = np.arange(len(prepared.train))
        counts.append(len(rows))
        taught = prepared.teacher_vectors
        expected = unit_rows(letters([c[-1] for c, _ in prepared.train.texts.read(rows)]))
        np.testing.assert_allclose(taught.vectors[taught.inputs], expected, atol=1e-3)
    assert counts == [10, 9]
    for kept in (tmp_path / "cache").glob("vectors-*.sides.npy"):
        np.save(kept, np.load(kept)[:5])
    with pytest.raises(InputError, match=r"is of 5 examples, but .* 9; delete it and run again"):
        prepare(of_letters, tmp_path / "run")


@pytest.mark.parametrize("kind", ["bi mean", "multi-context-bi-encoder"])
def test_a_model_that_encodes_both_sides_teaches_by_whole_conversations(tmp_path, data, kind):
    folder = tmp_path / "teacher"
    changes = {"context_length": None, "history": 3} if kind not in KINDS else {}
    save(folder, network(kind, **changes), tokenizer(), max_length=20, card="# A teacher\n")
    wanted = recipe(data, distillation={"encoder": str(folder), "sharpness": 5.0, "vectors": 2.0})
    assert wanted.distillation.fingerprint == load(folder).fingerprint
    prepared = prepare(wanted, tmp_path / "run")
    student = SimpleNamespace(output_size=7)
    distiller = SimilarityDistiller(wanted.distillation, prepared.teacher_vectors, student)
    model, (contexts, responses) = load(folder), zip(*prepared.train.texts.read(ROWS), strict=True)
    y = unit_rows(model.encode_responses(responses)).T
    expected = {"context": 5 * unit_rows(model.encode_contexts(contexts)) @ y}
    expected["input"] = (
        5 * unit_rows(model.encode_contexts([context[-1:] for context in contexts])) @ y
    )
    batch = make_step(prepared.train, ROWS, 0, Portion())
    taught = distiller(batch)
    for name, values in expected.items():
        np.testing.assert_allclose(scores(taught, name), values, rtol=0.03, atol=0.05)
    other = replace(batch, present={"history": ContextMask(torch.zeros(6, dtype=torch.bool), torch.tensor(0.0))})
    np.testing.assert_array_equal(
        distiller(other)["context"], taught["input"], "with another's history it has no say"
    )
    encodings = {
        name: F.normalize(torch.randn(6, 7), dim=1)
        for name in ("input", "history", "context", "response")
    }
    found = distiller.add(START, batch, encodings, 1.5, taught)
    both = [
        divergence(
            encodings[name] @ encodings["response"].T * 1.5, torch.from_numpy(scores(taught, name))
        )
        for name in ("input", "context")
    ]
    back = student.training_vectors
    missed = [
        1 - F.cosine_similarity(back(encodings[name]), taught[name].float()).mean()
        for name in ("input", "context", "response")
    ]
    expected = 0.5 * START.value + 0.5 * sum(both) / 2 + 2.0 * sum(missed) / 3
    torch.testing.assert_close(found.value, expected)
    plain = distiller.add(
        START, batch, {name: encodings[name] for name in ("context", "response")}, 1.5, taught
    )
    assert plain.figures["loss_distillation"] == both[1], (
        "a student of one text a context learns from the whole"
    )


def test_only_what_encodes_both_sides_is_an_encoder(tmp_path, data, teacher):
    wanted = recipe(data, distillation={"encoder": str(teacher)})
    with pytest.raises(
        InputError, match=r"encoder: .*model gives no vector of a context; name it as the teacher"
    ):
        prepare(wanted, tmp_path / "run")
    with pytest.raises(
        InputError, match=r"distillation.encoder: no model 'nowhere': .* minilm, use, e5, or st:"
    ):
        recipe(data, distillation={"encoder": "nowhere"})


@pytest.mark.parametrize("kind", ["teacher", "encoder"])
def test_a_student_comes_nearer_to_its_teacher(tmp_path, data, teacher, kind):
    section = {"teacher": str(teacher), "candidates": 8}
    if kind == "encoder":
        section = {"encoder": "letters", "sharpness": 5.0}
    stages = [stage(steps=40)]
    train(
        recipe(
            data, distillation=section | {"share": 1.0}, stage=stages, validation={"examples": 0}
        ),
        tmp_path,
    )
    found = [line["loss_distillation"] for line in read_metrics(tmp_path / "metrics.jsonl")]
    assert np.mean(found[-5:]) < (0.7 if kind == "teacher" else 0.8) * np.mean(found[:5])
    if kind == "teacher":
        assert (tmp_path / "recipe.toml").read_text().count(load(teacher).fingerprint) == 1


@pytest.mark.parametrize("quantization", [{}, {"enabled": True}])
def test_a_student_learns_to_give_vectors_back_by_a_map_that_no_folder_keeps(
    tmp_path, data, quantization
):
    section = {"encoder": "letters", "share": 0.1, "vectors": 3.0}
    stages = [stage(steps=40, rates={"vectors": 3.0})]
    wanted = recipe(
        data,
        distillation=section,
        stage=stages,
        quantization=quantization,
        validation={"examples": 0},
    )
    with pytest.raises(TrainingInterrupted):
        train(wanted, tmp_path / "run", display=interrupt_at(20))
    train(wanted, tmp_path / "run")
    found = [line["loss_vectors"] for line in read_metrics(tmp_path / "run" / "metrics.jsonl")]
    assert np.mean(found[-5:]) < 0.8 * np.mean(found[:5])
    kept = load(tmp_path / "run" / "model").module
    assert not hasattr(kept, "training_vectors")
