"""Tasks on a Ray cluster of two nodes: the same as here, whatever is killed."""

import functools
import os
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from rejoinder.cluster import nodes
from rejoinder.cluster.connection import check_address
from rejoinder.cluster.engine import RayEngine
from rejoinder.cluster.nodes import NodeRequirements, check_node, collect_requirements
from rejoinder.corpora.pipeline.work_folder import work_folder
from rejoinder.errors import InputError, MissingExtraError, RejoinderError
from tests.corpora.jobs import KINDS, alive, build, contents, wait_for


@pytest.fixture(scope="module")
def two_nodes():
    """A cluster on this machine, loopback only: a head of one CPU and a node of two; nothing is connected to it yet."""
    pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        # Otherwise Ray takes 127.0.0.1 in an address for the machine's outer one, where nobody
        # listens.
        patch.setattr("ray._private.ray_constants.ENABLE_RAY_CLUSTER", False)
        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args=node(1, include_dashboard=False))
        try:
            cluster.add_node(**node(2))
            cluster.wait_for_nodes()
            yield cluster
        finally:
            cluster.shutdown()


def node(cpus, **settings):
    smallest = 80 * 2**20  # bytes of an object store: Ray's minimum, about
    return {
        "num_cpus": cpus,
        "object_store_memory": smallest,
        "node_ip_address": "127.0.0.1",
        **settings,
    }


def test_without_ray_an_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"--ray needs the extra 'cluster'"):
        RayEngine()


def test_what_a_node_lacks_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "token").touch()
    (tmp_path / "input").write_text("a")
    needs = collect_requirements([tmp_path / "token"], ["input"])
    assert check_node(needs) == ""
    (tmp_path / "input").write_text("ab")
    assert check_node(needs).startswith(f"does not see {tmp_path / 'input'} as it is here")
    (tmp_path / "token").unlink()
    assert check_node(needs).startswith(f"does not share the folder {tmp_path}")
    elsewhere = NodeRequirements(needs.version, str(tmp_path / "gone"), (), ())
    assert "cannot enter the current folder" in check_node(elsewhere)
    monkeypatch.setattr(nodes, "installed_version", lambda: "9.9")
    assert (
        check_node(needs)
        == f"has rejoinder 9.9, and {needs.version} is needed; install that on all nodes"
    )


def test_an_address_where_nobody_listens_is_refused_at_once():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{server.getsockname()[1]}"
        for given in (address, f"ray://{address}"):
            with pytest.raises(InputError, match=rf"no Ray cluster answers at {given} \(.*refused"):
                check_address(given)
        server.listen()
        for given in (address, None, "auto"):
            check_address(given)


def square(number):
    """Smaller numbers take longer, so that results come out of order."""
    time.sleep(0.05 if number % 3 == 0 else 0)
    return number * number, os.getpid()


def large(number):
    return bytes(300_000 + number)


def fail(number):
    if number == 3:
        raise MissingExtraError("this", "demo")
    if number > 3:
        time.sleep(60)
    return number


def hang(folder, number):
    """Never ends unless it is the first; says so by a file."""
    (folder / f"{number}-{os.getpid()}").touch()
    time.sleep(300 if number else 0)
    return number


def die_once(folder, work, task):
    """The first task that comes here does its work, then its worker is killed."""
    try:
        (folder / "killed").touch(exist_ok=False)
    except FileExistsError:
        return work(task)
    work(task)
    if isinstance(task, tuple):  # the task must be done again over its files
        (work.args[0] / "done" / f"{task[0]}.json").unlink()
    return die(0)


def die(_):
    os.kill(os.getpid(), signal.SIGKILL)


class Dying:
    """An engine in which the first task of each stage kills its worker."""

    processes = None

    def __init__(self, engine, folder):
        self._engine, self._folder, self.stages = engine, folder, 0

    def map(self, work, tasks, _on_wait=None):
        self.stages += 1
        marks = self._folder / str(self.stages)
        marks.mkdir()
        return self._engine.map(functools.partial(die_once, marks, work), list(tasks))


@pytest.fixture(scope="module")
def engine(two_nodes):
    with RayEngine(two_nodes.address) as found:
        yield found


