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
_BUSY = ("40001", "40P01", "55P03", "57014", "23505")
"""serialization_failure, deadlock_detected, lock_not_available, query_canceled, unique_violation"""
_GONE = ("3F000", "42P01")  # schema, table
_DENIED = "42501"
_REFUSING = ("22", "54")  # classes of errors of data, and of limits
_NO_DATABASE = "3D000"  # invalid_catalog_name
# psycopg gives an error of connecting no code
_NO_DATABASE_TEXT = search_pattern('database "[^"]*" does not exist')
_REFUSED_TEXT = search_pattern(
    'password|role "[^"]*" (?:does not exist|is not permitted)|authentication failed|pg_hba.conf'
)
_BRACKETS = str.maketrans("()", "[]")
_CROWDED_TEXT = search_pattern("too many (?:clients|connections)|connection slots")


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
    if code == _DENIED:
        raise DeniedError(
            f"{shown}: this role may not do that ({reason}); take a role that owns the index; "
            "one that searches needs SELECT on all its tables"
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
        raise InputError(
            f"{shown}: there is no such database ({reason}); create it, or check its name"
        ) from None
    if _CROWDED_TEXT.search(reason):
        raise UnreachableError(
            f"{shown}: PostgreSQL takes no more connections ({reason}); end some, or raise "
            "max_connections"
        ) from None
    if code.startswith(_REFUSING):
        raise InputError(f"{shown}: PostgreSQL refuses it ({reason}), code {code}") from None
    raise UnreachableError(
        f"{shown}: PostgreSQL does not answer ({reason}); start it, or check host and port"
    ) from None


def _line(error: psycopg.Error) -> str:
    """Return the error's own words, the first line of them, without parentheses.

    `PostgresStore.hide_place` knows them by the parentheses in which they stand.
    """
    text = error.diag.message_primary or str(error)
    lines = [line for line in text.splitlines() if line.strip()]
    return " ".join((lines or [type(error).__name__])[0].split()).translate(_BRACKETS)
