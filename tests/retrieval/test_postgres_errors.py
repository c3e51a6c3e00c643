"""What users read when PostgreSQL refuses something, or ends it."""

import contextlib
import re
import threading
import time

import psycopg
import pytest

from rejoinder.errors import BusyError, InputError
from rejoinder.retrieval.index import Index
from rejoinder.serving.worker.answers import Answers, Question
from rejoinder.serving.worker.sources import Sources
from rejoinder.stores.postgres.segments import SMALL, SegmentTable
from rejoinder.stores.postgres.store import PostgresStore
from rejoinder.stores.store import DeniedError, StaleError, UnreachableError
from tests.retrieval.conftest import HashEncoder

TEXTS = [f"reply {number}" for number in range(SMALL + 1)]


@pytest.fixture
def index(postgres_store):
    return Index.build(HashEncoder(), TEXTS, postgres_store)


@pytest.fixture
def server(postgres_store):
    """Run statements as the administrator."""
    with psycopg.connect(postgres_store.address.connection, autocommit=True) as connection:
        yield connection


@contextlib.contextmanager
def opened(store, more):
    """Open an index by its address with some parameters; another role's connections end with it."""
    address = store.address.connection.replace("postgres@", "postgres:SECRET@")
    other = PostgresStore.at(f"{address}{more}&index={store.address.index}")
    try:
        yield other
    finally:
        other._connections.close()


@contextlib.contextmanager
def refused(kind, words):
    with pytest.raises(kind, match=words) as error:
        yield
    assert "SECRET" not in str(error.value)
    assert "does not answer" not in str(error.value)


@pytest.mark.usefixtures("index")
def test_a_database_that_is_read_alone_is_said_to_be( postgres_store):
    with opened(postgres_store, "&options=-c%20default_transaction_read_only%3Don") as store:
        theirs = Index.open(store, HashEncoder())
        assert theirs.search([["reply 7"]], 1)[0][0].text == "reply 7"
        for change in (lambda: theirs.add(["new"]), lambda: theirs.add(TEXTS), lambda: theirs.delete([0])):
            with refused(DeniedError, r"is read alone \(cannot execute .*\), as a standby is.*changes go to the primary"):
                change()
    assert len(Index.open(postgres_store, HashEncoder())) == len(TEXTS)


@pytest.mark.parametrize("file", [True, False])
def test_a_service_that_is_not_there_is_named(postgres_store, monkeypatch, tmp_path, file):
    if file:
        monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "none.conf"))
    with opened(postgres_store, "&service=nope") as store:
        wanted = r"the service of PostgreSQL is not there \(.*not found\); check PGSERVICE"
        with refused(InputError, wanted):
            Index.open(store)


def test_types_that_a_role_may_not_use_are_named(postgres):
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE DATABASE hidden")
        connection.execute("CREATE ROLE builder LOGIN")
        connection.execute("GRANT CREATE ON DATABASE hidden TO builder")
    address = postgres.replace("/postgres?", "/hidden?")
    store = PostgresStore.at(f"{address.replace('postgres@', 'builder@')}&index=a")
    try:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("CREATE SCHEMA types")
            connection.execute("CREATE EXTENSION vector SCHEMA types")
        with refused(InputError, r"pgvector's types are not found .*GRANT USAGE ON SCHEMA"):
            Index.build(HashEncoder(), TEXTS, store)
    finally:
        store._connections.close()
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute("DROP DATABASE hidden WITH (FORCE)")
            connection.execute("DROP ROLE builder")


def test_a_connection_that_the_server_has_ended_is_not_said_to_be_without_an_answer(index, postgres_store, server):
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'"
    threading.Timer(0.3, server.execute, [others]).start()
    ended = refused(UnreachableError, r"has ended the connection, .*terminating connection.*try again")
    with ended, postgres_store._connections.connected() as connection:
        connection.execute("SELECT pg_sleep(20)")
    assert index.add(["new"]) == range(len(TEXTS), len(TEXTS) + 1)


def test_the_timeout_of_a_role_is_named(postgres_store):
    with opened(postgres_store, "&options=-c%20statement_timeout%3D100ms") as store:
        wanted = r"statement_timeout has ended a statement \(.*statement timeout\).*ALTER ROLE NAME SET statement_timeout"
        with refused(BusyError, wanted), store._connections.connected() as connection:
            connection.execute("SELECT pg_sleep(20)")


@pytest.mark.usefixtures("index")
def test_the_timeout_of_a_role_does_not_end_the_wait_for_who_changes_the_index(postgres_store):
    begun, end = threading.Event(), threading.Event()

    def hold():
        with PostgresStore(postgres_store.address).lock():
            begun.set()
            end.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    assert begun.wait(60)
    threading.Timer(0.5, end.set).start()
    with opened(postgres_store, "&options=-c%20statement_timeout%3D100ms") as store, store.lock():
        assert not holder.is_alive() or end.is_set()
    holder.join()


def test_a_statement_that_somebody_has_ended_is_not_said_to_be_another_process(postgres_store, server):
    def cancel():
        time.sleep(0.3)
        server.execute("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'")

    thread = threading.Thread(target=cancel)
    thread.start()
    ended = refused(BusyError, r"somebody has ended a statement \(.*user request\); try again")
    with ended, postgres_store._connections.connected() as connection:
        connection.execute("SELECT pg_sleep(20)")
    thread.join()


def test_an_error_that_is_no_absence_is_told_with_its_code(postgres_store):
    told = refused(UnreachableError, r"PostgreSQL answers with an error \(.*no_such_function.*\), code 42883")
    with told, postgres_store._connections.connected() as connection:
        connection.execute("SELECT no_such_function()")


def forget(found):
    """Let an index have read nothing yet."""
    found._segments[0] = SegmentTable(found.store._connections, found.manifest, 0)
    found._set(found.manifest, found._segments)


@pytest.mark.parametrize("is_approximate", [False, True])
def test_a_segment_whose_table_is_gone_is_named(index, postgres_store, server, is_approximate):
    if is_approximate:
        index.approximate(0.9)
        answers = Answers(Sources(index=postgres_store), Index.open(postgres_store, HashEncoder()), HashEncoder())
        forget(answers.index)
    name = index.manifest.segments[0].name
    server.execute(f'DROP TABLE "{postgres_store.address.schema}"."{name}"')
    words = f"its table {re.escape(name)} is gone; restore it from a backup, or build the index again"
    with refused(InputError, words):
        Index.open(postgres_store, HashEncoder(), verify=True)
    if is_approximate:
        with refused(InputError, words):
            answers.index.search([["reply 9"]], 1)
        [told] = answers.replies([Question(["reply 9"])])
        assert re.search(words, str(told))


def test_a_segment_that_another_process_has_replaced_is_stale(index, postgres_store):
    index.approximate(0.9)
    found = Index.open(postgres_store, HashEncoder())
    forget(found)
    index.delete([0])
    index.compact()
    index.delete([1])
    with pytest.raises(StaleError, match="has changed since it was opened"):
        found.search([["reply 9"]], 1)
