"""Recipes: strict, with errors that name the key; those that we ship are valid, and train from any model of ours."""

import dataclasses
import itertools
import shlex
import tomllib
from pathlib import Path

import pytest

from rejoinder.encoders import persistence
from rejoinder.encoders.export.folder import export_quantized
from rejoinder.encoders.open import is_library
from rejoinder.encoders.families import FAMILIES
from rejoinder.errors import InputError
from rejoinder.settings import field_texts
from rejoinder.training.recipe import settings as recipe_module
from rejoinder.training.recipe import stages as stages_module
from rejoinder.lab.ablation_plan import load_plan
from rejoinder.lab.plan import load_table
from rejoinder.training.loop import train
from rejoinder.training.recipe.budgets import stage_budget
from rejoinder.training.recipe.optimization import learning_rate
from rejoinder.training.recipe.stages import Cosine
from rejoinder.training.recipe_files import (
    first_difference,
    load_recipe,
    parse_recipe,
    recipe_document,
    save_recipe,
)
from tests.training.test_ngram_training import ngram
from tests.training.tiny import MODEL, document, recipe, stage
from tests.training.transformers import OF_RECIPES, write_bi_encoder, write_checkpoint

RECIPES = Path(__file__).parents[2] / "recipes"
TRAINING = sorted(
    path for folder in (".", "poly", "ablations") for path in (RECIPES / folder).glob("*.toml")
)
TABLES = sorted((RECIPES / "tables").glob("*.toml"))
MOST_SETTINGS = 291  # of recipes, those of every kind of model together
REDDIT = 654_000_000  # pairs to train on (DATA19)
# for models on them alone
OF_TRANSFORMERS = [RECIPES / f"fine-tune-{what}.toml" for what in ("heads", "layers")]
FROM_A_MODEL = sorted(
    path for path in RECIPES.glob("fine-tune-*.toml") if path not in OF_TRANSFORMERS
)


def test_a_saved_recipe_has_every_default_and_is_read_back_equal(tmp_path):
    stages = [stage(rates={"blocks": 0.5}), stage()]
    original = recipe("some folder", description='quotes " and \\ and é\n', stage=stages)
    written = recipe_document(original)
    assert written["loss"] == {"smoothing": 0.2, "mask_equal_responses": True}
    assert written["stage"][0]["optimizer"]["betas"] == [0.9, 0.999]
    assert written["model"]["reduction_heads"] == 2
    save_recipe(original, tmp_path / "recipe.toml")
    assert load_recipe(tmp_path / "recipe.toml") == original


