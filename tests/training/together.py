"""Checks that need two processes: all of them in one launch.

`launch` starts `python -m tests.training.together FOLDER`, which imports torch once and forks, and
gives each process what torchrun would. Each runs all CHECKS in the same order and writes what
became of them, for test_distributed.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from multiprocessing import get_context
from pathlib import Path

import pytest
from torch import nn

from rejoinder.corpora.forms.examples import read_examples
from rejoinder.errors import InputError
from rejoinder.evaluation.tasks import ranking_task
from rejoinder.lab.ablation_plan import load_plan
from rejoinder.lab.ablations import ablate
from rejoinder.training.display import Display
from rejoinder.training.distributed import LostProcessError, RankZeroFailedError, joined
from rejoinder.training.loop import TrainingInterrupted, train
from rejoinder.training.recipe_files import load_recipe
from tests.training.test_loop import At, interrupt_at

ROOT = Path(__file__).parents[2]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def launch(folder):
    """Run all checks in two processes: what became of each, by process."""
    command = [sys.executable, "-m", "tests.training.together", str(folder)]
    subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, cwd=ROOT, check=True)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


def agreeing(folder):
    """Shares of work come back in order, and weights become the first one's."""
    with joined() as processes:
        done = []
        results = processes.parallel_map(
            lambda item: done.append(item) or 2 * item, [10, 11, 12, 13, 14]
        )
        assert results == [20, 22, 24, 26, 28]
        assert done == [[10, 12, 14], [11, 13]][processes.rank]
        assert processes.all_reduce(0.25 + processes.rank, 1) == [1.5, 2.0]
        seen = processes.rank_zero_first(
            lambda: (folder / "flag").exists() or (folder / "flag").write_text("x")
        )
        assert seen == (1 if processes.first else True)
        layer = nn.Linear(3, 3)
        nn.init.constant_(layer.weight, float(processes.rank))
        processes.broadcast_parameters(layer)
        assert float(layer.weight.detach().abs().max()) == 0.0


def runs(folder):
    """Whole runs, which the test compares with those of one process."""
    for path in sorted((folder / "recipes").glob("*.toml")):
        train(load_recipe(path), folder / "two" / path.stem)


def tabled(folder):
    """The rows of a table are trained together; the first process ranks and writes."""
    examples = list(read_examples(folder / "examples", "valid"))
    plan = load_plan(folder / "plan.toml")
    ablate(plan, folder / "two" / "table", ranking_task(examples, candidates=20), data="valid")


def interrupted(folder):
    """Ctrl-C in one process stops both after the same step; both go on, with the same dropout, bit for bit."""
    settings, rank = load_recipe(folder / "dropout.toml"), int(os.environ["RANK"])
    train(settings, folder / "two" / "whole")
    stop = interrupt_at(4) if rank == 1 else Display()
    with pytest.raises(TrainingInterrupted, match="stopped at step 4, checkpoint written"):
        train(settings, folder / "two" / "stopped", display=stop)
    train(settings, folder / "two" / "stopped")


def resumed(folder):
    """A run that one process began; and one that this begins, for one process to go on with."""
    settings, rank = load_recipe(folder / "plain.toml"), int(os.environ["RANK"])
    train(settings, folder / "one_then_two")
    stop = interrupt_at(4, signal.SIGTERM) if rank == 0 else Display()
    with pytest.raises(TrainingInterrupted):
        train(settings, folder / "two_then_one", display=stop)


def refused(folder):
    """What the first process refuses ends both; what does not divide is refused, and what can be is said."""
    kind = InputError if os.environ["RANK"] == "0" else RankZeroFailedError  # with the same code
    with pytest.raises(kind, match="seed was 0 and is now 5") as caught:
        train(load_recipe(folder / "plain.toml", ["seed=5"]), folder / "one_then_two")
    assert getattr(caught.value, "code", 2) == 2
    with pytest.raises(
        kind, match=r"33 \(of all processes together\) cannot be shared evenly by 2 .* to 32 or 34"
    ):
        train(load_recipe(folder / "plain.toml", ["stage.0.batch_size=33"]), folder / "odd")


def killed(folder):
    """The last check: a process dies in the middle of a run, and the other one ends and says so."""
    settings, rank = load_recipe(folder / "plain.toml"), int(os.environ["RANK"])
    die = At(7, lambda: os.kill(os.getpid(), signal.SIGKILL)) if rank == 1 else Display()
    with pytest.raises(
        LostProcessError, match=r"killed or ran out of memory.*continues the run from"
    ):
        train(settings, folder / "killed", display=die)


CHECKS = (agreeing, runs, tabled, interrupted, resumed, refused, killed)


def run_checks(folder, rank, port):
    given = {
        "RANK": rank,
        "WORLD_SIZE": 2,
        "LOCAL_RANK": rank,
        "LOCAL_WORLD_SIZE": 2,
        "MASTER_PORT": port,
    }
    os.environ |= {name: str(value) for name, value in given.items()} | {"MASTER_ADDR": "127.0.0.1"}
    found = {}
    for check in CHECKS:
        found[check.__name__] = "begun"
        (folder / f"{rank}.json").write_text(json.dumps(found))
        check(folder)
        found[check.__name__] = "ok"
    (folder / f"{rank}.json").write_text(json.dumps(found))


def main(folder):
    import torch._dynamo  # noqa: F401  # an optimiser imports it, which takes seconds

    port = free_port()
    processes = [
        get_context("fork").Process(target=run_checks, args=(folder, rank, port))
        for rank in range(2)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(250)
        process.kill()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
