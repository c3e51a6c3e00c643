"""However often index and models are opened again, what was replaced goes."""

import gc
import weakref
from pathlib import Path

import pytest

from rejoinder.serving.worker.computing import Computing
from rejoinder.serving.worker.sources import Sources


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
