"""PostgreSQL's errors, as those of an index."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

from rejoinder.errors import BusyError, InputError
from rejoinder.patterns import search_pattern
from rejoinder.stores.store import DeniedError, LockedOutError, StaleError, UnreachableError

if TYPE_CHECKING:
    import psycopg

_FULL = ("53100",)  # disk_full
_REFUSED = ("28000", "28P01")  # role, password
_BUSY = ("40001", "40P01", "55P03", "23505")
"""serialization_failure, deadlock_detected, lock_not_available, unique_violation"""
_CANCELED = "57014"
_READ_ONLY = "25006"
_ENDED = ("57P", "25P03", "25P04")
"""Ends by an administrator or a crash, and timeouts of the role's transactions."""
_UNDEFINED = "42704"  # undefined_object
_GONE = ("3F000", "42P01")  # schema, table
_DENIED = "42501"
_REFUSING = ("22", "54")  # classes of errors of data, and of limits
_CONNECTING = "08"  # class of errors of connections
_NO_DATABASE = "3D000"  # invalid_catalog_name
# psycopg gives an error of connecting no code
_NO_DATABASE_TEXT = search_pattern('database "[^"]*" does not exist')
_REFUSED_TEXT = search_pattern(
    'password|role "[^"]*" (?:does not exist|is not permitted)|authentication failed|pg_hba.conf'
)
_STARTING_TEXT = search_pattern("the database system is|not yet accepting connections")
_SERVICE_TEXT = search_pattern("service file|definition of service")
_CROWDED_TEXT = search_pattern("too many (?:clients|connections)|connection slots")
_BRACKETS = str.maketrans("()", "[]")


@contextlib.contextmanager
def named_errors(shown: object) -> Iterator[None]:
    """Turn PostgreSQL's errors into those that say what to do, about the address `shown`."""
    from psycopg import Error

    try:
        yield
    except Error as error:
        _raise(error, shown)


def _raise(error: psycopg.Error, shown: object) -> NoReturn:
    code = error.sqlstate or ""
    reason = _line(error)
    if code in _FULL:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(shown)) from None
    _raise_of_settings(code, reason, shown)
    if code == _DENIED:
        raise DeniedError(
            f"{shown}: this role may not do that ({reason}); take the role that owns the index, or "
            "a member of it; one that searches needs SELECT on all its tables"
        ) from None
    if code in _BUSY:
        raise BusyError(
            f"{shown} is being changed by another process; try again ({reason})"
        ) from None
    if code in _GONE:
        raise StaleError(
            f"{shown} has changed since it was opened; open it again ({reason})"
        ) from None
    if code in _REFUSED or _REFUSED_TEXT.search(reason):
        raise LockedOutError(
            f"{shown}: PostgreSQL lets nobody in so ({reason}); set PGUSER and PGPASSWORD, or "
            "~/.pgpass, or a service file (PGSERVICE)"
        ) from None
    if code == _NO_DATABASE or _NO_DATABASE_TEXT.search(reason):
        raise LockedOutError(
            f"{shown}: there is no such database ({reason}); create it, or check its name"
        ) from None
    if code.startswith(_REFUSING):
        raise InputError(f"{shown}: PostgreSQL refuses it ({reason}), code {code}") from None
    _raise_of_connection(code, reason, shown)


def _raise_of_connection(code: str, reason: str, shown: object) -> NoReturn:
    """Raise that PostgreSQL did not do it, although it might."""
    if _CROWDED_TEXT.search(reason):
        raise UnreachableError(
            f"{shown}: PostgreSQL takes no more connections ({reason}); end some, or raise "
            "max_connections"
        ) from None
    if code.startswith(_ENDED) or _STARTING_TEXT.search(reason):
        raise UnreachableError(
            f"{shown}: PostgreSQL has ended the connection, or takes none now ({reason}); try again"
        ) from None
    if code and not code.startswith(_CONNECTING):
        raise UnreachableError(
            f"{shown}: PostgreSQL answers with an error ({reason}), code {code}"
        ) from None
    raise UnreachableError(
        f"{shown}: PostgreSQL does not answer ({reason}); start it, or check host and port"
    ) from None


def _raise_of_settings(code: str, reason: str, shown: object) -> None:
    """Raise what another setting of the role, the database or the service mends, if it is that."""
    if code == _READ_ONLY or "during recovery" in reason:
        raise DeniedError(
            f"{shown}: this database is read alone ({reason}), as a standby is, or one with "
            "default_transaction_read_only; changes go to the primary, which "
            "target_session_attrs=read-write finds among several hosts"
        ) from None
    if code == _CANCELED and "statement timeout" in reason:
        raise BusyError(
            f"{shown}: the role's statement_timeout has ended a statement ({reason}); set a longer "
            "one, or 0 for none: ALTER ROLE NAME SET statement_timeout = 0"
        ) from None
    if code == _CANCELED:
        raise BusyError(f"{shown}: somebody has ended a statement ({reason}); try again") from None
    if code == _UNDEFINED and "vector" in reason:
        raise InputError(
            f"{shown}: pgvector's types are not found ({reason}); let an administrator run GRANT "
            "USAGE ON SCHEMA for the schema that has them, which \\dx shows"
        ) from None
    if not code and _SERVICE_TEXT.search(reason):
        raise InputError(
            f"{shown}: the service of PostgreSQL is not there ({reason}); check PGSERVICE, the "
            "address's `service`, and ~/.pg_service.conf or PGSERVICEFILE"
        ) from None


def _line(error: psycopg.Error) -> str:
    """Return the error's own words, the first line of them, without parentheses.

    `PostgresStore.hide_place` knows them by the parentheses in which they stand.
    """
    text = error.diag.message_primary or str(error)
    lines = [line for line in text.splitlines() if line.strip()]
    return " ".join((lines or [type(error).__name__])[0].split()).translate(_BRACKETS)
