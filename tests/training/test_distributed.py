"""Several processes do what one does with the same batch, and none of them waits for one that is gone."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
import tomli_w
import torch

from rejoinder.corpora.forms.examples import read_examples
from rejoinder.encoders.families import build_module
from rejoinder.errors import InputError
from rejoinder.evaluation.tasks import ranking_task
from rejoinder.training import distributed
from rejoinder.lab.ablation_plan import load_plan
from rejoinder.lab.ablations import ablate
from rejoinder.training.data.batches import EpochOrder, Portion, make_step
from rejoinder.training.distributed import launch_place
from rejoinder.training.loop import TrainingInterrupted, train
from rejoinder.training.metrics import read_metrics
from rejoinder.training.preparation.inputs import prepare
from rejoinder.training.recipe_files import load_recipe, save_recipe
from rejoinder.training.run.folder import RunFolder
from tests.corpora.jobs import wait_for
from tests.training import together
from tests.training.test_loop import interrupt_at, losses, same_weights
from tests.training.test_metrics import steps_on_the_board
from tests.training.tiny import MODEL, NGRAM, NGRAM_WORDS, checkpoint_of, recipe, stage, write_data

STEADY = {"model": {**MODEL, "dropout": 0.0}}
"""Dropout is drawn for each process, so runs are compared without."""
SHORT = {
    "stage": [stage(steps=10)],
    "validation": {"every_steps": 10, "examples": 20, "candidates": 20},
}
RUNS = {
    "history": {
        "model": {**STEADY["model"], "history": 10},
        "stage": [stage(optimizer="sgd", learning_rate=1.0, schedule="constant", steps=1)],
    },
    "two_stages": {
        "stage": [
            stage(name="embeddings", active_blocks=0, steps=5, clip_norm=1.0, micro_batch=5),
            stage(
                name="blocks",
                batch_size=20,
                epochs=0.3,
                optimizer="adadelta",
                learning_rate=1.0,
                micro_batch=10,
                clip_embedding_norm=0.5,
            ),
        ]
    },
    "ngram": {
        "model": {**NGRAM, "dropout": 0.0},
        "vocabulary": NGRAM_WORDS,
        "scale": {"learned": True},
        "stage": [stage(optimizer="adamw", steps=6, clip_norm=1.0, micro_batch=5)],
    },
    "pretraining": {
        "model": {
            "kind": "masked-lm",
            "hidden_size": 8,
            "blocks": 1,
            "heads": 2,
            "feed_forward_size": 8,
            "positions": 64,
            "context_length": 40,
            "dropout": 0.0,
        },
        "vocabulary": {"kind": "bpe", "merges": 60},
        "text": {"max_length": 20},
        "loss": {"smoothing": 0.0},
        "validation": {"examples": 0},
        "scale": {"last": 1.0, "steps": 0},
        "stage": [
            stage(
                batch_tokens=150,
                batch_size=9,
                steps=6,
                micro_batch=2,
                optimizer="sgd",
                learning_rate=0.3,
                schedule="constant",
            )
        ],
    },
    "minutes": {"stage": [stage(minutes=0.01, schedule="constant")], "scale": {"share": 0.5}},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What two processes leave; the checks of `together` have passed in both."""
    folder = tmp_path_factory.mktemp("together")
    data = write_data(folder / "examples", topics=4)  # few, so that some responses are equal
    where = {"data": {"train": str(data), "cache": str(folder / "cache")}}
    for name, settings in RUNS.items():
        save_recipe(
            recipe(data, **{**STEADY, **settings, **where}), folder / "recipes" / f"{name}.toml"
        )
    save_recipe(recipe(data, **SHORT, **where), folder / "dropout.toml")
    save_recipe(recipe(data, **SHORT, **STEADY, **where), folder / "plain.toml")
    rows = [{"name": "two-heads", "settings": ["model.heads=2"]}]
    plan = {"name": "Table", "recipe": "plain.toml", "settings": ["stage.0.steps=3"], "row": rows}
    (folder / "plan.toml").write_text(tomli_w.dumps(plan))
    with pytest.raises(TrainingInterrupted):
        train(load_recipe(folder / "plain.toml"), folder / "one_then_two", display=interrupt_at(4))
    both = together.launch(folder)
    expected = dict.fromkeys((check.__name__ for check in together.CHECKS), "ok")
    assert both == [expected, {**expected, "killed": "begun"}]
    return folder


