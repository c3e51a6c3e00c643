"""The tasks of a job on a Ray cluster.

A task goes to any node; Ray does it again where a worker or a node is lost. That changes nothing, since a task writes
whole files or nothing, the same ones each time. All nodes must see the folders of the job under the same path.
"""

from __future__ import annotations

import logging
import os
import pickle
import socket
import time
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from rejoinder.cluster.nodes import Needs, check_here, known_here
from rejoinder.corpora.processes import attempt
from rejoinder.errors import InputError, MissingExtraError, RejoinderError

T = TypeVar("T")
R = TypeVar("R")

_AT_ONCE = 2
"""Tasks for each core of the cluster that are with Ray: one to work on, and one to go on with at once."""
_WAITING = 64
"""Most results for each core that wait for an earlier task to end."""
_RETRIES = 5
"""How often a task is done again after its worker or its node was lost."""
_LOOK_AGAIN = 10.0
"""Seconds after which the cluster's size is asked for again: nodes may come and go."""
_CONNECTING = 10.0
"""Seconds to wait for somebody to answer at the address of a cluster."""
_PATIENCE = 30.0
"""Seconds to wait for cancelled tasks to be gone."""


class RayEngine:
    """Runs tasks on a Ray cluster (fulfils `corpora.engine.Engine`). A context manager, which leaves the cluster.

    Args:
        address: of the cluster, as `ray.init` takes it: "auto", "HOST:PORT" or "ray://HOST:PORT". None: that of the
            environment variable RAY_ADDRESS, else the one that runs on this machine, else one that Ray starts here
            and that ends with this engine. If the program has called `ray.init`, that connection is used.
        folders: folders that all nodes must share; made if they are not there.
        files: input files that all nodes must see.

    Raises:
        MissingExtraError: Ray is not installed.
        InputError: there is no such cluster, a node does not see the files, or has another version of Rejoinder.
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
        self._ours = not ray.is_initialized()
        if self._ours:
            _connect(ray, address)
        try:
            self._needs = Needs.of(self._leave_tokens(folders), files)
            check_nodes(ray, self._needs)
            self._run = ray.remote(num_cpus=1, max_retries=_RETRIES, num_returns=2)(_run)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster; one that was started by this engine ends."""
        for token in self._tokens:
            token.unlink(missing_ok=True)
        if self._ours:
            self._ray.shutdown()

    def map(self, work: Callable[[T], R], tasks: Iterable[T]) -> Generator[R]:
        """See `corpora.engine.Engine.map`.

        Results stay in the cluster until they are due, so large ones cost no memory here.

        Raises:
            RejoinderError: a task was lost more often than it is tried again.
        """
        common = self._ray.put((pickle.dumps(work), self._needs))
        rest, exhausted = iter(tasks), False
        due: deque[tuple[Any, Any]] = deque()  # of each task, in order: how it ended, and its result
        running: dict[Any, None] = {}
        size = _Size(self._ray)
        try:
            while True:
                while not exhausted and len(running) < _AT_ONCE * size() and len(due) < _WAITING * size():
                    try:
                        task = next(rest)
                    except StopIteration:
                        exhausted = True
                        break
                    ended, result = self._run.remote(common, pickle.dumps(task))
                    due.append((ended, result))
                    running[ended] = None
                if not due:
                    return
                if due[0][0] in running:
                    for ended in self._ray.wait(list(running), num_returns=1, fetch_local=False)[0]:
                        self._check(ended)
                        del running[ended]
                while due and due[0][0] not in running:
                    yield pickle.loads(self._get(due[0][1]))  # noqa: S301 (from our own tasks)
                    due.popleft()
        finally:
            self._cancel(list(running))

    def _check(self, ended: Any) -> None:
        """Raise what a task raised."""
        if error := self._get(ended):
            raise pickle.loads(error)  # noqa: S301 (from our own tasks)

    def _get(self, reference: Any) -> bytes:
        from ray.exceptions import RayError

        try:
            data: bytes = self._ray.get(reference)
        except RayError as error:
            raise RejoinderError(_lost(error)) from error
        return data

    def _cancel(self, running: list[Any]) -> None:
        """End what still runs; at the end of the work that is nothing.

        Ray kills the workers a moment after it says so. What such a task still writes is whole and right, or nothing.
        """
        for reference in running:
            self._ray.cancel(reference, force=True)
        if running:
            self._ray.wait(running, num_returns=len(running), timeout=_PATIENCE, fetch_local=False)

    def _leave_tokens(self, folders: Sequence[str | Path]) -> list[Path]:
        """Write a file of a new name into each folder, for the nodes to find."""
        for folder in {Path(os.path.realpath(folder)) for folder in folders}:
            folder.mkdir(parents=True, exist_ok=True)
            token = folder / f".rejoinder-{uuid.uuid4().hex}.token"
            self._tokens.append(token)
            token.touch()
        return self._tokens


def check_nodes(ray: Any, needs: Needs) -> None:
    """Let every node that can run tasks look for what the job needs.

    Raises:
        InputError: names the first node that lacks something, and what.
    """
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
            fault = f"cannot run our code; rejoinder must be installed on all nodes ({_last_line(error)})"
        if fault:
            raise InputError(f"node {node['NodeManagerAddress']} of the Ray cluster {fault}")


class _Size:
    """The number of cores of the cluster, asked for from time to time."""

    def __init__(self, ray: Any) -> None:
        self._ray, self._cores, self._asked = ray, 1, float("-inf")

    def __call__(self) -> int:
        if time.monotonic() > self._asked + _LOOK_AGAIN:
            self._cores = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
            self._asked = time.monotonic()
        return self._cores


def _run(common: tuple[bytes, Needs], task: bytes) -> tuple[bytes, bytes]:
    """What a worker does: the error of a task, pickled, or nothing, and its result, pickled."""
    work, needs = common
    if fault := known_here(needs):  # a node that came later
        error, result = InputError(f"a node of the Ray cluster {fault}"), None
    else:
        error, result = pickle.loads(attempt(work, task))  # noqa: S301 (just pickled)
    return (pickle.dumps(error) if error is not None else b""), pickle.dumps(result)


def check_address(address: str | None) -> None:
    """Refuse an address where nothing listens: Ray itself would try for minutes.

    Raises:
        InputError: says so.
    """
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        return  # "auto" and the like: Ray knows
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECTING).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, error) from error


def _connect(ray: Any, address: str | None) -> None:
    check_address(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster that is started here reports to nobody
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # results that nobody fetches since another one failed
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise _no_cluster(address, error) from error


def _no_cluster(address: str | None, error: BaseException) -> InputError:
    where = f"at {address}" if address else "of RAY_ADDRESS or on this machine"
    advice = "`ray start --head` starts one; --address is auto, HOST:PORT or ray://HOST:PORT"
    return InputError(f"no Ray cluster answers {where} ({_last_line(error)}); {advice}")


def _lost(error: BaseException) -> str:
    advice = "if memory ran out, give the nodes fewer CPUs (ray start --num-cpus); finished work is kept"
    return f"Ray lost a task {_RETRIES + 1} times or cannot go on ({_last_line(error)}); {advice}"


def _last_line(error: BaseException) -> str:
    """The line of an error's text that says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1 if "Traceback" in str(error) else 0] if lines else type(error).__name__).rstrip(".")
