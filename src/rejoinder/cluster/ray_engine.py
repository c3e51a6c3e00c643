"""The tasks of a job on a Ray cluster.

A task goes to any node; Ray does it again where a worker or a node is lost. That changes nothing, since a task writes
whole files or nothing, the same ones each time. All nodes must see the folders of the job under the same path, and
have the same version of Rejoinder; each says what it lacks before any work, and so does one that comes later.
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
from typing import Any, Self, TypeVar

from rejoinder.corpora.engine import Answer, attempt, in_order
from rejoinder.errors import InputError, MissingExtraError, RejoinderError

T = TypeVar("T")
R = TypeVar("R")

_RETRIES = 5  # how often a task is done again after its worker or its node was lost
_LOOK_AGAIN = 10.0  # seconds after which the cluster's size is asked for again: nodes may come and go
_CONNECTING = 10.0  # seconds to wait for an answer at the address of a cluster
_PATIENCE = 30.0  # seconds to wait for cancelled tasks to be gone


@dataclass(frozen=True)
class Needs:
    """What a job needs on each node."""

    version: str
    current: str  # the current folder: relative paths start there
    tokens: tuple[str, ...]  # files that were just written into the folders that all nodes share
    files: tuple[tuple[str, int], ...]  # absolute paths and sizes of the input files


def needs_here(tokens: Sequence[Path], files: Sequence[str | Path]) -> Needs:
    """Return what this process has."""
    sizes = tuple((str(path.absolute()), path.stat().st_size) for path in map(Path, files))
    return Needs(version_here(), str(Path.cwd()), tuple(map(str, tokens)), sizes)


def version_here() -> str:
    """Return the version of Rejoinder that is installed here."""
    return importlib.metadata.version("rejoinder")


def check_here(needs: Needs) -> str:
    """Make the current folder the job's, and return what this node lacks, as the rest of a sentence; or nothing."""
    if (version := version_here()) != needs.version:
        return f"has rejoinder {version}, and {needs.version} is needed; install that on all nodes"
    try:
        os.chdir(needs.current)
    except OSError as error:
        reason = f"{error.strerror}; all nodes must have it, so start the command in a shared folder"
        return f"cannot enter the current folder {needs.current}: {reason}"
    for token in needs.tokens:
        if not Path(token).exists():
            return f"does not share the folder {Path(token).parent}; put the output on storage that all nodes see"
    for file, size in needs.files:
        if not Path(file).exists() or Path(file).stat().st_size != size:
            return f"does not see {file} as it is here; put the input on storage that all nodes see"
    return ""


_check_once = functools.lru_cache(1)(check_here)


