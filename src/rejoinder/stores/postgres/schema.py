"""The tables of an index in PostgreSQL, and how they are brought up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rejoinder.errors import InputError
from rejoinder.stores.postgres.address import Address
from rejoinder.stores.store import DeniedError

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

FORMAT = 3
ANSWERS_SINCE = 2  # the format that has a table of answers
_MAKING = 3  # of advisory locks, beside those of the log's writers and of a change
_TABLES = (
    "CREATE TABLE format (number integer NOT NULL)",
    # One row: the manifest, and how often anything but the log has changed.
    "CREATE TABLE manifest (content text, stamp bigint NOT NULL)",
    "INSERT INTO manifest VALUES (NULL, 0)",
    "CREATE TABLE file (name text PRIMARY KEY, content bytea NOT NULL)",
    # The log; see `curation.feedback`.
    "CREATE TABLE setting (name text PRIMARY KEY, value text NOT NULL)",
    """CREATE TABLE reply (
      id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      text text NOT NULL
    )""",
    "CREATE INDEX ON reply USING hash (text)",  # a text may be longer than a key of a B-tree
    """CREATE TABLE entry (
      id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      time double precision NOT NULL,
      context text NOT NULL,
      offered text NOT NULL,
      chosen bigint,
      text text,
      source text NOT NULL,
      ticket text
    )""",
    "CREATE INDEX ON entry (time)",
    """CREATE TABLE change (
      id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      time double precision NOT NULL,
      kind text NOT NULL,
      before text NOT NULL,
      after text NOT NULL,
      undone integer NOT NULL DEFAULT 0,
      token text NOT NULL DEFAULT '',
      undoes bigint NOT NULL DEFAULT 0
    )""",
    """CREATE TABLE request (
      key text PRIMARY KEY,
      time double precision NOT NULL,
      digest text NOT NULL,
      result text NOT NULL,
      token text NOT NULL
    )""",
    "INSERT INTO setting VALUES ('salt', replace(gen_random_uuid()::text, '-', ''))",
    # SQLite's, for lists of numbers
    """CREATE FUNCTION json_each(list text) RETURNS TABLE (value bigint)
      LANGUAGE sql IMMUTABLE
      AS $$ SELECT item::bigint FROM json_array_elements_text(list::json) AS item $$""",
)
_ANSWERS = (
    # Not in the write-ahead log; see `curation.shared_answers`.
    """CREATE UNLOGGED TABLE answer (
      number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      id text NOT NULL UNIQUE,
      time double precision NOT NULL,
      content text NOT NULL
    )""",
)
_ADDED = (
    # The rows of small segments, which are read whole: a table for each would take milliseconds to
    # make and to drop, and make every other connection look up its tables again.
    """CREATE TABLE added (
      segment text NOT NULL,
      row integer NOT NULL,
      line text NOT NULL,
      vector bytea NOT NULL,
      response bytea,
      PRIMARY KEY (segment, row)
    )""",
    "ALTER TABLE added ALTER vector SET STORAGE EXTERNAL, ALTER response SET STORAGE EXTERNAL",
    # who reads the manifest of an earlier format goes on searching
    """DO $$ DECLARE reader text; BEGIN
      FOR reader IN SELECT DISTINCT grantee FROM information_schema.role_table_grants
        WHERE table_schema = current_schema() AND table_name = 'manifest'
          AND privilege_type = 'SELECT' AND grantee NOT IN (current_user, 'PUBLIC')
      LOOP EXECUTE format('GRANT SELECT ON added TO %I', reader); END LOOP;
    END $$""",
)
_MIGRATIONS: tuple[tuple[str, ...], ...] = (_TABLES, _ANSWERS, _ADDED)
"""What brings a schema from format 0, without tables, to 1, from 1 to 2, and so on."""


def make_schema(connection: psycopg.Connection[Any], address: Address) -> None:
    """Make the schema of an index, or bring an earlier one to this format, in a transaction.

    One process does so at a time: of several servers that are updated each may be the first.
    """
    from psycopg import sql

    key = (_MAKING, address.schema)
    connection.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", key)
    name = sql.Identifier(address.schema)
    if find_format(connection, address) is None:
        _create(connection, name, address)
    format_ = find_format(connection, address) or 0
    if format_ < FORMAT:
        check_owner(connection)
    for statements in _MIGRATIONS[format_:]:
        for statement in statements:
            connection.execute(statement)
    if format_ < FORMAT:
        connection.execute("DELETE FROM format")
        connection.execute("INSERT INTO format VALUES (%s)", (FORMAT,))


def _create(connection: psycopg.Connection[Any], name: sql.Identifier, address: Address) -> None:
    from psycopg import sql
    from psycopg.errors import InsufficientPrivilege

    try:
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(name))
    except InsufficientPrivilege as error:
        own = (sql.Identifier(connection.info.dbname), sql.Identifier(connection.info.user))
        grant = sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(*own).as_string(connection)
        raise DeniedError(
            f"{address.shown}: this role may not make the index's schema "
            f"({error.diag.message_primary}); let an administrator grant it ({grant})"
        ) from None


def check_owner(connection: psycopg.Connection[Any]) -> None:
    """Refuse to make a table of an index for another role, which could not read it."""
    query = (
        "SELECT FROM pg_class WHERE oid = to_regclass('manifest') "
        "AND pg_get_userbyid(relowner) != current_user"
    )
    if connection.execute(query).fetchone() is not None:
        raise DeniedError(
            "this role is no member of the role that owns the index, which could not read the "
            "table that this change makes; run GRANT OWNER TO ROLE, with the names of both, or "
            "change the index as its owner"
        )


def find_format(connection: psycopg.Connection[Any], address: Address) -> int | None:
    """Return the format of a schema, which must not be a later one; None: there is no schema."""
    row = connection.execute(
        "SELECT to_regclass(quote_ident(nspname) || '.format') FROM pg_namespace "
        "WHERE nspname = %s",
        (address.schema,),
    ).fetchone()
    if row is None:
        return None
    if row[0] is None:
        return 0
    newest = connection.execute("SELECT max(number) FROM format").fetchone()
    number = int(newest[0] or 0) if newest else 0
    check_format(number, address)
    return number


def check_format(number: int, address: Address) -> None:
    """Refuse the format of a later version."""
    if number > FORMAT:
        raise InputError(
            f"{address.shown} has format {number}; this version reads {FORMAT}: update rejoinder"
        )
