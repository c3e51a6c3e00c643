"""Recipes of a paper have its values, which stand in one table; what deviates has a row in docs/choices.md."""

from __future__ import annotations

import itertools
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rejoinder.encoders import persistence
from rejoinder.encoders.families import build_module
from rejoinder.lab import ablation_plan
from rejoinder.lab.plan import TablePlan, load_table
from rejoinder.text.ngrams import build_ngrams
from rejoinder.training.recipe_files import load_recipe, recipe_document
from tests.training.tiny import NGRAM
from tests.training.transformers import OF_RECIPES, write_checkpoint

ROOT = Path(__file__).parents[1]
RECIPES = ROOT / "recipes"
PAPERS = tomllib.loads((ROOT / "tests" / "papers.toml").read_text("utf-8"))
CHOICES = (ROOT / "docs" / "choices.md").read_text("utf-8")
NAMES = {str(path.relative_to(RECIPES).with_suffix("")) for path in RECIPES.rglob("*.toml")}
CLAIMING = sorted(
    {name for group in PAPERS["group"] for name in group["recipes"]} - set(PAPERS["plans"])
)
HELD = (
    "text.max_length",
    "loss.smoothing",
    "quantization.enabled",
    "data.mix",
    "validation.patience",
    "stage.0.negatives",
    "stage.0.given_negatives",
    "stage.0.batch_size",
    "stage.0.optimizer.kind",
    "stage.0.optimizer.weight_decay",
    "stage.0.learning_rate",
    "stage.0.schedule",
    "stage.0.rates",
    "stage.0.clip_norm",
)
"""What the table must say of every recipe of a paper."""
MAIN = RECIPES / "tables" / "main.toml"


def entries() -> Iterator[tuple[str, dict[str, Any]]]:
    """All entries of the table, with the names that errors call them by."""
    for group in PAPERS["group"]:
        yield from (
            (f"{group['recipes'][0]}: {key}", entry) for key, entry in group["values"].items()
        )
    for kind in ("columns", "rows", "figures", "costs", "table_figures"):
        for name, values in PAPERS[kind].items():
            yield from ((f"{kind} of {name}: {key}", entry) for key, entry in values.items())


def wanted(recipe: str, column: str = "", plan: str = "") -> dict[str, Any]:
    """What a recipe must have on a column's data, or in a plan, by key."""
    values: dict[str, Any] = {}
    groups = PAPERS["group"]
    for group in [
        *(each for each in groups if "on" not in each),
        *(each for each in groups if "on" in each),
    ]:
        if {recipe, plan} & set(group["recipes"]) and column in group.get("on", [column]):
            values |= {key: entry["value"] for key, entry in group["values"].items()}
    return values


def at(document: Any, key: str) -> Any:
    """The value of a dotted key; None where the recipe gives none."""
    for part in key.split("."):
        document = document[int(part)] if part.isdecimal() else document.get(part)
        if document is None:
            return None
    return document


def faults(settings: Any, values: dict[str, Any], changed: set[str] = frozenset()) -> list[str]:  # type: ignore[assignment]
    """Where a recipe differs from the table, but for keys that its row changes."""
    document = recipe_document(settings)
    found = {key: plain(at(document, key)) for key in values}
    changes = [
        key for key in values if any(within(key, other) or within(other, key) for other in changed)
    ]
    return [
        f"{key} is {found[key]!r}, wanted {value!r}"
        for key, value in values.items()
        if found[key] != value and key not in changes
    ]


def within(key: str, above: str) -> bool:
    """Whether a key is another one, or below it."""
    return f"{key}.".startswith(f"{above}.")


