"""However often index and models are opened again, what was replaced goes."""

import gc
import threading
import weakref
from pathlib import Path

import pytest

from rejoinder.serving.worker.computing import Computing
from rejoinder.serving.worker.sources import Sources
from tests.servers import until


class Opened:
    """Refers to itself, as sessions of onnxruntime and the functions that call them do."""

    def __init__(self):
        self.itself = self
        self.is_closed = False

    def close(self):
        self.is_closed = True


@pytest.fixture(autouse=True)
def thawed():
    yield
    gc.unfreeze()


def test_reloads_keep_one_model(monkeypatch):
    opened = []

    def open_answers(_):
        opened.append(weakref.ref(made := Opened()))
        return made

    monkeypatch.setattr("rejoinder.serving.worker.computing.open_answers", open_answers)
    computing = Computing(Sources(index=Path("index")))
    for _ in range(5):
        computing.open()
        assert sum(each() is not None for each in opened) == 1
        assert not computing.answers.is_closed
    assert opened[-1]() is computing.answers
    computing.close()
    assert computing.answers.is_closed
    assert gc.get_freeze_count(), "requests do not look through the model for garbage"


def test_a_reload_that_takes_long_goes_on_alone(client, monkeypatch):
    running, begun, goes_on = [], [], threading.Event()

    def open_slowly(_):
        begun.append(len(running))
        running.append(1)
        goes_on.wait(20)
        running.pop()

    monkeypatch.setattr(Computing, "open", open_slowly)
    server = client(seconds=0.1)
    late = [server.post("/admin/reload").status_code for _ in range(3)]
    goes_on.set()
    until(lambda: not running)
    assert len(late) == 3
    assert set(late) <= {408, 503}
    assert begun == [0], "a second reload ran beside the first, or after it"
    assert until(lambda: server.post("/admin/reload").status_code == 200) < 10
    assert len(begun) == 2


def test_several_workers_are_not_reloaded_where_there_are_no_signals(client, monkeypatch):
    """As on Windows."""
    server = client(workers=2)
    monkeypatch.delattr("signal.SIGHUP", raising=False)
    answer = server.post("/admin/reload")
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")
    assert answer.json()["error"]["message"].endswith("restart the server")
