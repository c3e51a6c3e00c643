"""Learning from a sentence encoder's cosines."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from rejoinder.errors import InputError
from rejoinder.ranker import FloatArray
from rejoinder.training import prepare as preparing
from rejoinder.training.batches import Portion, StepBatch, make_step
from rejoinder.training.display import Display
from rejoinder.training.loop import train
from rejoinder.training.losses import Loss
from rejoinder.training.prepare import prepare
from rejoinder.training.similarity import SimilarityDistiller, text_vectors
from rejoinder.training.tokens import RawExamples
from tests.training.tiny import recipe, stage

ENCODER = {"encoder": "letters", "sharpness": 5.0}


def letters(texts: Any) -> FloatArray:
    """How often a text has each letter: a sentence encoder of a kind."""
    counts = [[text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]
    return np.array(counts, dtype=np.float32) + 0.01


@pytest.fixture(autouse=True)
def _encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparing, "open_encoder", lambda _: SimpleNamespace(encode_responses=letters))


def raw(pairs: list[tuple[list[str], str]]) -> RawExamples:
    lines = [json.dumps({"context": context, "response": response}).encode() for context, response in pairs]
    return RawExamples(np.frombuffer(b"".join(lines), np.uint8), np.cumsum([0, *map(len, lines)]))


def cosines(inputs: list[str], responses: list[str]) -> FloatArray:
    x, y = (letters(texts) / np.linalg.norm(letters(texts), axis=1, keepdims=True) for texts in (inputs, responses))
    found: FloatArray = x @ y.T
    return found


def test_the_encoder_is_asked_for_the_newest_messages_and_the_responses(tmp_path: Path, data: Path) -> None:
    wanted = recipe(data, distillation=ENCODER)
    prepared = prepare(wanted, tmp_path)
    assert wanted.distillation is not None
    assert prepared.taught is not None
    assert prepared.train.texts is not None
    distiller = SimilarityDistiller(wanted.distillation, prepared.taught)
    rows = np.array([5, 0, 17, 40, 2, 8])
    texts = prepared.train.texts.read(rows)
    expected = 5 * cosines([context[-1] for context, _ in texts], [response for _, response in texts])
    for portion, own in ((Portion(), slice(0, 6)), (Portion(1, 2), slice(3, 6)), (Portion(0, 1, 2), slice(0, 6))):
        found = distiller(make_step(prepared.train, rows, 0, portion)).numpy()
        np.testing.assert_allclose(found, expected[own], rtol=0.01, atol=0.01)


def test_each_text_is_encoded_once_and_an_interrupted_call_goes_on(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("rejoinder.training.similarity.CHUNK", 3)
    examples = raw([(["old", f"say {n % 4}"], f"reply {chr(97 + n % 7)}") for n in range(20)])
    asked: list[str] = []

    def encode(texts: Any) -> FloatArray:
        if len(asked) >= 6:
            raise KeyboardInterrupt
        asked.extend(texts)
        return letters(texts)

    with pytest.raises(KeyboardInterrupt):
        text_vectors(tmp_path / "v.f16", examples, np.arange(20), encode, Display())
    assert len(asked) == 6
    with (tmp_path / "v.f16").open("ab") as file:
        file.write(b"half a chunk")

    def go_on(texts: Any) -> FloatArray:
        asked.extend(texts)
        return letters(texts)

    found = text_vectors(tmp_path / "v.f16", examples, np.arange(20), go_on, Display())
    assert sorted(asked) == sorted({*(f"say {n}" for n in range(4)), *(f"reply {c}" for c in "abcdefg")})
    pairs = examples.read(np.arange(20))
    for side, texts in ((found.inputs, [c[-1] for c, _ in pairs]), (found.responses, [r for _, r in pairs])):
        vectors = letters(texts)
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        np.testing.assert_allclose(found.vectors[side], unit, atol=1e-3)
    again = text_vectors(tmp_path / "v.f16", examples, np.arange(20), encode, Display())
    np.testing.assert_array_equal(again.vectors, found.vectors)


@pytest.mark.parametrize("names", [("context",), ("input", "history", "context")])
def test_the_loss_is_pytorchs_divergence_of_what_reads_the_newest_message(
    tmp_path: Path, data: Path, names: tuple[str, ...]
) -> None:
    wanted = recipe(data, distillation={**ENCODER, "share": 0.3, "temperature": 2.0})
    prepared = prepare(wanted, tmp_path)
    assert wanted.distillation is not None
    assert prepared.taught is not None
    batch: StepBatch = make_step(prepared.train, np.arange(6), 0, Portion())
    generator = torch.Generator().manual_seed(0)
    encodings = {name: torch.randn(6, 5, generator=generator) for name in (*names, "response")}
    taught = torch.randn(6, 6, generator=generator)
    distiller = SimilarityDistiller(wanted.distillation, prepared.taught)
    found = distiller.add(Loss(torch.tensor(7.0), torch.tensor(0.5)), batch, encodings, 1.5, taught)
    student = (encodings[names[0]] @ encodings["response"].T * 1.5 / 2).log_softmax(1)
    divergence = F.kl_div(student, (taught / 2).log_softmax(1), reduction="batchmean", log_target=True)
    torch.testing.assert_close(found.value, 0.7 * torch.tensor(7.0) + 0.3 * 4 * divergence)


def test_of_a_sample_only_the_examples_that_were_read_are_taught(tmp_path: Path, data: Path) -> None:
    prepared = prepare(recipe(data, distillation={**ENCODER, "sample": 30}), tmp_path)
    wanted = recipe(data, distillation={**ENCODER, "sample": 30}).distillation
    assert prepared.taught is not None
    assert prepared.train.texts is not None
    assert wanted is not None
    read = prepared.taught.inputs >= 0
    assert (read.sum(), len(read)) == (30, len(prepared.train))
    rows = np.concatenate([np.flatnonzero(read)[:3], np.flatnonzero(~read)[:3]])[[3, 0, 4, 1, 5, 2]]
    batch = make_step(prepared.train, rows, 0, Portion())
    distiller = SimilarityDistiller(wanted, prepared.taught)
    texts = prepared.train.texts.read(rows[1::2])
    expected = 5 * cosines([context[-1] for context, _ in texts], [response for _, response in texts])
    np.testing.assert_allclose(distiller(batch).numpy(), expected, rtol=0.01, atol=0.01)
    x, y = torch.randn(2, 6, 5, generator=torch.Generator().manual_seed(0))
    start = Loss(torch.tensor(0.0), torch.tensor(0.0))
    found = distiller.add(start, batch, {"context": x, "response": y}, 2.0, distiller(batch))
    student = (x[1::2] @ y[1::2].T * 2).log_softmax(1)
    target = torch.from_numpy(expected).log_softmax(1)
    divergence = F.kl_div(student, target, reduction="batchmean", log_target=True)
    torch.testing.assert_close(found.value, divergence / 2, rtol=1e-2, atol=1e-4)
    unread = make_step(prepared.train, np.flatnonzero(~read)[:4], 0, Portion())
    assert distiller(unread).shape == (0, 0)
    nothing = distiller.add(start, unread, {"context": x[:4], "response": y[:4]}, 2.0, distiller(unread))
    assert nothing.value == 0, "a batch that was not read has no teacher"


def test_a_student_comes_nearer_to_the_encoder(tmp_path: Path, data: Path) -> None:
    wanted = recipe(data, distillation={**ENCODER, "share": 1.0}, stage=[stage(steps=40)], validation={"examples": 0})
    train(wanted, tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    found = [line["loss_distillation"] for line in lines if "loss_distillation" in line]
    assert np.mean(found[-5:]) < 0.8 * np.mean(found[:5])


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({}, "exactly one of teacher, encoder; given: none"),
        ({"encoder": "a", "teacher": "convert-small"}, "exactly one of teacher, encoder; given: teacher, encoder"),
        ({"encoder": "a", "candidates": 4}, "compares the whole batch"),
        ({"teacher": "convert-small", "sharpness": 4.0}, "sharpness and sample belong to an encoder"),
    ],
)
def test_what_belongs_to_the_other_kind_of_teacher_is_refused(data: Path, section: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        recipe(data, distillation=section)
