"""`torchrun` on two nodes, one of which loses its power, its cable or its speed in the middle."""

import os
import re
import subprocess
import sys
from contextlib import contextmanager

import pytest

from rejoinder.training.metrics import read_metrics
from rejoinder.training.recipe_files import save_recipe
from tests.cluster.nodes import Network, lacking
from tests.cluster.test_nodes import happen
from tests.corpora.jobs import wait_for
from tests.training.together import free_port
from tests.training.tiny import MODEL, recipe, stage, write_data

pytestmark = [
    pytest.mark.nodes,
    pytest.mark.skipif(bool(lacking()), reason=lacking() or "nothing is lacking"),
]
TORCHRUN = (sys.executable, "-m", "torch.distributed.run")
STEPS = 150
SILENCE_SECONDS = 300  # until a machine is given up, retransmissions included


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A recipe, and what two processes on one machine make of it."""
    folder = tmp_path_factory.mktemp("training")
    steady = {"model": {**MODEL, "dropout": 0.0}, "stage": [stage(steps=STEPS)]}
    save_recipe(recipe(write_data(folder / "data"), **steady), folder / "recipe.toml")
    local = (*TORCHRUN, "--master-port", str(free_port()), "--nproc-per-node", "2")
    subprocess.run([*local, *train("here")], cwd=folder, env=environment(), check=True, capture_output=True)
    return folder


def train(name):
    return ("-m", "rejoinder", "train", "recipe.toml", "-o", name)


def environment():
    return {**os.environ, "OMP_NUM_THREADS": "1"}


@contextmanager
def launched(folder, name, count=2):
    """Training on so many nodes, of one process each: the network, and the launcher of each node."""
    with Network() as network, (folder / f"{name}.said").open("a") as said:
        nodes = [network.add(number) for number in range(1, count + 1)]
        place = ("--nnodes", str(count), "--master-addr", nodes[0].address, "--master-port", "29400")
        launchers = [
            node.start("nice", *TORCHRUN, *place, "--node-rank", node.number - 1, *train(name), folder=folder, env=environment(), stdout=said, stderr=said)
            for node in nodes
        ]
        assert wait_for(lambda: done(folder / name) or ended(launchers), seconds=200)
        assert not ended(launchers), (folder / f"{name}.said").read_text()
        yield network, launchers


def done(run):
    """Number of steps in a run's log."""
    log = run / "metrics.jsonl"
    return max((line["step"] for line in read_metrics(log)), default=0) if log.exists() else 0


def ended(launchers):
    return any(launcher.poll() is not None for launcher in launchers)


def weights(run):
    return (run / "model" / "model.safetensors").read_bytes()


@pytest.mark.parametrize("accident", ["cable", "delay"])
def test_a_run_goes_on_to_the_same_weights(folder, accident):
    with launched(folder, accident) as (network, launchers):
        before = done(folder / accident)
        happen(accident, network[2])
        assert before < STEPS
        assert [launcher.wait(500) for launcher in launchers] == [0, 0]
    assert weights(folder / accident) == weights(folder / "here")


@pytest.mark.parametrize("lost", [2, 1])
def test_a_run_that_lost_a_node_says_which_and_goes_on_from_its_checkpoint(folder, lost):
    """The first node has the first process, which writes, and the store at which all meet."""
    name = f"power-{lost}"
    with launched(folder, name) as (network, launchers):
        assert wait_for(lambda: done(folder / name) > 10, seconds=60)
        happen("power", network[lost])
        assert launchers[2 - lost].wait(SILENCE_SECONDS) != 0
    said = (folder / f"{name}.said").read_text()
    lines = [line for line in said.splitlines() if line.startswith("rejoinder:")]
    assert len(lines) == 1
    assert re.search(rf"another process of the job on 10\.77\.0\.{lost} is gone", lines[0])
    assert "the same command continues the run from its last checkpoint" in lines[0]
    stopped = done(folder / name)
    assert stopped < STEPS
    with launched(folder, name) as (_, launchers):
        assert [launcher.wait(500) for launcher in launchers] == [0, 0]
    assert re.search(rf"Continuing {name} at step \d+", (folder / f"{name}.said").read_text())
    assert weights(folder / name) == weights(folder / "here")
