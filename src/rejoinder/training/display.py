"""Display of a training run: a live line on a terminal or in a notebook, else a plain one.

Also Ctrl-C.
"""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import FrameType

import rich.progress
from rich.console import Console

from rejoinder.progress import Advance, CellBar, in_notebook, no_track, printable, track

PLAIN_SECONDS = 15.0  # from one plain line to the next where there is no terminal


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a stage."""

    stage: str  # its name
    share: float  # of its budget that is used
    step: int  # batches done in the whole run
    loss: float
    """That of the context among the batch's responses, mean over the last line of metrics; NaN
    before it."""
    accuracy: float  # in-batch accuracy, likewise
    examples_per_second: float
    seconds_left: float | None  # of the stage; None while unknown

    def __str__(self) -> str:
        left = "" if self.seconds_left is None else f", {duration(self.seconds_left)} left"
        means = (
            "" if math.isnan(self.loss) else f"loss {self.loss:.3f}, accuracy {self.accuracy:.1%}, "
        )
        return f"step {self.step:,}, {means}{self.examples_per_second:,.0f} examples/s{left}"


class Display:
    """Shows a run. This class shows nothing."""

    def show(self, progress: Progress) -> None:
        """Show the progress of the stage; called after every step."""

    def note(self, text: str) -> None:
        """Show a line that stays."""

    def track(
        self, description: str, total: int | None, unit: str
    ) -> AbstractContextManager[Advance]:
        """Show the progress of work outside training steps, as `progress.track` does."""
        return no_track(description, total, unit)

    def close(self) -> None:
        """Leave the terminal in order."""


class TerminalDisplay(Display):
    """Shows a run on standard error, or in the output of a notebook's cell."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stderr, highlight=False, force_jupyter=False)
        self._live = self._console.is_terminal
        self._cell: CellBar | None = None
        self._bar = rich.progress.Progress(
            rich.progress.TextColumn("{task.description}", markup=False),
            rich.progress.BarColumn(24),
            rich.progress.TextColumn("{task.percentage:3.0f} %  {task.fields[text]}"),
            console=self._console,
            refresh_per_second=4,
        )
        self._task: rich.progress.TaskID | None = None
        self._shown_at = float("-inf")

    def show(self, progress: Progress) -> None:
        """Move the bar; without a terminal, print a line if the last one is old."""
        if in_notebook():
            self._cell = self._cell or CellBar()
            self._cell.draw(progress.stage, progress.share, str(progress), last=progress.share >= 1)
        elif self._live:
            if self._task is None:
                self._bar.start()
                self._task = self._bar.add_task(progress.stage, total=1.0, text="")
            self._bar.update(
                self._task, description=progress.stage, completed=progress.share, text=str(progress)
            )
        elif time.monotonic() - self._shown_at >= PLAIN_SECONDS:
            self._shown_at = time.monotonic()
            self.note(f"{progress.stage} {progress.share:4.0%}: {progress}")

    def note(self, text: str) -> None:
        """Print a line above the bar."""
        self._console.print(printable(text), markup=False, soft_wrap=True)

    @contextmanager
    def track(self, description: str, total: int | None, unit: str) -> Iterator[Advance]:
        """Show the progress line that all verbs share, in place of the training's bar."""
        self.close()
        with track(description, total, unit) as advance:
            yield advance

    def close(self) -> None:
        """Stop drawing the bar."""
        self._cell = None
        if self._task is not None:
            self._bar.stop()
            self._bar.remove_task(self._task)
            self._task = None


def duration(seconds: float) -> str:
    """Format a time for people: "45 s", "3 min 05 s", "2 h 14 min"."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    if not minutes:
        return f"{rest} s"
    return (
        f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
    )


@contextmanager
def interrupts(display: Display) -> Iterator[threading.Event]:
    """Turn Ctrl-C and SIGTERM into an event, to be looked at after each step.

    The second one stops at once.
    """
    stop = threading.Event()

    def listen(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        display.note("Stopping after this step; once more to stop at once")

    if threading.current_thread() is not threading.main_thread():
        yield stop  # signals go to the main thread
        return
    before = {number: signal.signal(number, listen) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
