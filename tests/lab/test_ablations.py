"""Files of ablations: every row one change that trains, with errors before anything is trained."""

import json
from functools import cache
from pathlib import Path

import pytest
import tomli_w
import torch

from rejoinder.encoders.families import build_module
from rejoinder.errors import InputError
from rejoinder.lab import ablation_plan
from rejoinder.lab.ablation_plan import BASE, load_plan
from rejoinder.lab.ablation_table import markdown
from rejoinder.training.recipe_files import save_recipe
from tests.training.tiny import recipe
from tests.training.transformers import OF_RECIPES, write_checkpoint

RECIPES = Path(__file__).parents[2] / "recipes"
SHIPPED = [RECIPES / "ablations" / name for name in ("convert.toml", "convert-quick.toml")]
TABLE_4 = {
    BASE: 68.2,
    "heads-8": 68.5,
    "no-relative-bias": 67.8,
    "no-growing-span": 67.7,
    "one-bucket": 68.0,
    "one-reduction-head": 67.7,
    "no-skip": 67.8,
    "last-three": 66.7,
    "last-five": 66.6,
}
shipped = cache(load_plan)


@pytest.fixture
def write(tmp_path):
    """Write a file of ablations beside the tiny recipe; rows by name, further keys of the file by name."""
    save_recipe(recipe("data"), tmp_path / "tiny.toml")

    def write_(rows, **keys):
        listed = [{"name": name, "settings": settings} for name, settings in rows.items()]
        path = tmp_path / "file.toml"
        path.write_text(
            tomli_w.dumps({"name": "t", "recipe": "tiny.toml", **keys, "row": listed}),
            encoding="utf-8",
        )
        return path

    return write_


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_every_row_that_we_ship_builds_its_model(path):
    plan = shipped(path)
    assert set(TABLE_4) <= {row.name for row in plan.rows}
    for row in plan.rows:
        with torch.device("meta"):
            module = build_module(row.recipe.model, rows=1000)
        assert sum(parameter.numel() for parameter in module.parameters()) > 100_000, row.name
    sizes = {row.name: row.recipe.vocabulary.buckets for row in plan.rows if row.recipe.vocabulary}
    assert {name for name, buckets in sizes.items() if buckets == 1} == {
        "one-bucket",
        "last-three",
        "last-five",
    }


def test_hard_negatives_are_compared_with_none_by_several_seeds():
    plan = load_plan(RECIPES / "ablations" / "hard-negatives.toml")
    found = {(row.recipe.seed, row.recipe.stage[0].hard_negatives is not None) for row in plan.rows}
    assert found == {(seed, mined) for seed in (0, 1, 2) for mined in (False, True)}


def test_the_papers_table_is_complete_with_its_figures():
    plan = shipped(SHIPPED[0])
    assert {row.name: row.published for row in plan.rows if row.published is not None} == TABLE_4
    assert all(row.recipe.quantization.enabled for row in plan.rows), (
        "the paper trains for 8 and 16 bits"
    )
    single = [row for row in plan.rows[1:] if not row.name.startswith("last-")]
    assert all(len(row.settings) == 1 for row in single), "each is one setting"


def test_the_papers_steps_a_second_and_costs_stand_beside_ours():
    plan = shipped(SHIPPED[0])
    costs = {
        row.name: (row.published_cost.steps_per_second, row.published_cost.usd)
        for row in plan.rows
        if row.published_cost
    }
    assert costs == {
        BASE: (14.7, 85),
        "heads-8": (12.2, 102),
        "no-relative-bias": (14.7, 85),
        "no-growing-span": (14.7, 85),
        "one-bucket": (14.8, 84),
        "one-reduction-head": (15.0, 83),
        "no-skip": (14.8, 84),
        "last-three": (15.0, 83),
        "last-five": (15.0, 83),
    }
    lines = [
        {"title": "a", "published": 68.2, "published_cost": {"steps_per_second": 14.7, "usd": 85.0}}
    ]
    lines.append({"title": "b", "published": 67.8, "published_cost": None})
    table = {"name": "T", "data": "d", "ranked": "", "rows": lines}
    head, _, *shown = [
        line.split(" | ") for line in markdown(table).splitlines() if line.startswith("|")
    ]
    columns = head.index("published steps/s"), head.index("published USD")
    assert columns[0] == head.index("steps/s") + 1
    assert [[cells[column].strip() for column in columns] for cells in shown] == [
        ["14.7", "85"],
        ["", ""],
    ]
    lines[0]["published_cost"] = None
    assert "USD" not in markdown(table)


