"""Several servers under one parent: some end, and cannot begin again, since their database is away."""

import asyncio
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

import rejoinder
from rejoinder.retrieval.index import Index
from rejoinder.serving.bounds import configure
from rejoinder.serving.server_processes import ReportedStart
from rejoinder.serving.supervisor import RESTART, Supervisor
from rejoinder.stores.store import UnreachableError
from tests.servers import free_port, until

Cluster = pytest.importorskip("tests.postgres_cluster").Cluster
pytestmark = [
    pytest.mark.folder,  # it names its store
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc"),
]


class Workers:
    """A server of two workers, and what it logs."""

    def __init__(self, command, log):
        self.log_file = log
        with log.open("w") as file:
            self.process = subprocess.Popen(command, stderr=file, stdout=subprocess.DEVNULL)

    def count(self, event):
        """Return how often something was logged."""
        lines = [line for line in self.log_file.read_text().splitlines() if line.startswith("{")]
        return sum(json.loads(line)["event"] == event for line in lines)

    def kill_one(self):
        """Kill a worker that answers."""
        log = self.log_file.read_text().splitlines()
        started = [json.loads(line)["event"] for line in log if "Started server process" in line]
        pids = [event.partition("[")[2].rstrip("]") for event in started]
        os.kill(int([pid for pid in pids if Path("/proc", pid).exists()][-1]), signal.SIGKILL)


@contextmanager
def workers(command, log):
    server = Workers(command, log)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait(30)


@pytest.fixture
def cluster():
    with tempfile.TemporaryDirectory(prefix="pg", dir="/tmp", ignore_cleanup_errors=True) as folder:
        cluster = Cluster(f"{folder}/one")
        yield cluster
        cluster.stop()


def test_a_worker_that_cannot_begin_is_started_again_and_holds_up_no_end(cluster, tmp_path):
    address = f"postgresql://postgres@/postgres?host={cluster.folder}&index=workers"
    Index.build(rejoinder.load("convert-small"), ["Hello!", "We open at nine."], address)
    command = [sys.executable, "-m", "rejoinder", "serve", address, "--port", str(free_port()), "--workers", "2"]
    with workers(command, tmp_path / "log") as server:
        until(lambda: server.count("Application startup complete.") == 2)
        cluster.kill()
        server.kill_one()
        start = time.monotonic()
        until(lambda: server.count("a worker cannot open index and models") >= 3)
        assert time.monotonic() - start > RESTART, "not as fast as it can"
        cluster.start()
        until(lambda: server.count("Application startup complete.") == 3, 2 * RESTART + 10)
        cluster.kill()
        server.kill_one()
        failed = server.count("a worker cannot open index and models")
        until(lambda: server.count("a worker cannot open index and models") > failed)
        start = time.monotonic()
        server.process.terminate()
        assert server.process.wait(30) == 0
        assert time.monotonic() - start < 10


FAILING = """
import sys
from pathlib import Path
from rejoinder.serving import supervisor
from rejoinder.serving.bounds import configure

supervisor.RESTART = 0.5
TRIES = Path(sys.argv[1])


def make():
    async def application(scope, receive, send):
        await receive()
        tries = TRIES.read_text() + "x"
        TRIES.write_text(tries)
        await send({"type": "lifespan.startup.complete" if len(tries) > 3 else "lifespan.startup.failed"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})

    return application


if __name__ == "__main__":
    config = configure(make, workers=2)
    config.workers = 1
    supervisor.Supervisor(config, []).run()
"""


def test_a_worker_whose_start_fails_is_started_again(tmp_path):
    script = tmp_path / "failing.py"
    script.write_text(textwrap.dedent(FAILING))
    tries = tmp_path / "tries"
    tries.write_text("")
    with workers([sys.executable, script, tries], tmp_path / "log") as server:
        until(lambda: server.count("Application startup complete.") == 1)
        assert tries.read_text() == "xxxx"
        server.process.terminate()
        assert server.process.wait(30) == 0


def test_a_worker_reports_why_its_start_fails():
    reports = queue.SimpleQueue()

    async def application(_scope, _receive, _send):
        raise UnreachableError("the database has gone since the index was opened")

    async def nothing(*_):
        return {"type": "lifespan.startup"}

    with pytest.raises(UnreachableError):
        asyncio.run(ReportedStart(application, reports)({"type": "lifespan"}, nothing, nothing))
    assert isinstance(reports.get_nowait(), UnreachableError)


def test_the_queue_of_a_worker_that_has_ended_is_not_counted(tmp_path, monkeypatch):
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    observe = "from rejoinder.serving.responses import Metrics; Metrics().observe_batch(1, 0.1, 7)"
    worker = subprocess.Popen([sys.executable, "-c", observe])
    worker.wait(60)
    read = "from rejoinder.serving.responses import Metrics; print(Metrics().text('i', 'm', 1).decode())"
    monkeypatch.setattr(Supervisor, "_answers", lambda _, process: process.exitcode is None)
    with monkeypatch.context() as patch:
        patch.setattr(signal, "signal", lambda *_: None)
        supervisor = Supervisor(configure(None, workers=2), [])
    supervisor.should_exit.set()  # it starts no other one
    for code in (None, 0):
        supervisor.processes = [SimpleNamespace(pid=worker.pid, exitcode=code)]
        supervisor.keep_subprocess_alive()
    told = subprocess.run([sys.executable, "-c", read], capture_output=True, text=True, check=True).stdout
    assert "rejoinder_batch_jobs_count 1.0" in told
    assert "rejoinder_queue 7" not in told
