"""Ray cluster: an engine for tasks, and training through Ray Train (version 2).

A task runs on any node. Ray runs it again if its worker or node is lost, which changes nothing: a
task writes whole files or nothing, the same ones each time. All nodes must see the folders of the
job under the same path and have the same version of Rejoinder. Every node is checked before any
work, one that joins later before its first task.
"""

from __future__ import annotations

import functools
import importlib.metadata
import logging
import os
import pickle
import socket
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from rejoinder.connections import probe_connections
from rejoinder.engine import TaskAnswer, attempt, in_order
from rejoinder.errors import InputError, MissingExtraError, RejoinderError
from rejoinder.memory import keep_memory
from rejoinder.training.display import TerminalDisplay

if TYPE_CHECKING:
    from rejoinder.training.recipe.settings import Recipe
    from rejoinder.training.run import RunSummary

T = TypeVar("T")
R = TypeVar("R")

_RETRIES = 5  # of a task whose worker or node was lost
_RECOUNT_SECONDS = 10.0  # after which the cluster is looked at again: nodes come and go
_PROBE_SECONDS = 15  # after which a connection to a lost node is closed
_CONNECT_TIMEOUT = 10.0  # seconds
_HEAD_TIMEOUT = 45.0  # seconds without an answer: Ray ends this process after 60
_CANCEL_TIMEOUT = 30.0  # seconds until cancelled tasks have ended


@dataclass(frozen=True)
class NodeRequirements:
    """Requirements of a job on each node."""

    version: str
    current: str  # the current folder: relative paths start there
    probes: tuple[str, ...]  # files that were just written into the shared folders
    files: tuple[tuple[str, int], ...]  # absolute paths and sizes of the input files


def collect_requirements(probes: Sequence[Path], files: Sequence[str | Path]) -> NodeRequirements:
    """Return the requirements of a job that starts in this process."""
    sizes = tuple((str(path.absolute()), path.stat().st_size) for path in map(Path, files))
    return NodeRequirements(
        version=installed_version(),
        current=str(Path.cwd()),
        probes=tuple(map(str, probes)),
        files=sizes,
    )


def installed_version() -> str:
    """Return the version of Rejoinder that is installed here."""
    return importlib.metadata.version("rejoinder")


def check_node(required: NodeRequirements) -> str:
    """Enter the job's current folder; return what this node lacks, or "".

    The text completes the sentence "node NAME ...".
    """
    version = installed_version()
    if version != required.version:
        return (
            f"has rejoinder {version}, and {required.version} is needed; install that on all nodes"
        )
    try:
        os.chdir(required.current)
    except OSError as error:
        return (
            f"cannot enter the current folder {required.current}: {error.strerror}; "
            "all nodes must have it, so start the command in a shared folder"
        )
    for probe in required.probes:
        if not Path(probe).exists():
            return (
                f"does not share the folder {Path(probe).parent}; "
                "put the output on storage that all nodes see"
            )
    for file, size in required.files:
        if not Path(file).exists() or Path(file).stat().st_size != size:
            return f"does not see {file} as it is here; put the input on storage that all nodes see"
    return ""


_check_once = functools.lru_cache(1)(check_node)


