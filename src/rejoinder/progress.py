"""Progress bars, notes and Ctrl-C handling on standard error.

Progress is rich's bar, in a log file a line every ten seconds, in a notebook an output of the cell:
rich writes nothing into a log before the end, and needs ipywidgets in a notebook.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from html import escape
from typing import TypeAlias

Advance: TypeAlias = Callable[[int], object]
"""Reports progress: called with the number of units done since the last call."""

Track: TypeAlias = Callable[[str, int | None, str], AbstractContextManager[Advance]]
"""`track` or `no_track`."""

PLAIN_INTERVAL = 10.0
"""Seconds between two plain lines when standard error is not a terminal."""

CELL_INTERVAL = 0.2
"""Seconds between two drawings of a notebook's bar."""

STEP_INTERVAL = 15.0
"""Seconds between two plain lines of a training."""

CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e"
    "\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Characters of Unicode's kinds Cc, Cf, Zl and Zp, but for line break, tab, and the two joiners
that scripts need."""


def silent(_done: int) -> None:
    """Report nothing."""


def no_track(
    _description: str, _total: int | None = None, _unit: str = ""
) -> AbstractContextManager[Advance]:
    """Show nothing."""
    return contextlib.nullcontext(silent)


def printable(text: str) -> str:
    """Replace characters that could write over the terminal or turn its text around.

    Line breaks and tabs stay.
    """
    return CONTROLS.sub("\ufffd", text)


def escaped(text: str) -> str:
    """Return JSON with the codes of such characters in their place."""
    return CONTROLS.sub(lambda match: json.dumps(match[0])[1:-1], text)


def note(text: str) -> None:
    """Print a line on standard error, without control characters."""
    # nobody reads it any more; what was to be done still is
    with contextlib.suppress(BrokenPipeError):
        sys.stderr.write(f"{printable(text)}\n")
        sys.stderr.flush()


@contextlib.contextmanager
def track(description: str, total: int | None = None, unit: str = "examples") -> Iterator[Advance]:
    """Show the progress of the work inside the `with` block.

    An unknown total leaves out the time left.

    >>> with track("Encoding", total=2, unit="replies") as advance:
    ...     advance(2)
    """
    description = printable(description)
    if in_notebook():
        shown = _drawn(CellBar(), description, total, unit)
    elif sys.stderr.isatty():
        shown = _bar(description, total, unit)
    else:
        shown = _drawn(LineBar(PLAIN_INTERVAL), description, total, unit)
    with shown as advance:
        yield advance


def in_notebook() -> bool:
    """Return whether the kernel of a notebook runs this."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class CellBar:
    """A bar in the output of a notebook's cell, drawn anew in its place a few times a second."""

    def __init__(self) -> None:
        from IPython.display import HTML, display

        self._html = HTML
        self._handle = display(HTML(""), display_id=True)
        self._drawn = -math.inf

    def draw(self, description: str, share: float | None, text: str, *, last: bool = False) -> None:
        """Draw the share that is done, None: unknown; `last` is drawn however soon it comes."""
        if last or time.monotonic() - self._drawn >= CELL_INTERVAL:
            self._drawn = time.monotonic()
            value = "" if share is None else f' value="{share:.4f}"'
            self._handle.update(
                self._html(f"{escape(description)} <progress{value}></progress> {escape(text)}")
            )


class LineBar:
    """Lines of a log, `interval` seconds apart; `at_once` prints the first one without a wait."""

    def __init__(self, interval: float, *, at_once: bool = False) -> None:
        self._interval = interval
        self._drawn = -math.inf if at_once else time.monotonic()

    def draw(self, description: str, share: float | None, text: str, *, last: bool = False) -> None:
        """Print a line if the last one is old, or this is the `last`; the text says the share."""
        del share
        if last or time.monotonic() - self._drawn >= self._interval:
            self._drawn = time.monotonic()
            note(f"{description}: {text}")


class StageProgress:
    """Progress of work in stages, in units of its input. Each stage has a share of the whole work.

    With an unknown total only `show_count` reports.
    """

    def __init__(self, total: int | None, advance: Advance) -> None:
        self._total = total
        self._advance = advance
        self._base = 0.0
        self._share = 0.0
        self._shown = 0

    def begin(self, share: float) -> None:
        """Begin the next stage, which has this share of the whole work."""
        self.show(1.0)
        self._base += self._share
        self._share = share

    def show(self, done: float) -> None:
        """Show how much of the stage is done, from 0 to 1."""
        if self._total is not None:
            self._advance_to(round(self._total * (self._base + self._share * min(1.0, done))))

    def show_count(self, count: int) -> None:
        """Show how many units of the input a stage has done that goes through all of it."""
        if self._total is None:
            self._advance_to(count)
        else:
            self.show(count / max(1, self._total))

    def _advance_to(self, count: int) -> None:
        if count > self._shown:
            self._advance(count - self._shown)
            self._shown = count


@contextlib.contextmanager
def _bar(description: str, total: int | None, unit: str) -> Iterator[Advance]:
    """Show a bar of rich with rate and time left."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            # rich knows the recent speed from the second step on; until then the whole time counts.
            speed = (
                task.finished_speed or task.speed or task.completed / max(task.elapsed or 0.0, 1e-9)
            )
            return Text(f"{speed:,.0f} {unit}/s" if task.completed else "")

    count = TextColumn("{task.completed:,.0f}" + ("" if total is None else f"/{total:,}"))
    left = TimeRemainingColumn(elapsed_when_finished=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), count, Rate(), left)
    # Standard output stays what it is: results go there, and rich would send them to standard
    # error.
    with Progress(*columns, console=Console(stderr=True), redirect_stdout=False) as progress:
        task = progress.add_task(description, total=total)
        yield lambda done: progress.advance(task, done)


@contextlib.contextmanager
def _drawn(
    bar: CellBar | LineBar, description: str, total: int | None, unit: str
) -> Iterator[Advance]:
    start = time.monotonic()
    done = 0

    def advance(more: int, ended: bool = False) -> None:
        nonlocal done
        done += more
        share = done / total if total else float(ended) or None
        seconds = time.monotonic() - start
        bar.draw(description, share, _told(done, total, unit, seconds, ended), last=ended)

    advance(0)
    yield advance
    advance(0, ended=True)


def _told(done: int, total: int | None, unit: str, seconds: float, ended: bool) -> str:
    rate = done / max(seconds, 1e-9)
    parts = [
        f"{done:,}" + ("" if total is None else f" of {total:,}") + f" {unit}",
        f"{rate:,.0f}/s",
    ]
    if ended:
        parts.append(f"{seconds:.1f} s")
    elif total is not None and rate > 0:
        parts.append(f"{max(total - done, 0) / rate:.0f} s left")
    return ", ".join(parts)


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun: "1 text", "1,200 texts"; `plural` is an irregular one."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def duration(seconds: float) -> str:
    """Format a time for people: "45 s", "3 min 05 s", "2 h 14 min"."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    if not minutes:
        return f"{rest} s"
    return (
        f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
    )
