"""A Ray cluster of three nodes, one of which loses its power, its cable or its speed within a job."""

import filecmp
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from rejoinder.corpora.forms.examples import write_examples
from rejoinder.corpora.schema import Example
from rejoinder.training.recipe_files import save_recipe
from tests.cluster.nodes import PREFIX, Network, lacking
from tests.corpora.jobs import wait_for
from tests.training.tiny import recipe

pytestmark = pytest.mark.skipif(bool(lacking()), reason=lacking() or "nothing is lacking")
PYTHON = sys.executable
RAY_SECONDS = 240  # until Ray has given up a node, and the others have done its work
ENVIRONMENT = {
    **os.environ,
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
    "OMP_NUM_THREADS": "1",
    "RAY_SERVE_PROXY_PREFER_LOCAL_NODE_ROUTING": "0",  # else all requests stay on the first node
}
ACCIDENTS = ("power", "cable", "delay")


def test_a_cable_is_cut_and_slow():
    """The network of the tests below: two nodes talk, with a delay, and not without their cable."""
    talk = "import socket; print(socket.create_connection(('10.77.0.2', 9), timeout=0.3).recv(9).decode())"
    answer = "import socket; s = socket.create_server(('', 9)); print(1, flush=True)\nwhile True: s.accept()[0].sendall(b'hello')"
    with Network() as network:
        one, two = network.add(1), network.add(2)
        assert one.run("hostname").stdout == "node1\n"
        server = two.start(PYTHON, "-c", answer, stdout=subprocess.PIPE)
        server.stdout.readline()
        assert one.run(PYTHON, "-c", talk).stdout == "hello\n"
        two.cut()
        with pytest.raises(subprocess.CalledProcessError):
            one.run(PYTHON, "-c", talk)
        two.heal()
        assert one.run(PYTHON, "-c", talk).stdout == "hello\n"
        two.delay(100)  # 0.4 s until the answer, half of them until the connection
        assert one.run(PYTHON, "-c", talk).stdout == "hello\n"
        two.delay(400)
        with pytest.raises(subprocess.CalledProcessError):
            one.run(PYTHON, "-c", talk)
        two.lose_power()
        assert server.wait(10) != 0


