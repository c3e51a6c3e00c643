"""PostgreSQL lets the role of a server that runs in no longer: its password was changed, or its right to log in."""

import contextlib
import logging
import subprocess
import sys
import zlib

import pytest
from starlette.testclient import TestClient

from rejoinder.corpora.schema import Candidate
from rejoinder.retrieval.index import Index
from rejoinder.serving.app import make_app
from rejoinder.serving.server_settings import ServerSettings
from rejoinder.serving.worker.answers import Answers
from rejoinder.serving.worker.computing import Computing
from rejoinder.serving.worker.sources import Sources
from rejoinder.stores.postgres.store import PostgresStore
from tests.retrieval.conftest import HashEncoder
from tests.servers import until

pytestmark = pytest.mark.folder  # it names its store
TEXTS = [f"reply {number}" for number in range(300)]


@pytest.fixture
def administer(postgres):
    psycopg = pytest.importorskip("psycopg")

    def execute(command):
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute(command)

    return execute


@pytest.fixture
def role(administer, tmp_path):
    """A role with another name in each test: connections of earlier ones may be left."""
    name = f"role_{zlib.crc32(str(tmp_path).encode())}"
    administer(f"CREATE ROLE {name} LOGIN SUPERUSER")
    yield name
    administer(f"DROP ROLE {name}")


@pytest.fixture
def store(postgres_store, role):
    """The index as the role has it."""
    Index.build(HashEncoder(), [Candidate(text) for text in TEXTS], postgres_store)
    theirs = postgres_store.address.connection.replace("postgres@", f"{role}@")
    return PostgresStore.at(f"{theirs}&index={postgres_store.name}")


def lock_out(administer, role, right="NOLOGIN"):
    """Take a right from a role, and end its connections, which have it still."""
    administer(f"ALTER ROLE {role} {right}")
    administer(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{role}'")


@contextlib.contextmanager
def server(store, monkeypatch):
    monkeypatch.setattr("rejoinder.serving.worker.condition.RETRY", 0.0)
    sources, encoder = Sources(index=store, model="hash-model"), HashEncoder()
    with contextlib.closing(Answers(sources, Index.open(store, encoder), encoder)) as answers:
        app = make_app(ServerSettings(sources=sources), Computing(sources, answers))
        with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
            yield client


def test_a_server_that_answers_from_memory_stays_ready_and_tells_strangers_no_names(
    store, administer, role, monkeypatch, caplog
):
    with server(store, monkeypatch) as client, caplog.at_level(logging.INFO, "rejoinder.serving"):
        assert client.get("/ready").json() == {"status": "ready"}
        lock_out(administer, role)
        ready = client.get("/ready")
        assert (ready.status_code, ready.json()["status"]) == (200, "ready")
        assert ready.json()["reason"].startswith("it only searches: PostgreSQL lets nobody in so; set PGUSER")
        found = client.post("/v1/replies", json={"messages": [TEXTS[3]], "k": 1})
        assert found.json()["replies"][0]["text"] == TEXTS[3]
        feedback = client.post("/v1/feedback", json={"messages": ["Hi!"], "offered": [0], "chosen": 0})
        change = client.post("/v1/candidates", json={"candidates": ["new"]})
        assert (feedback.status_code, change.status_code) == (503, 503)
        for answer in (ready, feedback, change):
            assert role not in answer.text
            assert "/tmp" not in answer.text
        administer(f"ALTER ROLE {role} LOGIN")
        # what was answered meanwhile is shared in half a minute, and said until then
        until(lambda: "searches" not in client.get("/ready").json().get("reason", ""))
    reasons = [record.fields.get("reason", "") for record in caplog.records if record.getMessage() == "request"]
    assert sum(f'role "{role}" is not permitted to log in' in reason for reason in reasons) >= 3


def test_a_server_that_searches_in_the_database_is_not_ready_and_logs_why(store, administer, role, monkeypatch, caplog):
    Index.open(store, HashEncoder()).approximate(0.9)
    with server(store, monkeypatch) as client, caplog.at_level(logging.INFO, "rejoinder.serving"):
        assert client.get("/ready").json() == {"status": "ready"}
        lock_out(administer, role)
        ready = client.get("/ready")
        found = client.post("/v1/replies", json={"messages": [TEXTS[3]], "k": 1})
        assert (ready.status_code, found.status_code) == (503, 503)
        assert role not in ready.text + found.text
        administer(f"ALTER ROLE {role} LOGIN")
        until(lambda: client.get("/ready").json() == {"status": "ready"})
    lines = [record.fields for record in caplog.records if record.getMessage() == "request"]
    [line] = [line for line in lines if line["route"] == "/ready" and line["status"] == 503]
    assert f'role "{role}" is not permitted to log in' in line["reason"]


def test_a_search_that_the_role_may_no_longer_do_is_not_the_clients_fault(
    store, administer, role, monkeypatch, caplog
):
    Index.open(store, HashEncoder()).approximate(0.9)
    with server(store, monkeypatch) as client, caplog.at_level(logging.INFO, "rejoinder.serving"):
        lock_out(administer, role, "NOSUPERUSER")
        found = client.post("/v1/replies", json={"messages": [TEXTS[3]], "k": 1})
        administer(f"ALTER ROLE {role} SUPERUSER")
        assert found.status_code == 503
        assert found.json()["error"]["message"].startswith("this server cannot search the index as it is now")
        assert "relation" not in found.text
    # PostgreSQL hides the tables of a schema that a role may not use
    reasons = [record.fields.get("reason", "") for record in caplog.records]
    assert any('relation "manifest" does not exist' in reason for reason in reasons)


def test_a_command_still_ends_with_one_line(store, administer, role):
    lock_out(administer, role)
    address = f"{store.address.connection}&index={store.name}"
    command = [sys.executable, "-m", "rejoinder", "serve", address, "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1].count("PostgreSQL lets nobody in so") == 1
