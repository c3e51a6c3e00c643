"""The log of an index's use: what is written, what is kept of it, and that nothing acknowledged is lost."""

import errno
import itertools
import os
import random
import shutil
import signal
import sqlite3
import stat
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.corpora.schema import Candidate
from rejoinder.curation import feedback
from rejoinder.stores.folder import log_file
from rejoinder.curation.changes import changes
from rejoinder.curation.feedback import Entry, FeedbackLog
from rejoinder.curation.outcomes import Outcome
from rejoinder.curation.tickets import Ticket
from rejoinder.errors import BusyError, InputError
from rejoinder.retrieval.index import Index
from tests.logs import log_of, recorder
from tests.retrieval.conftest import HashEncoder

TEXTS = [
    "We open at nine.",
    "Hello {{name}}, your parcel has left us on {date}.",
    "Refunds take five days.",
    "Please send us the number of the order.",
]


@pytest.fixture
def index(tmp_path):
    replies = [Candidate(text, {"id": f"r{at}"}) for at, text in enumerate(TEXTS)]
    return Index.build(HashEncoder(), replies, tmp_path / "index")


@pytest.fixture
def log(tmp_path):
    return FeedbackLog(tmp_path / "index")


def entry(number, **values):
    return Entry((f"question {number}",), ("a", "b"), **{"chosen": "a", "text": None, **values})


def test_what_was_taken_is_in_the_log(index):
    first = recorder(index).feedback(["Hi!", "When do you open?"], [2, 0], chosen=0, source="anna")
    second = recorder(index).feedback(["My money?"], ["r2", "r0"], chosen="r2", source="anna")
    third = recorder(index).feedback(["Hm."], [1])
    assert [(each.id, each.chosen) for each in (first, second, third)] == [(1, 0), (2, 2), (3, None)]
    entries = list(log_of(index))
    assert [(each.context, each.offered, each.chosen, each.text) for each in entries] == [
        (("Hi!", "When do you open?"), (TEXTS[2], TEXTS[0]), TEXTS[0], None),
        (("My money?",), (TEXTS[2], TEXTS[0]), TEXTS[2], None),
        (("Hm.",), (TEXTS[1],), None, None),
    ]
    assert entries[0].source == entries[1].source != entries[2].source == ""
    assert "anna" not in str(entries)
    assert abs(entries[0].time - time.time()) < 60


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("we open at  NINE", 0),
        ("Hello Anna, your parcel has left us on 3 May.", 1),
        ("Refunds tkae five days.", 2),
        ("Ask my colleague in the other office.", None),
    ],
)
def test_a_text_that_is_a_reply_counts_as_that_reply(index, text, chosen):
    recorded = recorder(index).feedback(["Well?"], [3], text=text)
    assert recorded.chosen == chosen
    [entry] = log_of(index)
    assert entry.chosen == (None if chosen is None else TEXTS[chosen])
    assert entry.text == (text if chosen is None else None)


def test_a_reply_that_was_taken_and_changed_keeps_what_was_sent(index):
    recorder(index).feedback(["Well?"], [0], chosen=0, text="We open at nine, but not on Mondays.")
    recorder(index).feedback(["Well?"], [0], chosen=0, text="we open at nine")
    assert [(each.chosen, each.text) for each in log_of(index)] == [
        (TEXTS[0], "We open at nine, but not on Mondays."),
        (TEXTS[0], None),
    ]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"offered": [99]}, "no reply 99"),
        ({"offered": ["r99"]}, "the id 'r99'"),
        ({"chosen": 4}, "no reply 4"),
        ({"messages": []}, "no message"),
        ({"messages": "Hi!"}, "list of messages"),
    ],
)
def test_what_is_of_no_reply_or_conversation_is_refused_and_not_written(index, values, words):
    values = {"messages": ["Hi!"], **values}
    with pytest.raises(InputError, match=words):
        recorder(index).feedback(values.pop("messages"), **values)
    assert not log_of(index).database.path.exists()