class RayNetwork(Network):
    """Nodes of a Ray cluster; the first one is its head."""

    address = f"{PREFIX}.1:6379"

    def join(self, number):
        """Add a node of one CPU to the cluster; a busy machine may need several tries."""
        place = ("--num-cpus", "1", "--object-store-memory", "80000000", "--block")
        joining = ("--head", "--port", "6379", "--include-dashboard", "false") if number == 1 else ("--address", self.address)
        for _ in range(3):
            node = self.add(number)
            process = node.start(
                "nice", PYTHON, "-m", "ray.scripts.scripts", "start", *joining, "--node-ip-address", node.address, *place,
                env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            said = []
            for line in process.stdout:
                if "runtime started" in line:
                    threading.Thread(target=process.stdout.read, daemon=True).start()
                    return node
                said.append(line)
        raise AssertionError("".join(said))


@pytest.fixture(scope="module")
def network():
    """A cluster of two nodes, which all jobs use."""
    pytest.importorskip("ray")
    with RayNetwork() as made:
        made.join(1)
        made.join(2)
        yield made


@pytest.fixture
def third(network):
    """A third node of the cluster."""
    node = network.join(3)
    yield node
    node.end()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Inputs of the jobs, and what they make of them on one machine."""
    folder = tmp_path_factory.mktemp("jobs")
    for part in range(6):
        lines = (
            json.dumps({"turns": [f"{part} {number} {word} says" for word in ("one", "two", "three", "four")]}) + "\n"
            for number in range(40_000)
        )
        (folder / f"{part}.jsonl").write_text("".join(lines))
    (folder / "replies.txt").write_text("".join(f"Reply number {number} of many.\n" for number in range(8_000)))
    (folder / "examples").mkdir()
    for name, count in (("train-00000", 420_000), ("valid-00000", 100)):
        examples = (
            Example((f"word{number % 97} and {number}",), f"answer {number % 89}", id=str(number), thread=str(number))
            for number in range(count)
        )
        write_examples(examples, folder / "examples" / f"{name}.parquet")
    save_recipe(recipe(folder / "examples"), folder / "recipe.toml")
    for job in JOBS:
        subprocess.run(command(job, folder, "here"), env=ENVIRONMENT, cwd=folder, check=True)
    return folder


JOBS = {
    "data": ("data", "jsonl", *(f"{part}.jsonl" for part in range(6))),
    "tokenise": ("lab", "tokenise", "recipe.toml"),
    "index": ("index", "build", "convert-small", "replies.txt"),
}


def command(job, folder, name):
    return [PYTHON, "-m", "rejoinder", *JOBS[job], "-o", str(folder / f"{job}.{name}")]


@contextmanager
def started(network, node, job, folder, name):
    """A job on the cluster, started from a node; and what it says."""
    said = folder / f"{job}.{name}.said"
    with said.open("w") as errors:
        ray = ("--ray", network.address, "--json")
        process = node.start(
            "nice", *command(job, folder, name), *ray, folder=folder, env=ENVIRONMENT,
            stdout=subprocess.DEVNULL, stderr=errors,
        )  # fmt: skip
        try:
            yield process, said
        finally:
            process.kill()
            process.wait()


def works(node):
    """Whether a task runs on a node."""
    return "ray::_run" in node.run("ps", "-eo", "args").stdout


def happen(accident, node):
    if accident == "power":
        node.lose_power()
    elif accident == "cable":
        node.cut()
        time.sleep(30)
        node.heal()
    else:
        node.delay(50)


def same(one, other):
    """Whether two folders hold the same bytes."""
    names = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert names == sorted(path.relative_to(other) for path in other.rglob("*") if path.is_file())
    return [name for name in names if not filecmp.cmp(one / name, other / name, shallow=False)] == []


@pytest.mark.nodes
@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("accident", ACCIDENTS)
def test_a_job_ends_with_the_same_bytes(network, third, files, job, accident):
    with started(network, network[1], job, files, accident) as (process, said):
        assert wait_for(lambda: works(third) or process.poll() is not None, seconds=200)
        assert process.poll() is None, said.read_text()
        happen(accident, third)
        assert process.wait(RAY_SECONDS) == 0, said.read_text()
    if job == "index":
        digests = [json.loads((files / f"index.{name}" / "manifest.json").read_text()) for name in ("here", accident)]
        assert digests[0]["fingerprint"] == digests[1]["fingerprint"]
    else:
        assert same(files / f"{job}.here", files / f"{job}.{accident}")


@pytest.mark.nodes
def test_a_command_whose_own_node_is_cut_off(network, third, files):
    """It either goes on or says in one line that its node was given up."""
    with started(network, third, "data", files, "own") as (process, said):
        assert wait_for(lambda: works(network[2]) or process.poll() is not None, seconds=200)
        happen("cable", third)
        code = process.wait(RAY_SECONDS)
    if code == 0:
        assert same(files / "data.here", files / "data.own")
    else:
        assert "the Ray cluster has given up node 10.77.0.3, on which this command runs" in only_error(said)


@pytest.mark.nodes
def test_a_command_whose_head_loses_its_power(files):
    with RayNetwork() as network:
        head, node = network.join(1), network.join(2)
        with started(network, node, "data", files, "head") as (process, said):
            assert wait_for(lambda: works(node) or process.poll() is not None, seconds=200)
            head.lose_power()
            code = process.wait(RAY_SECONDS)
        if code == 0:  # its own node did all the rest meanwhile
            assert same(files / "data.here", files / "data.head")
            return
        assert "the head of the Ray cluster at 10.77.0.1:6379 has not answered for 45 seconds" in only_error(said)
        assert (files / ".data.head.work").is_dir(), "the same command goes on there"


def only_error(said):
    lines = [line for line in said.read_text().splitlines() if line.startswith("rejoinder: error:")]
    assert len(lines) == 1, said.read_text()
    return lines[0]


CLIENT = """
import http.client, json, sys, time
body = json.dumps({"messages": ["Reply number 17 of many."], "k": 3})
while True:
    start = time.time()
    try:
        connection = http.client.HTTPConnection("127.0.0.1", 8000, timeout=5)
        connection.request("POST", "/v1/replies", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        found = [reply["text"] for reply in json.load(answer)["replies"]] if answer.status == 200 else answer.status
    except (OSError, http.client.HTTPException) as error:
        found = str(error)
    print(json.dumps([found, time.time() - start]), flush=True)
    time.sleep(0.2)
"""
"""What a client of Ray Serve gets, request by request: replies or what is wrong, and the seconds."""


@pytest.fixture(scope="module")
def served(network, files):
    """Ray Serve with a replica for each node; the answers of its client on the first one, so far."""
    last = network.join(3)
    serve = network[1].start(
        "nice", Path(PYTHON).with_name("serve"), "run", "rejoinder.serving.ray:app", f"index={files / 'index.here'}",
        "replicas=3", env={**ENVIRONMENT, "RAY_ADDRESS": network.address},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    client = network[1].start(PYTHON, "-c", CLIENT, stdout=subprocess.PIPE)
    answers = []
    threading.Thread(
        target=lambda: answers.extend(map(json.loads, client.stdout)), daemon=True
    ).start()
    yield answers
    for process in (client, serve):
        process.kill()
        process.wait()
    last.end()


@pytest.mark.nodes
@pytest.mark.parametrize("accident", ["delay", "cable", "power"])
def test_ray_serve_goes_on(network, served, accident):
    """All that is answered is right, and soon everything is answered again."""
    def steady():
        return len(served) >= 30 and all(isinstance(found, list) for found, _ in served[-30:])

    assert wait_for(steady, seconds=180), served[-30:]
    assert wait_for(lambda: "ServeReplica" in network[3].run("ps", "-eo", "args").stdout, seconds=60)
    right, _ = served[-1]
    start = len(served)
    happen(accident, network[3])
    later = len(served) + 30
    assert wait_for(lambda: len(served) >= later and steady(), seconds=180), served[-30:]
    answers = served[start:]
    missed = [found for found, _ in answers if not isinstance(found, list)]
    print(f"{accident}: {len(missed)} of {len(answers)} requests were not answered")  # noqa: T201
    assert all(found == right for found, _ in answers if found not in missed)
    if accident == "delay":
        network[3].delay(0)
        assert not missed
        assert any(seconds > 0.1 for _, seconds in answers), "some go to the third node"
