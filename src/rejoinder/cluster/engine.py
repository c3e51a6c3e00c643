"""An engine that runs tasks on a Ray cluster."""

from __future__ import annotations

import functools
import os
import pickle
import uuid
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self, TypeVar

from rejoinder.cluster.connection import connect
from rejoinder.cluster.nodes import (
    RETRIES,
    NodeRequirements,
    check_node,
    check_nodes,
    collect_requirements,
)
from rejoinder.cluster.watch import ClusterWatch
from rejoinder.engine import TaskAnswer, attempt, in_order
from rejoinder.errors import InputError, MissingExtraError, RejoinderError, reason_of

T = TypeVar("T")
R = TypeVar("R")

_CANCEL_TIMEOUT = 30.0  # seconds until cancelled tasks have ended

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
        self._marker_files: list[Path] = []
        self._connected_here = not ray.is_initialized()
        if self._connected_here:
            connect(ray, address)
        self._watch = ClusterWatch(ray, address)
        try:
            self._required = collect_requirements(self._write_marker_files(folders), files)
            check_nodes(ray, self._required)
            self._run = ray.remote(num_cpus=1, max_retries=RETRIES)(_run)
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
        for marker in self._marker_files:
            marker.unlink(missing_ok=True)
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

        def count_cpus() -> int:
            self._watch.refresh()
            return self._watch.cpus

        def look() -> None:
            self._watch.refresh()
            if on_wait is not None:
                on_wait()

        try:
            yield from in_order(submit, tasks, count_cpus, look)
        except RayError as error:
            lost = f"; lost: {', '.join(self._watch.lost)}" if self._watch.lost else ""
            raise RejoinderError(
                f"Ray lost a task {RETRIES + 1} times or cannot go on ({reason_of(error)}{lost});"
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

    def _write_marker_files(self, folders: Sequence[str | Path]) -> list[Path]:
        """Write a file with a new name into each folder, for the nodes to find."""
        for folder in {Path(os.path.realpath(folder)) for folder in folders}:
            folder.mkdir(parents=True, exist_ok=True)
            marker = folder / f".rejoinder-{uuid.uuid4().hex}.token"
            self._marker_files.append(marker)
            marker.touch()
        return self._marker_files


def _run(common: tuple[bytes, NodeRequirements], task: bytes) -> TaskAnswer:
    """Run a task in a worker. Ray gets work and task pickled: it need not know their classes."""
    work, required = common
    fault = _check_once(required)  # of a node that joined later
    if fault:
        return InputError(f"a node of the Ray cluster {fault}"), None
    return attempt(lambda data: pickle.loads(work)(pickle.loads(data)), task)  # noqa: S301 (ours)
