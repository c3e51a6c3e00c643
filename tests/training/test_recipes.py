"""All recipes and plans together: their learning rates; and those that start from a model, from any of ours."""

import itertools
import shlex
import tomllib
from pathlib import Path

import pytest

from rejoinder.models import persistence
from rejoinder.models.export import export_quantized
from rejoinder.training.ablations import load_plan
from rejoinder.training.loop import train
from rejoinder.training.optimization import learning_rate, stage_budget
from rejoinder.training.recipe_files import load_recipe
from tests.training.test_ngram_training import ngram
from tests.training.tiny import MODEL, recipe, stage
from tests.training.transformers import OF_RECIPES, write_checkpoint

RECIPES = Path(__file__).parents[2] / "recipes"
TRAINING = sorted(path for folder in (".", "poly", "ablations") for path in (RECIPES / folder).glob("*.toml"))
TABLES = sorted((RECIPES / "tables").glob("*.toml"))
REDDIT = 654_000_000  # pairs to train on (DATA19)
FROM_A_MODEL = sorted(RECIPES.glob("fine-tune-*.toml"))


def document(path):
    return tomllib.loads(path.read_text("utf-8"))


def two_steps(path, data):
    """Settings that make a recipe train two steps of each stage on the small data."""
    file = document(path)
    settings = [f"data.train={data}", "validation.candidates=20", "compute.threads=1"]
    settings += [] if file["validation"].get("examples") == 0 else ["validation.examples=20"]
    settings += [f"data.mix.{number}.train={data}" for number, _ in enumerate(file.get("data", {}).get("mix", []))]
    for number, each in enumerate(file["stage"]):
        budget = "steps=2" if "steps" in each or "epochs" in each else "minutes=0.002"
        settings += [f"stage.{number}.batch_size=8", f"stage.{number}.{budget}"]
    return settings


@pytest.fixture(scope="module")
def models(tmp_path_factory, data):
    place = tmp_path_factory.mktemp("models")
    without_blocks = {"history": 10, "blocks": 0, "attention_spans": [], "token_norm": False, "zero_residual": True,
                      "aligned_start": True}  # fmt: skip
    for name, more in (("single", {}), ("multi", {"history": 3}), ("full", without_blocks)):
        train(recipe(data, model=MODEL | more, stage=[stage(steps=1, active_blocks="all")]), place / name)
    export_quantized(place / "full" / "model", place / "bundled")
    train(ngram(data, stage=[stage(steps=1)]), place / "ngram")
    runs = {name: place / name / "model" for name in ("single", "multi", "ngram")}
    return {**runs, "bundled": place / "bundled"}


@pytest.mark.parametrize(
    ("path", "name"),
    [(path, name) for path in FROM_A_MODEL for name in ("bundled", "ngram")]
    + [(FROM_A_MODEL[0], "single"), (FROM_A_MODEL[-1], "multi")],
    ids=lambda value: value if isinstance(value, str) else value.stem,
)
def test_it_trains_from_any_model(tmp_path, data, models, path, name):
    settings = load_recipe(path, [f"init.model={models[name]}", *two_steps(path, data)])
    _, config = persistence.read_config(models[name])
    assert settings.model.get("history") == config["model"].get("history")
    train(settings, tmp_path / "run")
    _, tuned = persistence.read_config(tmp_path / "run" / "model")
    assert tuned["model"] == config["model"] | document(path).get("model", {})


@pytest.fixture(scope="module")
def starts(tmp_path_factory, models):
    """What recipes start from, as settings: a checkpoint, or a model of one kind or the other."""
    place = tmp_path_factory.mktemp("starts")
    return {
        "transformer": [f"init.transformer={write_checkpoint(place / 'bert', OF_RECIPES)}"],
        "convert": [f"init.model={models['multi']}"],
        "ngram": [f"init.model={models['ngram']}"],
    }


def resolved(path, starts):
    """A recipe, or every row of a plan, by name."""
    file = document(path)
    of = path.parent / file["recipe"] if "row" in file else path
    base = document(of)
    given = base.get("init", {}).get("transformer") or of.resolve().parent.name == "poly"
    start = [] if "vocabulary" in base else starts["transformer" if given else "convert"]
    if "row" in file:
        yield from ((row.name, row.recipe) for row in load_plan(path, start).rows)
    else:
        yield path.stem, load_recipe(path, start)


def resolved_commands(path, starts):
    """What the commands of a table train, by command."""
    for row in document(path)["row"].values():
        words = shlex.split(row.get("make", ""))
        if words[:2] != ["rejoinder", "train"]:
            continue
        start = starts["ngram" if "ngram" in row["ranker"] else "convert"] if "--init" in words else []
        start = starts["transformer"] if words[2].startswith("recipes/poly/") else start
        settings = [value for option, value in itertools.pairwise(words) if option == "--set"]
        yield row["make"], load_recipe(RECIPES.parent / words[2], [*settings, *start])


@pytest.mark.parametrize("path", [*TRAINING, *TABLES], ids=lambda path: "/".join(path.parts[-2:]))
def test_learning_rates_are_sane_all_along(path, starts):
    """Of every recipe, of every row of a plan and of every command of a table, on a corpus as large as Reddit."""
    read = resolved_commands if path in TABLES else resolved
    for name, settings in read(path, starts):
        for each in settings.stage:
            budget = stage_budget(each, REDDIT // each.batch_size)
            steps = 1_000 if budget.in_seconds else budget.amount
            lowest = min(1e-6 * each.learning_rate, getattr(each.schedule, "final_learning_rate", 1.0))
            for share in (0.25, 0.5, 0.75, 1.0):
                rate = learning_rate(each.schedule, each.learning_rate, int(share * steps), share)
                assert lowest <= rate <= each.learning_rate, (name, each.name, share)