def test_replies_that_were_deleted_since_and_those_after_holes_are_known(index):
    index.delete([1])
    assert recorder(index).feedback(["Hi!"], [1, 3], chosen=3).chosen == 3
    assert recorder(index).feedback(["Hi!"], text=TEXTS[1]).chosen is None
    index.compact()
    assert recorder(index).feedback(["Hi!"], [3], chosen="r3").chosen == 3
    with pytest.raises(InputError, match="was deleted before"):
        recorder(index).feedback(["Hi!"], [1])
    index.add([Candidate("New one.", {"id": "new"})])
    assert recorder(index).feedback(["Hi!"], text="New one").chosen == recorder(index).feedback(["Hi!"], chosen="new").chosen == 4


def test_of_several_replies_with_one_id_the_one_that_was_offered_was_taken(index):
    index.add([Candidate("We open at ten.", {"id": "r0"})])
    assert recorder(index).feedback(["When do you open?"], [4, 2], chosen="r0").chosen == 4
    assert recorder(index).feedback(["When do you open?"], [2], chosen="r0").chosen == 0


def test_several_outcomes_are_written_together_or_not_at_all(index):
    good, bad = Outcome(messages=["Hi!"], offered=[0]), Outcome(messages=["Hi!"], offered=[9])
    with pytest.raises(InputError):
        recorder(index).record([good, bad])
    assert len(log_of(index)) == 0
    assert [each.id for each in recorder(index).record([good, good])] == [1, 2]


def test_personal_data_is_redacted_unless_a_setting_says_otherwise(index):
    secret = "I am anna@example.com, call +44 20 7946 0958"
    recorder(index).feedback([secret], [0], text=f"Dear, {secret}")
    assert b"anna@example" not in b"".join(path.read_bytes() for path in index.folder.parent.glob("index.feedback*"))
    [written] = log_of(index)
    assert written.context == ("I am <email>, call <phone>",)
    assert written.text == "Dear, I am <email>, call <phone>"
    log_of(index).set(redact=False)  # by another process, say
    recorder(index).feedback([secret], [0])
    assert list(log_of(index))[-1].context == (secret,)


def test_only_the_newest_messages_are_kept(index):
    recorder(index).feedback([f"message {number}" for number in range(50)], [0])
    [written] = log_of(index)
    assert written.context == tuple(f"message {number}" for number in range(46, 50))


def test_old_entries_go_by_themselves_and_the_oldest_of_too_many(log, monkeypatch):
    now = time.time()
    log.append([entry(at, time=now - at * 86_400) for at in range(400)])
    log.set(days=30)
    assert len(log) == 30
    monkeypatch.setattr(feedback, "MOST_ENTRIES", 10)
    monkeypatch.setattr(feedback, "_TIDIED_EVERY", 5)
    fresh = FeedbackLog(log.database.path.with_name("index"))
    for number in range(20):
        fresh.append([entry(number)])
    assert len(fresh) <= 15


def test_only_as_many_go_as_are_too_many_wherever_numbers_are_missing(log, monkeypatch, postgres_store):
    Index.build(HashEncoder(), ["a"], postgres_store)
    for own in (log, FeedbackLog(postgres_store)):
        own.append([entry(at) for at in range(10)])
        ids = [each.id for each in own]
        own.delete(ids=ids[4:9])
        monkeypatch.setattr(feedback, "MOST_ENTRIES", 5)
        own.tidy()
        assert [each.id for each in own] == [*ids[:4], ids[9]]
        own.append([entry(10)])
        own.tidy()
        assert [each.id for each in own][:4] == [*ids[1:4], ids[9]]
        monkeypatch.setattr(feedback, "MOST_ENTRIES", 1000)


def test_entries_are_deleted_on_demand_and_their_bytes_too(log):
    start = time.time() - 100
    for at in range(10):
        log.append([Entry((f"secret {at}",), (), None, None, source="anna" if at % 2 else "ben", time=start + at)])
    assert log.delete(source="anna").entries == 5
    assert log.delete(source="nobody").entries == 0
    assert log.delete(before=start + 4).entries == 2
    [first, *_] = log
    assert log.delete(ids=[first.id, 999]).entries == 1
    assert [each.context for each in log] == [("secret 6",), ("secret 8",)]
    assert log.delete().entries == 2
    log.database.close()
    left = b"".join(path.read_bytes() for path in log.database.path.parent.glob("index.feedback*"))
    assert b"secret" not in left


