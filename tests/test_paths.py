"""The main paths: the files that a job enters are those that CONTRIBUTING names."""

import asyncio
import contextlib
import inspect
import json
import re
import sys
import threading
from pathlib import Path

import httpx2
import zstandard

import rejoinder
from rejoinder.cli.data import data
from rejoinder.cli.intents import train
from rejoinder.curation.feedback import FeedbackLog
from rejoinder.curation.learning import learn
from rejoinder.curation.outcomes import Recorder
from rejoinder.corpora.pipeline import build  # noqa: F401 (imports are not part of the path)
from rejoinder.serving.http.logs import logger
from rejoinder.serving.worker.sources import Sources
from rejoinder.serving.app import make_app
from rejoinder.serving.server_settings import ServerSettings
from rejoinder.serving.worker.computing import Computing
from rejoinder.training import loop

from .corpora.reddit_lines import comment, dump
from .training.tiny import recipe, stage, write_data

ROOT = Path(__file__).parent.parent
SOURCE = Path(rejoinder.__file__).parent
# These see no line: the names of corpora and inputs, the work folder, the summary at the end.
AROUND = {"corpora/registry/sources.py", "corpora/corpus.py", "corpora/pipeline/work_folder.py", "corpora/pipeline/summary.py", "corpora/limits.py",
          "corpora/reddit/settings.py"}
# The engine calls the task that it got; bytes are reported, and counts kept, where they arise.
INTENTS = {"card": "my card was stolen", "hours": "when do you open"}
CALLBACKS = {
    ("engine.py", "corpora/pipeline/build.py"),
    ("corpora/lines.py", "corpora/pipeline/build.py"),
    ("corpora/reddit/comment_trees.py", "corpora/lines.py"),
}
# An ASGI application receives the body and sends the answer by functions of the middleware.
ASGI = {("serving/wire/bodies.py", "serving/guard.py")}
# An encoder's class extends one in `conversation`; the choice among candidates reads a reply's text by
# a method of the rows that it got, and polarity what a reply is known by.
OF_SEARCH = {
    ("encoders/torch.py", "encoders/conversation.py"),
    ("retrieval/replies.py", "retrieval/state.py"),
    ("retrieval/choice/chooser.py", "retrieval/options.py"),
}
OF_MINING = {"cli/learning.py", "curation/chats.py"}  # the chats are read by a generator
SEARCH = ("retrieval/", "stores/", "encoders/conversation.py", "encoders/torch.py")


def named_in(path):
    """The files of a main path, in the order in which CONTRIBUTING names them."""
    row = re.search(rf"\| {path} \|(.*?)(; | \|\n)", (ROOT / "CONTRIBUTING.md").read_text())
    return re.findall(r"`([\w/]+\.py)`", row[1])


@contextlib.contextmanager
def traced(*rooms):
    """The calls from one file of some rooms to another, in this thread and those that it starts.

    A generator that goes on is not called again.
    """
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

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def going_back(calls, named):
    """Those of the calls that lead to an earlier file of a path."""
    order = {file: number for number, file in enumerate(named)}
    return {(a, b) for a, b in calls if a in order and b in order and order[a] > order[b]}


def test_a_line_goes_through_the_files_that_are_named_and_through_none_twice(tmp_path):
    threads = [
        comment(f"c{place}", f"c{place - 1}" if place else "", f"{number} this is {place}", f"t{number}")
        for place in range(5)
        for number in range(20)
    ]
    dumped = tmp_path / "RC_2018-01.zst"
    dumped.write_bytes(zstandard.compress(dump(threads)))
    named = named_in("a raw line to Parquet")
    assert len(named) == len(set(named)) <= 10

    with traced("corpora/", "engine.py", "cli/data.py") as calls:
        data("reddit", [str(dumped)], tmp_path / "out", processes=1)

    assert {file for call in calls for file in call} - AROUND == set(named)
    assert going_back(calls, named) == CALLBACKS


def test_an_optimisation_step_goes_through_the_files_that_are_named(tmp_path, monkeypatch):
    named = named_in(r"one optimisation step \(`Trainer._step`\)")
    assert len(named) == len(set(named)) <= 10
    calls = []
    step = loop.Trainer._step

    def traced_step(self, stage, batches):
        with traced("training/", "networks/", "text/", "encoders/") as own:
            done = step(self, stage, batches)
        calls.extend(own)
        return done

    def in_this_thread(make, first, stop):
        while stop is None or first < stop:
            yield make(first)
            first += 1

    monkeypatch.setattr(loop.Trainer, "_step", traced_step)
    monkeypatch.setattr(loop, "prefetched", in_this_thread)
    examples = write_data(tmp_path / "data")
    loop.train(recipe(examples, stage=[stage(steps=2)]), tmp_path / "run")

    assert {file for call in calls for file in call} == set(named)
    assert not going_back(calls, named)


