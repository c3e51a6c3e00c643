"""Whole runs of a tiny model."""

import json
import math
import shutil
import signal

import pytest
import torch
from safetensors.torch import load_file

import rejoinder
from rejoinder.errors import InputError, RejoinderError
from rejoinder.training import loop
from rejoinder.training.run import state as run_state
from rejoinder.training.display import Display
from rejoinder.training.loop import TrainingInterrupted, train
from rejoinder.training.metrics import Validator, read_metrics
from rejoinder.training.recipe_files import save_recipe
from tests.training.tiny import MODEL, checkpoint_of, recipe, stage, write_data

TWO_STAGES = [
    stage(name="embeddings", active_blocks=0, steps=15, clip_norm=1.0),
    stage(
        name="blocks",
        batch_size=16,
        epochs=0.75,
        optimizer={"kind": "adadelta", "weight_decay": 1e-5},
        learning_rate=1.0,
        rates={"embedding": 0.1},
        clip_embedding_norm=1.0,
    ),
]
"""15 steps, then 0.75 epochs of 20 batches."""


class At(Display):
    """Calls something after a given step."""

    def __init__(self, step, call):
        self.step, self.call = step, call

    def show(self, progress):
        if progress.step == self.step:
            self.call()


def interrupt_at(step, number=signal.SIGINT):
    return At(step, lambda: signal.raise_signal(number))


class CrashError(Exception):
    """Stands for a process that dies."""


def crash():
    raise CrashError


def losses(run):
    return [
        (line["step"], line["loss"])
        for line in read_metrics(run / "metrics.jsonl")
        if "loss" in line
    ]


def same_weights(one, other):
    a, b = (load_file(run / "model" / "model.safetensors") for run in (one, other))
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, data):
    """A run of 20 steps that nothing interrupted."""
    run = tmp_path_factory.mktemp("whole") / "run"
    train(recipe(data), run)
    return run


def test_a_run_learns_and_leaves_a_model_that_opens(tmp_path, data):
    summary = train(recipe(data, stage=[stage(steps=60)]), tmp_path)
    assert summary.validation["recall@1"] > 0.4, "chance is 0.05"
    assert (summary.steps, summary.examples, summary.already_finished) == (60, 60 * 32, False)
    written = json.loads((tmp_path / "summary.json").read_text())
    assert json.loads(json.dumps(summary.to_json())) == {
        key: written[key] for key in written if key != "examples_digest"
    }
    steps, found = zip(*losses(tmp_path), strict=True)
    assert steps == tuple(range(1, 61))
    assert found[-1] < found[0] - 0.5
    encoder = rejoinder.load(tmp_path / "model")
    assert encoder.score([["earlier words", "hello"]], [["one", "two"]]).shape == (1, 2)
    assert (
        "recall@1 on 80 examples of the validation split"
        in (tmp_path / "model" / "README.md").read_text()
    )


def test_from_a_notebook(tmp_path, data):
    """`rejoinder.train` takes a recipe's file, name or object, and gives what `rejoinder.load` opens."""
    save_recipe(recipe("nowhere"), tmp_path / "tiny.toml")
    settings = {"stage.0.steps": 3, "name": "mine"}
    summary = rejoinder.train(
        tmp_path / "tiny.toml", data=data, run=tmp_path / "run", settings=settings
    )
    assert (summary.name, summary.steps) == ("mine", 3)
    assert rejoinder.load(summary.model).encode_responses(["hello"]).shape == (1, 16)
    with pytest.raises(InputError, match="no such recipe"):
        rejoinder.train("tiny", data=data, run=tmp_path / "other")
    with pytest.raises(InputError, match="by dotted key"):
        rejoinder.train(
            tmp_path / "tiny.toml", data=data, run=tmp_path / "other", settings="stage.0.steps=3"
        )
    with pytest.raises(InputError, match="no split 'dev'; allowed are train, valid, test"):
        next(rejoinder.read_examples(data, split="dev"))


