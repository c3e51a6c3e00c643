"""Starting from a trained model: what is taken, what may differ, and that a run cannot change it unnoticed."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import rejoinder
from rejoinder.corpora.forms.examples import read_examples
from rejoinder.encoders import folders
from rejoinder.encoders import persistence
from rejoinder.errors import InputError
from rejoinder.evaluation.ranking import evaluate
from rejoinder.training.loop import train
from rejoinder.training.metrics import read_metrics
from rejoinder.training.recipe_files import (
    load_recipe,
    parse_recipe,
    recipe_document,
    save_recipe,
)
from tests.training.test_loop import At, CrashError, crash
from tests.training.tiny import MODEL, checkpoint_of, document, recipe, stage, write_data


def trained(folder, data, **sections):
    return Path(train(recipe(data, text={"max_length": 30}, **sections), folder).model)


@pytest.fixture(scope="module")
def model(tmp_path_factory, data):
    """A model that has learned something, with texts of at most 30 tokens."""
    return trained(tmp_path_factory.mktemp("pretrained"), data, stage=[stage(steps=40)])


@pytest.fixture(scope="module")
def other(tmp_path_factory, data):
    return trained(tmp_path_factory.mktemp("other"), data, seed=1, stage=[stage(steps=1)])


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("target"), train=200, topics=12, seed=7)


def tuned(model, target, /, **sections):
    """A recipe that starts from `model`: no vocabulary, nothing of the model."""
    bare = {
        name: table
        for name, table in document(target).items()
        if name not in ("vocabulary", "model")
    }
    return bare | {"init": {"model": str(model)}} | sections


def made(model, target, /, **sections):
    return parse_recipe(tuned(model, target, **sections))


def test_structure_vocabulary_and_longest_text_are_those_of_the_model(tmp_path, model, target):
    """And dropout may differ, which is saved with what comes out."""
    settings = made(model, target, model={"dropout": 0.4}, stage=[stage(steps=1)])
    _, config = persistence.read_config(model)
    assert settings.init.fingerprint == folders.fingerprint(config)
    assert json.loads(json.dumps(settings.model)) == config["model"] | {"dropout": 0.4}
    assert settings.text.max_length == 30
    assert made(model, target, text={"max_length": 20}).text.max_length == 20, "it may be given"
    assert made(model, target, model=dict(MODEL)) == made(model, target), (
        "what repeats the model is not a conflict"
    )
    train(settings, tmp_path)
    assert (tmp_path / "model" / "vocabulary.json").read_bytes() == (
        model / "vocabulary.json"
    ).read_bytes()
    assert persistence.read_config(tmp_path / "model")[1]["model"]["dropout"] == 0.4


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        (
            {"model": {"blocks": 3, "dropout": 0.2, "head_size": 8}},
            "model.blocks = 3 (there 2), model.head_size = 8 (there 4); leave out what the model brings (only dropout, "
            "numbered_history, persona_first, persona_weight, input_weight, opening_weight, subject_threshold, "
            "history_gate may",
        ),
        ({"model": {"kind": "other"}}, "model.kind = 'other' (there 'convert')"),
        ({"model": {"droput": 0.1}}, "unknown key 'model.droput'; did you mean 'dropout'?"),
        ({"vocabulary": {"target_size": 500}}, "the vocabulary is that of init.model"),
        ({"init": {"model": "nowhere"}}, "init.model: no model 'nowhere'"),
        (
            {"init": {"fingerprint": "abc"}},
            "init: fingerprint is given, but no model that it belongs to",
        ),
        (
            {"init": {}},
            "give a model to start from (--init MODEL, or init.model), a transformer for its parts",
        ),
    ],
)
def test_conflicts_are_named(model, target, sections, said):
    whole = tuned(model, target)
    if "init" in sections and "model" not in sections["init"]:
        whole["model"] = dict(MODEL)
    with pytest.raises(InputError) as caught:
        parse_recipe(whole | sections)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "said", "refused"),
    [
        (
            "init.model=minilm",
            "or an id on the Hugging Face Hub (owner/name); init.transformer takes minilm or another transformer, "
            "where model.kind is made of transformers",
            "e5",
        ),
        (
            "distillation.teacher=minilm",
            "(owner/name); distillation.encoder also takes minilm, use, e5, or st:NAME of sentence-transformers",
            "bm25",
        ),
        ("distillation.teacher=sim:minilm", "use, e5, or st:NAME of sentence-transformers", "bm25"),
        ("distillation.encoder=bm25", "minilm, use, e5, or st:NAME of sentence-transformers", "rank"),
    ],
)
def test_an_unknown_model_s_error_lists_what_its_key_takes(model, target, setting, said, refused):
    key, name = setting.split("=")
    with pytest.raises(InputError) as caught:
        parse_recipe(tuned(model, target), [setting])
    error = str(caught.value)
    assert f"{key}: no model '{name}': give a model folder (RUN/model of a training run), bi-small, " in error
    assert error.endswith(said)
    assert refused not in error.removesuffix(said)


def test_a_fingerprint_in_the_recipe_pins_the_model(model, target):
    with pytest.raises(
        InputError,
        match=r"init.fingerprint = 'abc', but .*model has '[0-9a-f]{64}'; give the model with that "
        r"fingerprint, or remove the fingerprint$",
    ):
        made(model, target, init={"model": str(model), "fingerprint": "abc"})
    right = made(model, target).init.fingerprint
    assert (
        made(model, target, init={"model": str(model), "fingerprint": right}).init.fingerprint
        == right
    )


def test_a_run_s_recipe_takes_another_model(tmp_path, model, other, target):
    """The stored fingerprint goes with the stored model, and is checked where that stays."""
    file, moved = tmp_path / "recipe.toml", tmp_path / "moved"
    first, second = made(model, target).init.fingerprint, made(other, target).init.fingerprint
    save_recipe(made(model, target), file)
    assert load_recipe(file, [f"init.model={other}"]).init.fingerprint == second
    assert load_recipe(file, places={"init.model": other}).init.fingerprint == second
    assert parse_recipe(tuned(model, target), [f"init.model={other}"]).init.fingerprint == second
    shutil.copytree(other, moved)
    save_recipe(made(moved, target), file)
    shutil.rmtree(moved)
    shutil.copytree(model, moved)
    said = f"init.fingerprint = '{second}', but .*moved has '{first}'"
    for settings in (
        [],
        [f"init.model={moved}"],
        [f"init.model={model}", f"init.fingerprint={second}"],
        [f"init.fingerprint={second}", f"init.model={model}"],
    ):
        with pytest.raises(InputError, match=said.replace("moved", "(moved|model)")):
            load_recipe(file, settings)
    assert load_recipe(file, ['init.fingerprint=""']).init.fingerprint == first


def test_a_run_s_recipe_takes_another_teacher(model, other, target):
    before = made(model, target, distillation={"encoder": str(model)})
    for teacher in (str(other), "minilm"):
        document = recipe_document(before)
        changed = parse_recipe(document, [f"distillation.encoder={teacher}"]).distillation
        expected = "" if teacher == "minilm" else made(other, target).init.fingerprint
        assert (changed.encoder, changed.fingerprint) == (teacher, expected)


def test_before_the_first_step_the_score_is_that_of_the_model_folder(tmp_path, data, model):
    """Same weights, same groups: the figure of step 0 is what `evaluate` says of the folder."""
    train(made(model, data, model={"dropout": 0.4}, stage=[stage(steps=1)]), tmp_path)
    first = read_metrics(tmp_path / "metrics.jsonl")[0]
    expected = evaluate(
        rejoinder.load(model, precision="fp32"), list(read_examples(data, "valid")), candidates=20
    )
    assert first["step"] == 0
    assert first["valid_recall@1"] == expected.recall[1].value
    assert first["valid_mrr"] == pytest.approx(expected.mrr.value, abs=1e-12)


def test_blocks_can_be_added_and_change_nothing_at_first(tmp_path, data, target):
    start = {**MODEL, "zero_residual": True, "token_norm": False, "dropout": 0.0}
    few = {**start, "blocks": 1, "attention_spans": [3]}
    train(recipe(data, model=few, stage=[stage(steps=5)]), tmp_path / "few")
    for number, spans in enumerate([[3, 5], [3, 5, 7]]):
        changes = {"blocks": len(spans), "attention_spans": spans}
        run = tmp_path / f"more{number}"
        train(made(tmp_path / "few" / "model", data, model=changes, stage=[stage(steps=1)]), run)
        before = rejoinder.load(tmp_path / "few" / "model", precision="fp32")
        expected = evaluate(before, list(read_examples(data, "valid")), candidates=20)
        assert read_metrics(run / "metrics.jsonl")[0]["valid_recall@1"] == expected.recall[1].value
        assert rejoinder.load(run / "model").module.config.blocks == len(spans)
    for wrong in (
        {"blocks": 2, "attention_spans": [5, 5]},
        {"blocks": 3, "attention_spans": [3, 5]},
    ):
        with pytest.raises(InputError, match="blocks may be added on top"):
            made(tmp_path / "few" / "model", target, model=wrong)


def test_the_first_blocks_of_a_model_are_made_as_the_recipe_says(tmp_path, data):
    none = {**MODEL, "zero_residual": True, "token_norm": False, "blocks": 0, "attention_spans": []}
    train(recipe(data, model=none, stage=[stage(steps=5)]), tmp_path / "none")
    changes = {
        "blocks": 1,
        "attention_spans": [5],
        "feed_forward_size": 24,
        "heads": 2,
        "relative_bias": False,
    }
    train(
        made(tmp_path / "none" / "model", data, model=changes, stage=[stage(steps=1)]),
        tmp_path / "one",
    )
    before = rejoinder.load(tmp_path / "none" / "model", precision="fp32")
    expected = evaluate(before, list(read_examples(data, "valid")), candidates=20)
    assert (
        read_metrics(tmp_path / "one" / "metrics.jsonl")[0]["valid_recall@1"]
        == expected.recall[1].value
    )
    config = rejoinder.load(tmp_path / "one" / "model").module.config
    assert {key: getattr(config, key) for key in changes} == changes | {"attention_spans": (5,)}
    with pytest.raises(InputError, match=r"model.heads = 3 \(there 2\)"):
        made(
            tmp_path / "one" / "model",
            data,
            model={"blocks": 2, "attention_spans": [5, 5], "heads": 3},
        )


def test_a_tuning_that_only_harms_leaves_the_model_as_it_was(tmp_path, data, model):
    harmful = stage(
        optimizer="sgd", learning_rate=50.0, schedule="constant", steps=10, clip_norm=1.0
    )
    summary = train(made(model, data, stage=[harmful]), tmp_path)
    assert summary.best_step == 0
    kept, given = (
        load_file(folder / "model.safetensors") for folder in (tmp_path / "model", model)
    )
    assert kept.keys() == given.keys()
    assert all(torch.equal(kept[name], given[name]) for name in given)
    name = "token_embedding.subwords.weight"
    assert not torch.equal(checkpoint_of(tmp_path).tensors[f"weights/{name}"], given[name])


def test_tuning_learns_the_target_from_the_first_model(tmp_path, data, model, target):
    mix = [{"train": str(data), "share": 0.25}]
    summary = train(
        made(model, target, data={"train": str(target), "mix": mix}, stage=[stage(steps=40)]),
        tmp_path,
    )
    first = read_metrics(tmp_path / "metrics.jsonl")[0]
    assert summary.validation["recall@1"] > first["valid_recall@1"] + 0.1
    card = (tmp_path / "model" / "README.md").read_text()
    assert (
        f"started from the model with the fingerprint `{made(model, target).init.fingerprint}`"
        in card
    )


def test_another_model_is_refused_for_a_run_that_has_begun_the_same_elsewhere_is_not(
    tmp_path, model, target, other
):
    with pytest.raises(CrashError):
        train(made(model, target), tmp_path / "run", display=At(8, crash))
    with pytest.raises(
        InputError, match=r"a run of another recipe: init.fingerprint was .* and is now"
    ):
        train(made(other, target), tmp_path / "run")
    moved = shutil.copytree(model, tmp_path / "moved")
    assert train(made(moved, target), tmp_path / "run").steps == 20


def test_the_saved_recipe_is_whole_without_the_model(tmp_path, model, target):
    gone = shutil.copytree(model, tmp_path / "model")
    settings = made(gone, target, model={"dropout": 0.4})
    save_recipe(settings, tmp_path / "recipe.toml")
    assert load_recipe(tmp_path / "recipe.toml") == settings, "also as a recipe of its own"
    shutil.rmtree(gone)
    assert load_recipe(tmp_path / "recipe.toml", resolved=True) == settings
    with pytest.raises(InputError, match=r"init.model: no model '"):
        load_recipe(tmp_path / "recipe.toml")


def test_a_model_that_is_replaced_after_the_recipe_was_read_is_refused(
    tmp_path, model, target, other
):
    place = shutil.copytree(model, tmp_path / "model")
    settings = made(place, target)
    shutil.rmtree(place)
    shutil.copytree(other, place)
    with pytest.raises(InputError, match="was replaced by another model"):
        train(settings, tmp_path / "run")