def plain(value: Any) -> Any:
    """A value as TOML would give it."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


@pytest.fixture(scope="module")
def starts(tmp_path_factory):
    """Settings that let a recipe start without what it names: a checkpoint, the bundled model, an n-gram model."""
    folder = tmp_path_factory.mktemp("starts")
    tokenizer = build_ngrams(["how are you", "fine"], minimum_count=1, bigrams=2, buckets=2)
    persistence.save(
        folder / "ngram",
        build_module(NGRAM, tokenizer.rows),
        tokenizer,
        max_length=128,
        card="# n\n",
    )
    checkpoint = write_checkpoint(folder / "bert", OF_RECIPES)

    def start(recipe: str) -> list[str]:
        if recipe.startswith("poly/"):
            return [] if recipe == "poly/pretrain" else [f"init.transformer={checkpoint}"]
        model = folder / "ngram" if "ngram" in recipe else "convert-small"
        return [f"init.model={model}"] if recipe.startswith("fine-tune") else []

    return start


def test_every_recipe_is_of_a_paper_or_our_own_with_a_reason():
    of_papers = {*CLAIMING, *PAPERS["plans"]}
    assert of_papers | set(PAPERS["own"]) == NAMES
    assert not of_papers & set(PAPERS["own"])
    assert all(len(reason) > 10 for reason in PAPERS["own"].values())


def test_every_value_has_its_source_and_what_is_chosen_a_row_in_the_choices():
    sections = [section.split("\n| ")[2:] for section in CHOICES.split("\n## ")]
    asked = [[row.partition("|")[0].strip() for row in rows] for rows in sections]
    assert not [question for each in asked for question in each if each.count(question) > 1], (
        "a question has one row"
    )
    questions = set(itertools.chain(*asked))
    for name, entry in entries():
        assert set(entry) <= {"value", "source", "choice", "paper"}, name
        assert "source" in entry or "choice" in entry, (
            f"{name}: no source, and no row in docs/choices.md"
        )
        assert entry.get("source", "POLY").split()[0] in ("ACL19", "CONVERT", "DATA19", "POLY"), (
            name
        )
        assert "paper" not in entry or {"source", "choice"} <= set(entry), (
            f"{name} deviates without a row"
        )
        assert "choice" not in entry or entry["choice"] in questions, (
            f"{name}: no row '{entry['choice']}'"
        )


@pytest.mark.parametrize("name", CLAIMING)
def test_a_recipe_of_a_paper_has_its_values(name, starts):
    values = wanted(name)
    missing = [key for key in HELD if not any(within(key, other) for other in values)]
    assert not missing, f"papers.toml says nothing of {', '.join(missing)}"
    assert not (found := faults(load_recipe(RECIPES / f"{name}.toml", starts(name)), values)), (
        "\n".join(found)
    )


@pytest.mark.parametrize(
    "name", [name for name in PAPERS["plans"] if name.startswith("ablations/")]
)
def test_every_row_of_a_plan_has_them_but_for_what_it_changes(name, starts, monkeypatch):
    monkeypatch.setattr(ablation_plan, "check_stages", lambda *_: None)  # which test_recipe.py does
    path = RECIPES / f"{name}.toml"
    base = str(
        (path.parent / tomllib.loads(path.read_text("utf-8"))["recipe"])
        .resolve()
        .relative_to(RECIPES)
    )[:-5]
    values = wanted(base, PAPERS["plans"][name], name)
    values = {
        key: value
        for key, value in values.items()
        if key != "stage.0.steps" or "stage.0.epochs" not in values
    }
    for row in ablation_plan.load_plan(path, starts(base)).rows:
        changed = {setting.partition("=")[0] for setting in row.settings}
        # the one takes the place of the other
        changed |= {"scale.steps"} if "scale.share" in changed else set()
        assert not (found := faults(row.recipe, values, changed)), f"{row.name}\n" + "\n".join(
            found
        )


@pytest.mark.parametrize("name", PAPERS["rows"])
def test_a_row_changes_what_the_papers_row_does(name):
    rows = {
        row["name"]: row
        for row in tomllib.loads((RECIPES / f"{name}.toml").read_text("utf-8"))["row"]
    }
    for row, entry in PAPERS["rows"][name].items():
        assert rows[row]["settings"] == entry["value"], row


@pytest.mark.parametrize("name", PAPERS["figures"])
def test_a_row_has_the_papers_figure(name):
    wanted_figures = {row: entry["value"] for row, entry in PAPERS["figures"][name].items()}
    assert published_of(name, "published") == wanted_figures


def published_of(name: str, key: str) -> dict[str, Any]:
    """What a plan says of the paper's figures, by row."""
    plan = tomllib.loads((RECIPES / f"{name}.toml").read_text("utf-8"))
    rows = [{**plan, "name": "base"}, *plan["row"]]
    return {row["name"]: row[key] for row in rows if key in row}


def test_the_papers_figures_and_costs_of_all_plans_are_held():
    plans = [str(path.relative_to(RECIPES))[:-5] for path in (RECIPES / "ablations").glob("*.toml")]
    plans = [name for name in plans if name in PAPERS["plans"]]
    assert set(PAPERS["figures"]) == {name for name in plans if published_of(name, "published")}
    assert set(PAPERS["costs"]) == {name for name in plans if published_of(name, "published_cost")}
    for name, entries_of in PAPERS["costs"].items():
        found = published_of(name, "published_cost")
        assert {row: [cost["steps_per_second"], cost["usd"]] for row, cost in found.items()} == {
            row: entry["value"] for row, entry in entries_of.items()
        }