def weights(run):
    return {
        name: value
        for name, value in checkpoint_of(run).tensors.items()
        if name.startswith("weights/")
    }


def assert_same_run(one, other, tolerance):
    assert [step for step, _ in losses(one)] == [step for step, _ in losses(other)]
    assert [loss for _, loss in losses(one)] == pytest.approx(
        [loss for _, loss in losses(other)], abs=tolerance
    )
    ours, theirs = weights(one), weights(other)
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=0, atol=tolerance, msg=name)


def test_two_processes_have_the_losses_and_the_gradient_of_one(tmp_path, folder):
    """One step of plain descent at the rate 1: the weights have moved by the gradient."""
    settings = load_recipe(folder / "recipes" / "history.toml")
    tokens = prepare(settings, tmp_path / "tokens").train
    rows = EpochOrder(len(tokens), 32, (0, 0)).rows(0)
    halves = [make_step(tokens, rows, 0, Portion(rank, 2)) for rank in range(2)]
    for rank, half in enumerate(halves):
        assert (half.equal[1] // 16 != rank).any(), (
            "responses of the other process that equal one's own"
        )
    train(settings, tmp_path / "one")
    assert_same_run(folder / "two" / "history", tmp_path / "one", 2e-6)
    lines = [
        read_metrics(run / "metrics.jsonl")[0]
        for run in (folder / "two" / "history", tmp_path / "one")
    ]
    figures = [key for key in lines[1] if key.startswith(("loss", "accuracy"))]
    assert len(figures) == 8
    assert [lines[0][key] for key in figures] == pytest.approx(
        [lines[1][key] for key in figures], abs=2e-6
    )
    torch.manual_seed(settings.seed)
    after = weights(tmp_path / "one")
    before = build_module(
        settings.model, len(after["weights/token_embedding.subwords.weight"])
    ).named_parameters()
    moved = [float((after[f"weights/{key}"] - value.detach()).abs().max()) for key, value in before]
    assert min(moved) > 1e-5, "every parameter has a gradient to compare"


def test_two_processes_sum_the_rows_of_a_table(tmp_path, folder):
    """An n-gram model with a learned scale, over several steps."""
    train(load_recipe(folder / "recipes" / "ngram.toml"), tmp_path / "one")
    assert_same_run(folder / "two" / "ngram", tmp_path / "one", 1e-3)
    lines = read_metrics(folder / "two" / "ngram" / "metrics.jsonl")
    first, *others = [line["scale"] for line in lines if "scale" in line]
    assert all(scale != first for scale in others)


def test_two_processes_pretrain_as_one(tmp_path, folder):
    """Masked tokens and next utterances in turn, in batches of an odd number of pairs."""
    settings = load_recipe(folder / "recipes" / "pretraining.toml")
    summary = train(settings, tmp_path / "one")
    assert_same_run(folder / "two" / "pretraining", tmp_path / "one", 2e-5)
    found = json.loads((folder / "two" / "pretraining" / "summary.json").read_text())
    assert (found["examples"], found["tokens"]) == (summary.examples, summary.tokens)
    lines = [
        read_metrics(run / "metrics.jsonl")
        for run in (folder / "two" / "pretraining", tmp_path / "one")
    ]
    accuracies = [[line["accuracy"] for line in run] for run in lines]
    assert accuracies[0] == pytest.approx(accuracies[1], abs=1e-5)


