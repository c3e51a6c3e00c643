"""CSV of messages and responses."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora.formats import read_csv
from rejoinder.corpora.lines import Reading
from rejoinder.errors import InputError

CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\r\0")
CELL = st.text(CHARACTERS, min_size=1, max_size=12).filter(str.strip)
HEADERS = ["", "Question, Answer\r\n", "\ufeffcontext,response\n", "\n\ncontext,response\n"]


@pytest.fixture
def read(tmp_path):
    def run(text, reading=None):
        path = tmp_path / "faq.csv"
        path.write_text(text, encoding="utf-8", newline="")
        return list(read_csv(path, reading))

    return run


def pairs(examples):
    return [(example.context, example.response) for example in examples]


@pytest.mark.parametrize("header", HEADERS, ids=repr)
def test_the_header_is_optional(read, header):
    found = pairs(read(header + "Where is it?,There.\nWhen?,Now.\n"))
    assert found == [(("Where is it?",), "There."), (("When?",), "Now.")]


def test_the_header_says_which_column_is_which(read):
    text = "id,Answer,notes,question,thread\n7,There.,secret,Where?,t1\n"
    (example,) = read(text)
    assert (example.context, example.response, example.id, example.thread) == (("Where?",), "There.", "7", "t1")
    assert example.source == "faq"


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(CELL, CELL), min_size=1, max_size=8))
def test_what_the_csv_module_writes_is_read(tmp_path_factory, rows):
    text = io.StringIO()
    csv.writer(text).writerows([("context", "response"), *rows])
    path = tmp_path_factory.mktemp("csv") / "rows.csv"
    path.write_text(text.getvalue(), encoding="utf-8", newline="")
    assert pairs(read_csv(path)) == [((context,), response) for context, response in rows]


def test_blank_rows_are_skipped(read):
    reading = Reading()
    assert len(read("a,b\n\n,\n  ,\nc,d\n", reading)) == 2
    assert (reading.lines, reading.bad_lines) == (2, 0)


BAD = [
    ("a,b,c", r"3 columns instead of 2; put texts with commas in double quotes"),
    ("a", "1 columns instead of 2"),
    ("a, ", "the response is blank"),
    (",b", "the context is blank"),
    ('a,"b"c', "not CSV .*; write a double quote within quotes twice"),
]


@pytest.mark.parametrize(("line", "reason"), BAD, ids=[line for line, _ in BAD])
def test_a_bad_row_stops_with_its_place_or_is_skipped(read, line, reason):
    with pytest.raises(InputError, match=rf"faq\.csv:2: {reason}"):
        read(f"good,row\n{line}\ngood,row\n")
    reading = Reading(skip_bad=True)
    assert len(read(f"good,row\n{line}\ngood,row\n", reading)) == 2
    assert (reading.lines, reading.bad_lines) == (3, 1)


def test_the_line_of_a_row_is_that_of_its_beginning(read):
    with pytest.raises(InputError, match=r"faq\.csv:5: 3 columns"):
        read('a,"b\n\nc"\n\nx,y,"z\n\n"\n')


def test_a_row_that_is_taken_for_a_header_is_said(read):
    reading = Reading()
    read("Question,Answer\na,b\n", reading)
    assert len(reading.notes) == 1
    assert reading.notes[0].endswith("faq.csv:1: a header, not an example: Question, Answer")
    read("a,b\n", reading)
    assert len(reading.notes) == 1


def test_a_message_of_a_million_characters(read):
    (example,) = read(f"{'x' * 1_000_000},{'y' * 1_000_000}\n")
    assert len(example.context[0]) == len(example.response) == 1_000_000
