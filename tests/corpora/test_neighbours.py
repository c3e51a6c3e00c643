"""Pairs of neighbouring sentences, out of books and of articles."""

from __future__ import annotations

import bz2

import pytest

from rejoinder.corpora import neighbours
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.neighbours import NeighbourSettings, read_neighbours
from tests.corpora.test_wikipedia import HEAD, page

LINES = "It was late. The train had left.\n\nNobody\nwas there.\nDr. Who said: no.\n"


@pytest.fixture
def read(tmp_path):
    def run(text, name="book.txt", **options):
        data = text.encode()
        (tmp_path / name).write_bytes(bz2.compress(data) if name.endswith(".bz2") else data)
        reading = Reading()
        found = list(read_neighbours(tmp_path / name, reading, NeighbourSettings(**options)))
        assert all(len(example.context) == 1 for example in found)
        return [(example.context[0], example.response, example.thread) for example in found], reading

    return run


def test_a_sentence_and_the_one_after_it(read):
    found, reading = read(LINES)
    said = ["It was late.", "The train had left.", "Nobody", "was there.", "Dr. Who said: no."]
    assert [pair[:2] for pair in found] == list(zip(said, said[1:], strict=False))
    assert reading.lines == 4


def test_paragraphs_may_go_on_over_lines(read):
    found, reading = read(LINES, wrapped=True)
    said = ["It was late.", "The train had left.", "Nobody was there.", "Dr. Who said: no."]
    assert [pair[:2] for pair in found] == list(zip(said, said[1:], strict=False))
    assert reading.lines == 4


def test_a_long_text_is_several_threads_that_share_no_pair(read, monkeypatch):
    monkeypatch.setattr(neighbours, "THREAD_LINES", 2)
    found, _ = read("One.\nTwo.\nThree.\nFour.\nFive.\n")
    assert found == [("One.", "Two.", "book:0"), ("Three.", "Four.", "book:1")]


def test_articles_of_an_export(read):
    text = "One is here. Two is [[there|not there]].\n\n{{box}}Three is gone."
    pages = page(7, text=text) + page(8, "Talk", text, namespace=1) + page(9, "List of x", text)
    found, reading = read(f"{HEAD}{pages}</mediawiki>\n", "dewiki-pages-articles1.xml-p1p9.bz2")
    said = ["One is here.", "Two is not there.", "Three is gone."]
    assert found == [(*pair, "7") for pair in zip(said, said[1:], strict=False)]
    assert sum(reading.dropped.values()) == 2
