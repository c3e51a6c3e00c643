"""Changes while the log of the index is damaged, locked, foreign, full, read-only or lost: what is refused is not there."""

import base64
import os
import shutil
import sqlite3
import time

import pytest

from rejoinder.stores.folder import log_file
from rejoinder.curation.feedback import FeedbackLog
from rejoinder.retrieval.index import Index
from rejoinder.serving.worker.computing import Computing
from rejoinder.serving.worker.jobs import EndedError
from tests.retrieval.conftest import HashEncoder

REQUESTS = {
    "add": ("POST", "/v1/candidates", {"candidates": ["new one", "new two"]}),
    "import": (
        "POST",
        "/v1/import",
        {"name": "a.txt", "content": base64.b64encode(b"file one\nfile two\n").decode()},
    ),
    "replace": ("POST", "/v1/edits", {"replace": {"position": 3, "text": "zebra"}}),
    "merge": ("POST", "/v1/edits", {"merge": {"position": 5, "other": 6}}),
    "undo": ("POST", "/v1/edits", {"undo": 1}),
    "examples": ("POST", "/v1/examples", {"position": 4, "examples": ["what is striped"]}),
    "delete": ("DELETE", "/v1/candidates/7", None),
    "feedback": ("POST", "/v1/feedback", {"messages": ["Hm?"], "offered": [1, 2], "chosen": 2}),
}


def overwrite(path):
    path.write_bytes(os.urandom(path.stat().st_size))


def spoil_pages(path):
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))


def truncate(path):
    path.write_bytes(path.read_bytes()[:2000])


def empty(path):
    path.write_bytes(b"")


def replace_by_folder(path):
    path.unlink()
    path.mkdir()


def replace_by_foreign(path):
    path.unlink()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE entry (id)")
    other.close()


def raise_format(path):
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version = 9")
    other.close()


def drop(table):
    def harm(path):
        with sqlite3.connect(path) as other:
            other.execute(f"DROP TABLE {table}")
        other.close()

    harm.__name__ = f"drop_{table}"
    return harm


def remove(path):
    path.unlink()


def move(path):
    path.rename(path.with_name("moved.db"))


FILES = [
    overwrite, spoil_pages, truncate, empty, replace_by_folder, replace_by_foreign, raise_format,
    drop("change"), drop("request"), drop("setting"), drop("entry"), remove, move,
]  # fmt: skip


def state(folder):
    return {at: (reply.text, reply.examples) for at, reply in Index.open(folder, HashEncoder())}


def entries(folder):
    try:
        return len(FeedbackLog(folder))
    except (log_file.LogError, OSError):
        return None


def send(server, name, key):
    method, path, body = REQUESTS[name]
    return server.request(method, path, json=body, headers={"idempotency-key": key})


@pytest.fixture
def server(client):
    server = client()
    server.post("/v1/edits", json={"replace": {"position": 2, "text": "first"}})
    server.post("/v1/feedback", json={"messages": ["Hi!"], "offered": [1]})
    return server


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("harm", FILES, ids=lambda harm: harm.__name__)
def test_what_a_harmed_log_refuses_is_not_there(server, answers, sources, harm, name):
    log = answers.log
    log.database.close()
    whole = log.database.path.read_bytes()
    before = state(sources.index)
    harm(log.database.path)
    answer = send(server, name, "k1")
    assert answer.status_code in (200, 201, 404, 503), answer.text
    if answer.status_code >= 400:
        assert state(sources.index) == before
        if answer.status_code == 503:
            assert str(sources.index.parent) not in answer.text
        else:
            assert (name, harm in (remove, move)) == ("undo", True), answer.text
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("rejoinder.serving.worker.condition.RETRY", -1.0)
            ready = server.get("/ready")
        assert ready.status_code == (503 if answer.status_code == 503 else 200)
    else:
        assert harm in (remove, move) or name == "feedback" or state(sources.index) != before
    # once the log is whole again the same request is carried out once
    answers.log.database.close()
    if log.database.path.is_dir():
        log.database.path.rmdir()
    for rest in log.database.path.parent.glob("index.feedback.db-*"):
        rest.unlink()
    if answer.status_code == 503:
        log.database.path.write_bytes(whole)
        again = send(server, name, "k1")
        assert again.status_code in (200, 201), again.text
        after = state(sources.index)
        same = send(server, name, "k1")
        assert (same.status_code, same.json()) == (again.status_code, again.json())
        assert state(sources.index) == after


class Failing(sqlite3.Connection):
    """Raises an error at some statement."""

    at = error = ""

    def execute(self, statement, *values):
        if Failing.error and statement.startswith(Failing.at):
            error = sqlite3.OperationalError("it fails")
            error.sqlite_errorname = Failing.error
            raise error
        return super().execute(statement, *values)


