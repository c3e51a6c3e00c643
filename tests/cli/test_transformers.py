"""Bi-, poly- and cross-encoder through the same commands as ConveRT: train, evaluate, index, reply."""

from __future__ import annotations

import pytest

from rejoinder.corpora.example import Example
from rejoinder.corpora.examples import write_examples
from rejoinder.training.recipe_files import save_recipe
from tests.training.tiny import stage
from tests.training.transformers import transformer_recipe, write_checkpoint


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
def test_from_a_checkpoint_to_replies(command, answer, tmp_path, data, model):
    start = write_checkpoint(tmp_path / "bert")
    steps = [stage(steps=6, batch_size=16, negatives=3 * (model["kind"] == "cross-encoder"))]
    validation = {"candidates": 4, "examples": 16}
    recipe = transformer_recipe(data, start, model, stage=steps, validation=validation)
    save_recipe(recipe, tmp_path / "recipe.toml")
    folder = answer("train", tmp_path / "recipe.toml", "-o", tmp_path / "run")["model"]
    (result,) = answer("evaluate", folder, data, "--candidates", 4)["results"]
    assert 0 < result["mrr"]["value"] <= 1

    (tmp_path / "replies.txt").write_text("so tea and milk\nso cats and dogs\n")
    if model["kind"] == "cross-encoder":
        code, _, said = command("index", folder, tmp_path / "replies.txt", "-o", tmp_path / "index")
        assert code == 2
        assert "cannot encode replies ahead of time" in said
        assert "--rerank" in said
    elif model["kind"] == "bi-encoder":
        answer("index", folder, tmp_path / "replies.txt", "-o", tmp_path / "index")
        replies = answer("reply", tmp_path / "index", "about cats", "go on")["replies"]
        assert len(replies) == 2
        code, _, said = command("evaluate", folder, data, "--candidates", 4, "--context", "history")
        assert code == 2
        assert "only multi-context models" in said
