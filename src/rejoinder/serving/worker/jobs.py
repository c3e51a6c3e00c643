"""Jobs of requests, and who computes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeAlias

from rejoinder.errors import RejoinderError

Work: TypeAlias = Callable[[Any, list[Any]], Sequence[Any]]  # of open `Answers`


class UnavailableError(RejoinderError):
    """The server cannot do this now, and the request is not the reason."""


class OverloadedError(RejoinderError):
    """There is no room in the queue."""


class EndedError(UnavailableError):
    """The computing process has ended before it has answered: it may have done what it was told."""


class Job(NamedTuple):
    """A method or function of `Answers` and the item of one request for it.

    It costs about as much as `size` texts. The function gets the items of all jobs of a batch that
    have the same one.
    """

    work: Work
    item: Any
    size: int = 1


class Lane(Enum):
    """A queue with a thread of its own.

    What two lanes compute may run at once, two batches of one lane never do.
    """

    SEARCH = "search"
    CHANGE = "change"
    INFO = "info"
    REPORT = "report"
    FEEDBACK = "feedback"


class Worker(Protocol):
    """Computes batches of jobs."""

    is_starting: bool
    """Whether it has ended, and another one that opens index and models has not answered yet."""

    def open(self) -> None:
        """Open index and models, beside those that go on answering until the new ones are there."""

    def run(self, lane: Lane, jobs: Sequence[Job]) -> Sequence[Any]:
        """Return of each job its result or its exception."""

    def close(self) -> None:
        """Finish what was begun; nothing is run afterwards."""
