"""Training on Ray: the same as without, and it goes on when a worker is lost."""

import os
import signal
import sys
import threading

import pytest

from rejoinder.cluster.training import train_on_ray
from rejoinder.errors import InputError, MissingExtraError, RejoinderError
from rejoinder.training.loop import train
from rejoinder.training.metrics import read_metrics
from tests.corpora.jobs import wait_for
from tests.training.test_loop import losses
from tests.training.tiny import MODEL, recipe, stage, write_data

STEADY = {"model": {**MODEL, "dropout": 0.0}}


def test_without_ray_an_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray.train", None)
    with pytest.raises(MissingExtraError, match=r"training on Ray needs the extra 'cluster'"):
        train_on_ray(recipe("data"), tmp_path / "run", workers=2)


@pytest.fixture(scope="module")
def cluster():
    """A cluster of this machine alone."""
    ray = pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        yield
        ray.shutdown()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("examples"))


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_two_workers_do_what_one_process_does(tmp_path, data, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train(recipe(data, **STEADY), "one")
    summary = train_on_ray(recipe(data, **STEADY), "two", workers=2)
    assert (summary.steps, summary.run) == (20, str(tmp_path / "two"))
    expected = [pytest.approx(loss, abs=1e-3) for _, loss in losses(tmp_path / "one")]
    assert [loss for _, loss in losses(tmp_path / "two")] == expected
    with pytest.raises(InputError, match="seed was 0 and is now 5"):
        train_on_ray(recipe(data, **STEADY, seed=5), "two", workers=2)


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_a_lost_worker_is_replaced_and_the_run_goes_on(tmp_path, data):
    settings = recipe(data, **STEADY, stage=[stage(steps=300)], checkpoint={"every_steps": 4})
    killer = threading.Thread(target=kill_a_worker, args=(tmp_path / "run", 9), daemon=True)
    killer.start()
    assert train_on_ray(settings, tmp_path / "run", workers=2, restarts=1).steps == 300
    killer.join()
    assert [step for step, _ in losses(tmp_path / "run")] == list(range(1, 301))


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_an_error_of_the_training_comes_back_as_one_line(tmp_path, data):
    hot = stage(optimizer="sgd", learning_rate=1e30)
    with pytest.raises(
        RejoinderError, match=r"training on Ray failed: worker 0: .*no longer finite numbers"
    ) as caught:
        train_on_ray(recipe(data, stage=[hot]), tmp_path / "run", workers=2, restarts=0)
    assert "\n" not in str(caught.value)


def kill_a_worker(run, step):
    """Kill the process that writes the run, once it has done so many steps."""
    wait_for(
        lambda: any(line["step"] >= step for line in read_metrics(run / "metrics.jsonl")),
        seconds=100,
    )
    # TensorBoard's files are named after the process that writes them.
    board = next((run / "tensorboard").glob("events.*"))
    os.kill(int(board.name.split(".")[-2]), signal.SIGKILL)