def test_a_message_goes_through_the_files_that_are_named(tmp_path):
    named = named_in("a message to its replies")
    assert len(named) == len(set(named)) <= 13
    model = rejoinder.load("convert-small")
    index = rejoinder.Index.build(model, ["We open at nine.", "By card."], tmp_path / "index")
    with traced(*SEARCH) as calls:
        index.search([["Hello!", "When do you open?"]], k=1, no_repeat=True)
    assert {file for call in calls for file in call} == set(named) - {"cli/replies/verbs.py"}
    assert going_back(calls, named) == OF_SEARCH


def test_a_request_goes_through_the_files_that_are_named_and_through_none_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(logger, "disabled", True)  # a test before may have chosen a form of lines
    named = named_in("a request to its replies")
    assert len(named) == len(set(named)) <= 10
    model = rejoinder.load("convert-small")
    index = rejoinder.Index.build(model, ["We open at nine.", "By card."], tmp_path / "index")
    sources = Sources(index=index.folder)
    computing = Computing(sources)
    computing.open()
    app = make_app(ServerSettings(sources=sources), computing)

    async def request():
        transport = httpx2.ASGITransport(app)
        client = httpx2.AsyncClient(transport=transport, base_url="http://localhost")
        async with app.state.api.lifespan(app), client:
            body = {"messages": ["Hello!", "When do you open?"], "k": 1, "no_repeat": True}
            await asyncio.sleep(0.2)  # what runs beside the requests has begun
            with traced("serving/", *SEARCH) as calls:
                answer = await client.post("/v1/replies", json=body)
        assert answer.json()["replies"][0]["text"] == "We open at nine."
        return calls

    calls = asyncio.run(request())
    of_serving = [call for call in calls if call[1].startswith("serving/")]
    assert {file for call in of_serving for file in call} == set(named)
    assert going_back(of_serving, named) == ASGI
    changed = {"stores/folder/store.py"}  # which tells whether the index has changed
    search = {file for call in calls for file in call} - set(named) - changed
    assert search <= set(named_in("a message to its replies"))


def test_an_intent_classifier_is_trained_by_the_files_that_are_named(tmp_path):
    named = named_in("training an intent classifier")
    assert len(named) == len(set(named)) <= 10
    rows = [f"{words} {number},{intent}" for intent, words in INTENTS.items() for number in range(8)]
    texts = tmp_path / "texts.csv"
    texts.write_text("\n".join(["text,intent", *rows]) + "\n")
    with traced("cli/intents.py", "intents/", "encoders/open.py") as calls:
        train("convert-small", texts, tmp_path / "out")
    assert {file for call in calls for file in call} == set(named)


def test_learning_goes_through_the_files_that_are_named_and_through_none_twice(tmp_path):
    named = named_in("learning from chats and choices")
    assert len(named) == len(set(named)) <= 12
    model = rejoinder.load("convert-small")
    index = rejoinder.Index.build(model, ["We open at nine.", "By card."], tmp_path / "index")
    log = FeedbackLog(index.folder)
    Recorder(index, log).feedback(["how may i pay"], [0, 1], chosen=1)
    chats = [rejoinder.Example((f"when is it {at}",), "We open at nine.", str(at)) for at in range(9)]
    with traced("curation/", "corpora/sent_replies.py") as calls:
        learn(index, log, chats)
    assert {file for call in calls for file in call} == set(named) - {"cli/learning.py"}
    assert not going_back(calls, named)


def test_mining_goes_through_the_files_that_are_named_and_through_none_twice(tmp_path):
    named = named_in("mining replies")
    assert len(named) == len(set(named)) <= 12
    chats = tmp_path / "chats.jsonl"
    lines = [
        {"messages": [
            {"role": "user", "content": f"when do you open on day {at}"},
            {"role": "assistant", "content": "We open at nine."},
        ]}
        for at in range(9)
    ]
    chats.write_text("".join(json.dumps(line) + "\n" for line in lines))
    model = rejoinder.load("convert-small")
    with traced("curation/", "retrieval/", "encoders/vectors.py") as calls:
        mined = rejoinder.mine(chats, model)
    assert [reply.text for reply in mined.replies] == ["We open at nine."]
    assert {file for call in calls for file in call} == set(named) - OF_MINING
    assert not going_back(calls, named)