def test_two_processes_train_the_rows_of_a_table(tmp_path, folder):
    task = ranking_task(list(read_examples(folder / "examples", "valid")), candidates=20)
    ablate(load_plan(folder / "plan.toml"), tmp_path, task, data="valid")
    places = folder / "two" / "table", tmp_path
    two, one = (json.loads((place / "table.json").read_text())["rows"] for place in places)
    assert [row["row"] for row in two] == [row["row"] for row in one] == ["base", "two-heads"]
    for ours, theirs in zip(two, one, strict=True):
        first = [row["result"]["recall"]["1"]["value"] for row in (ours, theirs)]
        assert first[0] == pytest.approx(first[1], abs=0.03)
    for row in ("base", "two-heads"):
        assert_same_run(folder / "two" / "table" / "rows" / row, tmp_path / "rows" / row, 1e-3)


def test_two_processes_stay_beside_one_over_stages_in_parts(tmp_path, folder):
    """Other optimisers, clipping, skipped blocks, gradient caching; validation and everything that is written."""
    settings = load_recipe(folder / "recipes" / "two_stages.toml")
    summary, two = train(settings, tmp_path / "one"), folder / "two" / "two_stages"
    assert_same_run(two, tmp_path / "one", 1e-3)
    found = json.loads((two / "summary.json").read_text())
    counts = (found["steps"], found["examples"], found["tokens"])
    assert counts == (summary.steps, summary.examples, summary.tokens)
    lines = [read_metrics(run / "metrics.jsonl") for run in (two, tmp_path / "one")]
    for ours, theirs in zip(*lines, strict=True):
        assert ours.keys() == theirs.keys()
        assert ours["step"] == theirs["step"]
        for name in {"accuracy", "valid_mrr", "valid_recall@1"} & ours.keys():
            assert ours[name] == pytest.approx(theirs[name], abs=0.03), name
    assert {path.name for path in two.iterdir()} == {
        path.name for path in (tmp_path / "one").iterdir()
    }


def test_a_budget_in_minutes_follows_the_clock_of_the_first(folder):
    lines = [
        line
        for line in read_metrics(folder / "two" / "minutes" / "metrics.jsonl")
        if "loss" in line
    ]
    steps = [line["step"] for line in lines]
    assert steps == list(range(1, len(steps) + 1)), "one line a step, from one process"
    assert json.loads((folder / "two" / "minutes" / "summary.json").read_text())["seconds"] >= 0.6


def test_a_run_that_is_stopped_in_one_process_stops_in_both_and_goes_on_bit_for_bit(folder):
    whole, stopped = folder / "two" / "whole", folder / "two" / "stopped"
    assert losses(stopped) == losses(whole)
    assert same_weights(stopped, whole)


def test_a_run_of_one_goes_on_in_two_and_the_other_way_round(tmp_path, folder):
    settings = load_recipe(folder / "plain.toml")
    train(settings, tmp_path / "one")
    assert checkpoint_of(folder / "two_then_one").state.step == 4
    assert train(settings, folder / "two_then_one").steps == 10
    for name in ("two_then_one", "one_then_two"):
        assert_same_run(folder / name, tmp_path / "one", 1e-3)
        assert steps_on_the_board(RunFolder(folder / name)) == list(range(1, 11))


