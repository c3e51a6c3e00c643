"""The main paths: the files that a job enters are those that CONTRIBUTING names."""

import inspect
import re
import sys
from pathlib import Path

import zstandard

import rejoinder
from rejoinder.cli.data import data
from rejoinder.cli.intents import train
from rejoinder.corpora import build  # noqa: F401 (imports are no part of the path)

from .corpora.reddit_lines import comment, dump

ROOT = Path(__file__).parent.parent
SOURCE = Path(rejoinder.__file__).parent
# These see no line: the names of corpora and inputs, the work folder, the summary at the end.
AROUND = {"corpora/sources.py", "corpora/corpus.py", "corpora/data_folder.py"}
# The engine calls the task that it got; bytes are reported, and counts kept, where they arise.
INTENTS = {"card": "my card was stolen", "hours": "when do you open"}
CALLBACKS = {
    ("engine.py", "corpora/build.py"),
    ("corpora/lines.py", "corpora/build.py"),
    ("corpora/reddit.py", "corpora/lines.py"),
}


def named_in(path):
    """The files of a main path, in the order in which CONTRIBUTING names them."""
    row = re.search(rf"\| {path} \|(.*?)(; of other corpora| \|\n)", (ROOT / "CONTRIBUTING.md").read_text())
    return re.findall(r"`([\w/]+\.py)`", row[1])


def traced(work, rooms):
    """The calls from one file of some rooms to another; a generator that goes on is not called again."""
    calls = []

    def module(frame):
        path = Path(frame.f_code.co_filename)
        if not path.is_relative_to(SOURCE):
            return None
        name = path.relative_to(SOURCE).as_posix()
        return name if name.startswith(rooms) else None

    def profile(frame, event, _):
        runs = event == "call" and frame.f_code.co_name != "<module>"
        callee = module(frame) if runs else None
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
    named = named_in("a raw line to Parquet")
    assert len(named) == len(set(named)) <= 9

    calls = traced(
        lambda: data("reddit", [str(dumped)], tmp_path / "out", processes=1),
        ("corpora/", "engine.py", "cli/data.py"),
    )

    assert {file for call in calls for file in call} - AROUND == set(named)
    place = {file: number for number, file in enumerate(named)}
    back = {(a, b) for a, b in calls if a in place and b in place and place[a] > place[b]}
    assert back == CALLBACKS


def test_a_message_goes_through_the_files_that_are_named(tmp_path):
    named = named_in("a message to its replies")
    assert len(named) == len(set(named)) <= 10
    model = rejoinder.load("convert-small")
    index = rejoinder.Index.build(model, ["We open at nine.", "By card."], tmp_path / "index")
    calls = traced(
        lambda: index.search([["Hello!", "When do you open?"]], k=1, no_repeat=True),
        ("retrieval/", "encoders/conversation.py", "encoders/torch.py"),
    )
    assert {file for call in calls for file in call} == set(named) - {"cli/retrieval.py", "retrieval/ann.py"}


def test_an_intent_classifier_is_trained_by_the_files_that_are_named(tmp_path):
    named = named_in("training an intent classifier")
    assert len(named) == len(set(named)) <= 9
    rows = [f"{words} {number},{intent}" for intent, words in INTENTS.items() for number in range(8)]
    texts = tmp_path / "texts.csv"
    texts.write_text("\n".join(["text,intent", *rows]) + "\n")
    calls = traced(
        lambda: train("convert-small", texts, tmp_path / "out"),
        ("cli/intents.py", "intents/", "encoders/open.py"),
    )
    assert {file for call in calls for file in call} == set(named)