def test_rows_change_the_recipe_and_nothing_else(write):
    plan = load_plan(
        write({"eight": ["model.heads=8"], "two": ["loss.smoothing=0.1", "model.dropout=0.0"]})
    )
    assert [row.name for row in plan.rows] == [BASE, "eight", "two"]
    base, eight, two = (row.recipe for row in plan.rows)
    assert eight.model == {**base.model, "heads": 8}
    assert (two.loss.smoothing, two.model) == (0.1, {**base.model, "dropout": 0.0})
    assert (eight.name, eight.description) == ("t: eight", "model.heads=8")


def test_settings_of_all_rows_give_way_to_a_rows_own(write):
    path = write({"a": ["loss.smoothing=0.1"]}, settings=["stage.0.steps=7", "loss.smoothing=0.3"])
    base, row = (
        each.recipe for each in load_plan(path, ["stage.0.minutes=2", "loss.smoothing=0.4"]).rows
    )
    assert (base.loss.smoothing, row.loss.smoothing) == (0.4, 0.1)
    assert [(stage.steps, stage.minutes) for stage in (*base.stage, *row.stage)] == [
        (None, 2.0)
    ] * 2


@pytest.mark.parametrize(
    ("rows", "keys", "said"),
    [
        ({"a": ["model.heads=1"]}, {}, "row 'a': it changes nothing"),
        ({"a": ["stage.0.steps=3"]}, {}, "row 'a': its budget is not the base's"),
        ({"a": ["stage.0.active_blocks=9"]}, {}, "active_blocks = 9, but the model has 2"),
        ({"base": ["model.heads=8"]}, {}, "'base' is the recipe itself; give the row another name"),
        ({"a": []}, {}, "row.0.settings = [] is not allowed: it should have at least one entry"),
        ({"a": ["model.heads=8"]}, {"recip": "x"}, "unknown key 'recip'; did you mean 'recipe'?"),
        ({"a": ["model.heads=8"]}, {"recipe": "no.toml"}, "no such recipe"),
    ],
)
def test_errors_name_the_row_and_the_reason(write, rows, keys, said):
    with pytest.raises(InputError) as caught:
        load_plan(write(rows, **keys))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_recipe_or_a_missing_file_is_no_file_of_ablations(tmp_path):
    with pytest.raises(InputError, match=r"convert\.toml is a recipe; give a file of ablations"):
        load_plan(RECIPES / "convert.toml")
    with pytest.raises(InputError, match="no such file; give a TOML file of ablations"):
        load_plan(tmp_path / "no.toml")


def test_rows_are_chosen_by_name_with_the_base(write):
    plan = load_plan(write({"eight": ["model.heads=8"], "two": ["model.heads=2"]}))
    assert plan.chosen([]) == {BASE, "eight", "two"}
    assert plan.chosen(["two"]) == {BASE, "two"}
    with pytest.raises(
        InputError, match=r"no row 'eigt'; did you mean 'eight'\? its rows: base, eight, two"
    ):
        plan.chosen(["two", "eigt"])


@pytest.mark.parametrize(
    ("source", "split", "wanted"),
    [
        ("dstc7", None, [67.0, 66.9]),
        ("ubuntu", None, [81.3, 81.9]),
        ("dstc7", "valid", [None, None]),
        ("chitchat", None, [None, None]),
        (None, None, [None, None]),
    ],
)
def test_a_papers_figure_stands_beside_ranks_of_its_own_data_and_part(
    source, split, wanted, tmp_path, monkeypatch
):
    monkeypatch.setattr(ablation_plan, "check_stages", lambda *_: None)
    if source:
        (tmp_path / "data.json").write_text(json.dumps({"source": source}))
    checkpoint = write_checkpoint(tmp_path / "bert", OF_RECIPES)
    plan = load_plan(
        RECIPES / "ablations" / "poly-first.toml",
        [f"init.transformer={checkpoint}"],
        tmp_path,
        split,
    )
    figures = {row.name: row.published for row in plan.rows}
    assert [figures[BASE], figures["first-64"]] == wanted
    assert plan.split == (split or "test")


def test_figures_are_of_a_corpus_and_a_part(write):
    with pytest.raises(InputError, match="published"):
        load_plan(write({"a": ["seed=1"]}, published={"dstc7": 67.0}))
