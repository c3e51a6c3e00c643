"""Readings of a context: how much of it a ranker is given, and by which part it ranks."""

import copy
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.corpora.schema import Example
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.errors import InputError
from rejoinder.evaluation.contexts import ContextReading, FULL, context_table, parse_reading, restrict, table_readings
from rejoinder.evaluation.ranking import evaluate_task
from rejoinder.evaluation.result import compare
from rejoinder.evaluation.tasks import ranking_task
from tests.evaluation.fakes import Rule, knows_it_all


class Reader(DualEncoder):
    """Ranks a response by how often it stands in what is read; remembers what it was given."""

    name = fingerprint = ""
    reads_history = True

    def __init__(self):
        self.part, self.calls, self.remembers = "all", [], False

    def by(self, part):
        other = copy.copy(self)
        other.part = part
        return other

    def with_cache(self):
        other = copy.copy(self)
        other.remembers = True
        return other

    def score(self, contexts, candidates):
        self.calls.append((self.part, list(contexts), self.remembers))
        read = {"all": lambda c: c, "input": lambda c: c[-1:], "history": lambda c: c[:-1]}[
            self.part
        ]
        return np.array(
            [
                [read(c).count(text) for text in texts]
                for c, texts in zip(contexts, candidates, strict=True)
            ],
            dtype=np.float32,
        )


def examples(count=40):
    """The response to example i is told by the message i mod 4 places before its input; every fifth has no history."""
    found = []
    for i in range(count):
        messages = [f"filler {i} {n}" for n in range(5)]
        messages[4 - i % 4] = f"answer {i}"
        found.append(
            Example(("alone",) if i % 5 == 0 else messages, f"answer {i}", thread=str(i // 2))
        )
    return found


def test_readings_have_words_and_back_and_other_words_are_refused():
    words = {
        "full": FULL,
        "0": ContextReading(0),
        "10": ContextReading(10),
        "history=1": ContextReading(1, "history"),
    }
    for text, reading in {
        **words,
        **{part: ContextReading(part=part) for part in ("input", "history")},
    }.items():
        assert (parse_reading(text), str(reading)) == (reading, text)
    for text in (
        "",
        "all",
        "-1",
        "n=3",
        "input=2",
        "history=",
        "history=x",
        "٣",
        "1.5",
        "history=-1",
    ):
        with pytest.raises(InputError, match="input, history or history=N, not"):
            parse_reading(text)
    with pytest.raises(InputError, match="leaves nothing to rank by"):
        parse_reading("history=0")


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=5), st.integers(0, 7))
def test_a_cut_keeps_personas_and_counts_none_of_them(context, messages):
    persona = ["your persona: i ski.", "your persona: i cook."]
    cut = ContextReading(messages).cut
    assert cut([*persona, *context]) == [*persona, *cut(context)]
    assert cut([*context, persona[0], "newest"]) == [*cut([*context, "newest"])[:-1], persona[0], "newest"]


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=12), st.integers(0, 14))
def test_a_cut_keeps_the_newest_messages(context, messages):
    kept = ContextReading(messages).cut(context)
    assert kept == context[len(context) - len(kept) :]
    assert len(kept) == min(len(context), messages + 1)
    assert FULL.cut(context) == context


def test_rankers_without_parts_say_so():
    single = Reader()
    single.reads_history = False
    for ranker in (Rule(knows_it_all), single):
        with pytest.raises(
            InputError, match="bm25 has no parts for input and history: only multi-context models"
        ):
            restrict(ranker, ContextReading(part="history"), "bm25")
        with pytest.raises(InputError, match="this ranker has no parts"):
            context_table(ranker, ranking_task(examples(), candidates=10))


def test_the_table_has_every_reading_with_paired_differences_to_the_full_context():
    task = ranking_task(examples(), candidates=10)
    ranker, done = Reader(), []
    rows = context_table(ranker, task, seed=3, progress=done.append).rows
    assert [row.reading for row in rows] == table_readings()
    assert [str(reading) for reading in table_readings()] == [
        "full",
        *map(str, range(11)),
        "input",
        "history",
        "history=1",
    ]
    assert sum(done) == len(task) * len(rows)
    assert all(remembers for _, _, remembers in ranker.calls)
    recall = {str(row.reading): row.result.recall[1].value for row in rows}
    assert recall["full"] == recall["4"] == recall["10"] == 0.8, "all that have a history"
    assert recall["0"] == recall["input"] == 0.2
    assert recall["1"] == 0.4
    assert recall["history"] == pytest.approx(0.6), "those without history are missed"
    assert recall["history=1"] == 0.2
    for row in rows[1:]:
        alone = evaluate_task(restrict(Reader(), row.reading), task, seed=3)
        assert row.result == alone
        assert row.difference == compare(alone, rows[0].result, seed=3)
        assert row.difference.recall[1].value == pytest.approx(recall[str(row.reading)] - 0.8)
    assert rows[0].difference is None


def test_the_table_in_words_and_as_json():
    task = ranking_task(examples(), candidates=10)
    table = context_table(Reader(), task, model="runs/[multi]", data="chat")
    lines = table.plain().splitlines()
    assert lines[0] == "runs/[multi] on chat"
    assert lines[1] == "40 examples, 10 candidates each (1-of-10)"
    assert "8 examples have no history: by the history alone they are missed" in lines
    header = next(line for line in lines if line.startswith("context "))
    assert header.split("  ")[-1].strip() == "R@1 minus full"
    labels = [line.split("  ")[0] for line in lines[lines.index(header) + 1 :]]
    assert labels == [
        "full",
        *(f"input + {n}" for n in range(11)),
        "input alone (h_x)",
        "history alone (h_z)",
        "newest 1 of it alone",
    ]
    history = next(line for line in lines if line.startswith("history alone"))
    assert "60.0  " in history
    assert "-20.0  " in history
    assert max(map(len, lines)) <= 80, "it fits a terminal"
    assert [line.rstrip() for line in table.plain(80).splitlines()] == lines
    found = json.loads(json.dumps(table.to_json()))
    assert [row["context"] for row in found] == [str(reading) for reading in table_readings()]
    assert found[0]["minus_full"] is None
    assert found[-1]["minus_full"]["recall"]["1"]["value"] == pytest.approx(-0.6)
    assert {row["model"] for row in found} == {"runs/[multi]"}
    task = ranking_task([each for each in examples() if len(each.context) > 1], candidates=10)
    assert "have no history" not in context_table(Reader(), task).plain()
