"""Jobs computed in this process."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rejoinder.errors import BusyError
from rejoinder.serving.http.logs import places
from rejoinder.serving.worker.answers import Answers
from rejoinder.serving.worker.jobs import Job, Lane, UnavailableError, Work
from rejoinder.serving.worker.opening import open_answers
from rejoinder.serving.worker.sources import Sources
from rejoinder.stores.log.database import LogError

NEVER_SPLIT = (BusyError, LogError, UnavailableError, OSError)  # errors that each job would get


class Computing:
    """A worker in this process."""

    is_starting = False

    def __init__(self, sources: Sources, answers: Answers | None = None) -> None:
        self.sources = sources
        self._answers = answers

    @property
    def answers(self) -> Answers:
        """Return what is open."""
        assert self._answers is not None
        return self._answers

    def open(self) -> None:
        """See `Worker`."""
        opened = open_answers(self.sources)
        self.close()
        self._answers = opened
        gc.unfreeze()  # what was frozen the last time, and has just been replaced, goes
        gc.collect()
        gc.freeze()  # models stay: looking through them for garbage would hold requests up

    def run(self, lane: Lane, jobs: Sequence[Job]) -> list[Any]:
        """See `Worker`."""
        if lane is Lane.SEARCH:  # where no other search runs meanwhile
            self.answers.refresh()
        elif lane is not Lane.INFO:
            self.answers.check_store()
        results = self._dispatch(jobs)
        for result in results:
            # its traceback would hold on to files until garbage is collected
            if isinstance(result, Exception):
                result.__cause__ = None
                result.__context__ = None
                result.__traceback__ = None
        return results

    def close(self) -> None:
        """See `Worker`."""
        if self._answers is not None:
            self._answers.close()

    def _dispatch(self, jobs: Sequence[Job]) -> list[Any]:
        results: list[Any] = [None] * len(jobs)
        groups: dict[Work, list[int]] = {}
        for number, job in enumerate(jobs):
            groups.setdefault(job.work, []).append(number)
        for work, numbers in groups.items():
            items = [jobs[number].item for number in numbers]
            outcomes = _run_batch_or_split(partial(work, self.answers), items)
            for number, outcome in zip(numbers, outcomes, strict=True):
                results[number] = outcome
        return results


def _run_batch_or_split(
    work: Callable[[list[Any]], Sequence[Any]], items: list[Any]
) -> Sequence[Any]:
    """Do the work for all items at once.

    If that fails, do it one by one, so that only the culprit fails.
    """
    try:
        return work(items)
    except Exception as error:  # noqa: BLE001 (whoever submitted the job raises it)
        if len(items) > 1 and not isinstance(error, NEVER_SPLIT):
            return [result for item in items for result in _run_batch_or_split(work, [item])]
        error.__notes__ = places(error)  # the traceback does not go to another process
        return [error] * len(items)
