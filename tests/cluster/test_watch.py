"""What the process of a job sees of its cluster: nodes that are lost, its own among them, and a silent head."""

from types import SimpleNamespace

import pytest

from rejoinder.cluster import watch as watching
from rejoinder.cluster.nodes import check_nodes, collect_requirements
from rejoinder.cluster.watch import ClusterWatch
from rejoinder.errors import InputError, RejoinderError

HEAD = "10.0.0.1:6379"


def node(name, alive=True, cpus=4):
    return {
        "NodeID": name,
        "Alive": alive,
        "NodeManagerAddress": f"10.0.0.{name}",
        "Resources": {"CPU": cpus} if alive else {},
    }


@pytest.fixture
def clock(monkeypatch):
    """The time, which a test sets; and the hosts to which connections were probed."""
    clock = SimpleNamespace(now=0.0, probed=[])
    monkeypatch.setattr(watching, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(watching, "check_address", lambda _: None)
    monkeypatch.setattr(watching, "probe_connections", lambda hosts, **_: clock.probed.append(hosts))
    return clock


def watch(*nodes, own="1"):
    """A watch, and a list of nodes that a test changes."""
    listed = list(nodes)
    context = SimpleNamespace(get_node_id=lambda: own, gcs_address=HEAD)
    return ClusterWatch(SimpleNamespace(nodes=lambda: listed, get_runtime_context=lambda: context), None), listed


def cpus(seen):
    seen.refresh()
    return seen.cpus


def test_connections_to_lost_nodes_are_probed(clock):
    seen, nodes = watch(node("1"), node("2"), node("3", cpus=2))
    assert cpus(seen) == 10
    nodes[2] = node("3", alive=False)
    assert cpus(seen) == 10, "it has just looked"
    clock.now = 11
    assert (cpus(seen), seen.lost) == (8, ["10.0.0.3"])
    nodes.append(node("3") | {"NodeID": "4"})
    clock.now = 22
    assert (cpus(seen), seen.lost) == (12, []), "it has joined again"
    assert clock.probed == [set(), {"10.0.0.3"}, {"10.0.0.3"}]


def test_a_job_whose_node_was_given_up_ends(clock):
    seen, nodes = watch(node("1"), node("2"), own="2")
    seen.refresh()
    assert not seen.is_cut_off
    nodes[1] = node("2", alive=False)
    clock.now = 11
    with pytest.raises(RejoinderError, match=r"given up node 10\.0\.0\.2, on which this command runs"):
        seen.refresh()
    assert seen.is_cut_off


def test_a_head_may_be_silent_for_a_while(clock, monkeypatch):
    def silent(address):
        raise InputError(f"no cluster at {address}") from OSError(113, "No route to host")

    seen, nodes = watch(node("1"))
    assert cpus(seen) == 4
    monkeypatch.setattr(watching, "check_address", silent)
    nodes.clear()
    for clock.now in (11, 22, 33, 44):
        assert cpus(seen) == 4
    with monkeypatch.context() as patch:
        patch.setattr(watching, "check_address", lambda _: None)
        clock.now, nodes[:] = 55, [node("1", cpus=3)]
        assert cpus(seen) == 3, "it is back"
    clock.now = 90
    assert cpus(seen) == 3
    clock.now = 101
    with pytest.raises(RejoinderError, match=rf"{HEAD} has not answered for 45 seconds \(.*No route to host\)"):
        seen.refresh()
    assert seen.is_cut_off


@pytest.mark.parametrize("later", ["gone", "dead", "alive"])
def test_a_node_that_is_lost_while_it_is_checked_is_left_out(later):
    exceptions = pytest.importorskip("ray.exceptions")
    first, second = "1" * 56, "2" * 56  # as Ray names nodes
    nodes = [node("1") | {"NodeID": first}, node("2") | {"NodeID": second}]

    class Task:
        def options(self, scheduling_strategy):
            self.place = scheduling_strategy.node_id
            return self

        def remote(self, _):
            return self.place

    def get(place):
        if place == second:
            nodes[1:] = {"gone": [], "dead": [nodes[1] | {"Alive": False}], "alive": [nodes[1]]}[later]
            raise exceptions.RayError("The task is not schedulable")
        return ""

    ray = SimpleNamespace(nodes=lambda: nodes, remote=lambda **_: lambda _: Task(), get=get)
    if later == "alive":
        with pytest.raises(InputError, match=r"node 10\.0\.0\.2 of the Ray cluster cannot run our code"):
            check_nodes(ray, collect_requirements([], []))
    else:
        check_nodes(ray, collect_requirements([], []))
