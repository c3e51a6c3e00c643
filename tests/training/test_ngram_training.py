"""Whole runs of the n-gram dual encoder, and of what came into training with it."""

import itertools
import json
import shutil
import tomllib
from pathlib import Path

import pytest
from safetensors import safe_open

import rejoinder
from rejoinder.encoders.export.folder import export_quantized
from rejoinder.lab.ablation_plan import load_plan
from rejoinder.training.loop import train
from rejoinder.training.metrics import read_metrics
from rejoinder.training.recipe_files import load_recipe
from tests.training.tiny import NGRAM, NGRAM_WORDS, checkpoint_of, recipe, stage

RECIPES = Path(__file__).parents[2] / "recipes"
PAPER = {
    "optimizer": "sgd",
    "learning_rate": 0.03,
    "schedule": "constant",
    "rates": {"embedding": "batch_size"},
}
TABLE_2 = {
    "base": 61.3,
    "h-2048": 61.1,
    "h-750": 60.8,
    "h-512": 59.8,
    "batch-50": 57.4,
    "two-layers": 56.9,
    "tanh": 56.1,
    "no-smoothing": 55.3,
    "no-self-attention": 48.7,
    "no-bigrams": 35.5,
}


def ngram(data, /, **sections):
    return recipe(data, vocabulary=NGRAM_WORDS, model=NGRAM, **sections)


@pytest.fixture(scope="module")
def run(tmp_path_factory, data):
    """A run like the paper's, with little of everything."""
    folder = tmp_path_factory.mktemp("ngram")
    stages = [stage(**PAPER | {"learning_rate": 0.5, "steps": 60})]
    train(ngram(data, scale={"learned": True, "first": 4.0}, stage=stages), folder)
    return folder


def test_it_learns_and_opens_as_an_encoder(run):
    lines = [line for line in read_metrics(run / "metrics.jsonl") if "valid_mrr" in line]
    assert max(line["valid_recall@1"] for line in lines) > 0.3, "chance is 5 %"
    assert rejoinder.load(run / "model").encode_responses(["one", "two words"]).shape == (2, 16)


def test_a_learned_scale_moves_and_is_no_weight_of_the_model(run):
    scales = [line["scale"] for line in read_metrics(run / "metrics.jsonl") if "scale" in line]
    assert len(set(scales)) > 10
    assert all(0 <= scale <= 4.0 for scale in scales), "sqrt(16) is the largest"
    with safe_open(run / "model" / "model.safetensors", framework="pt") as file:
        assert not [name for name in file.keys() if "scale" in name]  # noqa: SIM118
    kept = [name for name in checkpoint_of(run).tensors if "training_scale" in name]
    assert kept == ["weights/training_scale.value"]


def first_scale(model, data, folder, **scale):
    """The scale of the first step of a training that goes on from a model."""
    stages = [stage(**PAPER | {"steps": 1, "learning_rate": 1e-9})]
    more = {
        "init": {"model": str(model)},
        "vocabulary": None,
        "model": {},
        "scale": {"learned": True} | scale,
    }
    train(recipe(data, stage=stages, validation={"examples": 0}, **more), folder)
    return read_metrics(folder / "metrics.jsonl")[0]["scale"]


def test_fine_tuning_takes_the_learned_scale_up_where_it_was_left(tmp_path, data, run):
    stored = json.loads((run / "model" / "config.json").read_text())["scale"]
    assert 1.0 < stored <= 4.0, "1.0 is where one starts that goes on from nothing"
    export_quantized(run / "model", tmp_path / "small")
    for model in (run / "model", tmp_path / "small"):
        assert first_scale(model, data, tmp_path / f"from-{model.name}") == pytest.approx(stored)
    assert first_scale(run / "model", data, tmp_path / "bounded", last=0.5) == 0.5


def test_a_model_without_a_learned_scale_opens_and_fine_tuning_starts_at_the_recipes(
    tmp_path, data, run
):
    shutil.copytree(run / "model", tmp_path / "old")
    config = json.loads((tmp_path / "old" / "config.json").read_text())
    del config["scale"], config["kind"], config["sha256"]  # as earlier versions wrote it
    (tmp_path / "old" / "config.json").write_text(json.dumps(config))
    assert rejoinder.load(tmp_path / "old").encode_responses(["one"]).shape == (1, 16)
    assert first_scale(tmp_path / "old", data, tmp_path / "run", first=3.0) == 3.0


@pytest.mark.parametrize("name", ["ngram.toml", "ngram-small.toml"])
def test_table_2_edits_the_row_above_by_one_part(name):
    plan = load_plan(RECIPES / "ablations" / name)
    assert [row.name for row in plan.rows] == list(TABLE_2)
    for above, row in itertools.pairwise(plan.rows):
        new = row.settings[len(above.settings) :]
        assert row.settings == (*above.settings, *new)
        assert len(new) == (2 if row.name == "no-self-attention" else 1), (
            "whose positions go too (ACL19, 4.1)"
        )
    last = plan.rows[-1].recipe
    assert (last.stage[0].batch_size, last.loss.smoothing) == (50, 0.0)
    edited = (
        "hidden_size",
        "hidden_layers",
        "activation",
        "self_attention",
        "positions",
        "bigrams",
    )
    model = {key: last.model[key] for key in edited}
    smallest = model.pop("hidden_size")
    assert smallest < plan.rows[0].recipe.model["hidden_size"]
    without = {"self_attention": False, "positions": 0, "bigrams": False}
    assert model == {"hidden_layers": 2, "activation": "tanh", **without}
    if name == "ngram.toml":
        assert last.stage[0].rate("embedding") == 50.0
        assert {row.name: row.published for row in plan.rows} == TABLE_2


@pytest.mark.parametrize("name", ["direct", "mixed"])
def test_fine_tuning_goes_on_as_the_pretraining_did(run, name):
    before = load_recipe(RECIPES / "ngram.toml")
    after = load_recipe(RECIPES / f"fine-tune-ngram-{name}.toml", [f"init.model={run / 'model'}"])
    ((then,), (now,)) = (before.stage, after.stage)
    assert (now.optimizer, now.learning_rate, now.batch_size) == (
        then.optimizer,
        then.learning_rate,
        then.batch_size,
    )
    assert (now.rates, after.loss, after.scale) == (then.rates, before.loss, before.scale)
    assert after.validation.patience > 0
    assert after.data.shares == ((0.25, 0.75) if name == "mixed" else (1.0,))
    table = tomllib.loads((RECIPES / "tables" / "main.toml").read_text("utf-8"))["row"]
    assert f"recipes/fine-tune-ngram-{name}.toml " in table[f"ngram-ft-{name}"]["make"]