class RayEngine:
    """Runs tasks on a Ray cluster (see `engine.Engine`). A context manager, which disconnects.

    `address` is that of `ray.init`; if the program has called that, its connection is used. None:
    RAY_ADDRESS, else the cluster that runs on this machine, else one that starts here and ends with
    this engine. All nodes must share `folders`, which are made, and see `files`. InputError: there
    is no such cluster, or a node lacks something.
    """

    processes = None  # as many as the nodes have CPUs

    def __init__(
        self,
        address: str | None = None,
        *,
        folders: Sequence[str | Path] = (),
        files: Sequence[str | Path] = (),
    ) -> None:
        try:
            import ray
        except ImportError:
            raise MissingExtraError("--ray", "cluster") from None
        self._ray = ray
        self._probes: list[Path] = []
        self._connected_here = not ray.is_initialized()
        if self._connected_here:
            _connect(ray, address)
        self._watch = _Watch(ray, address)
        try:
            self._required = collect_requirements(self._write_probe_files(folders), files)
            check_nodes(ray, self._required)
            self._run = ray.remote(num_cpus=1, max_retries=_RETRIES)(_run)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect; a cluster that was started by this engine ends.

        A connection that is lost already is left to the end of the process: Ray would end that.
        """
        for probe in self._probes:
            probe.unlink(missing_ok=True)
        if self._connected_here and not self._watch.is_cut_off:
            self._ray.shutdown()

    def map(
        self,
        work: Callable[[T], R],
        tasks: Iterable[T],
        on_wait: Callable[[], object] | None = None,
    ) -> Generator[R]:
        """See `Engine.map`; RejoinderError: a task was lost more often than it is retried."""
        from ray.exceptions import RayError

        common = self._ray.put((pickle.dumps(work), self._required))
        running: dict[Any, Future[TaskAnswer]] = {}

        def submit(task: T) -> Future[TaskAnswer]:
            for reference in [key for key, future in running.items() if future.done()]:
                del running[reference]
            reference = self._run.remote(common, pickle.dumps(task))
            running[reference] = reference.future()
            return running[reference]

        def look() -> None:
            self._watch.count_cpus()
            if on_wait is not None:
                on_wait()

        try:
            yield from in_order(submit, tasks, self._watch.count_cpus, look)
        except RayError as error:
            lost = f"; lost: {', '.join(self._watch.lost)}" if self._watch.lost else ""
            raise RejoinderError(
                f"Ray lost a task {_RETRIES + 1} times or cannot go on ({last_line(error)}{lost});"
                " if memory ran out, give the nodes fewer CPUs (ray start --num-cpus);"
                " finished work is kept"
            ) from error
        finally:
            self._cancel([key for key, future in running.items() if not future.done()])

    def _cancel(self, running: list[Any]) -> None:
        """Cancel running tasks and wait until their workers are killed; their files are whole."""
        if self._watch.is_cut_off:
            return
        for reference in running:
            self._ray.cancel(reference, force=True)
        if running:
            self._ray.wait(
                running, num_returns=len(running), timeout=_CANCEL_TIMEOUT, fetch_local=False
            )

    def _write_probe_files(self, folders: Sequence[str | Path]) -> list[Path]:
        """Write a file with a new name into each folder, for the nodes to find."""
        for folder in {Path(os.path.realpath(folder)) for folder in folders}:
            folder.mkdir(parents=True, exist_ok=True)
            probe = folder / f".rejoinder-{uuid.uuid4().hex}.token"
            self._probes.append(probe)
            probe.touch()
        return self._probes


class _Watch:
    """The cluster as the process of a job sees it: its CPUs, and what was lost of it."""

    def __init__(self, ray: Any, address: str | None) -> None:
        context = ray.get_runtime_context()
        self.lost: list[str] = []  # addresses of nodes
        self.is_cut_off = False
        self._ray = ray
        self._own = context.get_node_id()
        client = address is not None and address.startswith("ray://")
        self._head: str = address if client and address else context.gcs_address
        self._cpus = 1
        self._looked_at = float("-inf")
        self._answered_at = time.monotonic()

    def count_cpus(self) -> int:
        """Return the number of CPUs, and let go of nodes that were lost.

        Ray itself waits for minutes for the answer of a task if the connection to a lost node
        stays open here.

        Raises:
            RejoinderError: the head or this node was lost.
        """
        if time.monotonic() > self._looked_at + _RECOUNT_SECONDS:
            if self._head_answers():
                self._look()
            self._looked_at = time.monotonic()
        return self._cpus

    def _head_answers(self) -> bool:
        try:
            check_address(self._head)
        except InputError as error:
            if time.monotonic() < self._answered_at + _HEAD_TIMEOUT:
                return False
            self.is_cut_off = True
            raise RejoinderError(
                f"the head of the Ray cluster at {self._head} has not answered for"
                f" {_HEAD_TIMEOUT:.0f} seconds ({last_line(error.__cause__ or error)});"
                " finished work is kept: start the head again, then the same command"
            ) from error
        self._answered_at = time.monotonic()
        return True

    def _look(self) -> None:
        nodes = self._ray.nodes()
        alive = [node for node in nodes if node["Alive"]]
        dead = [node for node in nodes if not node["Alive"]]
        gone = {node["NodeManagerAddress"] for node in dead}
        probe_connections(gone, seconds=_PROBE_SECONDS)
        self.lost = sorted(gone - {node["NodeManagerAddress"] for node in alive})
        self._cpus = max(1, int(sum(node["Resources"].get("CPU", 0) for node in alive)))
        for node in dead:
            if node["NodeID"] == self._own:
                self.is_cut_off = True
                raise RejoinderError(
                    f"the Ray cluster has given up node {node['NodeManagerAddress']}, on which"
                    " this command runs; finished work is kept: join it again (ray start), then"
                    " the same command"
                )


def check_nodes(ray: Any, required: NodeRequirements) -> None:
    """Check every node; InputError names the first that lacks something, and what.

    A node that is lost meanwhile is left out.
    """
    from ray.exceptions import RayError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = _alive(ray)
    if not nodes:
        raise InputError("the Ray cluster has no node with a CPU to run tasks on")
    check = ray.remote(num_cpus=0, max_retries=_RETRIES)(check_node)
    strategies = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes]
    answers = [
        check.options(scheduling_strategy=strategy).remote(required) for strategy in strategies
    ]
    for node, answer in zip(nodes, answers, strict=True):
        try:
            fault = ray.get(answer)
        except RayError as error:
            if node["NodeID"] not in {other["NodeID"] for other in _alive(ray)}:
                continue  # lost meanwhile, so it gets no task
            raise InputError(
                f"node {node['NodeManagerAddress']} of the Ray cluster cannot run our code;"
                f" rejoinder must be installed on all nodes ({last_line(error)})"
            ) from None
        if fault:
            raise InputError(f"node {node['NodeManagerAddress']} of the Ray cluster {fault}")


def _alive(ray: Any) -> list[dict[str, Any]]:
    """Return the nodes that can run tasks."""
    return [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]


def _run(common: tuple[bytes, NodeRequirements], task: bytes) -> TaskAnswer:
    """Run a task in a worker. Ray gets work and task pickled: it need not know their classes."""
    work, required = common
    fault = _check_once(required)  # of a node that joined later
    if fault:
        return InputError(f"a node of the Ray cluster {fault}"), None
    return attempt(lambda data: pickle.loads(work)(pickle.loads(data)), task)  # noqa: S301 (ours)


def check_address(address: str | None) -> None:
    """Refuse an address where nothing listens with InputError: Ray itself would try for minutes."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        return  # "auto" and the like: Ray knows
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_TIMEOUT).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, error) from error