def test_the_folder_holds_what_the_documentation_says(whole):
    assert {path.name for path in whole.iterdir()} == {
        "recipe.toml",
        "metrics.jsonl",
        "tensorboard",
        "checkpoint",
        "model",
        "tokens",
        "summary.json",
    }
    line = read_metrics(whole / "metrics.jsonl")[0]
    assert set(line) == {
        "step",
        "stage",
        "loss",
        "accuracy",
        "learning_rate",
        "scale",
        "examples_per_second",
        "tokens_per_second",
        "examples",
        "seconds",
    }
    validations = [
        line for line in read_metrics(whole / "metrics.jsonl") if "valid_recall@1" in line
    ]
    assert [line["step"] for line in validations] == [10, 20]


def test_stages_follow_each_other_with_their_own_settings(tmp_path, data):
    summary = train(recipe(data, stage=TWO_STAGES), tmp_path)
    lines = [line for line in read_metrics(tmp_path / "metrics.jsonl") if "loss" in line]
    assert [line["stage"] for line in lines] == ["embeddings"] * 15 + ["blocks"] * 15
    assert summary.examples == 15 * 32 + 15 * 16
    assert lines[0]["learning_rate"] == 0.01
    assert lines[14]["learning_rate"] < 0.001
    assert lines[15]["learning_rate"] == 1.0, "each stage has its own schedule"
    scales = [line["scale"] for line in lines]
    assert scales[0] == 1.0
    assert scales[10:] == [4.0] * 20, "sqrt(16), from step 10 of the run on, whatever the stage"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_writes_a_checkpoint_and_the_same_command_continues(tmp_path, data, whole, number):
    before = signal.getsignal(number)
    with pytest.raises(
        TrainingInterrupted,
        match="stopped at step 12, checkpoint written; the same command continues",
    ):
        train(recipe(data), tmp_path, display=interrupt_at(12, number))
    assert signal.getsignal(number) is before
    assert checkpoint_of(tmp_path).state.step == 12
    assert train(recipe(data), tmp_path).steps == 20
    assert losses(tmp_path) == losses(whole)


def test_a_second_ctrl_c_stops_at_once(tmp_path, data):
    def twice():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        train(recipe(data), tmp_path, display=At(12, twice))
    assert not isinstance(caught.value, TrainingInterrupted)


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("damage", ["flipped", "missing"])
def test_a_run_whose_model_was_damaged_says_so(tmp_path, data, whole, finished, damage):
    """It would end well otherwise, and name a model that cannot be opened."""
    run = shutil.copytree(whole, tmp_path / "run")
    if not finished:
        (run / "summary.json").unlink()
    weights = run / "model" / "model.safetensors"
    if damage == "flipped":
        content = weights.read_bytes()
        weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    else:
        weights.unlink()
    with pytest.raises(
        InputError, match=r"model\.safetensors .*, or train again in another folder"
    ):
        train(recipe(data), run)


def test_a_finished_run_says_so_and_does_nothing(tmp_path, whole):
    moved = shutil.copytree(whole, tmp_path / "moved")
    before = {path: path.stat().st_mtime_ns for path in moved.rglob("*")}
    again = train(recipe("the data may be gone"), moved)
    written = json.loads((moved / "summary.json").read_text())
    assert again.already_finished
    assert (again.validation, again.steps) == (written["validation"], 20)
    assert again.model == str(moved / "model")
    assert {path: path.stat().st_mtime_ns for path in moved.rglob("*")} == before


def test_other_examples_are_refused_for_a_run_that_has_begun(tmp_path, data):
    with pytest.raises(CrashError):
        train(recipe(data), tmp_path / "run", display=At(8, crash))
    other = write_data(tmp_path / "other", seed=1)
    with pytest.raises(InputError, match="are not those that the run was started with"):
        train(recipe(other), tmp_path / "run")
    moved = shutil.copytree(data, tmp_path / "moved")
    assert train(recipe(moved), tmp_path / "run").steps == 20


def test_other_examples_are_refused_for_a_run_that_is_finished(tmp_path, data, whole):
    other = write_data(tmp_path / "other", seed=1)
    with pytest.raises(InputError, match="is finished, on other examples than these; name another folder"):
        train(recipe(other), whole)
    assert train(recipe(shutil.copytree(data, tmp_path / "moved")), whole).already_finished
    earlier = shutil.copytree(whole, tmp_path / "earlier")  # of a version that wrote no digest
    written = json.loads((earlier / "summary.json").read_text())
    del written["examples_digest"]
    (earlier / "summary.json").write_text(json.dumps(written))
    assert train(recipe(other), earlier).already_finished


