"""From a raw line to Parquet: the files that a job enters are those that CONTRIBUTING names, in their order."""

import inspect
import re
import sys
from pathlib import Path

import zstandard

import rejoinder
from rejoinder.cli.data import data
from rejoinder.corpora import build  # noqa: F401 (imports are no part of the path)

from .corpora.reddit_lines import comment, dump

ROOT = Path(__file__).parent.parent
SOURCE = Path(rejoinder.__file__).parent
# These see no line: the names of corpora and inputs, the work folder, the summary at the end.
AROUND = {"corpora/sources.py", "corpora/corpus.py", "corpora/data_folder.py"}
# The engine calls the task that it got; bytes are reported, and counts kept, where they arise.
CALLBACKS = {
    ("engine.py", "corpora/build.py"),
    ("corpora/lines.py", "corpora/build.py"),
    ("corpora/reddit.py", "corpora/lines.py"),
}


def module(frame):
    path = Path(frame.f_code.co_filename)
    if not path.is_relative_to(SOURCE):
        return None
    name = path.relative_to(SOURCE).as_posix()
    return name if name.startswith("corpora/") or name in ("engine.py", "cli/data.py") else None


def traced(work):
    """The calls from one file to another; a generator that goes on is not called again."""
    calls = []

    def profile(frame, event, _):
        callee = module(frame) if event == "call" else None
        if callee is None or frame.f_code.co_flags & inspect.CO_GENERATOR:
            return
        caller = frame.f_back
        while caller is not None and module(caller) is None:
            caller = caller.f_back
        if caller is not None and module(caller) != callee:
            calls.append((module(caller), callee))

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def test_a_line_goes_through_the_files_that_are_named_and_through_none_twice(tmp_path):
    threads = [
        comment(f"c{place}", f"c{place - 1}" if place else "", f"{number} this is {place}", f"t{number}")
        for place in range(5)
        for number in range(20)
    ]
    dumped = tmp_path / "RC_2018-01.zst"
    dumped.write_bytes(zstandard.compress(dump(threads)))
    row = re.search(r"\| a raw line to Parquet \|(.*?); of other corpora", (ROOT / "CONTRIBUTING.md").read_text())
    named = re.findall(r"`([\w/]+\.py)`", row[1])
    assert len(named) == len(set(named)) <= 9

    calls = traced(lambda: data("reddit", [str(dumped)], tmp_path / "out", processes=1))

    assert {file for call in calls for file in call} - AROUND == set(named)
    place = {file: number for number, file in enumerate(named)}
    back = {(a, b) for a, b in calls if a in place and b in place and place[a] > place[b]}
    assert back == CALLBACKS
