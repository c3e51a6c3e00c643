"""The recipes for minutes on a card, two steps of each on the processor."""

import pytest
from rejoinder.encoders.open import load
from rejoinder.training.loop import train
from rejoinder.training.metrics import read_metrics
from rejoinder.training.recipe_files import load_recipe
from tests.training.tiny import write_data

SETTINGS = [
    "distillation.encoder=bi-small",  # the recipes' teacher is a package of its own
    "compute.device=cpu",
    "compute.threads=1",
    "log.every_steps=1",
    "stage.0.batch_size=16",
    "stage.0.steps=2",
    "validation.every_steps=1",
]


@pytest.mark.parametrize("name", ["bi-small-card", "bi-base-card"])
def test_a_recipe_for_a_card_trains_two_steps_on_a_processor(tmp_path, name):
    data = write_data(tmp_path / "data", train=64, valid=40)
    settings = [*SETTINGS, f"data.train={data}", "init.model=bi-small", "validation.candidates=20"]

    train(load_recipe(f"recipes/{name}.toml", settings), tmp_path / "run")

    lines = list(read_metrics(tmp_path / "run/metrics.jsonl"))
    assert [line["step"] for line in lines if "loss_vectors" in line] == [1, 2]
    assert [line["step"] for line in lines if "valid_recall@1" in line] == [0, 1, 2]
    assert load(tmp_path / "run/model").size == 384
