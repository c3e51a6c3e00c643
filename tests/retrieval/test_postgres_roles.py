"""Roles that change an index in PostgreSQL beside the one that owns it, and settings of their connections."""

import psycopg
import pytest

from rejoinder.retrieval.index import Index
from rejoinder.stores.postgres.segments import SMALL
from rejoinder.stores.postgres.store import PostgresStore
from rejoinder.stores.store import DeniedError
from tests.retrieval.conftest import HashEncoder

TEXTS = [f"reply {number}" for number in range(SMALL + 1)]
MORE = [f"another {number}" for number in range(SMALL + 1)]
ROLES = ("owner", "member", "guest", "reader")


@pytest.fixture
def database(postgres):
    """A database with an index of `owner`'s, and other roles: its address as a function of a role."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE DATABASE roles")
        for role in ROLES:
            connection.execute(f"CREATE ROLE {role} LOGIN")
        connection.execute("GRANT CREATE ON DATABASE roles TO owner")
        connection.execute("GRANT owner TO member")
    server = postgres.replace("/postgres?", "/roles?")

    def address(role, more=""):
        return f"{server.replace('postgres@', f'{role}@')}{more}&index=own"

    administer(server, "CREATE EXTENSION vector")
    try:
        Index.build(HashEncoder(), TEXTS, address("owner"))
        administer(server, "GRANT USAGE ON SCHEMA rejoinder_own TO reader")
        administer(server, "GRANT SELECT ON ALL TABLES IN SCHEMA rejoinder_own TO reader")
        administer(
            server,
            "ALTER DEFAULT PRIVILEGES FOR ROLE owner IN SCHEMA rejoinder_own GRANT SELECT ON TABLES TO reader",
        )
        yield address
    finally:
        for role in ROLES:
            PostgresStore.at(address(role))._connections.close()
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute("DROP DATABASE roles WITH (FORCE)")
            for role in ROLES:
                connection.execute(f"DROP ROLE {role}")


def administer(address, command):
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(command)


def opened(address):
    return Index.open(PostgresStore.at(address), HashEncoder())


def owners(address):
    """The roles that own the tables of the index."""
    with psycopg.connect(address.replace("&index=own", "")) as connection:
        found = connection.execute("SELECT tableowner FROM pg_tables WHERE schemaname = 'rejoinder_own'")
        return {owner for (owner,) in found}


@pytest.mark.parametrize("role", ["postgres", "member"])
def test_what_another_role_changes_is_the_owners_and_read_by_its_readers(database, role):
    if role == "member":  # one that has the owner's rights by SET ROLE alone
        administer(database("postgres").replace("&index=own", ""), "ALTER ROLE member NOINHERIT")
    theirs = opened(database(role))
    theirs.add(MORE)
    for reader in ("owner", "reader"):
        assert opened(database(reader)).search([["another 7"]], 1)[0][0].text == "another 7"
    theirs.delete([0])
    theirs.compact()
    theirs.approximate(0.9)
    for reader in ("owner", "reader"):
        assert opened(database(reader)).search([["another 7"]], 1)[0][0].text == "another 7"
    opened(database("owner")).compact()
    Index.build(HashEncoder(), TEXTS, database(role), overwrite=True)
    assert len(opened(database("owner"))) == len(TEXTS)
    assert owners(database("postgres")) == {"owner"}


def test_a_role_with_rights_alone_makes_no_table_that_the_owner_cannot_read(database):
    own = database("postgres").replace("&index=own", "")
    administer(own, "GRANT USAGE, CREATE ON SCHEMA rejoinder_own TO guest")
    administer(own, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA rejoinder_own TO guest")
    guest = opened(database("guest"))
    guest.add(["one more"])
    with pytest.raises(DeniedError, match="run GRANT OWNER TO ROLE"):
        guest.add(MORE)
    index = opened(database("owner"))
    assert len(index) == len(TEXTS) + 1
    index.add(MORE)
    assert owners(own) == {"owner"}


def test_a_schema_that_an_administrator_made_holds_the_index_of_who_builds_it(database):
    own = database("postgres").replace("&index=own", "")
    administer(own, "CREATE SCHEMA rejoinder_given")
    administer(own, "GRANT USAGE, CREATE ON SCHEMA rejoinder_given TO guest")
    address = database("guest").replace("index=own", "index=given")
    Index.build(HashEncoder(), TEXTS, address).add(MORE)
    assert len(opened(database("postgres").replace("index=own", "index=given"))) == len(TEXTS + MORE)
    opened(database("postgres").replace("index=own", "index=given")).add(["by an administrator"])
    assert len(opened(address)) == len(TEXTS + MORE) + 1


def shown(address, setting):
    with PostgresStore.at(address)._connections.connected() as connection:
        return connection.execute(f"SHOW {setting}").fetchone()[0]


@pytest.mark.parametrize("given", ["address", "PGOPTIONS", "service"])
def test_options_of_the_connection_hold(database, monkeypatch, tmp_path, given):
    options = "-c statement_timeout=7s -c tcp_keepalives_idle=77"
    more = ""
    if given == "address":
        more = f"&options={options.replace(' ', '%20').replace('=', '%3D')}"
    elif given == "PGOPTIONS":
        monkeypatch.setenv("PGOPTIONS", options)
    else:
        (tmp_path / "services.conf").write_text(f"[mine]\noptions={options}\n")
        monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services.conf"))
        more = "&service=mine"
    address = database("owner", more)
    PostgresStore.at(address)._connections.close()
    try:
        assert shown(address, "statement_timeout") == "7s"
        assert len(opened(address)) == len(TEXTS)
    finally:
        PostgresStore.at(address)._connections.close()


def test_without_options_the_connection_has_our_settings(database):
    assert shown(database("owner"), "default_transaction_isolation") == "read committed"
    assert shown(database("owner"), "statement_timeout") == "0"


def test_types_are_found_in_whatever_schema_they_are(postgres):
    administer(postgres, "CREATE DATABASE types")
    address = f"{postgres.replace('/postgres?', '/types?')}&index=a"
    try:
        administer(address.replace("&index=a", ""), 'CREATE SCHEMA "My types"')
        administer(address.replace("&index=a", ""), 'CREATE EXTENSION vector SCHEMA "My types"')
        index = Index.build(HashEncoder(), TEXTS, address)
        index.approximate(0.9)
        assert opened(address).search([["reply 7"]], 1)[0][0].text == "reply 7"
    finally:
        PostgresStore.at(address)._connections.close()
        administer(postgres, "DROP DATABASE types WITH (FORCE)")
