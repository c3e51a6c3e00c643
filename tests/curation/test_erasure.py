"""Deleting feedback, and the bytes of what it said in every file."""

import random
import time

import pytest

from rejoinder.corpora.schema import Candidate
from rejoinder.curation import feedback
from rejoinder.stores.folder import log_file
from rejoinder.curation.changes import changes
from rejoinder.curation.editing import Editor
from rejoinder.curation.erasure import erase
from rejoinder.curation.feedback import Entry, FeedbackLog
from rejoinder.curation.learning import forget, learn_chosen
from rejoinder.errors import BusyError
from rejoinder.retrieval import index as index_module
from rejoinder.retrieval.index import Index
from tests.stores import contents
from tests.logs import log_of, recorder
from tests.retrieval.test_examples import WordEncoder

MARK = "quagmirezebra"
REPLIES = [
    Candidate("We open at nine.", title="hours"),
    Candidate("Refunds take days."),
    Candidate("It is on its way."),
]


@pytest.fixture(params=["small", "large"])
def index(tmp_path, monkeypatch, request):
    """An index that is fitted again by every change, and one whose changes are revisions."""
    if request.param == "large":
        monkeypatch.setattr(index_module, "MOST_FITTED", 2)
    index = Index.build(WordEncoder(), REPLIES, tmp_path / "index")
    for number in range(40):  # as much as does not fit one page
        recorder(index).feedback(
            [f"question {number} " + "filler " * 30], [0, 1], chosen=number % 2, source="ben"
        )
    return index


def holding(folder):
    """What holds the marked word of an index and its log in a folder."""
    return [name for name, content in contents(folder) if MARK.encode() in content]


def used(index):
    """Feedback that became an example of a reply which was then edited, moved, merged and undone."""
    editor = Editor(index, log_of(index))
    recorder(index).feedback([f"where is my {MARK}"], [0, 1], chosen=0, source="anna")
    assert learn_chosen(index, log_of(index))
    assert any(MARK in str(reply.learned) for _, reply in index)
    editor.edit(0, title="opening")
    editor.move((f"where is my {MARK}",), 0, 1)
    merged = editor.merge(2, 1)
    editor.undo(merged.id)
    [gone] = editor.retire([1])
    editor.undo(gone.id)
    return editor


@pytest.mark.parametrize("conditions", [{"source": "anna"}, {"ids": [41]}, {"before": 9e9}, {}])
def test_erasing_reaches_every_file(index, tmp_path, conditions):
    used(index)
    assert holding(tmp_path)
    erased = erase(index, log_of(index), **conditions)
    assert erased.entries == (1 if conditions in ({"source": "anna"}, {"ids": [41]}) else 41)
    assert erased.examples >= 1
    assert erased.changes >= 1
    assert erased.left == ()
    assert holding(tmp_path) == []
    assert MARK not in str(changes(log_of(index).database, None)) + str(dict(index)) + str(list(log_of(index)))
    again = Index.open(index.store, WordEncoder(), verify=True)
    assert len(again) == 3


def test_what_was_erased_is_not_undone(index, tmp_path):
    editor = used(index)
    edited = editor.edit(1, title="new title")
    erase(index, log_of(index), source="anna")
    editor.undo(edited.id)
    assert dict(index)[1].title == ""
    assert holding(tmp_path) == []


def test_a_retired_reply_keeps_no_erased_example(index, tmp_path):
    editor = used(index)
    editor.retire([1])
    assert holding(tmp_path)
    erase(index, log_of(index), source="anna")
    assert holding(tmp_path) == []


def test_forgetting_reaches_the_log_of_changes_and_retired_replies(index, tmp_path):
    editor = used(index)
    editor.retire([1])
    forget(index, log_of(index))
    log_of(index).delete(source="anna")
    assert holding(tmp_path) == []


def test_what_another_entry_taught_and_what_somebody_wrote_stays(index):
    Editor(index, log_of(index)).edit(2, examples=(("where is it",),))
    for source in ("anna", "carl"):
        recorder(index).feedback(["when do you start"], [0], chosen=0, source=source)
        recorder(index).feedback(["where is it"], [0], chosen=0, source="anna")
    learn_chosen(index, log_of(index))
    erased = erase(index, log_of(index), source="anna")
    assert (erased.entries, erased.left) == (3, (2,))
    assert ("when do you start",) in dict(index)[0].learned
    assert dict(index)[2].examples == (("where is it",),)
    assert ("where is it",) not in dict(index)[0].learned


def test_old_entries_leave_no_bytes(tmp_path):
    log, now = FeedbackLog(tmp_path / "index"), time.time()
    log.append(
        [Entry((f"{MARK} {at}",), (), None, None, time=now - 40 * 86_400) for at in range(20)]
    )
    log.append([Entry((f"fine {at}",), (), None, None) for at in range(20)])
    log.set(days=30)
    assert len(log) == 20
    assert holding(tmp_path) == []