class RayEngine:
    """Runs tasks on a Ray cluster (fulfils `corpora.engine.Engine`). A context manager, which leaves the cluster.

    `address` is that of `ray.init`, whose connection is used if the program has called it. None: RAY_ADDRESS, else the
    cluster that runs on this machine, else one that starts here and ends with this engine. All nodes must share
    `folders`, which are made, and see `files`. InputError: there is no such cluster, or a node lacks something.
    """

    remote = True

    def __init__(
        self, address: str | None = None, *, folders: Sequence[str | Path] = (), files: Sequence[str | Path] = ()
    ) -> None:
        try:
            import ray
        except ImportError:
            raise MissingExtraError("--engine ray", "cluster") from None
        self._ray = ray
        self._tokens: list[Path] = []
        self._connected_here = not ray.is_initialized()
        self._cpus, self._cpus_asked = 1, float("-inf")
        if self._connected_here:
            _connect(ray, address)
        try:
            self._needs = needs_here(self._leave_tokens(folders), files)
            check_nodes(ray, self._needs)
            self._run = ray.remote(num_cpus=1, max_retries=_RETRIES)(_run)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster; one that was started by this engine ends."""
        for token in self._tokens:
            token.unlink(missing_ok=True)
        if self._connected_here:
            self._ray.shutdown()

    def map(self, work: Callable[[T], R], tasks: Iterable[T]) -> Generator[R]:
        """See `corpora.engine.Engine.map`; RejoinderError: a task was lost more often than it is tried again."""
        from ray.exceptions import RayError

        common = self._ray.put((pickle.dumps(work), self._needs))
        running: dict[Any, Future[Answer]] = {}

        def submit(task: T) -> Future[Answer]:
            for reference in [each for each, future in running.items() if future.done()]:
                del running[reference]
            reference = self._run.remote(common, pickle.dumps(task))
            running[reference] = reference.future()
            return running[reference]

        try:
            yield from in_order(submit, tasks, self._count_cpus)
        except RayError as error:
            advice = "if memory ran out, give the nodes fewer CPUs (ray start --num-cpus); finished work is kept"
            lost = f"Ray lost a task {_RETRIES + 1} times or cannot go on ({last_line(error)})"
            raise RejoinderError(f"{lost}; {advice}") from error
        finally:
            self._cancel([each for each, future in running.items() if not future.done()])

    def _cancel(self, running: list[Any]) -> None:
        """End what still runs. Ray kills the workers a moment after it says so; what they still write is whole."""
        for reference in running:
            self._ray.cancel(reference, force=True)
        if running:
            self._ray.wait(running, num_returns=len(running), timeout=_PATIENCE, fetch_local=False)

    def _count_cpus(self) -> int:
        if time.monotonic() > self._cpus_asked + _LOOK_AGAIN:
            self._cpus = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
            self._cpus_asked = time.monotonic()
        return self._cpus

    def _leave_tokens(self, folders: Sequence[str | Path]) -> list[Path]:
        """Write a file of a new name into each folder, for the nodes to find."""
        for folder in {Path(os.path.realpath(folder)) for folder in folders}:
            folder.mkdir(parents=True, exist_ok=True)
            token = folder / f".rejoinder-{uuid.uuid4().hex}.token"
            self._tokens.append(token)
            token.touch()
        return self._tokens


def check_nodes(ray: Any, needs: Needs) -> None:
    """Let every node look for what the job needs; InputError names the first that lacks something, and what."""
    from ray.exceptions import RayError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    if not nodes:
        raise InputError("the Ray cluster has no node with a CPU to run tasks on")
    look = ray.remote(num_cpus=0, max_retries=_RETRIES)(check_here)
    places = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes]
    answers = [look.options(scheduling_strategy=place).remote(needs) for place in places]
    for node, answer in zip(nodes, answers, strict=True):
        try:
            fault = ray.get(answer)
        except RayError as error:
            fault = f"cannot run our code; rejoinder must be installed on all nodes ({last_line(error)})"
        if fault:
            raise InputError(f"node {node['NodeManagerAddress']} of the Ray cluster {fault}")


def _run(common: tuple[bytes, Needs], task: bytes) -> Answer:
    """Do a task in a worker. Work and task come pickled, so that Ray need not know their classes."""
    work, needs = common
    if fault := _check_once(needs):  # a node that came later
        return InputError(f"a node of the Ray cluster {fault}"), None
    return attempt(lambda data: pickle.loads(work)(pickle.loads(data)), task)  # noqa: S301 (from our own job)


def check_address(address: str | None) -> None:
    """Refuse an address where nothing listens with InputError: Ray itself would try for minutes."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        return  # "auto" and the like: Ray knows
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECTING).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, error) from error


def _connect(ray: Any, address: str | None) -> None:
    check_address(address)
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # results that nobody fetches since another one failed
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise _no_cluster(address, error) from error


def _no_cluster(address: str | None, error: BaseException) -> InputError:
    where = f"at {address}" if address else "of RAY_ADDRESS or on this machine"
    advice = "`ray start --head` starts one; --address is auto, HOST:PORT or ray://HOST:PORT"
    return InputError(f"no Ray cluster answers {where} ({last_line(error)}); {advice}")


def last_line(error: BaseException) -> str:
    """Return the line of an error's text that says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1 if "Traceback" in str(error) else 0] if lines else type(error).__name__).rstrip(".")