@pytest.mark.parametrize(
    ("override", "said"),
    [
        (
            "loss.smothing=0.1",
            "unknown key 'loss.smothing'; did you mean 'smoothing'? allowed: smoothing, mask_equal",
        ),
        ("lose.smoothing=1", "unknown key 'lose'; did you mean 'loss'?"),
        ("loss.smoothing=1.0", "loss.smoothing = 1.0 is not allowed: it should be less than 1"),
        (
            "stage.0.learning_rate=nan",
            "stage.0.learning_rate = nan is not allowed: it should be a finite number",
        ),
        (
            "stage.0.optimizer=addam",
            "its kind should be one of 'adadelta', 'sgd', 'adam', 'adamw', ",
        ),
        ("stage.0.schedule=step", "'stage.0.schedule.factor' is missing"),
        ("stage.0.schedule=inverse_sqrt", "needs warm_up_steps"),
        ("stage.0.active_blocks=al", "it should be a valid integer or it should be 'all'"),
        ("stage=[]", "stage = [] is not allowed: it should have at least one entry"),
        ("model.kind=bert", "model.kind = 'bert' is not allowed; allowed: 'convert'"),
        (
            "model.blocks=3",
            "model.attention_spans = [3, 5] is not allowed; it must be one positive number for each",
        ),
        ("data.history=1", "unknown key 'data.history'; allowed: train, mix, cache"),
        ("data.mix.0.train=x", "the recipe lists nothing in 'data.mix', so there is no entry 0"),
        ("name.first=x", "'name' is not a table"),
        ("name", "write it as section.key=value"),
        ("name=[1", "the value is not TOML"),
    ],
)
def test_errors_name_the_key_what_was_given_and_what_is_allowed(override, said):
    with pytest.raises(InputError) as caught:
        parse_recipe(document("data"), [override])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value).replace(override, "")


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        (
            {"stage": [stage(steps=5, minutes=1)]},
            "exactly one of steps, epochs, minutes; given: steps, minutes",
        ),
        (
            {"stage": [{k: v for k, v in stage().items() if k != "steps"}]},
            "of steps, epochs, minutes; given: none",
        ),
        ({"scale": {}}, "scale: give exactly one of steps, share; given: none"),
        ({"vocabulary": {}}, "vocabulary: give exactly one of target_size, minimum_count"),
        (
            {"validation": {"every_steps": 1, "every_seconds": 1}},
            "at most one of every_steps, every_seconds",
        ),
        (
            {"scale": {"share": 0.1}, "stage": [stage(), stage(minutes=1)]},
            "scale.share needs stages that all have a budget in minutes, or none; give stage.1.steps too,",
        ),
        (
            {"stage": [{k: v for k, v in stage().items() if k != "batch_size"}]},
            "'stage.0.batch_size' is missing",
        ),
        ({"scale": {"learned": True, "steps": 3}}, "a learned scale is not annealed"),
        ({"vocabulary": {"kind": "words"}}, "'subwords', 'ngrams'"),
        (
            {"vocabulary": {"kind": "ngrams"}},
            "model.kind = 'convert' reads vocabulary.kind = 'subwords', not 'ngrams'",
        ),
        ({"stage": [stage(rates={"embedding": "batch"})]}, "rates"),
        (
            {"stage": [stage(schedule="plateau")], "validation": {}},
            "give validation.every_epochs (paper: 0.5)",
        ),
        (
            {"quantization": {"half": "bfloat16"}},
            "half is given, but nothing is quantised; add enabled = true",
        ),
        ({"distillation": {}}, "exactly one of teacher, encoder; given: none"),
        ({"distillation": {"encoder": "use", "candidates": 4}}, "compares the whole batch"),
        (
            {"distillation": {"encoder": "use", "fingerprint": "abc"}},
            "belongs to a model of Rejoinder; use has none",
        ),
        (
            {"distillation": {"teacher": "convert-small", "sharpness": 4.0}},
            "sharpness, sample and vectors belong",
        ),
        (
            {"distillation": {"teacher": "minilm"}},
            "distillation.encoder also takes minilm",
        ),
        ({"distillation": {"teacher": "convert-small", "encoder": "bi-small"}}, "exactly one of teacher, encoder"),
        ({"distillation": {"teacher": "nowhere"}}, "distillation.teacher: no model"),
        (
            {"distillation": {"teacher": "convert-small", "fingerprint": "abc"}},
            "distillation.fingerprint = 'abc'",
        ),
        (
            {"distillation": {"encoder": "use"}, "data": {"mix": [{"share": 0.5}]}},
            "alone; leave data.mix out",
        ),
        ({"data": {"mix": [{"train": "x"}]}}, "'data.mix.0.share' is missing"),
        (
            {"data": {"mix": [{"share": 0.5}] * 2}},
            "must leave something of a batch to data.train; given: 0.5 + 0.5",
        ),
        (
            {"stage": [stage(negatives=3, given_negatives=True)]},
            "at most one of negatives, hard_negatives, given_nega",
        ),
        (
            {"stage": [stage(hard_negatives={"margin": 0.1, "share": 0.9})]},
            "at most one of margin, share; given: mar",
        ),
    ],
)
def test_impossible_combinations_are_refused(sections, said):
    with pytest.raises(InputError, match=None) as caught:
        recipe("data", **sections)
    assert said in str(caught.value)


def test_an_override_takes_toml_and_replaces_its_alternatives():
    settings = [
        "model.norm_placement=after",
        "stage.0.rates={embedding = 0.1}",
        'description="a = b"',
    ]
    settings += ["stage.0.minutes=0.5", "vocabulary.target_size=500", "scale.share=0.1"]
    settings += ["stage.0.schedule.final_learning_rate=0.001"]  # below a shorthand
    changed = parse_recipe(document("data"), settings)
    assert (changed.model["norm_placement"], changed.description) == ("after", "a = b")
    assert changed.stage[0].rates == {"embedding": 0.1}
    assert (changed.stage[0].steps, changed.stage[0].minutes) == (None, 0.5)
    assert (changed.vocabulary.minimum_count, changed.scale.steps) == (None, None)
    assert changed.stage[0].schedule == Cosine(final_learning_rate=0.001)


