"""Tasks on a Ray cluster of two nodes: the same as here, whatever is killed."""

import functools
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rejoinder.cluster import ray_engine
from rejoinder.cluster.ray_engine import Needs, RayEngine, check_address, check_here, needs_here
from rejoinder.corpora.work import work_folder
from rejoinder.errors import InputError, MissingExtraError, RejoinderError
from tests.cluster.conftest import node
from tests.corpora.jobs import KINDS, alive, build, contents, wait_for


def test_without_ray_an_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"--engine ray needs the extra 'cluster'"):
        RayEngine()


def test_what_a_node_lacks_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "token").touch()
    (tmp_path / "input").write_text("a")
    needs = needs_here([tmp_path / "token"], ["input"])
    assert check_here(needs) == ""
    (tmp_path / "input").write_text("ab")
    assert check_here(needs).startswith(f"does not see {tmp_path / 'input'} as it is here")
    (tmp_path / "token").unlink()
    assert check_here(needs).startswith(f"does not share the folder {tmp_path}")
    elsewhere = Needs(needs.version, str(tmp_path / "gone"), (), ())
    assert "cannot enter the current folder" in check_here(elsewhere)
    monkeypatch.setattr(ray_engine, "version_here", lambda: "9.9")
    assert check_here(needs) == f"has rejoinder 9.9, and {needs.version} is needed; install that on all nodes"


def test_an_address_where_nobody_listens_is_refused_at_once() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{server.getsockname()[1]}"
        for given in (address, f"ray://{address}"):
            with pytest.raises(InputError, match=rf"no Ray cluster answers at {given} \(.*refused"):
                check_address(given)
        server.listen()
        for given in (address, None, "auto"):
            check_address(given)


def square(number: int) -> tuple[int, int]:
    """Smaller numbers take longer, so that results come out of order."""
    time.sleep(0.05 if number % 3 == 0 else 0)
    return number * number, os.getpid()


def large(number: int) -> bytes:
    return bytes(300_000 + number)


def fail(number: int) -> int:
    if number == 3:
        raise MissingExtraError("this", "demo")
    if number > 3:
        time.sleep(60)
    return number


def hang(folder: Path, number: int) -> int:
    """Never ends unless it is the first; says so by a file."""
    (folder / f"{number}-{os.getpid()}").touch()
    time.sleep(300 if number else 0)
    return number


def die_once(folder: Path, work: Any, task: Any) -> Any:
    """The first task that comes here does its work, then its worker is killed."""
    try:
        (folder / "killed").touch(exist_ok=False)
    except FileExistsError:
        return work(task)
    work(task)
    if isinstance(task, tuple):  # the task must be done again over its files
        (work.args[0] / "done" / f"{task[0]}.json").unlink()
    return die(0)


def die(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Dying:
    """An engine in which the first task of each stage kills its worker."""

    remote = True

    def __init__(self, engine: RayEngine, folder: Path) -> None:
        self._engine, self._folder, self.stages = engine, folder, 0

    def map(self, work: Any, tasks: Any) -> Iterator[Any]:
        self.stages += 1
        marks = self._folder / str(self.stages)
        marks.mkdir()
        return self._engine.map(functools.partial(die_once, marks, work), list(tasks))


@pytest.fixture(scope="module")
def engine(two_nodes: Any) -> Iterator[RayEngine]:
    with RayEngine(two_nodes.address) as found:
        yield found


@pytest.mark.slow
def test_results_in_order_from_workers_of_all_nodes_and_taken_lazily(engine: RayEngine) -> None:
    taken = []

    def tasks() -> Iterator[int]:
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
    assert [len(data) for data in engine.map(large, range(40))] == [300_000 + number for number in range(40)]


@pytest.mark.slow
def test_an_error_arrives_as_itself_and_ends_the_other_tasks(engine: RayEngine) -> None:
    started = time.monotonic()
    with pytest.raises(MissingExtraError, match=r"this needs the extra 'demo'") as caught:
        list(engine.map(fail, range(30)))
    assert caught.value.extra == "demo"
    assert time.monotonic() - started < 60
    with pytest.raises(RejoinderError, match=r"Ray lost a task 6 times") as lost:
        list(engine.map(die, range(1)))
    assert "\n" not in str(lost.value)


@pytest.mark.slow
def test_nothing_runs_any_more_after_closing(engine: RayEngine, tmp_path: Path) -> None:
    results = engine.map(functools.partial(hang, tmp_path), range(5))
    assert next(results) == 0
    assert wait_for(lambda: len(list(tmp_path.glob("[1-4]-*"))) >= 2)
    results.close()
    running = [int(path.name.partition("-")[2]) for path in tmp_path.glob("[1-4]-*")]
    assert wait_for(lambda: not any(map(alive, running)), seconds=30)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_cluster_builds_the_same_bytes_though_workers_die(engine: RayEngine, tmp_path: Path, kind: str) -> None:
    source, inputs = KINDS[kind](tmp_path)
    account = build(source, inputs, tmp_path / "here")
    assert build(source, inputs, tmp_path / "there", engine=engine) == account
    dying = Dying(engine, tmp_path)
    assert build(source, inputs, tmp_path / "killed", engine=dying) == account
    assert contents(tmp_path / "there") == contents(tmp_path / "killed") == contents(tmp_path / "here")
    assert len(list(tmp_path.glob("*/killed"))) >= 2
    assert not work_folder(tmp_path / "killed").exists()


@pytest.mark.slow
def test_an_index_from_a_cluster_has_the_same_bytes(engine: RayEngine, tmp_path: Path) -> None:
    # Not above: the workers import this file, and torch takes them seconds.
    from rejoinder.retrieval.index import Index
    from tests.models.small import small_model

    encoder = small_model(tmp_path / "model")
    replies = [f"reply number {number} of {number % 7}" for number in range(300)]
    here = Index.build(encoder, replies[:250], tmp_path / "here", batch=32)
    there = Index.build(encoder, replies[:250], tmp_path / "there", batch=32, engine=engine)
    here.add(replies[250:], batch=16)
    there.add(replies[250:], batch=16, engine=engine)
    assert there.fingerprint == here.fingerprint
    Index.open(tmp_path / "there", encoder, verify=True)


@pytest.mark.slow
def test_a_node_is_killed(two_nodes: Any, engine: RayEngine, tmp_path: Path) -> None:
    """A third node with most of the CPUs goes, with all its workers, while it reads."""
    source, inputs = KINDS["streamed"](tmp_path)
    build(source, inputs, tmp_path / "here")
    third = two_nodes.add_node(**node(4))
    two_nodes.wait_for_nodes()

    class Killing:
        remote = True
        left = 3

        def map(self, work: Any, tasks: Any) -> Iterator[Any]:
            for result in engine.map(functools.partial(slowly, work), tasks):
                yield result
                Killing.left -= 1
                if Killing.left == 0:
                    two_nodes.remove_node(third, allow_graceful=False)

    build(source, inputs, tmp_path / "there", engine=Killing())
    assert Killing.left < 0
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


def slowly(work: Any, task: Any) -> Any:
    time.sleep(0.3)
    return work(task)


@pytest.mark.slow
@pytest.mark.usefixtures("engine")
def test_a_node_that_does_not_see_the_folder(two_nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the token were on a mount that only this process has."""
    monkeypatch.setattr(RayEngine, "_leave_tokens", lambda _, folders: [Path(folders[0]) / "token"])
    with pytest.raises(InputError, match=r"node 127.0.0.1 of the Ray cluster does not share the folder .*/lonely"):
        RayEngine(two_nodes.address, folders=[tmp_path / "lonely"])
