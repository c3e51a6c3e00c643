"""What a person sees."""

from __future__ import annotations

import io
import sys
import time

import pytest

from rejoinder.training import display
from rejoinder.training.display import Standing, TerminalDisplay, duration

STANDING = Standing("warm", 0.25, 1234, 2.5, 0.125, 7600.4, 185.0)


def test_without_a_terminal_there_is_a_plain_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 0.0, 1.0, 2.0, 20.0, 20.0])
    monkeypatch.setattr(display.time, "monotonic", lambda: next(clock))
    shown = TerminalDisplay()
    for _ in range(4):
        shown.show(STANDING)
    shown.note("[step] 5: best so far")
    shown.close()
    captured = capsys.readouterr()
    assert captured.out == "", "standard output is for results"
    assert captured.err.splitlines() == [f"warm  25%: {STANDING}"] * 2 + ["[step] 5: best so far"]


def test_a_live_bar_on_a_terminal_makes_way_for_other_work_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "xterm")
    shown = TerminalDisplay()
    shown.show(STANDING)
    shown.close()
    assert "warm" in terminal.getvalue()
    assert "loss 2.500" in terminal.getvalue()
    shown.show(STANDING)
    with shown.track("Mining", 10, "pairs") as advance:
        start = len(terminal.getvalue())
        advance(10)
        time.sleep(0.4)  # the bar of the training would draw itself four times a second
    before = len(terminal.getvalue())
    assert "warm" not in terminal.getvalue()[start:before], "two bars at a time overwrite each other"
    shown.show(STANDING)
    shown.close()
    assert "Mining" in terminal.getvalue()[:before]
    assert terminal.getvalue()[before:].rstrip().count("warm") >= 1
    assert "Mining" not in terminal.getvalue()[before:]


@pytest.mark.parametrize(("seconds", "text"), [
    (0, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (185, "3 min 05 s"), (8040, "2 h 14 min"), (-3, "0 s"),
])  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