def test_the_log_outlives_an_index_that_is_built_again(index):
    recorder(index).feedback(["Hi!"], [2, 0], chosen=2)
    other = Index.build(HashEncoder("other"), [TEXTS[2]], index.store, overwrite=True)
    assert recorder(other).feedback(["Hi!"], [0], chosen=0).id == 2
    assert [each.chosen for each in log_of(other)] == [TEXTS[2], TEXTS[2]]


@pytest.mark.folder
@pytest.mark.skipif(os.name == "nt", reason="looks at the modes of files")
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o600), (0o077, 0o600), (0o027, 0o600), (0o002, 0o660), (0o007, 0o660)])
def test_a_new_log_is_its_owners_or_of_a_group_that_may_write(tmp_path, umask, mode):
    old = os.umask(umask)
    try:
        log = FeedbackLog(tmp_path / "index")
        log.append([entry(1)])
        files = sorted(tmp_path.glob("index.feedback.db*"))
        assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [mode] * 3, "with -shm and -wal"
        log.database.path.chmod(0o644)
        log.append([entry(2)])
        assert stat.S_IMODE(log.database.path.stat().st_mode) == 0o644, "one that is there stays as it is"
    finally:
        os.umask(old)


def test_a_log_that_was_moved_away_gets_no_entries_any_more(index, tmp_path):
    recorder(index).feedback(["one"], [0])
    log_of(index).database.path.rename(tmp_path / "away.db")
    for rest in tmp_path.glob("index.feedback*"):
        rest.unlink()
    recorder(index).feedback(["two"], [0])
    assert [each.context for each in log_of(index)] == [("two",)]


def test_a_link_to_an_index_has_its_log(index, tmp_path):
    (tmp_path / "current").symlink_to(index.folder)
    recorder(Index.open(tmp_path / "current", HashEncoder())).feedback(["Hi!"], [0])
    assert len(log_of(index)) == 1


def test_files_that_are_no_log_and_logs_of_later_versions_are_refused(log):
    log.database.path.write_bytes(b"not a database, but long enough to be looked at" * 100)
    with pytest.raises(InputError, match="move it away"):
        len(log)
    log.database.path.unlink()
    with sqlite3.connect(log.database.path) as other:
        other.execute("CREATE TABLE entry (id)")
    with pytest.raises(InputError, match="not a log of Rejoinder"):
        log.append([entry(0)])
    log.database.path.unlink()
    log.append([entry(0)])
    log.database.close()
    with sqlite3.connect(log.database.path) as other:
        other.execute("PRAGMA user_version = 9")
    with pytest.raises(InputError, match=r"format 9; .*update rejoinder"):
        len(log)


def test_a_truncated_log_is_an_error_that_names_it(log):
    log.append([entry(at) for at in range(200)])
    log.database.close()
    content = log.database.path.read_bytes()
    log.database.path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    with pytest.raises(InputError, match="is damaged"):
        list(log)


def test_another_process_that_writes_long_is_waited_for_and_then_named(log, monkeypatch):
    monkeypatch.setattr(log_file, "TIMEOUT", 0.05)
    log.append([entry(0)])
    with sqlite3.connect(log.database.path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(BusyError, match="try again"):
            log.append([entry(1)])
        other.execute("ROLLBACK")
    assert log.append([entry(2)]) == [2]


def test_threads_and_connections_write_at_once(log):
    other = FeedbackLog(log.database.path.with_name("index"))
    threads = [
        threading.Thread(target=lambda own=own: [own.append([entry(at)]) for at in range(50)])
        for own in (log, log, other, other)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.id for each in log] == list(range(1, 201))


@pytest.mark.parametrize("values", [{"days": 0}, {"days": "many"}, {"learn": "never"}, {"redact": 1}, {"dasy": 3}])
def test_wrong_settings_are_refused(log, values):
    with pytest.raises(InputError):
        log.set(**values)
    assert not log.database.path.exists()


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=6), st.text(st.characters(exclude_categories=["Cs"])))
def test_whatever_was_written_is_read(tmp_path_factory, messages, text):
    log = FeedbackLog(tmp_path_factory.mktemp("log") / "index")
    log.set(redact=False)
    written = Entry(tuple(messages), (text, "b"), None, text, time=5e9)
    log.append([written])
    [read] = log
    assert (read.context, read.offered, read.text) == (written.context, written.offered, written.text)
    log.database.close()
    shutil.rmtree(log.database.path.parent)


