"""A search beside changes of the same index in another thread: it reads one state of the index."""

import sys
import threading
import time
from contextlib import contextmanager

import pytest

from rejoinder.corpora.schema import Candidate
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.options import ANY_SCORE
from tests.retrieval.conftest import HashEncoder

REPLIES = 40
SECONDS = 0.8  # of a test with threads
SALES = {"team": "sales"}


@pytest.fixture
def index(tmp_path):
    replies = [Candidate(f"reply {number}", {"team": "sales"}) for number in range(REPLIES)]
    return Index.build(HashEncoder(), replies, tmp_path / "index")


def change(index, number):
    [position] = index.add([Candidate(f"other {number}", {"team": "none"})])
    if number % 5 == 1:
        index.edit({position: Candidate(f"another {number}", {"team": "none"})})
    if number % 3 == 0:
        index.delete([position])
    if number % 4 == 0:
        index.compact()


CHANGES = {
    "add": lambda index: index.add([Candidate("new", {"team": "sales"})]),
    "delete": lambda index: index.delete([2]),
    "edit": lambda index: index.edit({2: Candidate("edited", {"team": "sales"})}),
    "compact": lambda index: (index.add(["new"]), index.compact()),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("before", [False, True])  # whether there are two segments before
def test_a_change_in_the_middle_of_a_search_does_not_reach_it(index, name, before):
    if before:
        index.add([Candidate("reply 40", {"team": "sales"})])
    wanted = index.reply("reply 2", 5, minimum_score=ANY_SCORE)
    waiting = [CHANGES[name]]

    def passes(candidate):
        while waiting:
            waiting.pop()(index)
        return candidate.payload == SALES

    assert index.reply("reply 2", 5, minimum_score=ANY_SCORE, where=passes) == wanted
    assert not waiting


def test_what_a_search_may_find_belongs_to_one_state(index):
    index.add(["reply 40"])
    filtered = index._filter(None)
    index.delete([0])
    index.compact()
    assert filtered.count == REPLIES + 1
    words, passing = filtered.words()
    assert len(words.scores("reply 40")) == len(passing) == REPLIES + 1
    assert filtered.manifest.end == index.manifest.end == REPLIES + 1
    assert len(filtered.manifest.segments) == 2
    assert len(index.manifest.segments) == 1


@contextmanager
def switching_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@pytest.mark.parametrize("options", [{}, {"where": SALES}, {"hybrid": 0.1}], ids=["all", "where", "hybrid"])
def test_searches_in_threads_beside_changes(index, options):
    ended = threading.Event()
    failed = []
    counts = [0, 0]

    def search(thread):
        while not ended.is_set():
            try:
                best, *others = index.reply("reply 7", 5, minimum_score=ANY_SCORE, **options)
                assert best.text == "reply 7"
                assert len(others) == 4
                if "where" in options:
                    assert all(reply.payload == SALES for reply in others)
                assert index.candidate(best.position).text == best.text
                assert len(index) in range(REPLIES, REPLIES + 1000)
                assert next(index.candidates(7))[1].text == best.text
                counts[thread] += 1
            except Exception as error:  # noqa: BLE001 (the test tells it)
                failed.append(repr(error))

    threads = [threading.Thread(target=search, args=(number,)) for number in range(len(counts))]
    with switching_often():
        for thread in threads:
            thread.start()
        end = time.monotonic() + SECONDS
        number = 0
        while time.monotonic() < end and not failed:
            change(index, number)
            number += 1
        ended.set()
        for thread in threads:
            thread.join()
    assert not failed
    assert min(counts)
