"""Reading a log while others write and delete: every reading sees one state of it."""

import itertools
import threading

import pytest

from rejoinder.curation.feedback import Entry
from rejoinder.curation.learning import learn
from rejoinder.curation.usage import usage
from rejoinder.retrieval.index import Index
from tests.logs import log_of, recorder
from tests.retrieval.test_examples import WordEncoder

READINGS = 60


@pytest.fixture
def index(tmp_path):
    return Index.build(WordEncoder(), ["We open at nine.", "It is on its way."], tmp_path / "index")


@pytest.mark.parametrize(
    "read",
    [lambda index: list(log_of(index)), lambda index: usage(index, log_of(index)), lambda index: learn(index, log_of(index))],
    ids=["entries", "report", "learn"],
)
def test_reading_beside_a_writer(index, read):
    ended = threading.Event()
    failed = []

    def write():
        log = log_of(index)
        try:
            for number in itertools.count():
                if ended.is_set():
                    return
                texts = tuple(f"reply {number} {part}" for part in range(5))
                log.append([Entry((f"question {number}",), texts, texts[0], None, source="anna")])
                if number % 20 == 19:
                    log.delete(source="anna")
        except Exception as error:  # noqa: BLE001 (the test tells it)
            failed.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(READINGS if read is not usage else 10):
            read(index)
    finally:
        ended.set()
        thread.join()
    assert not failed


def test_an_entry_that_is_not_as_written_is_told_once_and_the_others_are_read(index, caplog):
    for number in range(6):
        recorder(index).feedback([f"question {number}"], [0, 1], chosen=0)
    wrong = {"context": ("{", "[1]", "null"), "offered": ("[99]",), "chosen": (77,)}
    rows = iter(range(2, 7))
    with log_of(index).database.writing() as connection:
        for column, values in wrong.items():
            for value in values:
                connection.execute(
                    f"UPDATE entry SET {column} = ? WHERE id = ?", (value, next(rows))
                )
    assert [each.context for each in log_of(index)] == [("question 0",)]
    [line] = caplog.messages
    assert "5 entries are not as they were written" in line
    assert usage(index, log_of(index)).entries == 1
