"""The queue: together, in order, bounded, left by who no longer waits.

The pipe to the computing process.
"""

import asyncio
import contextlib
import multiprocessing
import re
import threading

import pytest

from rejoinder.errors import InputError
from rejoinder.serving.worker.batcher import Batcher
from rejoinder.serving.worker.jobs import Job, OverloadedError
from rejoinder.serving.worker.process import _answer


def double(_answers, items):
    return [item * 2 for item in items]


class Held:
    """Computes batches, remembers them; waits before each while it is held."""

    def __init__(self):
        self.batches, self.free = [], threading.Event()

    def __call__(self, jobs):
        assert self.free.wait(10)
        self.batches.append([job.item for job in jobs])
        return [
            ValueError(job.item) if job.item == "bad" else job.work(None, [job.item])[0]
            for job in jobs
        ]


@contextlib.asynccontextmanager
async def batcher(compute, **options):
    made = Batcher(compute, observe=lambda *_: None, **options)
    yield made
    compute.free.set()
    await made.close()


async def submit(made, *items):
    """Submit items one after the other without waiting for them."""
    tasks = []
    for item in items:
        tasks.append(asyncio.create_task(made.submit(Job(double, item))))
        await asyncio.sleep(0.01)
    return tasks


def test_what_waits_is_computed_together_in_its_order():
    async def run():
        async with batcher(held := Held(), max_size=4) as made:
            tasks = await submit(made, *"abcdef")
            held.free.set()
            assert await asyncio.gather(*tasks) == [2 * letter for letter in "abcdef"]
        return held.batches

    assert asyncio.run(run()) == [["a"], ["b", "c", "d", "e"], ["f"]]


def test_a_full_queue_refuses_and_who_is_cancelled_leaves_it():
    async def run():
        async with batcher(held := Held(), queue=2) as made:
            _, second, third = await submit(made, *"abc")
            assert (len(made), made.full) == (2, True)
            with pytest.raises(OverloadedError):
                await made.submit(Job(double, "d"))
            second.cancel()
            await asyncio.sleep(0.01)
            assert (len(made), made.full) == (1, False)
            held.free.set()
            assert await third == "cc"
        return held.batches

    assert asyncio.run(run()) == [["a"], ["c"]]


def test_an_error_is_its_own_and_a_failed_batch_everybodys():
    async def run():
        async with batcher(held := Held()) as made:
            held.free.set()
            good, bad = await submit(made, "good", "bad")
            assert await good == "goodgood"
            with pytest.raises(ValueError, match="bad"):
                await bad
            with pytest.raises(TypeError):
                await made.submit(Job(double, None))
            assert await made.submit(Job(double, "on")) == "onon"

    asyncio.run(run())


def test_closing_finishes_what_was_accepted():
    async def run():
        async with batcher(held := Held()) as made:
            tasks = await submit(made, *"abc")
            asyncio.get_running_loop().call_later(0.05, held.free.set)
            await made.close()
            assert [task.result() for task in tasks] == ["aa", "bb", "cc"]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("found", "received"),
    [
        (["a"], r"\['a'\]"),
        (InputError("no"), "InputError"),
        # the other jobs of the batch have their results
        (["a", lambda: 0], r"\['a', RuntimeError.*<lambda>"),
    ],
)
def test_whoever_asks_gets_an_answer(found, received):
    def work(_jobs):
        if isinstance(found, Exception):
            raise found
        return found

    ours, theirs = multiprocessing.Pipe()
    thread = threading.Thread(target=_answer, args=(work, theirs))
    thread.start()
    ours.send([])
    assert ours.poll(10)
    answer = ours.recv()
    ours.close()
    thread.join(10)
    assert not thread.is_alive()
    assert re.match(received, repr(answer))