def test_old_entries_go_within_the_hour(tmp_path, monkeypatch):
    log, now = FeedbackLog(tmp_path / "index"), time.time()
    log.append([Entry(("old",), (), None, None, time=now - 400 * 86_400)])
    log.append([Entry(("older",), (), None, None, time=now - 400 * 86_400)])
    assert len(log) == 1, "the first is looked at once"
    monkeypatch.setattr(feedback, "_TIDIED_AFTER", 0.0)
    log.append([Entry(("new",), (), None, None)])
    assert [each.context for each in log] == [("new",)]


def test_a_clock_that_is_ahead_deletes_nothing(tmp_path, monkeypatch):
    log, now = FeedbackLog(tmp_path / "index"), time.time()
    log.append([Entry(("fine",), (), None, None)])
    clock = [now]
    monkeypatch.setattr("rejoinder.curation.feedback.time.time", lambda: clock[0])
    for clock[0] in (now + 400 * 86_400, now + 400 * 86_400 + 3600, now + 60):
        log.tidy()
        assert len(log) == 1
    for day in range(0, 420, 20):  # a clock that goes on as it should
        clock[0] = now + day * 86_400
        log.tidy()
    assert len(log) == 0


def test_a_log_that_is_moved_away_leaves_nothing_to_come_back(tmp_path):
    first, other = FeedbackLog(tmp_path / "index"), FeedbackLog(tmp_path / "index")
    for log in (first, other):
        log.append([Entry((f"{MARK} {at}",), (), None, None) for at in range(5)])
    first.database.path.rename(tmp_path / "moved.db")
    assert (tmp_path / "index.feedback.db-wal").exists()
    new = FeedbackLog(tmp_path / "index")
    new.append([Entry(("new",), (), None, None)])
    assert [each.context for each in new] == [("new",)]
    for log in (first, other):  # which have the file open that was moved
        log.append([Entry(("newer",), (), None, None)])
        log.database.close()
    new.append([Entry(("newest",), (), None, None)])
    new.database.close()
    assert [each.context[0] for each in FeedbackLog(tmp_path / "index")] == [
        "new",
        "newer",
        "newer",
        "newest",
    ]
    assert [name for name in holding(tmp_path) if name != "moved.db"] == []


@pytest.mark.folder
def test_a_reader_that_keeps_the_bytes_is_named(index, monkeypatch):
    monkeypatch.setattr(log_file, "TIMEOUT", 0.1)
    reader = log_of(index)
    with reader.database.reading() as connection:
        connection.execute("SELECT count(*) FROM entry").fetchone()
        with pytest.raises(BusyError, match=r"still holds their bytes|being written"):
            log_of(index).delete(source="ben")


def test_nothing_is_left_after_many_deletions(tmp_path):
    log, chance = FeedbackLog(tmp_path / "index"), random.Random(0)
    log.set(redact=False)
    for round_ in range(30):
        entries = [
            Entry(
                (f"{MARK} {round_} " * chance.randint(1, 300),),
                (f"{MARK} reply",),
                None,
                f"{MARK}!",
                source="anna",
            )
            if chance.random() < 0.3
            else Entry((f"fine {round_} " * chance.randint(1, 300),), (), None, None, source="ben")
            for _ in range(20)
        ]
        log.append(entries)
        log.delete(source="anna")
        assert holding(tmp_path) == []


@pytest.mark.parametrize(
    "messages",
    [
        [f"Hello,\n\nwhere is my {MARK}?\n\nBest regards,\nAnna Smith"],
        [f"r u sending my {MARK}"],
        [f"where is my {MARK}????"],
        [f"&quot;where&quot; is my {MARK} :("],
        [f"where is my {MARK}", "hello?"],
        [{"role": "user", "content": "Hi!"}, {"role": "user", "content": f"my {MARK} please"}],
    ],
)
def test_what_was_learned_of_a_message_goes_with_it(index, tmp_path, messages):
    recorder(index).feedback(messages, [0, 1], chosen=0, source="anna")
    assert learn_chosen(index, log_of(index))
    assert any(MARK in str(reply.learned) for _, reply in index)
    erased = erase(index, log_of(index), source="anna")
    assert (erased.entries, erased.examples) == (1, 1)
    assert not any(MARK in str(reply.learned) for _, reply in index)
    assert holding(tmp_path) == []


def test_deleting_all_feedback_keeps_changes_that_somebody_made(index):
    editor = used(index)
    edited = editor.edit(2, title="parcel")
    before = [change.id for change in changes(log_of(index).database, None)]
    erase(index, log_of(index))
    assert len(log_of(index)) == 0
    assert [change.id for change in changes(log_of(index).database, None)] == before
    editor.undo(edited.id)
    assert dict(index)[2].title == ""
