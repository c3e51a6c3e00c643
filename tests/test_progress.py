"""Progress goes to standard error, as a bar or as lines, and never changes the result."""

import io
import sys

import pytest

from rejoinder import progress
from rejoinder.progress import track


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_plain_lines_show_rate_and_time_left(monkeypatch, capsys):
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    with track("Encoding", total=4000, unit="replies") as advance:
        advance(10)
        clock[0] = 20.0
        advance(990)
        clock[0] = 80.0
        advance(3000)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "Encoding: 1,000 of 4,000 replies, 50/s, 60 s left",
        "Encoding: 4,000 of 4,000 replies, 50/s, 0 s left",
        "Encoding: 4,000 of 4,000 replies, 50/s, 80.0 s",
    ]


def test_work_that_fails_reports_no_end(capsys):
    with pytest.raises(ValueError, match="bad"), track("Reading"):
        raise ValueError("bad")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("total", [None, 3])
def test_a_terminal_gets_a_bar_on_standard_error_only(monkeypatch, capsys, total):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with track("Encoding", total, "replies") as advance:
        advance(3)
        sys.stdout.write("a result\n")
    assert capsys.readouterr().out == "a result\n"
    shown = sys.stderr.getvalue()
    assert all(each in shown for each in ("Encoding", "3/3" if total else "3", "replies/s"))
