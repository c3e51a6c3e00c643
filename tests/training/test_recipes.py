"""The recipes that start from a model: from any of ours, the bundled kind (several messages, no blocks) included."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from rejoinder.models import persistence
from rejoinder.models.export import export_quantized
from rejoinder.training.loop import train
from rejoinder.training.recipe_files import load_recipe
from tests.training.tiny import MODEL, recipe, stage

RECIPES = Path(__file__).parents[2] / "recipes"
FROM_A_MODEL = sorted(RECIPES.glob("fine-tune-*.toml"))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, data: Path) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("models")
    without_blocks = {"history": 10, "blocks": 0, "attention_spans": [], "token_norm": False, "aligned_start": True}
    for name, more in (("single", {}), ("multi", {"history": 3}), ("full", without_blocks)):
        train(recipe(data, model=MODEL | more, stage=[stage(steps=1, active_blocks="all")]), place / name)
    export_quantized(place / "full" / "model", place / "bundled")
    return {"single": place / "single" / "model", "multi": place / "multi" / "model", "bundled": place / "bundled"}


@pytest.mark.parametrize("path", FROM_A_MODEL, ids=lambda path: path.stem)
@pytest.mark.parametrize("name", ["single", "multi", "bundled"])
def test_it_trains_from_any_model(
    tmp_path: Path, data: Path, models: dict[str, Path], path: Path, name: str
) -> None:
    document = tomllib.loads(path.read_text("utf-8"))
    overrides = [f"init.model={models[name]}", f"data.train={data}", "validation.candidates=20", "compute.threads=1"]
    overrides += [f"data.mix.{number}.train={data}" for number, _ in enumerate(document.get("data", {}).get("mix", []))]
    for number, each in enumerate(document["stage"]):
        budget = "steps=2" if "steps" in each else "minutes=0.002"
        overrides += [f"stage.{number}.batch_size=32", f"stage.{number}.{budget}"]
    settings = load_recipe(path, overrides)
    _, config = persistence.read_config(models[name])
    assert settings.model["history"] == config["model"]["history"]
    train(settings, tmp_path / "run")
    _, tuned = persistence.read_config(tmp_path / "run" / "model")
    assert tuned["model"] == config["model"] | {"dropout": document["model"]["dropout"]}
