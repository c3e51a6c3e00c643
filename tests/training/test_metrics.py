"""Metrics: every step once, also after a kill; means, speeds and costs; what a person sees."""

import json
from contextlib import closing

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rejoinder import progress
from rejoinder.errors import InputError
from rejoinder.progress import duration
from rejoinder.training.display import Progress, TerminalDisplay
from rejoinder.training.recipe.losses import Loss
from rejoinder.training.metrics import Meter, MetricsLog, RunCost, Speed, drawn, read_metrics, run_cost
from rejoinder.training.recipe.settings import Validation
from rejoinder.training.run.folder import RunFolder
from rejoinder.training.run.state import RunState

PAIRS, TOKENS = 2, 12
PROGRESS = Progress("warm", 0.25, 1234, 2.5, 0.125, 7600.4, 185.0)


def steps_on_the_board(folder):
    board = EventAccumulator(str(folder.tensorboard))
    board.Reload()
    return [event.step for event in board.Scalars("loss")]


def test_data_without_validation_examples_is_named():
    with pytest.raises(InputError, match=r"no validation examples; set validation\.examples = 0"):
        drawn([], Validation())


def test_lines_and_board_have_every_step_once_after_a_kill(tmp_path):
    folder = RunFolder(tmp_path)
    with closing(MetricsLog(folder, 0)) as log:
        for step in range(1, 8):
            log.write(step, "a", {"loss": 1 / step})
    with folder.metrics.open("a") as file:
        file.write('{"step": 8, "stage"')  # killed in the middle of a line
    with closing(MetricsLog(folder, 5)) as log:  # the checkpoint was that of step 5
        for step in range(6, 10):
            log.write(step, "b", {"loss": 2 / step})
    lines = read_metrics(folder.metrics)
    assert [line["step"] for line in lines] == list(range(1, 10))
    assert lines[5] == {"step": 6, "stage": "b", "loss": 2 / 6}
    assert steps_on_the_board(folder) == list(range(1, 10))


def loss(value, accuracy=0.5):
    return Loss(torch.tensor(value), torch.tensor(accuracy))


def test_means_and_rates_are_of_the_steps_since_the_last_line_also_of_one_before_a_checkpoint():
    state = RunState()
    meter = Meter(state, torch.device("cpu"))
    for value, seconds in ((1.0, 0.5), (3.0, 1.5)):
        meter.add(PAIRS, TOKENS, loss(value), seconds)
    expected = {"loss": 2.0, "accuracy": 0.5, "examples_per_second": 2.0, "tokens_per_second": 12.0}
    assert meter.take() == pytest.approx(expected)
    assert meter.rates() == pytest.approx((2.0, 12.0)), "until the next step the last line's"
    meter.add(PAIRS, TOKENS, loss(7.0, 1.0), 1.0)
    meter.store()
    again = Meter(state, torch.device("cpu"))
    again.add(PAIRS, TOKENS, loss(2.0), 1.0)
    assert again.take()["loss"] == 4.5


def write(run, *lines):
    run.mkdir(exist_ok=True)
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


def line(step, stage, examples, rate, seconds):
    return {
        "step": step,
        "stage": stage,
        "examples": examples,
        "examples_per_second": rate,
        "seconds": seconds,
    }


def test_steps_per_second_are_those_of_training_alone(tmp_path):
    """Two stages of different batches; validation between the lines costs time, but not speed."""
    lines = [
        line(10, "first", 1000, 100.0, 10.0),  # 10 steps in 10 s
        {"step": 10, "stage": "first", "valid_mrr": 0.5},
        line(20, "first", 2000, 200.0, 45.0),  # 10 steps in 5 s, after 30 s of validation
        line(50, "second", 5000, 300.0, 55.0),  # 30 steps in 10 s
    ]
    cost = run_cost(write(tmp_path, *lines))
    assert cost.whole == Speed(50, pytest.approx(2.0))
    assert cost.stages == {
        "first": Speed(20, pytest.approx(20 / 15)),
        "second": Speed(30, pytest.approx(3.0)),
    }
    assert cost.seconds == 55.0


def test_speeds_only_where_there_are_metrics(tmp_path):
    cost = RunCost("run", Speed(10, 2.0), {"only": Speed(10, 2.0)}, 7200.0)
    speed = {"steps": 10, "steps_per_second": 2.0}
    assert cost.to_json() == {"run": "run", **speed, "stages": {"only": speed}, "seconds": 7200.0}
    assert run_cost(tmp_path) is None
    assert run_cost(write(tmp_path, {"step": 5, "stage": "a", "valid_mrr": 0.1})) is None
    assert run_cost(write(tmp_path, line(5, "a", 50, 0.0, 0.0))) is None, "no time passed"


def test_without_a_terminal_there_is_a_plain_line_now_and_then(monkeypatch, capsys):
    clock = iter([0.0, 0.0, 1.0, 2.0, 20.0, 20.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    shown = TerminalDisplay()
    for _ in range(4):
        shown.show(PROGRESS)
    shown.note("[step] 5: best so far")
    shown.close()
    captured = capsys.readouterr()
    assert captured.out == "", "standard output is for results"
    assert captured.err.splitlines() == [f"warm  25%: {PROGRESS}"] * 2 + ["[step] 5: best so far"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (185, "3 min 05 s"),
        (8040, "2 h 14 min"),
        (-3, "0 s"),
    ],
)
def test_durations(seconds, text):
    assert duration(seconds) == text
