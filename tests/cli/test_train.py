"""`rejoinder train` and `rejoinder lab tokenise`, from the words of the command to its exit code."""

import json
import re
import signal
from pathlib import Path
from unittest.mock import DEFAULT, Mock

import pytest

from rejoinder.training.display import TerminalDisplay
from rejoinder.training.preparation import inputs as prepare_module
from rejoinder.training.run import checkpoint
from rejoinder.training.preparation.inputs import prepare
from rejoinder.training.recipe_files import load_recipe, save_recipe
from tests.training.tiny import recipe, write_data


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("examples"))


@pytest.fixture
def recipe_file(tmp_path):
    save_recipe(recipe(""), tmp_path / "tiny.toml")
    return tmp_path / "tiny.toml"


def test_recipes_are_listed_and_every_verb_takes_them_by_name(
    command, refused, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    listed = {each["name"]: each for each in command("list", "recipes", "--json").json["recipes"]}
    assert "convert-small fine-tuned" in listed["fine-tune-fast"]["description"]
    assert {each["verb"] for each in listed.values()} == {"train", "lab ablate", "lab table"}
    assert all(Path(each["path"]).is_file() and each["description"] for each in listed.values())
    assert re.search(r"\n  fine-tune-fast +convert-small fine-tuned", command("list", "recipes").out)
    for verb in (("train",), ("lab", "tokenise")):
        refused(
            *verb,
            "fine-tune-fast",
            "--init",
            "convert-small",
            "--data",
            "nowhere",
            "-o",
            verb[-1],
            said="nowhere",
        )
        refused(*verb, "fine-tune-slow", "-o", "x", said="a name that `rejoinder list recipes` lists")
    refused(
        "lab",
        "ablate",
        "ablations/convert-quick",
        "--data",
        "x",
        "-o",
        "y",
        "--row",
        "none",
        said="has no row 'none'",
    )


def test_json_is_one_object_and_everything_else_goes_to_standard_error(
    command, recipe_file, data, tmp_path
):
    words = ("train", recipe_file, "--data", data, "-o", tmp_path / "run")
    ended = command(*words, "--json")
    assert (ended.json["steps"], ended.json["already_finished"]) == (20, False)
    assert Path(ended.json["model"]) == tmp_path / "run" / "model"
    assert "validation on 80 examples among 20: recall@1" in ended.err
    out = command(*words).out
    assert "is finished already" in out
    assert "model: " in out


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["--set", "loss.smothing=0.1"], "unknown key 'loss.smothing'; did you mean 'smoothing'?"),
        (["--set", "stage.0.batch_size=4000"], "320 training examples do not fill a batch of 4000"),
        (["--set", "stage.0.active_blocks=9"], "active_blocks = 9, but the model has 2"),
        (["--set", "compute.precision=fp16"], "fp16' needs a CUDA device"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    refused, recipe_file, data, tmp_path, settings, said
):
    refused("train", recipe_file, "--data", data, "-o", tmp_path / "run", *settings, said=said)


def test_fine_tuning_on_two_sets_from_a_model(command, refused, recipe_file, data, tmp_path):
    quick = ("--set", "stage.0.steps=3", "--set", "validation.examples=0")
    assert command("train", recipe_file, "--data", data, "-o", tmp_path / "first", *quick)[0] == 0
    general = write_data(tmp_path / 'gen "eral"', seed=3)
    tune = tmp_path / "tune.toml"
    tune.write_text("""
        name = "tune"
        data.mix = [{ share = 0.75 }]
        scale = { steps = 0 }
        validation = { every_steps = 2, examples = 40, candidates = 20 }
        compute = { device = "cpu", threads = 1 }
        stage = [{ name = "mixed", batch_size = 32, steps = 4, optimizer = "adamw", learning_rate = 0.001 }]
    """)
    options = ("--init", tmp_path / "first" / "model", "--general", general)
    hard = (
        "--set",
        "stage.0.hard_negatives.per_pair=2",
        "--set",
        "stage.0.hard_negatives.every_steps=2",
    )
    ended = command(
        "train", tune, "--data", data, "-o", tmp_path / "run", *options, *hard, "--json"
    )
    assert ended.json["steps"] == 4
    assert "step 0: validation" in ended.err
    assert "step 2: hard negatives for 64 pairs, 2 each" in ended.err
    output = ("--data", data, "-o", tmp_path / "other")
    refused("train", tune, *output, said="give a model to start from (--init MODEL")
    refused("train", tune, *output, *options[:2], said="no data to mix in: give --general DIR")
    refused(
        "train", recipe_file, *output, *options[2:], said="the recipe lists nothing in 'data.mix'"
    )


