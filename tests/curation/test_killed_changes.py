"""Changes of two writers that are killed at random moments: made once, and logged once."""

import os
import random
import signal
import sys
import time

import pytest

from rejoinder.corpora.schema import Candidate
from rejoinder.curation.changes import changes
from rejoinder.curation.editing import Editor
from rejoinder.curation.tickets import Ticket, recall
from rejoinder.retrieval.index import Index
from tests.logs import log_of
from tests.retrieval.conftest import HashEncoder
from tests.stores import place_of

ROUNDS = 30
pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="forks processes and kills them"
)


def add(folder, writer, number):
    """Add a reply for the request of its number, as a server does, once."""
    ticket = Ticket(f"{writer}/{number}", "")
    index = Index.open(folder, HashEncoder(), verify=False)
    with index.store.lock(30):
        index.refresh()
        found = recall(log_of(index).database, ticket, index.manifest.change)
        if found is None:
            Editor(index, log_of(index), [ticket]).add([[Candidate(f"{writer}/{number}")]])
    log_of(index).database.close()


def write_until_killed(folder, writer, number, said):
    while True:
        add(folder, writer, number)
        said.write(f"{number}\n")
        said.flush()
        number += 1


def start(folder, writer, number, said):
    if (child := os.fork()) == 0:
        try:
            with said.open("w") as file:
                write_until_killed(folder, writer, number, file)
        finally:
            os._exit(1)
    return child


def test_no_kill_makes_a_change_twice_or_loses_one(tmp_path):
    folder, chance = tmp_path / "index", random.Random(0)
    Index.build(HashEncoder(), ["first"], folder)
    place_of(folder)  # is skipped where other processes cannot open it
    following, rounds = {0: 0, 1: 0}, 0
    while rounds < ROUNDS or sum(following.values()) < ROUNDS:  # a slow machine needs more rounds
        rounds += 1
        children = {
            writer: start(folder, writer, number, tmp_path / f"said{writer}")
            for writer, number in following.items()
        }
        time.sleep(chance.uniform(0.02, 0.12))
        for writer in sorted(children, key=lambda _: chance.random()):
            os.kill(children[writer], signal.SIGKILL)
            os.waitpid(children[writer], 0)
            said = tmp_path / f"said{writer}"
            lines = said.read_text().split() if said.exists() else []
            if lines:  # the next one may have been made: it is asked for again
                following[writer] = int(lines[-1]) + 1
    for writer, number in following.items():
        add(folder, writer, number)
    wanted = sorted(f"{writer}/{n}" for writer, last in following.items() for n in range(last + 1))
    index = Index.open(folder, HashEncoder(), verify=True)
    assert sorted(reply.text for _, reply in index if reply.text != "first") == wanted
    logged = [
        reply.text
        for change in changes(log_of(index).database, None, token=index.manifest.change)
        for reply in change.after.values()
    ]
    assert sorted(logged) == wanted
