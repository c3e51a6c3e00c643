"""The recipes and tables of recipes/poly: valid, and made of what they say."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from rejoinder.training.ablations import load_plan
from rejoinder.training.recipe_files import load_recipe
from tests.training.transformers import OF_RECIPES, write_checkpoint

FILES = sorted((Path(__file__).parents[2] / "recipes" / "poly").glob("*.toml"))
TABLES = [path for path in FILES if "row" in tomllib.loads(path.read_text(encoding="utf-8"))]
RECIPES = [path for path in FILES if path not in TABLES]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stands for BERT, MiniLM and own weights, which tests do not fetch."""
    return write_checkpoint(tmp_path_factory.mktemp("start") / "bert", OF_RECIPES)


def document(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_valid(path: Path, start: Path) -> None:
    scratch = "vocabulary" in document(path)
    recipe = load_recipe(path, [] if scratch else [f"init.transformer={start}"])
    if scratch:
        assert recipe.model["kind"] == {"convert": "poly-convert", "pretrain": "masked-lm"}[path.stem.split("-")[0]]
        return
    assert recipe.init.fingerprint
    assert recipe.model["kind"].startswith(path.stem.split("-")[0])
    own = path.stem.endswith("-own")
    assert recipe.stage[0].optimizer.kind == ("adamax" if own else "adamw")
    assert ("embedding" in recipe.stage[0].rates) == (not own)


@pytest.mark.parametrize(("name", "epochs", "examples", "warm_up"), [("bi", 10, 8_000, 100), ("poly", 8, 8_000, 100),
                                                                       ("cross", 12, 2_500, 1_000)])  # fmt: skip
@pytest.mark.parametrize("own", [False, True])
def test_fine_tuning_is_that_of_the_released_commands(
    name: str, epochs: float, examples: int, warm_up: int, own: bool, start: Path
) -> None:
    """What projects/polyencoder of ParlAI gives, and ParlAI's defaults for what it does not."""
    path = FILES[0].with_name(f"{name}-own.toml" if own else f"{name}.toml")
    recipe = load_recipe(path, [f"init.transformer={start}"])
    stage, validation = recipe.stage[0], recipe.validation
    assert (stage.epochs, stage.learning_rate, stage.clip_norm) == (epochs, 5e-5, 0.1)
    assert document(path)["stage"][0]["schedule"] == {"kind": "plateau", "warm_up_steps": warm_up}
    assert (validation.every_epochs, validation.examples, validation.patience) == (0.5, examples, 10)
    assert recipe.model.get("reduction", "first") == ("mean" if own and name != "cross" else "first")


def test_pretraining_has_the_warm_up_and_the_clipping_of_xlm() -> None:
    stage = load_recipe(FILES[0].with_name("pretrain.toml")).stage[0]
    assert (stage.schedule.warm_up_steps, stage.clip_norm) == (4_000, 5.0)


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_a_table_is_valid(path: Path, start: Path) -> None:
    plan = load_plan(path, [f"init.transformer={start}"])
    assert len(plan.rows) == len(document(path)["row"]) + 1


def test_every_figure_of_the_papers_tables_has_its_row() -> None:
    rows = {path.stem: len(document(path)["row"]) + 1 for path in TABLES if path.stem.startswith("table")}
    rows = {name: count for name, count in rows.items() if "small" not in name}
    assert rows == {"table2": 5, "table3-bi": 4, "table3-cross": 4, "table4": 3, "table7": 4, "table8": 20}
