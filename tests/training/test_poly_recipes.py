"""The recipes and tables of recipes/poly: valid, and made of what they say."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from rejoinder.training.recipe_files import load_recipe
from tests.training.transformers import OF_RECIPES, write_checkpoint

FILES = sorted((Path(__file__).parents[2] / "recipes" / "poly").glob("*.toml"))
TABLES = [path for path in FILES if path.name.startswith("table")]
RECIPES = [path for path in FILES if path not in TABLES]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
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


def test_every_figure_of_the_papers_tables_has_its_row() -> None:
    rows = {path.stem: len(document(path)["row"]) + 1 for path in TABLES if "small" not in path.stem}
    assert rows == {"table2": 5, "table3-bi": 4, "table3-cross": 4, "table4": 3, "table7": 4, "table8": 12}
