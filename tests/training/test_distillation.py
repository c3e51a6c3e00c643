"""Learning from a better model's scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from rejoinder.errors import InputError
from rejoinder.models.persistence import load, save
from rejoinder.training.batches import Portion, make_step
from rejoinder.training.distillation import Distiller
from rejoinder.training.loop import train
from rejoinder.training.losses import Loss
from rejoinder.training.prepare import prepare
from rejoinder.training.recipe import Recipe
from tests.models.tiny_transformer import network, tokenizer
from tests.training.tiny import recipe, stage


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained cross-encoder: it too has an opinion."""
    folder = tmp_path_factory.mktemp("teacher") / "model"
    save(folder, network("cross-encoder"), tokenizer(), max_length=20, card="# A teacher\n")
    return folder


def taught_by(teacher: Path | str, data: Path, /, **sections: Any) -> Recipe:
    return recipe(data, **({"distillation": {"teacher": str(teacher), "candidates": 4}} | sections))


def test_the_teacher_is_asked_about_the_texts_of_the_batch(tmp_path: Path, data: Path, teacher: Path) -> None:
    wanted = taught_by(teacher, data)
    prepared = prepare(wanted, tmp_path)
    assert wanted.distillation is not None
    distiller = Distiller(wanted.distillation, prepared.train)
    assert prepared.train.texts is not None
    rows = np.array([5, 0, 17, 40, 2, 8])
    for portion, own in ((Portion(), rows), (Portion(1, 2), rows[3:]), (Portion(0, 1, 2), rows)):
        batch = make_step(prepared.train, rows, 0, portion)
        texts = prepared.train.texts.read(np.arange(50))
        numbers = [[(rows.tolist().index(row) + j) % 6 for j in range(4)] for row in own.tolist()]
        candidates = [[texts[rows[number]][1] for number in each] for each in numbers]
        expected = load(teacher).score([texts[row][0] for row in own], candidates)
        np.testing.assert_allclose(distiller(batch).numpy(), expected, rtol=0.02, atol=0.02)
        assert distiller.columns(batch).tolist() == numbers


@pytest.mark.parametrize("shape", [(6, 5), (6, 3, 5)], ids=["one vector", "several"])
def test_the_loss_is_pytorchs_divergence(tmp_path: Path, data: Path, teacher: Path, shape: tuple[int, ...]) -> None:
    section = {"teacher": str(teacher), "candidates": 4, "share": 0.3, "temperature": 2.0}
    wanted = taught_by(teacher, data, distillation=section)
    prepared = prepare(wanted, tmp_path)
    assert wanted.distillation is not None
    distiller = Distiller(wanted.distillation, prepared.train)
    batch = make_step(prepared.train, np.arange(6), 0, Portion())
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(shape, generator=generator), torch.randn(6, 5, generator=generator)
    taught = torch.randn(6, 4, generator=generator)
    found = distiller.add(Loss(torch.tensor(7.0), torch.tensor(0.5)), batch, {"context": x, "response": y}, 1.5, taught)
    from rejoinder.models.reductions import scores_of

    scores = scores_of(x, y).gather(1, torch.from_numpy(distiller.columns(batch))) * 1.5
    student, target = (scores / 2).log_softmax(1), (taught / 2).log_softmax(1)
    divergence = F.kl_div(student, target, reduction="batchmean", log_target=True)
    torch.testing.assert_close(found.value, 0.7 * torch.tensor(7.0) + 0.3 * 4 * divergence)


def test_a_student_comes_nearer_to_its_teacher(tmp_path: Path, data: Path, teacher: Path) -> None:
    steps = [stage(steps=40)]
    section = {"teacher": str(teacher), "candidates": 8, "share": 1.0}
    train(taught_by(teacher, data, distillation=section, stage=steps, validation={"examples": 0}), tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    found = [line["loss_distillation"] for line in lines if "loss_distillation" in line]
    assert np.mean(found[-5:]) < 0.7 * np.mean(found[:5])
    assert (tmp_path / "recipe.toml").read_text().count(load(teacher).fingerprint) == 1


def test_what_cannot_be_taught_is_refused(data: Path, teacher: Path) -> None:
    with pytest.raises(InputError, match=r"distillation.teacher: .*nowhere"):
        taught_by("nowhere", data)
    with pytest.raises(InputError, match=r"distillation.fingerprint = 'abc'"):
        taught_by(teacher, data, distillation={"teacher": str(teacher), "fingerprint": "abc"})
    with pytest.raises(InputError, match=r"leave data.mix out"):
        taught_by(teacher, data, data={"train": str(data), "mix": [{"train": str(data), "share": 0.5}]})
