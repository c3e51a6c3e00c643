"""Metrics: every step once, in the lines and on the board, also after a kill."""

from __future__ import annotations

import json
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rejoinder.training.metrics import MetricsLog, read_metrics
from rejoinder.training.run_folder import RunFolder


def steps_on_the_board(folder: RunFolder) -> list[int]:
    board = EventAccumulator(str(folder.tensorboard))
    board.Reload()
    return [event.step for event in board.Scalars("loss")]


def test_lines_and_board_have_every_step_once_after_a_kill(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with MetricsLog(folder, 0) as log:
        for step in range(1, 8):
            log.write(step, "a", {"loss": 1 / step})
    with folder.metrics.open("a") as file:
        file.write('{"step": 8, "stage"')  # killed in the middle of a line
    with MetricsLog(folder, 5) as log:  # the checkpoint was that of step 5
        for step in range(6, 10):
            log.write(step, "b", {"loss": 2 / step})
    lines = read_metrics(folder.metrics)
    assert [line["step"] for line in lines] == list(range(1, 10))
    assert lines[5] == {"step": 6, "stage": "b", "loss": 2 / 6}
    assert steps_on_the_board(folder) == list(range(1, 10))


def test_a_run_without_checkpoint_starts_its_metrics_afresh(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for _ in range(2):
        with MetricsLog(folder, 0) as log:
            log.write(1, "a", {"loss": 1.0})
    assert [line["step"] for line in read_metrics(folder.metrics)] == [1]
    assert steps_on_the_board(folder) == [1]


def test_a_line_is_there_as_soon_as_it_is_written(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with MetricsLog(folder, 0) as log:
        log.write(1, "a", {"loss": 1.5})
        assert json.loads(folder.metrics.read_text()) == {"step": 1, "stage": "a", "loss": 1.5}
