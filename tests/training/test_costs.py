"""Speeds and costs from metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rejoinder.training.costs import RunCost, Speed, run_cost
from rejoinder.training.loop import train
from tests.training.tiny import recipe, stage


def write(run: Path, *lines: dict[str, Any]) -> Path:
    run.mkdir(exist_ok=True)
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


def line(step: int, stage: str, examples: int, rate: float, seconds: float) -> dict[str, Any]:
    return {"step": step, "stage": stage, "examples": examples, "examples_per_second": rate, "seconds": seconds}


def test_steps_per_second_are_those_of_training_alone(tmp_path: Path) -> None:
    """Two stages of different batches; validation between the lines costs time, but not speed."""
    cost = run_cost(
        write(
            tmp_path,
            line(10, "first", 1000, 100.0, 10.0),  # 10 steps in 10 s
            {"step": 10, "stage": "first", "valid_mrr": 0.5},
            line(20, "first", 2000, 200.0, 45.0),  # 10 steps in 5 s, after 30 s of validation
            line(50, "second", 5000, 300.0, 55.0),  # 30 steps in 10 s
        )
    )
    assert cost is not None
    assert cost.whole == Speed(50, pytest.approx(2.0))
    assert cost.stages == {"first": Speed(20, pytest.approx(20 / 15)), "second": Speed(30, pytest.approx(3.0))}
    assert cost.seconds == 55.0


@pytest.mark.parametrize(("rate", "dollars"), [(14.7, 85), (12.2, 102), (14.8, 84), (15.0, 83)])
def test_the_papers_table_of_costs_comes_out(rate: float, dollars: int) -> None:
    """CONVERT, Table 4: 966K steps on 12 GPUs, whose price an hour follows from its first row."""
    price = 85 / (966_000 / 14.7 / 3600)
    stated = RunCost("run", Speed(1000, rate), {}, 100.0).to_json(price, 966_000)["stated"]
    assert stated["cost"] == pytest.approx(dollars, abs=0.7)
    assert stated["seconds"] == pytest.approx(966_000 / rate)


def test_costs_only_where_there_is_a_price() -> None:
    cost = RunCost("run", Speed(10, 2.0), {"only": Speed(10, 2.0)}, 7200.0)
    assert "cost" not in cost.to_json()
    assert "stated" not in cost.to_json(1.5)
    assert cost.to_json(1.5)["cost"] == 3.0
    assert cost.to_json(steps=7200)["stated"] == {"steps": 7200, "seconds": 3600.0}


def test_a_folder_that_is_no_run_or_has_no_metrics_yet(tmp_path: Path) -> None:
    assert run_cost(tmp_path) is None
    assert run_cost(write(tmp_path, {"step": 5, "stage": "a", "valid_mrr": 0.1})) is None
    assert run_cost(write(tmp_path, line(5, "a", 50, 0.0, 0.0))) is None, "no time passed"


def test_a_real_run(tmp_path: Path, data: Path) -> None:
    summary = train(recipe(data, stage=[stage(steps=6), stage(name="more", steps=4)]), tmp_path)
    cost = run_cost(tmp_path)
    assert cost is not None
    assert (cost.whole.steps, cost.stages["only"].steps, cost.stages["more"].steps) == (10, 6, 4)
    assert 10 / cost.whole.steps_per_second <= cost.seconds <= summary.seconds