def test_a_missing_or_an_empty_file_says_what_is_missing(tmp_path):
    with pytest.raises(InputError, match="no such recipe"):
        load_recipe(tmp_path / "recipe.toml")
    (tmp_path / "recipe.toml").touch()
    with pytest.raises(InputError, match="'name' is missing"):
        load_recipe(tmp_path / "recipe.toml")


def test_the_first_difference_is_named_with_both_values():
    old, new = recipe("a"), parse_recipe(document("b"), ["stage.0.learning_rate=0.5", "seed=1"])
    assert first_difference(old, recipe("b", name="x", description="y")) is None, (
        "places and names make no other run"
    )
    assert first_difference(old, new) == "seed was 0 and is now 1"
    absent = parse_recipe(document("a"), ["stage.0.minutes=1.5"])
    assert first_difference(old, absent) == "stage.0.minutes was not given and is now 1.5"
    fewer = first_difference(recipe("a", stage=[stage(), stage()]), old)
    assert fewer == 'stage.1.name was "only" and is now not given'


def read_toml(path):
    return tomllib.loads(path.read_text("utf-8"))


def two_steps(path, data):
    """Settings that make a recipe train two steps of each stage on the small data."""
    file = read_toml(path)
    settings = [f"data.train={data}", "validation.candidates=20", "compute.threads=1"]
    settings += [] if file["validation"].get("examples") == 0 else ["validation.examples=20"]
    settings += [
        f"data.mix.{number}.train={data}"
        for number, _ in enumerate(file.get("data", {}).get("mix", []))
    ]
    for number, each in enumerate(file["stage"]):
        budget = "steps=2" if "steps" in each or "epochs" in each else "minutes=0.002"
        settings += [f"stage.{number}.batch_size=8", f"stage.{number}.{budget}"]
    return settings


@pytest.fixture(scope="module")
def models(tmp_path_factory, data):
    place = tmp_path_factory.mktemp("models")
    without_blocks = {
        "history": 10,
        "blocks": 0,
        "attention_spans": [],
        "token_norm": False,
        "zero_residual": True,
        "aligned_start": True,
    }
    for name, more in (("single", {}), ("multi", {"history": 3}), ("full", without_blocks)):
        train(
            recipe(data, model=MODEL | more, stage=[stage(steps=1, active_blocks="all")]),
            place / name,
        )
    export_quantized(place / "full" / "model", place / "bundled")
    train(ngram(data, stage=[stage(steps=1)]), place / "ngram")
    runs = {name: place / name / "model" for name in ("single", "multi", "ngram")}
    return {**runs, "bundled": place / "bundled"}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        *itertools.product(FROM_A_MODEL, ("bundled", "ngram")),
        (FROM_A_MODEL[0], "single"),
        (FROM_A_MODEL[-1], "multi"),
    ],
    ids=lambda value: getattr(value, "stem", value),
)
def test_it_trains_from_any_model(tmp_path, data, models, path, name):
    cut = ["text.cut=end"] * (name == "ngram" and "text" in read_toml(path))
    settings = load_recipe(path, [f"init.model={models[name]}", *two_steps(path, data), *cut])
    _, config = persistence.read_config(models[name])
    assert settings.model.get("history") == config["model"].get("history")
    train(settings, tmp_path / "run")
    _, tuned = persistence.read_config(tmp_path / "run" / "model")
    assert tuned["model"] == config["model"] | read_toml(path).get("model", {})


@pytest.mark.parametrize(
    "path",
    [*itertools.chain(*map(RECIPES.glob, ("convert*", "fine-tune-*", "target-only*")))],
    ids=lambda path: path.stem,
)
def test_our_own_recipes_read_both_ends_of_a_long_message_those_of_the_papers_its_beginning(
    path, starts
):
    [(_, settings)] = resolved(path, starts)
    ours = path.stem.endswith(
        ("-small", "-quick", "-fast", "-fast-mixed", "-heads", "-layers", "-service")
    )
    # whose model was trained by convert-small
    if "ngram" not in path.stem and path.stem != "convert-small-taught":
        assert settings.text.cut == ("middle" if ours else None)


def test_a_tuned_model_tells_mails_apart_that_differ_at_the_end(tmp_path, data, models):
    path = RECIPES / "fine-tune-fast.toml"
    train(
        load_recipe(path, [f"init.model={models['bundled']}", *two_steps(path, data)]),
        tmp_path / "run",
    )
    greeting = "good morning to all of you and i hope that you are well " * 8
    mails = [greeting + "i want a refund", greeting + "i forgot my password"]
    cosines = {}
    for place in (models["bundled"], tmp_path / "run" / "model"):
        one, other = persistence.load(place).encode_contexts([[mail] for mail in mails])
        cosines[place.name] = float(one @ other)
    assert cosines["bundled"] == pytest.approx(1, abs=1e-6)
    assert cosines["model"] < 0.999