@pytest.mark.parametrize(("steps", "said"), [(4, True), (5, False)])
def test_a_stage_that_ends_in_its_warm_up_is_noted(tmp_path, data, steps, said):
    class Notes(Display):
        def __init__(self):
            self.notes = []

        def note(self, text):
            self.notes.append(text)

    display = Notes()
    warming = stage(steps=steps, schedule={"kind": "constant", "warm_up_steps": 5}, learning_rate=0.5)
    train(recipe(data, stage=[warming]), tmp_path, display=display)
    note = "stage 'only': 4 steps are fewer than those of its warm-up (5), so the learning rate stays below 0.5"
    assert (note in display.notes) == said


def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_last_good_checkpoint(tmp_path, data):
    hot = stage(optimizer="sgd", learning_rate=1e30, schedule="constant", steps=1000)
    cold = stage(name="cold", steps=7)
    said = r"'only': .* no longer finite .* at step \d+ \(learning rate 1e\+30\).*step of the last checkpoint: 7"
    with pytest.raises(RejoinderError, match=said):
        train(recipe(data, stage=[cold, hot]), tmp_path)
    loaded = checkpoint_of(tmp_path)
    assert loaded.state.step == 7
    assert all(
        value.isfinite().all()
        for name, value in loaded.tensors.items()
        if name.startswith("weights")
    )
    assert not (tmp_path / "summary.json").exists()


def test_early_stopping_ends_a_stage_after_validations_without_gain(tmp_path, data):
    still = stage(name="still", learning_rate=1e-30, steps=100)  # learns nothing, so it never gains
    validation = {"every_steps": 5, "examples": 40, "candidates": 20, "patience": 3}
    summary = train(
        recipe(data, stage=[still, stage(name="next", steps=4)], validation=validation), tmp_path
    )
    stages = [line["stage"] for line in read_metrics(tmp_path / "metrics.jsonl") if "loss" in line]
    assert stages == ["still"] * 20 + ["next"] * 4, (
        "the first validation is a gain, the next three are not"
    )
    assert summary.steps == 24


@pytest.mark.parametrize(("few", "step"), [(1, 10), (10_000, 15)])  # the fourth is best in nothing
def test_the_model_is_the_best_by_validation_not_the_last(tmp_path, data, monkeypatch, few, step):
    """By recall at 1, of equal ones by the reciprocal rank; of few examples by the reciprocal rank."""
    figures = iter([(0.5, 0.50), (0.5, 0.55), (0.4, 0.60), (0.4, 0.60)])

    def given(*_):
        recall, mrr = next(figures)
        return {"recall@1": recall, "mrr": mrr, "loss": 1.0}

    monkeypatch.setattr(Validator, "__call__", given)
    monkeypatch.setattr(run_state, "FEW", few)
    validation = {"every_steps": 5, "examples": 50, "candidates": 20}
    summary = train(recipe(data, validation=validation), tmp_path)
    assert (summary.best_step, summary.validation["examples"]) == (step, 50)
    name = "token_embedding.subwords.weight"
    best = load_file(tmp_path / "model" / "model.safetensors")[name]
    assert not torch.equal(best, checkpoint_of(tmp_path).tensors[f"weights/{name}"])


@pytest.mark.parametrize(
    ("every", "steps"),
    [
        ({"every_steps": 7, "every_epochs": 0.5}, [5, 7, 10, 14, 15, 20]),
        ({"every_steps": 7}, [7, 14, 20]),
        ({"every_epochs": 0.5}, [5, 10, 15, 20]),
    ],
)
def test_validation_is_due_after_so_many_steps_or_epochs_whichever_comes_first(
    tmp_path, data, every, steps
):
    stages = [stage(batch_size=32, steps=20)]  # 320 pairs: 10 batches of 32
    train(
        recipe(data, stage=stages, validation={**every, "examples": 40, "candidates": 20}), tmp_path
    )
    assert [
        line["step"] for line in read_metrics(tmp_path / "metrics.jsonl") if "valid_mrr" in line
    ] == steps