@pytest.fixture
def failing(monkeypatch):
    def connect(path, mode, wait):
        address = f"{path.absolute().as_uri()}?mode={mode}"
        return sqlite3.connect(
            address,
            uri=True,
            isolation_level=None,
            timeout=wait,
            check_same_thread=False,
            factory=Failing,
        )

    monkeypatch.setattr(log_file, "_connection", connect)
    yield
    Failing.error = ""


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("at", ["BEGIN IMMEDIATE", "INSERT INTO", "UPDATE", "COMMIT"])
@pytest.mark.parametrize(
    ("error", "status"),
    [("SQLITE_FULL", 507), ("SQLITE_IOERR_WRITE", 503), ("SQLITE_READONLY", 403), ("SQLITE_CORRUPT", 503), ("SQLITE_BUSY", 503)],
)  # fmt: skip
@pytest.mark.usefixtures("failing")
def test_what_a_failing_disk_refuses_is_not_there(server, sources, name, at, error, status):
    before, count = state(sources.index), entries(sources.index)
    Failing.at, Failing.error = at, error
    answer = send(server, name, "k1")
    Failing.error = ""
    changed = state(sources.index) != before or entries(sources.index) != count
    # what comes after the manifest is replaced, which says that the change is made, may fail
    assert (answer.status_code, changed) == (
        (status, False) if not changed else (answer.status_code, answer.status_code < 300)
    ), answer.text
    again = send(server, name, "k1")
    assert again.status_code in (200, 201), again.text
    after, count = state(sources.index), entries(sources.index)
    assert send(server, name, "k1").json() == again.json()
    assert (state(sources.index), entries(sources.index)) == (after, count)
    assert len(server.get("/v1/edits").json()["changes"]) == (1 if name == "feedback" else 2)


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_manifest_that_cannot_be_replaced_is_no_change(server, sources, monkeypatch, name, when):
    kind = type(sources.store)
    write, before = kind.write_manifest, state(sources.index)

    def fail(self, manifest):
        if when == "after":
            write(self, manifest)
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(kind, "write_manifest", fail)
        answer = send(server, name, "k1")
    made = answer.status_code < 300
    assert made == (when == "after" or name == "feedback"), answer.text
    assert (state(sources.index) != before) == (made and name != "feedback")
    again = send(server, name, "k1")
    assert again.status_code in (200, 201)
    assert len(server.get("/v1/edits").json()["changes"]) == (1 if name == "feedback" else 2)


def test_a_backup_that_locks_the_log_lets_nothing_be_changed(server, sources, monkeypatch):
    monkeypatch.setattr(log_file, "TIMEOUT", 0.05)
    monkeypatch.setattr(log_file, "_CHECK_TIMEOUT", 0.05)
    log = FeedbackLog(sources.index)
    before = state(sources.index)
    # the open connection has waited ten seconds for others since it was opened
    backup = sqlite3.connect(log.database.path, isolation_level=None)
    backup.execute("BEGIN IMMEDIATE")
    shutil.copy(log.database.path, log.database.path.with_name("copy"))
    ready = server.get("/ready")
    assert (ready.status_code, ready.json()["status"]) == (200, "ready")
    assert ready.json()["reason"].startswith("it only searches: ")
    assert "is being written by another process; try again" in ready.json()["reason"]
    assert server.post("/v1/replies", json={"messages": ["Hm?"]}).status_code == 200
    backup.execute("ROLLBACK")
    backup.close()
    assert state(sources.index) == before
    assert send(server, "add", "k1").status_code == 201


@pytest.mark.parametrize("name", REQUESTS)
def test_a_key_makes_a_change_once_and_goes_with_one_request(server, sources, name):
    first = send(server, name, "k1")
    after = state(sources.index)
    assert first.status_code in (200, 201), first.text
    assert send(server, name, "k1").json() == first.json()
    assert (state(sources.index), entries(sources.index)) == (after, 2 if name == "feedback" else 1)
    other = "delete" if name != "delete" else "add"
    refused = send(server, other, "k1")
    assert (refused.status_code, "with another request" in refused.text) == (422, True)
    assert state(sources.index) == after
    for key in ("", "x" * 201, "a b"):
        assert send(server, other, key).status_code == 400
    assert state(sources.index) == after


def test_a_key_is_obeyed_for_a_day(server, monkeypatch):
    now = time.time()
    assert send(server, "add", "k1").json() == send(server, "add", "k1").json()
    monkeypatch.setattr("rejoinder.curation.tickets.time.time", lambda: now + 86_000)
    assert send(server, "add", "k1").json() == {"positions": [20, 21]}
    monkeypatch.setattr("rejoinder.curation.tickets.time.time", lambda: now + 87_000)
    assert send(server, "add", "k1").json() == {"positions": [22, 23]}


@pytest.mark.parametrize("made", [True, False])
@pytest.mark.parametrize("name", REQUESTS)
def test_a_computing_process_that_ends_is_asked_about_in_the_log(
    server, sources, monkeypatch, name, made
):
    """It may have ended before the change or after it."""
    dispatch = Computing._dispatch
    before = state(sources.index)

    def end(self, jobs):
        if made:
            dispatch(self, jobs)
        raise EndedError("ended")

    with monkeypatch.context() as patch:
        patch.setattr(Computing, "_dispatch", end)
        answer = send(server, name, "k1")
    assert (answer.status_code < 300, answer.status_code == 503) == (made, not made), answer.text
    assert (state(sources.index) != before) == (made and name != "feedback")
    again = send(server, name, "k1")
    assert again.status_code in (200, 201)
    assert not made or again.json() == answer.json()


@pytest.mark.parametrize("body", [{"replace": None}, {"undo": None}, {"merge": None, "move": None}])
def test_an_edit_of_nothing_is_no_edit(server, body):
    answer = server.post("/v1/edits", json=body)
    assert (answer.status_code, "give one of" in answer.text) == (422, True)
