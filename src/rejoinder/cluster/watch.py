"""State of the cluster as the process of a job sees it."""

from __future__ import annotations

import time
from typing import Any

from rejoinder.cluster.connection import check_address
from rejoinder.connections import probe_connections
from rejoinder.errors import InputError, RejoinderError, reason_of

_REFRESH_SECONDS = 10.0  # nodes come and go
_PROBE_SECONDS = 15  # after which a connection to a lost node is closed
_HEAD_TIMEOUT = 45.0  # seconds without an answer: Ray ends this process after 60


class ClusterWatch:
    """State of the cluster: CPUs, lost nodes, connection to the head."""

    def __init__(self, ray: Any, address: str | None) -> None:
        context = ray.get_runtime_context()
        self.lost: list[str] = []  # addresses of nodes
        self.is_cut_off = False
        self._ray = ray
        self._own = context.get_node_id()
        client = address is not None and address.startswith("ray://")
        self._head: str = address if client and address else context.gcs_address
        self.cpus = 1
        self._looked_at = float("-inf")
        self._answered_at = time.monotonic()

    def refresh(self) -> None:
        """Look at the cluster again after `_REFRESH_SECONDS`, and let go of nodes that were lost.

        Ray itself waits for minutes for the answer of a task if the connection to a lost node
        stays open here.

        Raises:
            RejoinderError: the head or this node was lost.
        """
        if time.monotonic() > self._looked_at + _REFRESH_SECONDS:
            if self._head_answers():
                self._look()
            self._looked_at = time.monotonic()

    def _head_answers(self) -> bool:
        try:
            check_address(self._head)
        except InputError as error:
            if time.monotonic() < self._answered_at + _HEAD_TIMEOUT:
                return False
            self.is_cut_off = True
            raise RejoinderError(
                f"the head of the Ray cluster at {self._head} has not answered for"
                f" {_HEAD_TIMEOUT:.0f} seconds ({reason_of(error.__cause__ or error)});"
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
        self.cpus = max(1, int(sum(node["Resources"].get("CPU", 0) for node in alive)))
        for node in dead:
            if node["NodeID"] == self._own:
                self.is_cut_off = True
                raise RejoinderError(
                    f"the Ray cluster has given up node {node['NodeManagerAddress']}, on which"
                    " this command runs; finished work is kept: join it again (ray start), then"
                    " the same command"
                )