def test_a_killed_process_ends_the_other_and_the_run_goes_on_from_its_checkpoint(tmp_path, folder):
    settings = load_recipe(folder / "plain.toml")
    assert checkpoint_of(folder / "killed").state.step == 5
    assert not (folder / "killed" / "summary.json").exists()
    train(settings, tmp_path / "one")
    assert train(settings, folder / "killed").steps == 10
    assert_same_run(folder / "killed", tmp_path / "one", 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_the_command_under_torchrun_ends_with_one_line_when_a_process_is_killed(
    tmp_path, data, rank
):
    save_recipe(
        recipe(data, stage=[stage(steps=2000)], checkpoint={"every_steps": 4}),
        tmp_path / "recipe.toml",
    )
    with _torchrun(tmp_path) as launcher:
        _await_step(launcher, tmp_path, 9)
        os.kill(_worker(launcher.pid, rank), signal.SIGKILL)
        assert launcher.wait(timeout=60) != 0, "no hang"
    lines = [
        line
        for line in (tmp_path / "said").read_text().splitlines()
        if line.startswith("rejoinder:")
    ]
    assert len(lines) == 1
    assert "the same command continues the run from its last checkpoint" in lines[0]
    assert checkpoint_of(tmp_path / "run").state.step >= 8


@pytest.mark.slow
def test_the_command_under_torchrun_can_be_interrupted_and_goes_on_to_its_end(tmp_path, data):
    save_recipe(
        recipe(data, stage=[stage(steps=100)], checkpoint={"every_steps": 50}),
        tmp_path / "recipe.toml",
    )
    with _torchrun(tmp_path) as launcher:
        _await_step(launcher, tmp_path, 9)
        launcher.send_signal(signal.SIGINT)
        assert launcher.wait(timeout=60) != 0
    said = (tmp_path / "said").read_text()
    assert said.count("checkpoint written; the same command continues from there") == 1
    with _torchrun(tmp_path) as launcher:
        assert launcher.wait(timeout=100) == 0
    result = json.loads((tmp_path / "printed").read_text())
    assert result["steps"] == 100, "one JSON object, from one process"
    assert "Continuing run at step" in (tmp_path / "said").read_text()


@contextmanager
def _torchrun(folder):
    """Two processes of the real command, started by the real launcher; what they say is in `said`."""
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--master-port",
        str(together.free_port()),
        "-m",
        "rejoinder",
        "train",
        "recipe.toml",
        "-o",
        "run",
        "--json",
    ]
    source = {"PYTHONPATH": str(together.ROOT / "src"), "OMP_NUM_THREADS": "1"}
    with (folder / "said").open("w") as said, (folder / "printed").open("w") as printed:
        launcher = subprocess.Popen(
            command, cwd=folder, stderr=said, stdout=printed, env={**os.environ, **source}
        )
        try:
            yield launcher
        finally:
            launcher.terminate()  # which ends its processes; after a clean end it does nothing
            launcher.wait(timeout=60)


def _await_step(launcher, folder, step):
    def reached():
        return any(line["step"] >= step for line in read_metrics(folder / "run" / "metrics.jsonl"))

    assert wait_for(lambda: launcher.poll() is not None or reached(), seconds=100), (
        "too busy a machine"
    )
    assert launcher.poll() is None, (folder / "said").read_text()


def _worker(launcher, rank):
    """Process id of one of torchrun's children."""
    found = subprocess.check_output(["ps", "-eo", "pid=,ppid="], text=True)
    return sorted(
        int(pid) for pid, parent in map(str.split, found.splitlines()) if int(parent) == launcher
    )[rank]


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ("pair.cc:537] Read error [10.77.0.2]:64690: No route to host", " on 10.77.0.2 is gone"),
        ("Connection closed by peer [fd00::7]:51", " on fd00::7 is gone"),
        ("Timed out waiting 600000ms", "another process of the job is gone"),
    ],
)
def test_a_lost_process_is_named_by_its_address(said, place):
    with pytest.raises(distributed.LostProcessError) as caught, distributed._lost_processes():
        raise RuntimeError(said)
    assert place in str(caught.value)


def test_without_a_launcher_there_is_one_process(monkeypatch):
    for name in distributed.NAMES:
        monkeypatch.delenv(name, raising=False)
    assert launch_place()["WORLD_SIZE"] == 1
    monkeypatch.setenv("WORLD_SIZE", "4")  # alone it is another tool's
    assert launch_place()["WORLD_SIZE"] == 1
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(InputError, match="LOCAL_RANK is ''; start them with torchrun"):
        launch_place()
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert launch_place() == {"RANK": 1, "WORLD_SIZE": 4, "LOCAL_RANK": 1, "LOCAL_WORLD_SIZE": 2}