@pytest.mark.slow
def test_results_in_order_from_workers_of_all_nodes_and_taken_lazily(engine):
    taken = []

    def tasks():
        for number in range(100_000):
            taken.append(number)
            yield number

    results = engine.map(square, tasks())
    first = [next(results) for _ in range(60)]
    results.close()
    assert [value for value, _ in first] == [number * number for number in range(60)]
    assert os.getpid() not in {pid for _, pid in first}
    assert len({pid for _, pid in first}) >= 2
    assert len(taken) <= 60 + 65 * 3
    assert [len(data) for data in engine.map(large, range(40))] == [
        300_000 + number for number in range(40)
    ]


@pytest.mark.slow
def test_an_error_arrives_as_itself_and_ends_the_other_tasks(engine):
    started = time.monotonic()
    with pytest.raises(MissingExtraError, match=r"this needs the extra 'demo'") as caught:
        list(engine.map(fail, range(30)))
    assert caught.value.extra == "demo"
    assert time.monotonic() - started < 60
    with pytest.raises(RejoinderError, match=r"Ray lost a task 6 times") as lost:
        list(engine.map(die, range(1)))
    assert "\n" not in str(lost.value)


@pytest.mark.slow
def test_nothing_runs_any_more_after_closing(engine, tmp_path):
    results = engine.map(functools.partial(hang, tmp_path), range(5))
    assert next(results) == 0
    assert wait_for(lambda: len(list(tmp_path.glob("[1-4]-*"))) >= 2)
    results.close()
    running = [int(path.name.partition("-")[2]) for path in tmp_path.glob("[1-4]-*")]
    assert wait_for(lambda: not any(map(alive, running)), seconds=30)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_cluster_builds_the_same_bytes_though_workers_die(engine, tmp_path, kind):
    source, inputs = KINDS[kind](tmp_path)
    account = build(source, inputs, tmp_path / "here")
    assert build(source, inputs, tmp_path / "there", engine=engine) == account
    dying = Dying(engine, tmp_path)
    assert build(source, inputs, tmp_path / "killed", engine=dying) == account
    assert (
        contents(tmp_path / "there") == contents(tmp_path / "killed") == contents(tmp_path / "here")
    )
    assert len(list(tmp_path.glob("*/killed"))) >= 2
    assert not work_folder(tmp_path / "killed").exists()


@pytest.mark.slow
def test_an_index_from_a_cluster_has_the_same_bytes(engine, tmp_path):
    # Not above: the workers import this file, and torch takes them seconds.
    from rejoinder.retrieval.index import Index
    from tests.encoders.small import small_model

    encoder = small_model(tmp_path / "model")
    replies = [f"reply number {number} of {number % 7}" for number in range(300)]
    here = Index.build(encoder, replies[:250], tmp_path / "here", batch=32)
    there = Index.build(encoder, replies[:250], tmp_path / "there", batch=32, engine=engine)
    here.add(replies[250:], batch=16)
    there.add(replies[250:], batch=16, engine=engine)
    assert there.fingerprint == here.fingerprint
    Index.open(tmp_path / "there", encoder, verify=True)


@pytest.mark.slow
def test_a_node_is_killed(two_nodes, engine, tmp_path):
    """A third node with most of the CPUs goes, with all its workers, while it reads."""
    source, inputs = KINDS["streamed"](tmp_path)
    build(source, inputs, tmp_path / "here")
    third = two_nodes.add_node(**node(4))
    two_nodes.wait_for_nodes()

    class Killing:
        processes = None
        left = 3

        def map(self, work, tasks, _on_wait=None):
            for result in engine.map(functools.partial(slowly, work), tasks):
                yield result
                Killing.left -= 1
                if Killing.left == 0:
                    two_nodes.remove_node(third, allow_graceful=False)

    build(source, inputs, tmp_path / "there", engine=Killing())
    assert Killing.left < 0
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


def slowly(work, task):
    time.sleep(0.3)
    return work(task)


@pytest.mark.slow
@pytest.mark.usefixtures("engine")
def test_a_node_that_does_not_see_the_folder(two_nodes, tmp_path, monkeypatch):
    """As if the token were on a mount that only this process has."""
    monkeypatch.setattr(
        RayEngine, "_write_marker_files", lambda _, folders: [Path(folders[0]) / "token"]
    )
    with pytest.raises(
        InputError, match=r"node 127.0.0.1 of the Ray cluster does not share the folder .*/lonely"
    ):
        RayEngine(two_nodes.address, folders=[tmp_path / "lonely"])
