"""A Ray cluster of two nodes on this machine, loopback only, that ends with the tests of a file."""

from collections.abc import Iterator
from typing import Any

import pytest

STORE = 80 * 2**20
"""Bytes of a node's object store: Ray's minimum, about."""


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Any]:
    """`ray.cluster_utils.Cluster` with a head of one CPU and a node of two; nothing is connected to it yet."""
    pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_AUTH_MODE", "disabled")
        # Otherwise Ray takes 127.0.0.1 in an address for the machine's outer one, where nobody listens.
        patch.setattr("ray._private.ray_constants.ENABLE_RAY_CLUSTER", False)
        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args=node(1, include_dashboard=False))
        try:
            cluster.add_node(**node(2))
            cluster.wait_for_nodes()
            yield cluster
        finally:
            cluster.shutdown()


def node(cpus: int, **settings: Any) -> dict[str, Any]:
    """Settings of a small node that listens on the loopback device alone."""
    return {"num_cpus": cpus, "object_store_memory": STORE, "node_ip_address": "127.0.0.1", **settings}