def test_the_main_table_has_the_papers_figures_and_no_others():
    rows = table().row
    assert set(PAPERS["table_figures"]) == {key for key, row in rows.items() if row.published}
    for key, entries_of in PAPERS["table_figures"].items():
        left = {f"left {column}": value for column, value in rows[key].published_left.items()}
        wanted_figures = {column: entry["value"] for column, entry in entries_of.items()}
        assert rows[key].published | left == wanted_figures, key


def test_a_row_of_the_main_table_has_the_figure_of_its_ablation():
    """POLY's Table 4 stands in both; ConvAI2's test set, which the table lacks, is left out."""
    pairs = {
        ("poly", "ablations/poly-table4", "base"),
        ("poly-first", "ablations/poly-first", "first-64"),
        ("poly-own", "ablations/poly-first-own", "base"),
        ("poly-first-own", "ablations/poly-first-own", "first-64"),
        ("poly-16-books", "ablations/poly-first-books", "learnt-16"),
        ("poly-books", "ablations/poly-first-books", "base"),
        ("poly-360-books", "ablations/poly-first-books", "learnt-360"),
    }
    for key, plan, row in pairs:
        figures = PAPERS["figures"][plan][row]["value"]
        for column in ("dstc7", "ubuntu"):
            assert table().row[key].published[column] == figures[f"{column} test"], key


@cache
def table() -> TablePlan:
    return load_table(MAIN)


def trainings(plan: TablePlan) -> Iterator[tuple[str, str, str, list[str]]]:
    """Row, column, recipe and settings of every command of a table that trains."""
    for (key, row), (name, column) in itertools.product(plan.row.items(), plan.column.items()):
        words = shlex.split(row.command_for(name, column.path))
        if row.ranker_for(name, column.path) and words[:2] == ["rejoinder", "train"]:
            settings = [value for option, value in itertools.pairwise(words) if option == "--set"]
            yield key, name, words[2].removeprefix("recipes/").removesuffix(".toml"), settings


def test_every_command_of_the_main_table_trains_with_them(starts):
    found: list[str] = []
    for row, column, recipe, settings in dict.fromkeys(
        (*each[:3], tuple(each[3])) for each in trainings(table())
    ):
        # what DIRECT ranks by is trained once
        on = column if "{column}" in table().row[row].make else "general"
        changed = load_recipe(RECIPES / f"{recipe}.toml", [*settings, *starts(recipe)])
        values = wanted(recipe, on)
        if recipe == "fine-tune-direct" and "multi" not in row:
            # a single-context model reads no earlier messages
            values.pop("model.numbered_history", None)
        if row.startswith("poly-first"):
            # first outputs instead of learnt codes are what these rows are for
            values.pop("model.codes")
        if row.endswith(("-16-books", "-360-books")):
            values.pop("model.m")  # as these rows are called
        found += [f"{row} on {column}: {fault}" for fault in faults(changed, values)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", table().column)
def test_the_data_sets_of_the_main_table_are_the_papers(name):
    column, words = table().column[name], shlex.split(table().column[name].make)
    given = asdict(column)
    pairs = list(itertools.pairwise(words))
    given["set"] = [value for option, value in pairs if option == "--set"]
    given["inputs"] = [
        word for before, word in pairs[2:] if word[0] != "-" and before[:2] not in ("--", "-o")
    ]
    values = {key: entry["value"] for key, entry in PAPERS["columns"][name].items()}
    assert {key: given[key] for key in values} == values
    untold = {"set", "limit", "candidates", "draw"} - set(values)
    assert not any(given[key] for key in untold), "papers.toml says nothing of it"


@pytest.mark.parametrize(
    "path", sorted((RECIPES / "tables").glob("*.toml")), ids=lambda path: path.stem
)
def test_what_is_trained_on_a_column_has_something_to_validate_on(path):
    plan = load_table(path)
    for row, name, _, settings in trainings(plan):
        words = plan.column[name].make.split()
        parts = {word.partition("=")[0] for word in words} & {"train", "valid", "test"}
        of_its_own = "{column}" in plan.row[row].make and "train" in parts
        assert not of_its_own or "valid" in parts or "validation.examples=0" in settings, (
            f"{row} on {name}"
        )