class Notes(Display):
    def __init__(self):
        self.notes, self.shown_progress = [], []

    def note(self, text):
        self.notes.append(text)

    def show(self, progress):
        self.shown_progress.append(progress)


class Clock:
    """Each look at it takes a quarter of a second."""

    def __init__(self, now=1000.0):
        self.now = now

    def __call__(self):
        self.now += 0.25
        return self.now


def timed(data):
    stages = [stage(name="first", minutes=0.1), stage(name="second", minutes=0.05)]
    validation = {"every_seconds": 2.0, "examples": 40, "candidates": 20}
    return recipe(data, stage=stages, scale={"share": 0.5}, validation=validation)


def test_with_minutes_schedule_scale_and_validation_follow_the_clock(tmp_path, data):
    summary = train(timed(data), tmp_path, clock=Clock())
    lines = [line for line in read_metrics(tmp_path / "metrics.jsonl") if "loss" in line]
    first = [line for line in lines if line["stage"] == "first"]
    # Two looks a step: 6 seconds are 12 steps, 3 seconds are 6.
    assert [line["stage"] for line in lines] == ["first"] * 12 + ["second"] * 6
    expected = [0.01 * (1 + math.cos(math.pi * step / 12)) / 2 for step in range(12)]
    assert [line["learning_rate"] for line in first] == pytest.approx(expected)
    assert [line["scale"] for line in lines] == pytest.approx(
        [min(4.0, 1 + 3 * step / 9) for step in range(18)]
    )
    validated = [
        line["step"] for line in read_metrics(tmp_path / "metrics.jsonl") if "valid_mrr" in line
    ]
    assert validated == [5, 9, 12, 17, 18]
    assert summary.seconds == pytest.approx(9.0)


def test_a_machine_of_half_the_speed_has_the_rates_of_the_clock_and_the_steps_can_be_had_again(
    tmp_path, data
):
    class Slow(Clock):
        def __call__(self):
            self.now += 0.25
            return super().__call__()

    one = recipe(
        data,
        stage=[stage(name="only", minutes=0.2, schedule={"kind": "cosine", "warm_up_steps": 8})],
    )
    rates = {}
    for clock in (Clock(), Slow()):
        shown = Notes()
        run = tmp_path / type(clock).__name__
        steps = train(one, run, clock=clock, display=shown).steps
        rates[steps] = [
            line["learning_rate"] for line in read_metrics(run / "metrics.jsonl") if "loss" in line
        ]
        again = f"--set stage.0.steps={steps} --set stage.0.schedule.warm_up_steps={-(-steps // 10)}"
        assert f"only: {steps} steps in this time; on any machine: {again}" in shown.notes
    fast, slow = sorted(rates, reverse=True)
    assert (fast, slow) == (24, 12)
    assert rates[slow][3:] == pytest.approx(rates[fast][6::2])
    assert max(rates[slow]) > 0.0095
    settings = {"stage.0.steps": fast, "stage.0.schedule.warm_up_steps": -(-fast // 10)}
    train(one, tmp_path / "again", settings=settings)
    repeated = [line["learning_rate"] for line in read_metrics(tmp_path / "again" / "metrics.jsonl") if "loss" in line]
    assert repeated == pytest.approx(rates[fast], abs=0.003)


def test_the_loss_that_is_shown_is_the_one_that_is_validated(tmp_path, data):
    shown = Notes()
    train(recipe(data, model=MODEL | {"history": 3}), tmp_path, display=shown)
    lines = [line for line in read_metrics(tmp_path / "metrics.jsonl") if "loss" in line]
    assert shown.shown_progress[-1].loss == lines[-1]["loss_context"] < lines[-1]["loss"] / 2
    assert any("examples among 20: recall@1" in note for note in shown.notes)


def test_with_minutes_a_killed_run_has_only_the_time_left(tmp_path, data):
    with pytest.raises(CrashError):
        train(timed(data), tmp_path, clock=Clock(), display=At(7, crash))
    # that of another process, after a night
    summary = train(timed(data), tmp_path, clock=Clock(9e9))
    assert summary.steps in (18, 19), (
        "what passed between the last step and the checkpoint is not counted"
    )
    assert summary.seconds == pytest.approx(9.0, abs=0.25)


def test_further_sets_are_validated_on_and_the_figures_are_means(tmp_path, data):
    other = write_data(tmp_path / "other", train=0, valid=40, topics=10, seed=3)
    settings = {"every_steps": 10, "examples": 40, "candidates": 20, "data": [str(other)]}
    summary = train(recipe(data, validation=settings), tmp_path / "run")
    lines = [
        line for line in read_metrics(tmp_path / "run" / "metrics.jsonl") if "valid_mrr" in line
    ]
    for line in lines:
        for name in ("recall@1", "mrr", "loss"):
            each = [line[f"valid_{folder}_{name}"] for folder in (data.name, "other")]
            assert line[f"valid_{name}"] == pytest.approx(sum(each) / 2)
    assert summary.validation["mrr"] == max(line["valid_mrr"] for line in lines)


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"stage": [stage(active_blocks=3)]}, "active_blocks = 3, but the model has 2"),
        (
            {"stage": [stage(active_blocks=1, trained_blocks=2)]},
            "trained_blocks = 2, but only 1 are computed",
        ),
        (
            {"stage": [stage(rates={"embeddings": 1.0})]},
            "no parameters are called 'embeddings' in rates; allowed: ",
        ),
        ({"stage": [stage(batch_tokens=600)]}, "batch_tokens is for pretraining"),
        ({"stage": [stage(batch_size=321)]}, "320 training examples do not fill a batch of 321"),
        ({"validation": {"candidates": 81}}, "80 validation examples make no group of 81"),
    ],
)
def test_what_does_not_fit_is_refused_before_training(tmp_path, data, sections, said):
    with pytest.raises(InputError, match=said):
        train(recipe(data, **sections), tmp_path)
    assert not (tmp_path / "metrics.jsonl").exists()


