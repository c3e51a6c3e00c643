"""Progress goes to standard error, as a bar or as lines, and never changes the result."""

import io
import json
import sys
import unicodedata
from types import SimpleNamespace

import pytest

from rejoinder import progress
from rejoinder.progress import track
from rejoinder.training.display import Progress, TerminalDisplay


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


@pytest.fixture
def drawn(monkeypatch):
    """What is drawn in the cell of a notebook, whose clock stands at the first item of `clock`."""
    drawn = []
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    display = SimpleNamespace(
        HTML=str, display=lambda *_, **__: SimpleNamespace(update=drawn.append)
    )
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return drawn


@pytest.mark.parametrize(
    ("total", "first", "last"),
    [
        (4000, ' value="0.0000"', "4,000 of 4,000 replies, 1,000/s, 4.0 s"),
        (None, "", "4,000 replies, 1,000/s, 4.0 s"),
    ],
)
def test_a_notebook_gets_a_bar_in_its_cell_drawn_now_and_then(
    monkeypatch, capsys, drawn, total, first, last
):
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    with track("<Encoding>", total, "replies") as advance:
        for clock[0] in (0.05, 0.1, 2.0, 4.0):
            advance(1000)
    assert drawn[0].startswith(f"&lt;Encoding&gt; <progress{first}></progress> 0 ")
    assert drawn[-1] == f'&lt;Encoding&gt; <progress value="1.0000"></progress> {last}'
    assert len(drawn) == 4
    assert capsys.readouterr() == ("", "")


def test_a_training_draws_its_bar_there_too(monkeypatch, drawn):
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    display = TerminalDisplay()
    for share in (0.0, 0.01, 1.0):
        display.show(Progress("first", share, 7, 1.5, 0.25, 100.0, 3.0))
    display.close()
    assert [each.partition("</progress>")[0] for each in drawn] == [
        'first <progress value="0.0000">',
        'first <progress value="1.0000">',
    ]
    assert drawn[-1].endswith("step 7, loss 1.500, accuracy 25.0%, 100 examples/s, 3 s left")


def test_what_controls_a_terminal_or_its_direction_is_not_shown():
    bad = [
        *map(
            chr,
            [
                0x1B,
                0x9B,
                0x7F,
                0x202E,
                0x202A,
                0x2066,
                0x2069,
                0x200E,
                0x200F,
                0x61C,
                0x200B,
                0xFEFF,
                0x2028,
            ],
        ),
        "\U000e0041",
    ]
    kept = "a\n\tb \u200c\u200d \u05d0\u0627 \U0001f468\u200d\U0001f469 \u00e9\u4e2d"
    assert progress.printable("".join(bad) + kept) == "\ufffd" * len(bad) + kept
    written = progress.escaped(json.dumps({"text": "".join(bad) + kept}, ensure_ascii=False))
    assert json.loads(written) == {"text": "".join(bad) + kept}
    assert not set(bad) & set(written)
    kinds = [
        c
        for c in map(chr, range(sys.maxunicode + 1))
        if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")
    ]
    assert {c for c in kinds if progress.printable(c) == c} == set("\n\t\u200c\u200d")


def test_a_count_of_one_has_a_singular():
    assert progress.counted(1, "intent") == "1 intent"
    assert [progress.counted(n, "text") for n in (0, 2, 1200)] == ["0 texts", "2 texts", "1,200 texts"]
    assert progress.counted(1, "category", "categories") == "1 category"
    assert progress.counted(3, "category", "categories") == "3 categories"
