"""The display of a training: steps, rates, losses and what is left."""

from __future__ import annotations

import contextlib
import math
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING

from rejoinder.progress import (
    STEP_INTERVAL,
    Advance,
    CellBar,
    LineBar,
    duration,
    in_notebook,
    no_track,
    printable,
    track,
)

if TYPE_CHECKING:
    import rich.progress


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a stage of a training."""

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
    """Shows a training. This class shows nothing."""

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
    """Shows a training on standard error, or in the output of a notebook's cell."""

    def __init__(self) -> None:
        import rich.progress
        from rich.console import Console

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
        self._lines = LineBar(STEP_INTERVAL, at_once=True)

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
        else:
            described = f"{progress.stage} {progress.share:4.0%}"
            self._lines.draw(described, progress.share, str(progress))

    def note(self, text: str) -> None:
        """Print a line above the bar."""
        self._console.print(printable(text), markup=False, soft_wrap=True)

    @contextlib.contextmanager
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


@contextlib.contextmanager
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
