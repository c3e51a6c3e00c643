"""`rejoinder serve` as a process of its own: started, asked, ended in the middle of a request, killed."""

import asyncio
import contextlib
import http.client
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from unittest import mock

import pytest

import rejoinder
from rejoinder.retrieval.index import Index
from rejoinder.serving import server_processes

VERB = ("serve",)
ROUNDS = 100  # kills
pytestmark = pytest.mark.skipif(os.name == "nt", reason="sends signals")


@pytest.fixture
def index(tmp_path):
    Index.build(rejoinder.load("convert-small"), ["Hello!", "We open at nine."], tmp_path / "index")
    return tmp_path / "index"


@contextlib.contextmanager
def serving(index, *options, **environment):
    command = [
        sys.executable,
        "-m",
        "rejoinder",
        "serve",
        str(index),
        "--port",
        "0",
        "--json",
        *options,
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, env=environment, **pipes) as process:
        try:
            line = process.stdout.readline()
            assert line, "it did not start"
            yield process, int(json.loads(line)["url"].rpartition(":")[2])
        finally:
            process.kill()


def ask(port, method, path, body=None, **headers):
    connection = http.client.HTTPConnection("localhost", port, timeout=60)
    headers = {"content-type": "application/json", **headers}
    with contextlib.closing(connection):
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def test_a_request_in_flight_is_answered_before_the_end(index):
    with serving(index) as (process, port):
        status, found = ask(port, "POST", "/v1/replies", {"messages": ["Hello!"], "k": 1})
        assert (status, len(found["replies"])) == (200, 1)
        process.send_signal(signal.SIGHUP)
        body = json.dumps({"messages": ["When do you open?"]}).encode()
        connection = http.client.HTTPConnection("localhost", port, timeout=60)
        connection.putrequest("POST", "/v1/replies")
        for name, value in (
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
        ):
            connection.putheader(name, value)
        connection.endheaders(body[:5])
        time.sleep(0.3)
        process.terminate()
        time.sleep(0.3)
        connection.send(body[5:])
        answer = connection.getresponse()
        assert (answer.status, len(json.loads(answer.read())["replies"])) == (200, 2)
        assert process.wait(60) in (0, -signal.SIGTERM)


