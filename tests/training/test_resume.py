"""A process killed with SIGKILL in the middle of a run: the same command goes on, bit for bit."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rejoinder.training.loop import train
from rejoinder.training.metrics import read_metrics
from rejoinder.training.recipe_files import load_recipe, save_recipe
from rejoinder.training.run import RunFolder
from tests.training.test_loop import TWO_STAGES, losses, same_weights
from tests.training.test_metrics import steps_on_the_board
from tests.training.tiny import recipe

PROGRAM = """
import sys, time
from pathlib import Path
from rejoinder.training.display import Display
from rejoinder.training.loop import train
from rejoinder.training.recipe_files import load_recipe

class Slow(Display):
    def show(self, standing):
        time.sleep(0.02)

train(load_recipe(sys.argv[1]), sys.argv[2], display=Slow())
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_a_killed_run_ends_as_if_nothing_had_happened(tmp_path: Path, data: Path) -> None:
    settings = recipe(data, stage=TWO_STAGES, checkpoint={"every_steps": 4})
    save_recipe(settings, tmp_path / "recipe.toml")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    train(load_recipe(tmp_path / "recipe.toml"), whole)
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path / "recipe.toml"), str(killed)])
    deadline = time.monotonic() + 120
    while process.poll() is None and _steps(killed) < 19 and time.monotonic() < deadline:
        time.sleep(0.005)
    assert process.poll() is None, "it should still be running"
    process.kill()
    process.wait()
    assert 19 <= _steps(killed) < 30, "in the second stage"
    train(load_recipe(tmp_path / "recipe.toml"), killed)
    assert losses(killed) == losses(whole)
    assert same_weights(killed, whole)
    assert steps_on_the_board(RunFolder(killed)) == list(range(1, 31))


def _steps(run: Path) -> int:
    lines = read_metrics(run / "metrics.jsonl")
    return int(lines[-1]["step"]) if lines else 0
