"""Answers that servers share, while the database lets them and while it does not."""

import asyncio
from types import SimpleNamespace

from rejoinder.curation.shared_answers import RecentAnswer
from rejoinder.errors import InputError
from rejoinder.serving import sharing
from rejoinder.serving.background import Background

ANSWER = RecentAnswer("first", ["Hi!"], [0], ["Hello."])


class Queue:
    """A queue of jobs whose database refuses them until it is told otherwise."""

    def __init__(self):
        self.refuses = True
        self.asked = 0
        self.shared = {}

    async def submit(self, job):
        self.asked += 1
        if self.refuses:
            raise InputError("this role only reads")
        self.shared |= job.item


def test_sharing_that_was_refused_is_tried_again_later(monkeypatch, caplog):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(sharing, "time", SimpleNamespace(monotonic=lambda: clock.now))
    queue = Queue()

    async def give(shared, name):
        shared.add(name, ANSWER)
        await shared._share_now()

    async def run():
        shared = sharing.Sharing(queue, Background(lambda _: None))
        for name in "abc":
            await give(shared, name)
        assert queue.asked == 1
        clock.now += sharing.REFUSED
        await give(shared, "d")
        assert (queue.asked, queue.shared) == (2, {})
        queue.refuses = False
        clock.now += sharing.REFUSED
        await give(shared, "e")
        await shared.close()

    asyncio.run(run())
    assert queue.shared == {"e": ANSWER}
    assert [record.message for record in caplog.records].count("answers are known to this server alone") == 1