def write_until_killed(index, seed, said):
    for number in itertools.count():
        recorded = recorder(index).feedback([f"{seed}/{number}"], [number % 4], chosen=number % 4, source=f"{seed}")
        said.write(f"{recorded.id} {seed}/{number}\n")
        said.flush()


def acknowledged_before_a_kill(index, seed, entries, delay):
    """What a writer said that it had written, which is killed ``delay`` seconds after its ``entries``-th one."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            with os.fdopen(writing, "w") as said:
                write_until_killed(index, seed, said)
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as said:
        lines = list(itertools.islice(said, entries))
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        lines += said
    return {int(at): text for at, text in (line.split() for line in lines)}


@pytest.mark.folder
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks processes and kills them")
def test_no_kill_at_a_random_moment_loses_an_entry(index):
    chance, acknowledged = random.Random(0), {}
    log_of(index).database.close()
    for seed in range(40):
        entries = chance.randrange(12)
        said = acknowledged_before_a_kill(index, seed, entries, chance.uniform(0.0, 0.01))
        assert len(said) >= entries
        acknowledged |= said
        found = {each.id: each.context[0] for each in log_of(index)}
        assert acknowledged.items() <= found.items(), seed
        assert len(found) <= len(acknowledged) + seed + 1, "one a kill may be written and not acknowledged"
    assert len(acknowledged) > 200


@pytest.mark.parametrize("missing", ["change", "request", "token", None])
def test_a_log_of_an_earlier_edition_is_brought_up_to_date(tmp_path, missing):
    log = FeedbackLog(tmp_path / "index")
    log.append([entry(0)])
    log.database.close()
    with sqlite3.connect(log.database.path) as old:
        if missing == "change":
            old.execute("DROP TABLE change")
        if missing in ("change", "request"):
            old.execute("DROP TABLE request")
        if missing == "token":
            old.execute("ALTER TABLE change DROP COLUMN token")
        old.execute("PRAGMA user_version = 1")
    old.close()
    assert len(log) == 1
    assert changes(log.database) == []
    assert log.append([entry(1)], [Ticket("k", "d")], [None]) == [2]
    log.database.close()
    with sqlite3.connect(log.database.path) as new:
        assert new.execute("PRAGMA user_version").fetchone() == (2,)
    new.close()


def test_redaction_holds_up_no_other_writer(log, monkeypatch):
    """It is done before the transaction."""
    monkeypatch.setattr(log_file, "TIMEOUT", 0.2)
    other = FeedbackLog(log.database.path.with_name("index"))
    other.append([entry(0)])

    def slow(text):
        with other.database.writing() as connection:
            connection.execute("UPDATE entry SET source = 'meanwhile'")
        return text

    monkeypatch.setattr(feedback, "redact", slow)
    log.append([entry(2)])
    assert [each.source for each in log] == ["meanwhile", ""]


def test_a_setting_of_another_process_counts_at_once(log):
    secret = Entry(("mail anna@example.com",), (), None, None)
    other = FeedbackLog(log.database.path.with_name("index"))
    for redact, word in ((True, "<email>"), (False, "anna@example.com"), (True, "<email>")):
        other.set(redact=redact)
        log.append([secret])
        assert list(log)[-1].context == (f"mail {word}",)


def test_entries_are_acknowledged_even_if_another_writer_keeps_the_old_ones(log, monkeypatch):
    monkeypatch.setattr(log_file, "TIMEOUT", 0.1)  # read when the file is opened
    log.append([entry(0)])
    monkeypatch.setattr(log, "_tidied_at", -1e9)
    tidy, other = log.tidy, sqlite3.connect(log.database.path, isolation_level=None)

    def tidy_beside_another():
        other.execute("BEGIN IMMEDIATE")
        tidy()

    monkeypatch.setattr(log, "tidy", tidy_beside_another)
    assert log.append([entry(1)]) == [2]
    other.execute("ROLLBACK")
    other.close()


def test_entries_are_acknowledged_even_if_the_old_ones_cannot_be_deleted(log, monkeypatch, caplog):
    def fail():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(log, "tidy", fail)
    assert log.append([entry(1)]) == [1]
    assert len(log) == 1
    assert "No space left" in caplog.text
