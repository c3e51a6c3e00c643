"""What crosses the pipe between the server and its computing process (both as processes: tests/cli/test_serve.py)."""

import multiprocessing
import re
import threading

import pytest

from rejoinder.errors import InputError
from rejoinder.serving.computing import _answer


@pytest.mark.parametrize(
    ("found", "received"),
    [
        (["a"], r"\['a'\]"),
        (InputError("no"), "InputError"),
        (["a", lambda: 0], r"\['a', RuntimeError.*<lambda>"),  # the other jobs of the batch have their results
    ],
)
def test_whoever_asks_gets_an_answer(found, received):
    def compute(_method, _jobs):
        if isinstance(found, Exception):
            raise found
        return found

    ours, theirs = multiprocessing.Pipe()
    thread = threading.Thread(target=_answer, args=(compute, "compute", theirs))
    thread.start()
    ours.send([])
    assert ours.poll(10)
    answer = ours.recv()
    ours.close()
    thread.join(10)
    assert not thread.is_alive()
    assert re.match(received, repr(answer))
