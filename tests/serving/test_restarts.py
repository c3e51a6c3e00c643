"""The process that computes ends, and another one cannot be started at once."""

import errno
import logging
import time
from contextlib import closing
from multiprocessing.context import SpawnProcess
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

import rejoinder
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.options import SearchOptions
from rejoinder.serving.worker import process as processes
from rejoinder.serving.worker.answers import Answers, Question
from rejoinder.serving.worker.jobs import EndedError, Job, Lane
from rejoinder.serving.worker.process import ComputingProcess
from rejoinder.serving.worker.sources import Sources
from tests.servers import until

pytestmark = [
    pytest.mark.folder,  # it names its store
    pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts open files in /proc"),
]
JOB = Job(Answers.replies, Question(["We open at nine."], SearchOptions(k=1)))


@pytest.fixture
def computing(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "RESTART", 0.05)
    Index.build(rejoinder.load("convert-small"), ["We open at nine.", "We close at six."], tmp_path / "index")
    with closing(ComputingProcess(Sources(index=tmp_path / "index"))) as computing:
        computing.open()
        yield computing


def answers(computing):
    """Return whether it computes."""
    try:
        [result] = computing.run(Lane.SEARCH, [JOB])
    except EndedError:
        return False
    return result["replies"][0]["text"] == "We open at nine."


def files():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.fixture
def refusing(monkeypatch, caplog):
    """Let no process be started: the numbers of open files at each attempt."""
    tried = []

    def refuse(_):
        tried.append(files())
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(SpawnProcess, "start", refuse)
    with caplog.at_level(logging.ERROR, "rejoinder.serving"):
        yield tried


def test_a_process_that_cannot_be_started_is_tried_again(computing, refusing, monkeypatch, caplog):
    computing._process.kill()
    until(lambda: len(refusing) > 3, 10)
    assert not answers(computing)
    assert "no computing process can be started" in caplog.text
    assert max(refusing) == refusing[0], "pipes of vain attempts are left open"
    monkeypatch.setattr(SpawnProcess, "start", BaseProcess.start)
    until(lambda: answers(computing))
    assert not computing.is_starting


def test_a_server_ends_while_no_process_can_be_started(computing, refusing):
    computing._process.kill()
    until(lambda: refusing, 10)
    computing.close()
    tried = len(refusing)
    time.sleep(0.3)
    assert len(refusing) <= tried + 1