@pytest.fixture(scope="module")
def starts(tmp_path_factory, models):
    """What recipes start from, as settings: a checkpoint, or a model of one kind or the other."""
    place = tmp_path_factory.mktemp("starts")
    checkpoint = write_checkpoint(place / "bert", OF_RECIPES)
    return {
        "transformer": [f"init.transformer={checkpoint}"],
        "bi": [f"init.model={write_bi_encoder(checkpoint)}"],
        "convert": [f"init.model={models['multi']}"],
        "ngram": [f"init.model={models['ngram']}"],
    }


def resolved(path, starts):
    """A recipe, or every row of a plan, by name."""
    file = read_toml(path)
    of = path.parent / file["recipe"] if "row" in file else path
    base = read_toml(of)
    given = base.get("init", {}).get("transformer") or of.resolve().parent.name == "poly"
    kind = "bi" if "anchor" in base.get("init", {}) else "transformer" if given else "convert"
    start = [] if "vocabulary" in base else starts[kind]
    if not is_library(base.get("distillation", {}).get("encoder", "minilm")):
        start = [*start, "distillation.encoder=convert-small"]  # for one of another package
    if "row" in file:
        yield from ((row.name, row.recipe) for row in load_plan(path, start).rows)
    else:
        settings = load_recipe(path, start)
        assert settings.name == path.stem or path.parent != RECIPES
        yield path.stem, settings


def resolved_commands(path, starts):
    """What the commands of a table train, by command."""
    plan = load_table(path)
    for row, name in itertools.product(plan.row.values(), plan.column):
        words = shlex.split(command := row.command_for(name, plan.column[name].path))
        if name in row.skip or words[:2] != ["rejoinder", "train"]:
            continue
        start = (
            starts["ngram" if "ngram" in str(row.ranker) else "convert"]
            if "--init" in words
            else []
        )
        start = starts["transformer"] if words[2].startswith("recipes/poly/") else start
        settings = [value for option, value in itertools.pairwise(words) if option == "--set"]
        yield command, load_recipe(RECIPES.parent / words[2], [*settings, *start])


@pytest.mark.parametrize("path", [*TRAINING, *TABLES], ids=lambda path: "/".join(path.parts[-2:]))
def test_what_we_ship_is_valid_with_sane_learning_rates_all_along(path, starts):
    """Of every recipe, of every row of a plan and of every command of a table, on a corpus as large as Reddit."""
    read = resolved_commands if path in TABLES else resolved
    for name, settings in read(path, starts):
        for each in settings.stage:
            budget = stage_budget(each, REDDIT // each.batch_size)
            steps = 1_000 if budget.in_seconds else budget.amount
            lowest = min(
                1e-6 * each.learning_rate, getattr(each.schedule, "final_learning_rate", 1.0)
            )
            for share in (0.25, 0.5, 0.75, 1.0):
                rate = learning_rate(each.schedule, each.learning_rate, int(share * steps), share)
                assert lowest <= rate <= each.learning_rate, (name, each.name, share)


def test_every_setting_of_a_recipe_has_a_line_of_documentation():
    """A kind, and a table that is a section with its own docstring, needs none."""
    unsaid = [
        f"{section.__name__}.{field.name}"
        for module in (recipe_module, stages_module)
        for section in vars(module).values()
        if dataclasses.is_dataclass(section) and section.__module__ == module.__name__
        for field in dataclasses.fields(section)
        if field.name != "kind" and not dataclasses.is_dataclass(vars(module).get(field.type))
        if not field_texts(section).get(field.name, "").endswith((".", ")"))
    ]
    assert not unsaid


def test_recipes_have_no_more_settings_than_are_known():
    counts = {}
    for module in (recipe_module, stages_module):
        for section in vars(module).values():
            if dataclasses.is_dataclass(section) and section.__module__ == module.__name__:
                counts[section.__name__] = len(dataclasses.fields(section))
    for kind, family in FAMILIES.items():
        if kind != "joined":  # is not a kind that trains
            counts[kind] = len(dataclasses.fields(family.config))
    assert sum(counts.values()) <= MOST_SETTINGS, counts
