"""The grid of intent classifiers is the paper's, and goes on where it stopped."""

import pytest

from rejoinder.errors import InputError
from rejoinder.intents.heads import FeedForward, Logistic
from rejoinder.lab.grid import grid_table, paper_grid, run_grid
from tests.intents.test_heads import clouds


def test_the_grid_is_the_papers():
    grid = list(paper_grid())
    assert len(grid) == len(set(grid)) == 3 * 2 * (1 + 2 * 4)
    assert {each.hidden_size for each in grid if each.hidden_layers} == {128, 256, 512, 1024}
    assert {(each.optimizer, each.learning_rate) for each in grid} == {
        ("sgd", 0.75),
        ("adam", 4e-4),
    }
    assert {each.input_dropout for each in grid} == {0.25, 0.5, 0.75}


def test_a_grid_goes_on_where_it_stopped(tmp_path):
    data, valid, log = clouds(), clouds(seed=1), tmp_path / "grid.jsonl"
    grid = [
        Logistic(),
        FeedForward(epochs=2, hidden_size=8),
        FeedForward(epochs=3, hidden_layers=0),
    ]
    rows = run_grid(grid[:2], data, valid, log)
    again = run_grid(grid, data, valid, log)
    assert len(log.read_text().splitlines()) == 3
    # the same measurement, not a new one
    assert {row.seconds for row in rows} < {row.seconds for row in again}
    assert [row.accuracy for row in again] == sorted((row.accuracy for row in again), reverse=True)
    assert grid_table(again).count("\n") == 5
    with pytest.raises(InputError, match="other texts"):
        run_grid(grid, valid, data, log)
    log.write_text("{}\n")
    with pytest.raises(InputError, match=r"grid.jsonl is damaged \('data'\); delete it"):
        run_grid(grid, data, valid, log)
