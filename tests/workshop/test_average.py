"""Weights between two models."""

import re
import sys

import pytest
import torch

from rejoinder.encoders import persistence
from rejoinder.errors import InputError
from tests.encoders.small import small_model
from workshop import average


@pytest.fixture
def models(tmp_path):
    folders = [tmp_path / name for name in ("first", "second")]
    small_model(folders[0])
    module, tokenizer, config = persistence.load_module(folders[0])
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            parameter.add_(number + 1.0)
    persistence.save(
        folders[1], module, tokenizer, max_length=config["max_length"], card="# Second\n"
    )
    return folders


def weights(folder):
    return list(persistence.load_module(folder)[0].parameters())


def test_every_weight_is_between(models, tmp_path):
    for share in (0.0, 0.25, 1.0):
        average.average(*models, share, tmp_path / str(share))
        for found, first, second in zip(
            weights(tmp_path / str(share)), *map(weights, models), strict=True
        ):
            torch.testing.assert_close(found, (1 - share) * first + share * second)


def test_from_the_shell_it_is_the_middle(models, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["average", *map(str, models), "-o", str(tmp_path / "out")])
    average.main()
    first, second, found = (weights(folder)[0] for folder in (*models, tmp_path / "out"))
    torch.testing.assert_close(found, (first + second) / 2)
    assert "0.5 of `first` and 0.5 of `second`" in (tmp_path / "out" / "README.md").read_text(
        "utf-8"
    )


def test_models_that_have_nothing_in_common_are_refused(models, tmp_path, monkeypatch):
    other, load = persistence.load_module(models[1]), persistence.load_module
    other[0].context_head.output = torch.nn.Linear(3, 2)
    monkeypatch.setattr(
        persistence, "load_module", lambda folder: other if folder == models[1] else load(folder)
    )
    for options, said in (
        ([], "was not trained from"),
        (["--share", "2"], "0 (the first model) to 1"),
    ):
        monkeypatch.setattr(
            sys, "argv", ["average", *map(str, models), "-o", str(tmp_path / "out"), *options]
        )
        with pytest.raises(InputError, match=re.escape(said)):
            average.main()
    assert not (tmp_path / "out").exists()