def _connect(ray: Any, address: str | None) -> None:
    check_address(address)
    # No warnings about results that nobody fetches since another task failed.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise _no_cluster(address, error) from error


def _no_cluster(address: str | None, error: BaseException) -> InputError:
    target = f"at {address}" if address else "of RAY_ADDRESS or on this machine"
    return InputError(
        f"no Ray cluster answers {target} ({last_line(error)}); "
        "`ray start --head` starts one; --ray is auto, HOST:PORT or ray://HOST:PORT"
    )


def last_line(error: BaseException) -> str:
    """Return the line of an error's text that says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return lines[-1 if "Traceback" in str(error) else 0].rstrip(".")


def train_on_ray(
    recipe: Recipe, run: str | Path, *, workers: int, gpus: bool = False, restarts: int = 3
) -> RunSummary:
    """Train as `training.loop.train` does, in several processes that Ray places on a cluster.

    The cluster is the one that `ray.init` connected to; without that, Ray starts one on this
    machine. Rejoinder must be installed on all machines, and they must find the examples and the
    run folder under the same path: a shared file system. Relative paths start at the current
    folder. Ray keeps its own notes beside the run, in `NAME.ray`.

    A stage's batch size is that of all workers together. With `gpus` each worker gets a GPU of its
    own, else a CPU. After the loss of one, all are started again up to `restarts` times, to go on
    from the last checkpoint; then RejoinderError. InputError: recipe, data and folder do not fit
    each other.
    """
    try:
        from ray.train import FailureConfig, RunConfig, ScalingConfig, TrainingFailedError
        from ray.train.torch import TorchTrainer
    except ImportError:
        raise MissingExtraError("training on Ray", "cluster") from None
    from rejoinder.training.recipe_files import recipe_document
    from rejoinder.training.run import RunSummary

    run_folder = Path(run).resolve()
    run_folder.parent.mkdir(parents=True, exist_ok=True)
    failures = FailureConfig(max_failures=restarts)
    trainer = TorchTrainer(
        _train,
        train_loop_config={
            "recipe": recipe_document(recipe),
            "run": str(run_folder),
            "folder": str(Path.cwd()),
        },
        scaling_config=ScalingConfig(num_workers=workers, use_gpu=gpus),
        run_config=RunConfig(
            name=f"{run_folder.name}.ray",
            storage_path=str(run_folder.parent),
            failure_config=failures,
        ),
    )
    try:
        done = trainer.fit().return_value
    except TrainingFailedError as error:
        failed: dict[int, BaseException] = getattr(error, "worker_failures", {})
        reasons = [f"worker {rank}: {last_line(failure)}" for rank, failure in failed.items()]
        raise RejoinderError(
            f"{run_folder}: training on Ray failed: {'; '.join(reasons) or last_line(error)}"
        ) from None
    if "refused" in done:
        raise InputError(done["refused"])
    return RunSummary(**done["summary"])


def _train(config: dict[str, Any]) -> dict[str, Any]:
    """Train in a worker.

    Return what came out, or why the recipe was refused (Ray starts what raises again).
    """
    from rejoinder.training.distributed import RankZeroFailedError, is_first
    from rejoinder.training.loop import train
    from rejoinder.training.recipe_files import parse_recipe

    os.chdir(config["folder"])
    keep_memory()
    display = TerminalDisplay() if is_first() else None
    try:
        return {
            "summary": train(
                parse_recipe(config["recipe"]), config["run"], display=display
            ).to_json()
        }
    except (InputError, RankZeroFailedError) as error:
        if isinstance(error, InputError) or error.code == 2:
            return {"refused": str(error)}
        raise
