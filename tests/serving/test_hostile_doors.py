"""Hostile clients at `desk` and `mcp --port`, before any signature: honest ones are answered, and memory stays bounded."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import hostile
from rejoinder.corpora.schema import Candidate
from rejoinder.retrieval.index import Index
from tests.serving.test_desk import StandIn, signed
from tests.stores import place_of

MEGABYTE = 1 << 20
GROWTH = 100  # MB
SLOWEST = 1.0  # seconds of an honest answer
SECRET = "of the webhook"
pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="reads memory in /proc"
)
PATHS = {"desk": "/webhook", "mcp": "/mcp"}
HEADERS = {"accept": "application/json, text/event-stream"}
LIST = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).encode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    import rejoinder

    folder = tmp_path_factory.mktemp("doors") / "index"
    Index.build(rejoinder.load("convert-small"), [Candidate("Hello!"), Candidate("Bye.")], folder)
    return folder


@pytest.fixture(scope="module", params=["desk", "mcp"])
def door(folder, request):
    with contextlib.ExitStack() as stack:
        words = ["mcp", place_of(folder)]
        if request.param == "desk":
            desk = stack.enter_context(StandIn())
            thread = threading.Thread(target=desk.serve_forever)
            thread.start()
            stack.callback(thread.join)
            stack.callback(desk.shutdown)
            words = ["desk", place_of(folder), "--kind", "generic", "--desk", desk.url]
        else:
            pytest.importorskip("mcp")
        command = [sys.executable, "-m", "rejoinder", *words, "--port", "0", "--json"]
        environment = {**os.environ, "REJOINDER_DESK_SECRET": SECRET, "OMP_NUM_THREADS": "1"}
        process = stack.enter_context(
            subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=environment,
            )
        )
        stack.callback(process.kill)
        port = int(
            json.loads(process.stdout.readline())["url"].rpartition(":")[2].partition("/")[0]
        )
        for _ in range(20):
            ask(request.param, port)
        yield request.param, process, port


def ask(kind, port):
    """Ask as an honest client does; return the seconds that it took."""
    start = time.perf_counter()
    if kind == "desk":
        status, _ = hostile.request(port, "GET", "/health", b"")
    else:
        status, _ = hostile.request(
            port, "POST", "/mcp", LIST, {**HEADERS, "host": f"127.0.0.1:{port}"}
        )
    assert status == 200
    return time.perf_counter() - start


def events(port):
    """200 events with long names, correctly signed."""
    for number in range(200):
        values = {
            "id": f"{number}" + "x" * 480_000,
            "conversation": "c",
            "author": "customer",
            "text": "Hi",
        }
        event = signed(values, "x-rejoinder", SECRET)
        status, _ = hostile.request(port, "POST", "/webhook", event["content"], event["headers"])
        assert status == 400


def sessions(port):
    """1,200 sessions of an assistant that are left."""
    hello = {
        "protocolVersion": "2025-03-26",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).encode()
    for _ in range(1200):
        status, _ = hostile.request(
            port, "POST", "/mcp", body, {**HEADERS, "host": f"127.0.0.1:{port}"}
        )
        assert status == 200


def bodies(path):
    """Ten large bodies at once of which the last byte does not come."""
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\n{hostile.JSON}content-length: 20000000\r\n\r\n"
    )

    def attack(port):
        with contextlib.ExitStack() as stack:
            for _ in range(10):
                connection = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                connection.settimeout(2)
                with contextlib.suppress(OSError):
                    connection.sendall(head.encode() + b"x" * (19 * MEGABYTE))

    return attack


ATTACKS = {
    "pipelined requests": lambda port: hostile.ATTACKS["pipelined requests"](port, 10 * MEGABYTE),
    "headers without end": lambda port: hostile.ATTACKS["headers without end"](port, 50 * MEGABYTE),
    "a header without end": lambda port: hostile.ATTACKS["a header without end"](
        port, 50 * MEGABYTE
    ),
    "large bodies": None,
    "long names": events,
    "sessions": sessions,
}


@pytest.mark.parametrize("name", ATTACKS)
def test_honest_clients_beside_a_hostile_one(door, name):
    kind, process, port = door
    if (name, kind) in (("long names", "mcp"), ("sessions", "desk")):
        pytest.skip("it has none")
    attack = ATTACKS[name] or bodies(PATHS[kind])
    latencies, ended = [], threading.Event()

    def honest():
        while not ended.is_set():
            latencies.append(ask(kind, port))
            time.sleep(0.01)

    before = hostile.peak(process.pid, reset=True)
    thread = threading.Thread(target=honest)
    thread.start()
    try:
        attack(port)
    finally:
        ended.set()
        thread.join()
    grown = hostile.peak(process.pid) - before
    assert max(latencies) < SLOWEST
    assert grown < GROWTH