def started_by(process):
    """Return the processes that one has started, and those that these have."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [*children, *(each for child in children for each in started_by(child))]


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
@pytest.mark.parametrize("workers", [1, 2])
def test_what_a_server_started_ends_with_it(index, workers):
    with serving(index, "--workers", str(workers)) as (process, port):
        assert ask(port, "GET", "/ready")[0] == 200
        end = time.monotonic() + 60
        # all workers, and what they start
        while len(started := started_by(process.pid)) < (2 if workers == 1 else 5):
            assert time.monotonic() < end
            time.sleep(0.05)
        process.kill()
        process.wait(30)
        end = time.monotonic() + 30
        # whoever adopts them takes a moment
        while any(Path(f"/proc/{each}").exists() for each in started):
            assert time.monotonic() < end
            time.sleep(0.05)
        with pytest.raises(ConnectionRefusedError):
            ask(port, "GET", "/health")


@pytest.mark.slow
def test_workers_share_an_index_and_are_replaced_at_a_reload(index):
    key = "a key of many letters"
    bearer = {"authorization": f"Bearer {key}"}
    with serving(index, "--workers", "2", REJOINDER_WRITE_KEY=key) as (_, port):
        assert ask(port, "GET", "/v1/candidates")[0] == 401
        _, found = ask(
            port, "POST", "/v1/candidates", {"candidates": ["Closed on Sunday."]}, **bearer
        )
        assert found == {"positions": [2]}
        for _ in range(20):  # whichever worker answers
            assert ask(port, "GET", "/v1/candidates", **bearer)[1]["total"] == 3
        assert ask(port, "POST", "/admin/reload", **bearer) == (202, {"status": "reloading"})
        end = time.monotonic() + 20
        while time.monotonic() < end:
            assert ask(port, "POST", "/v1/replies", {"messages": ["Hi!"]}, **bearer)[0] == 200


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_by_a_kill(index):
    """Killed at a random moment while candidates are added, a hundred times."""
    known, rounds = ["Hello!", "We open at nine."], ROUNDS
    for turn in range(rounds):
        with serving(index) as (process, port):
            threading.Timer(0.02 + 0.4 * turn / rounds, process.kill).start()
            with contextlib.suppress(OSError, http.client.HTTPException):
                for number in range(1000):
                    text = f"turn {turn}, reply {number}"
                    status, _ = ask(port, "POST", "/v1/candidates", {"candidates": [text]})
                    assert status == 201
                    known.append(text)
        there = [candidate.text for _, candidate in Index.open(index)]
        assert set(known) <= set(there)
        known = there  # what was added and not acknowledged may be there


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("none", "--port", 0), "none"),
        (("INDEX", "--host", "0.0.0.0"), "set REJOINDER_WRITE_KEY"),
        (("INDEX", "--intents", "nowhere", "--port", 0), "nowhere"),
        (("INDEX", "--minimum-confidence", "0.5", "--port", 0), "not calibrated"),
        (("INDEX", "--port", "TAKEN"), "cannot listen at 127.0.0.1, port"),
    ],
)
def test_what_cannot_be_served_is_refused(refused, index, words, said):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        names = {"INDEX": index, "TAKEN": taken.getsockname()[1]}
        refused(*(names.get(word, word) for word in words), said=said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("none",), "rejoinder: error: no index none; "),
        (("INDEX", "--minimum-confidence", "0.5"), "is not calibrated"),
        (("INDEX", "--port", "TAKEN"), "cannot listen at 127.0.0.1, port"),
    ],
)
def test_workers_that_cannot_begin_end_with_one_line(index, words, said):
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 0))
        names = {"INDEX": str(index), "TAKEN": str(taken.getsockname()[1])}
        command = [sys.executable, "-m", "rejoinder", "serve", "--workers", "2", "--port", "0"]
        command += [names.get(word, word) for word in words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            taken.listen()  # as a server that has opened its index meanwhile
            out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert said in err.strip().splitlines()[-1]
    assert "Traceback" not in err


def test_workers_listen_when_one_has_opened_the_index(index):
    with serving(index, "--workers", "2") as (_, port):
        assert ask(port, "GET", "/ready")[0] == 200


def test_a_worker_reports_once_it_answers(monkeypatch):
    steps = []
    reports = queue.SimpleQueue()

    async def application(_scope, receive, send):
        await receive()
        steps.append(reports.qsize())
        await send({"type": "lifespan.startup.complete"})
        steps.append(reports.qsize())

    async def nothing(*_):
        return {"type": "lifespan.startup"}

    monkeypatch.setattr(server_processes.multiprocessing, "parent_process", lambda: threading.Thread())
    monkeypatch.setattr(server_processes, "_end_after", lambda _: None)
    monkeypatch.setattr(server_processes, "ComputingProcess", lambda _: mock.Mock())
    monkeypatch.setattr(server_processes, "_application", lambda *_: application)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        worker = server_processes._worker({"sources": None}, listening, reports)
        with socket.create_connection(listening.getsockname()):
            asyncio.run(worker({"type": "lifespan"}, nothing, nothing))
    assert steps == [0, 1]
    assert reports.get() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_workers_that_are_being_replaced(monkeypatch, number):
    seen = []

    class Replacing:
        def __init__(self, *_):
            self.should_exit = threading.Event()
            signal.signal(number, lambda *_: None)  # as uvicorn, which looks at it after the replacement

        def run(self):
            os.kill(os.getpid(), number)
            seen.append(self.should_exit.wait(5))

    handlers = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "unused")
    monkeypatch.setattr("rejoinder.serving.supervisor.Supervisor", Replacing)
    try:
        server_processes.run_many({"workers": 2}, None, lambda: None)
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
    assert seen == [True]


def test_a_short_key_is_refused(refused, index, monkeypatch):
    monkeypatch.setenv("REJOINDER_READ_KEY", "short")
    refused(index, said="openssl rand")
