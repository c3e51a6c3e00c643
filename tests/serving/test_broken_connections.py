"""The connection breaks by which a search asks PostgreSQL: it is made again, unless the database is away."""

import contextlib
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from rejoinder.retrieval.index import Index
from rejoinder.stores.postgres.store import PostgresStore
from rejoinder.stores.store import UnreachableError
from tests.retrieval.conftest import HashEncoder
from tests.servers import until

psycopg = pytest.importorskip("psycopg")
Cluster = pytest.importorskip("tests.postgres_cluster").Cluster
pytestmark = pytest.mark.folder  # it names its store
TEXTS = [f"reply {number}" for number in range(300)]
WAITING = "wait_event_type = 'Lock' AND application_name = 'rejoinder'"


@contextlib.contextmanager
def held_up(address, store):
    """Let searches wait for a lock on the table of the index's segment."""
    [table] = store._tables()
    with psycopg.connect(address) as connection:
        connection.execute(f'LOCK TABLE "{store.address.schema}"."{table}"')
        yield


def waiting(address):
    with psycopg.connect(address, autocommit=True) as connection:
        return connection.execute(f"SELECT FROM pg_stat_activity WHERE {WAITING}").rowcount


def tuned(store):
    index = Index.build(HashEncoder(), TEXTS, store)
    index.approximate(0.9)
    return Index.open(store, HashEncoder())


def test_a_search_whose_connection_breaks_is_made_again(postgres, postgres_store):
    index = tuned(postgres_store)
    with ThreadPoolExecutor(1) as threads:
        with held_up(postgres, postgres_store):
            found = threads.submit(index.search, [["reply 5"]], 1)
            until(lambda: waiting(postgres) == 1)
            with psycopg.connect(postgres, autocommit=True) as connection:
                connection.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {WAITING}")
        [[reply]] = found.result(30)
    assert reply.text == "reply 5"


def test_a_search_that_was_broken_off_is_not_made_again(postgres, postgres_store):
    index = tuned(postgres_store)
    with ThreadPoolExecutor(1) as threads, held_up(postgres, postgres_store):
        found = threads.submit(index.search, [["reply 5"]], 1)
        until(lambda: waiting(postgres) == 1)
        postgres_store.break_off()
        with pytest.raises(UnreachableError):
            found.result(3)


def test_a_search_without_its_database_fails_at_once():
    with tempfile.TemporaryDirectory(prefix="pg", dir="/tmp", ignore_cleanup_errors=True) as folder:
        cluster = Cluster(f"{folder}/one")
        try:
            address = f"postgresql://postgres@/postgres?host={cluster.folder}&index=broken"
            index = tuned(PostgresStore.at(address))
            cluster.kill()
            start = time.monotonic()
            with pytest.raises(UnreachableError):
                index.search([["reply 5"]], 1)
            assert time.monotonic() - start < 2
            cluster.start()
            assert index.search([["reply 5"]], 1)[0][0].text == "reply 5"
        finally:
            cluster.stop()
