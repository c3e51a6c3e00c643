"""Tasks in this process and in others: order, laziness, errors, and nothing left behind."""

import functools
import os
import pickle
import signal
import time

import pytest

from rejoinder.corpora.pipeline.build import _BytesRead, _reported
from rejoinder.corpora.pipeline.chunks import ChunkJob
from rejoinder.corpora.forms.formats import JSONL
from rejoinder.corpora.lines import BadLineError
from rejoinder.engine import LocalEngine, WorkerDiedError, attempt, local_engine
from rejoinder.errors import InputError, MissingExtraError


class StrangeError(Exception):
    """An error that cannot be pickled back: its constructor takes more than its message."""

    def __init__(self, what, why):
        super().__init__(f"{what}: {why}")


def later(number, folder=None):
    """Longer for smaller numbers, so that results arrive out of order."""
    time.sleep(0.03 if number % 3 == 0 else 0)
    if folder is not None:
        (folder / str(number)).touch()
    return number * number


def fail(number, error):
    if number == 3:
        raise error
    return number


def die(number):
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.fixture(scope="module")
def engines():
    with LocalEngine(1) as one, LocalEngine(3) as three:
        yield {1: one, 3: three}


@pytest.mark.parametrize("processes", [1, 3])
def test_results_are_in_the_order_of_the_tasks(engines, processes):
    assert list(engines[processes].map(later, range(20))) == [
        number * number for number in range(20)
    ]
    assert list(engines[processes].map(later, [])) == []


@pytest.mark.parametrize("processes", [1, 3])
def test_tasks_are_taken_as_they_are_needed(engines, processes, tmp_path):
    taken = []

    def tasks():
        for number in range(1_000):
            taken.append(number)
            yield number

    results = engines[processes].map(functools.partial(later, folder=tmp_path), tasks())
    assert [next(results) for _ in range(5)] == [0, 1, 4, 9, 16]
    results.close()
    assert 5 <= len(taken) <= 5 + 64 * processes + 4 * processes
    assert len(taken) >= len(list(tmp_path.iterdir())) >= 5
    assert list(engines[processes].map(later, range(3))) == [0, 1, 4]


def test_the_caller_is_called_while_it_waits(engines):
    calls = []
    assert list(engines[3].map(time.sleep, [1.3], lambda: calls.append(1))) == [None]
    assert calls
    assert list(engines[1].map(later, range(3), lambda: calls.append(1))) == [0, 1, 4]


def test_bytes_of_a_task_in_another_process_are_shown_before_it_ends(tmp_path):
    """A file in the work folder tells them; the task waits until they are shown."""
    shown = []
    read = _BytesRead(tmp_path, shown.append)
    with LocalEngine(2) as engine:
        job = ChunkJob(JSONL, None, tmp_path)
        wait = functools.partial(read_slowly, job, tmp_path / "seen")

        def look():
            read.look()
            if shown[-1:] == [700]:
                (tmp_path / "seen").touch()

        assert list(engine.map(wait, ["task"], look)) == [True]
    assert not list((tmp_path / "running").iterdir())


def read_slowly(job, seen, name):
    with _reported(job, name) as report:
        end = time.monotonic() + 30
        report(300)
        time.sleep(0.6)
        report(400)
        while not seen.exists() and time.monotonic() < end:
            time.sleep(0.02)
    return seen.exists()


ERRORS = [
    InputError("a.jsonl is empty"),
    BadLineError("a.jsonl:3: no"),
    MissingExtraError("this", "demo"),
    OSError(28, "No space left on device", "a.parquet"),
    KeyError("x"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_is_sent_as_it_is(error):
    answer, result = pickle.loads(pickle.dumps(attempt(functools.partial(fail, error=error), 3)))
    assert (type(answer), str(answer), result) == (type(error), str(error), None)
    assert all(
        getattr(answer, name, None) == getattr(error, name, None)
        for name in ("extra", "filename", "errno")
    )
    assert "in fail" in answer.__notes__[0]


def test_an_error_that_cannot_be_sent_is_put_into_words():
    error, _ = attempt(functools.partial(fail, error=StrangeError("a", "b")), 3)
    assert (type(error), str(error)) == (RuntimeError, "StrangeError: a: b")


def test_a_killed_worker_is_an_error_that_says_so(engines):
    with pytest.raises(
        WorkerDiedError,
        match="killed or ended by itself; if memory ran out, give fewer --processes",
    ):
        list(engines[3].map(die, range(9)))


def test_as_many_processes_as_pay_off():
    assert local_engine(5, 0).processes == 5
    assert local_engine(None, 1_000).processes == 1
    assert local_engine(None, 1 << 40).processes == len(os.sched_getaffinity(0))
