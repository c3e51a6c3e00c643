"""What a person sees."""

import pytest

from rejoinder.training import display
from rejoinder.training.display import Standing, TerminalDisplay, duration

STANDING = Standing("warm", 0.25, 1234, 2.5, 0.125, 7600.4, 185.0)


def test_without_a_terminal_there_is_a_plain_line_now_and_then(monkeypatch, capsys):
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


@pytest.mark.parametrize(("seconds", "text"), [
    (0, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (185, "3 min 05 s"), (8040, "2 h 14 min"), (-3, "0 s"),
])  # fmt: skip
def test_durations(seconds, text):
    assert duration(seconds) == text