@pytest.mark.parametrize(
    ("mix", "folders", "shares"),
    [
        ([0.4], ["one"], [0.4]),
        ([0.4], ["one", "two"], [0.2, 0.2]),
        ([0.2, 0.4], ["one", "two"], [0.2, 0.4]),
        ([0.2, 0.4], ["one", "two", "three"], [0.2, 0.2, 0.2]),
    ],
)
def test_general_data_of_several_folders_divide_the_share(
    command, recipe_file, data, tmp_path, mix, folders, shares
):
    general = [str(write_data(tmp_path / name, train=60, valid=4)) for name in folders]
    words = [word for folder in general for word in ("--general", folder)]
    settings = [f"data.mix=[{', '.join(f'{{share={share}}}' for share in mix)}]", "stage.0.steps=1"]
    words += [word for setting in settings for word in ("--set", setting)]
    run = tmp_path / "run"
    assert command("train", recipe_file, "--data", data, "-o", run, *words)[0] == 0
    mixed = load_recipe(run / "recipe.toml").data.mix
    assert [entry.train for entry in mixed] == general
    assert [entry.share for entry in mixed] == pytest.approx(shares)


def test_a_recipe_that_mixes_nothing_names_those_that_do(refused, recipe_file, data, tmp_path):
    refused(
        *("train", recipe_file, "--data", data, "--general", data, "-o", tmp_path / "run"),
        said=(
            "so it mixes no general data; leave --general out, or take a recipe that does: ",
            " fine-tune-fast-mixed, fine-tune-mixed-small, fine-tune-mixed, fine-tune-ngram-mixed",
        ),
    )


def test_ctrl_c_is_130_and_says_how_to_go_on(command, recipe_file, data, tmp_path, monkeypatch):
    def show(self, progress):  # noqa: ARG001
        if progress.step == 7:
            signal.raise_signal(signal.SIGINT)

    words = ("train", recipe_file, "--data", data, "-o", tmp_path / "run")
    with monkeypatch.context() as patched:
        patched.setattr(TerminalDisplay, "show", show)
        code, _, err = command(*words)
    assert code == 130
    assert "stopped at step 7, checkpoint written; the same command continues from there (in" in err
    assert "no half-written output is left" not in err
    code, _, err = command(*words)
    assert code == 0
    assert "at step 7" in err


def test_ctrl_c_before_the_first_step_says_that_the_folder_remains(command, recipe_file, data, tmp_path, monkeypatch):
    words = ("train", recipe_file, "--data", data, "-o", tmp_path / "run")
    with monkeypatch.context() as patched:
        patched.setattr("rejoinder.training.loop.build_parts", Mock(side_effect=KeyboardInterrupt()))
        code, _, err = command(*words)
    assert code == 130
    assert err.splitlines()[-1] == f"rejoinder: interrupted; {tmp_path / 'run'} remains: the same command goes on with it"
    assert command(*words).code == 0
    with monkeypatch.context() as patched:
        patched.setattr("rejoinder.training.loop.joined", Mock(side_effect=KeyboardInterrupt()))
        code, _, err = command(*words[:-1], tmp_path / "new")
    assert (code, err) == (130, "rejoinder: interrupted; no half-written output is left\n")


def test_a_full_disk_is_exit_code_1_and_the_last_checkpoint_stays(
    command, recipe_file, data, tmp_path, monkeypatch
):
    words = ("train", recipe_file, "--data", data, "-o", tmp_path / "run", "--json")
    saves = [DEFAULT, DEFAULT, *[OSError(28, "No space left on device")] * 9]
    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "save_file", Mock(wraps=checkpoint.save_file, side_effect=saves))
        code, _, err = command(*words)
    assert code == 1
    assert "no space left" in err.lower()
    assert "Traceback" not in err
    assert command(*words).json["steps"] == 20


def test_training_finds_what_was_tokenised_ahead(answer, recipe_file, data, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    counts = answer("lab", "tokenise", recipe_file, "--data", data, "-o", cache, "--processes", 2)[
        "examples"
    ]
    monkeypatch.setattr(prepare_module, "build_store", None)
    monkeypatch.setattr(prepare_module, "build_vocabulary", None)
    settings = [f"data.train={json.dumps(str(data))}", f"data.cache={json.dumps(str(cache))}"]
    prepared = prepare(load_recipe(recipe_file, settings), tmp_path / "run")
    assert (len(prepared.train), sum(map(len, prepared.valid.values()))) == (
        counts["train"],
        counts["valid"],
    )
    assert not (tmp_path / "run").exists()


def test_bad_input_of_tokenise(refused, recipe_file, tmp_path):
    words = ("lab", "tokenise", recipe_file, "-o", tmp_path / "cache")
    refused(*words, said="no data to train on: give --data DIR")
    refused(*words, "--ray", "auto", "--processes", 2, said="--processes is for this machine")
