"""Bi-, poly- and cross-encoder through the same commands as ConveRT: train, evaluate, index, reply."""

from __future__ import annotations

import json
import sys

import pytest
import torch

from rejoinder.cli import main
from rejoinder.corpora.example import Example
from rejoinder.corpora.examples import write_examples
from rejoinder.training.recipe_files import save_recipe
from tests.training.tiny import stage
from tests.training.transformers import transformer_recipe, write_checkpoint


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command: the JSON object that it prints, or, where it fails, its message."""

    def run_(*arguments, fails=False):
        monkeypatch.setattr(sys, "argv", ["rejoinder", *map(str, arguments), *([] if fails else ["--json"])])
        with pytest.raises(SystemExit) as exit_:
            main()
        captured = capsys.readouterr()
        assert (exit_.value.code or 0) == (2 if fails else 0), captured.err
        return captured.err if fails else json.loads(captured.out)

    threads = torch.get_num_threads()
    yield run_
    torch.set_num_threads(threads)


@pytest.fixture
def data(tmp_path):
    topics = ["tea and milk", "rain and wind", "cats and dogs", "bread and jam"]
    for split, count in (("train", 64), ("valid", 16), ("test", 16)):
        examples = [
            Example((f"about {topics[i % 4]}", "go on"), f"so {topics[i % 4]}{' then' * (i % 5)}", thread=f"{split}{i}")
            for i in range(count)
        ]
        write_examples(examples, tmp_path / "data" / f"{split}-0.parquet")
    return tmp_path / "data"


@pytest.mark.parametrize(
    "model",
    [
        {"kind": "bi-encoder", "reduction": "mean", "similarity": "cosine"},
        {"kind": "poly-encoder", "m": 4, "codes": "first"},
        {"kind": "cross-encoder"},
    ],
    ids=lambda model: model["kind"],
)
def test_from_a_checkpoint_to_replies(run, tmp_path, data, model):
    start = write_checkpoint(tmp_path / "bert")
    steps = [stage(steps=6, batch_size=16, negatives=3 * (model["kind"] == "cross-encoder"))]
    validation = {"candidates": 4, "examples": 16}
    recipe = transformer_recipe(data, start, model, stage=steps, validation=validation)
    save_recipe(recipe, tmp_path / "recipe.toml")
    folder = run("train", tmp_path / "recipe.toml", "-o", tmp_path / "run")["model"]
    (result,) = run("evaluate", folder, data, "--candidates", 4)["results"]
    assert 0 < result["mrr"]["value"] <= 1

    (tmp_path / "replies.txt").write_text("so tea and milk\nso cats and dogs\n")
    if model["kind"] == "cross-encoder":
        said = run("index", folder, tmp_path / "replies.txt", "-o", tmp_path / "index", fails=True)
        assert "cannot encode replies ahead of time" in said
        assert "--rerank" in said
    elif model["kind"] == "bi-encoder":
        run("index", folder, tmp_path / "replies.txt", "-o", tmp_path / "index")
        replies = run("reply", tmp_path / "index", "about cats", "go on")["replies"]
        assert len(replies) == 2
        said = run("evaluate", folder, data, "--candidates", 4, "--context", "history", fails=True)
        assert "only multi-context models" in said
