"""Commands that change an index beside servers that change it."""

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.open import load
from rejoinder.retrieval.index import Index
from rejoinder.stores.address import store_of
from tests.stores import place_of

TEXTS = ["We open at nine.", "You can pay by card.", "The parcel comes tomorrow."]
CHANGES = {
    "compact": ("index", "compact", "INDEX"),
    "delete": ("index", "delete", "INDEX", "--id", "reply 1"),
    "exact": ("index", "tune", "INDEX", "--method", "exact"),
    "forget": ("learn", "INDEX", "--forget"),
    "build": ("index", "build", "convert-small", "FILE", "-o", "INDEX", "--overwrite"),
}


@pytest.fixture(params=["folder", "postgres"])
def place(request, tmp_path):
    """The name of an index of a model's in a folder, or in PostgreSQL."""
    if request.param == "postgres":
        store = request.getfixturevalue("postgres_store")
        name = f"{store.address.connection}&index={store.address.index}"
    else:
        name = place_of(tmp_path / "index")
    replies = [Candidate(text, {"id": f"reply {number}"}) for number, text in enumerate(TEXTS)]
    Index.build(load("convert-small"), replies, name)
    return name


@contextlib.contextmanager
def changing(name):
    """Change an index again and again in another thread, as busy servers do."""
    end = threading.Event()
    errors = []

    def change():
        index = Index.open(name, load("convert-small"))
        for number in range(1000):
            if end.is_set():
                return
            try:
                with index.store.lock(60):
                    index.refresh()
                    index.add([f"Another one, number {number}."])
                    time.sleep(0.2)
            except Exception as error:  # noqa: BLE001 (seen below)
                errors.append(error)
            time.sleep(0.05)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
    assert errors == []


@pytest.fixture
def run(command, place, tmp_path):
    """Run one of `CHANGES`."""
    file = tmp_path / "replies.txt"
    file.write_text("\n".join(TEXTS))
    names = {"INDEX": place, "FILE": file}
    return lambda verb: command(*(names.get(word, word) for word in CHANGES[verb]))


@pytest.mark.parametrize("verb", CHANGES)
def test_a_command_waits_for_a_server_that_changes_the_index(run, place, verb):
    with changing(place):
        time.sleep(0.5)
        code, _, err = run(verb)
    assert code == 0, err
    assert "waiting" not in err


def test_a_command_that_waits_long_says_for_what(run, place, monkeypatch):
    monkeypatch.setattr("rejoinder.cli.models._QUIET", 0.1)
    begun, end = threading.Event(), threading.Event()

    def hold():
        with store_of(place).lock():
            begun.set()
            end.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert begun.wait(60)
    threading.Timer(1.0, end.set).start()
    code, _, err = run("compact")
    thread.join()
    assert code == 0, err
    assert "is being written by another process; waiting for it" in err


def test_a_command_does_not_wait_for_ever(run, place, monkeypatch):
    monkeypatch.setattr("rejoinder.cli.models._QUIET", 0.1)
    monkeypatch.setattr("rejoinder.stores.store.PATIENCE", 0.2)
    with ThreadPoolExecutor(1) as threads, store_of(place).lock():
        end = threads.submit(run, "compact").result(60)
    assert end.code == 2
    assert "wait until that is done, or stop it" in end.err