def test_bf16_trains_too(tmp_path, data):
    compute = {"device": "cpu", "precision": "bf16", "threads": 1}
    summary = train(recipe(data, compute=compute, stage=[stage(steps=30)]), tmp_path)
    assert summary.precision == "bf16"
    tensors = {
        name: value.dtype
        for name, value in checkpoint_of(tmp_path).tensors.items()
        if "rng" not in name
    }
    assert set(tensors.values()) == {torch.float32}, "the weights and what the optimiser keeps"
    assert summary.validation["recall@1"] > 0.2

@pytest.mark.parametrize(
    ("steps", "sections"),
    [
        (10, {"validation": {"examples": 0}}),
        (8, {"validation": {"examples": 0}}),
        (12, {"validation": {"every_steps": 4, "examples": 40, "candidates": 20}}),
        (12, {"validation": {"examples": 0}, "checkpoint": {"every_steps": 3}}),
    ],
    ids=["lines", "a last line", "validation between lines", "a checkpoint between lines"],
)
def test_a_line_counts_the_time_that_a_card_still_needs(
    steps, sections, data, tmp_path, monkeypatch
):
    """A step returns when a card has its launches, long before it has done them."""
    now = [0.0]
    pending = [0]
    step = loop.Trainer._step

    def launched(self, stage, batches):
        pending[0] += 1
        now[0] += 0.001
        return step(self, stage, batches)

    def wait(_device):
        now[0] += pending[0]  # a second a step
        pending[0] = 0

    monkeypatch.setattr(loop.Trainer, "_step", launched)
    monkeypatch.setattr(loop, "runs_ahead", lambda _: True)
    monkeypatch.setattr(loop, "synchronize", wait)
    encode = loop.Trainer._encode_sides

    def validated(self, batch):
        now[0] += 30  # which is not of the steps
        return encode(self, batch)

    monkeypatch.setattr(loop.Trainer, "_encode_sides", validated)
    wanted = recipe(data, stage=[stage(steps=steps)], log={"every_steps": 5}, **sections)
    loop.train(wanted, tmp_path / "run", clock=lambda: now[0])
    lines = read_metrics(tmp_path / "run" / "metrics.jsonl")
    rates = [line["examples_per_second"] for line in lines if "loss" in line]
    assert rates == pytest.approx([wanted.stage[0].batch_size / 1.001] * len(rates))
    assert len(rates) == -(-steps // 5)
