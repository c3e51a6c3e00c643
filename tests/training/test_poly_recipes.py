"""The recipes and tables of recipes/poly: valid, and made of what they say."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from rejoinder.training.ablations import load_plan
from rejoinder.training.recipe_files import load_recipe
from tests.training.transformers import write_checkpoint

FILES = sorted((Path(__file__).parents[2] / "recipes" / "poly").glob("*.toml"))
TABLES = [path for path in FILES if path.name.startswith("table")]
RECIPES = [path for path in FILES if path not in TABLES]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stands for BERT, MiniLM and own weights, which tests do not fetch."""
    from rejoinder.models.transformer import TransformerShape
    from tests.training import transformers

    shape = TransformerShape(hidden_size=8, blocks=6, heads=2, feed_forward_size=8, positions=512)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transformers, "SHAPE", shape)
        return write_checkpoint(tmp_path_factory.mktemp("start") / "bert")


def document(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_valid(path: Path, start: Path) -> None:
    scratch = "vocabulary" in document(path)
    recipe = load_recipe(path, [] if scratch else [f"init.transformer={start}"])
    if scratch:
        assert recipe.model["kind"] == "poly-convert"
        return
    assert recipe.init.fingerprint
    assert recipe.model["kind"].startswith(path.stem.split("-")[0])
    own = path.stem.endswith("-own")
    assert recipe.stage[0].optimizer.kind == ("adamax" if own else "adamw")
    assert ("embedding" in recipe.stage[0].rates) == (not own)


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_a_table_is_valid(path: Path, start: Path) -> None:
    plan = load_plan(path, [f"init.transformer={start}"])
    assert len(plan.rows) == len(document(path)["row"]) + 1


def test_every_figure_of_the_papers_tables_has_its_row() -> None:
    rows = {path.stem: len(document(path)["row"]) + 1 for path in TABLES if "small" not in path.stem}
    assert rows == {"table2": 5, "table3-bi": 4, "table3-cross": 4, "table4": 3, "table7": 4, "table8": 12}
