"""The store of an index, by its name: a folder, or the address of a database."""

from __future__ import annotations

import os
from pathlib import Path

from rejoinder.errors import InputError
from rejoinder.patterns import match_pattern
from rejoinder.stores.folder.store import MILVUS, FolderStore
from rejoinder.stores.store import Store

_POSTGRES = ("postgresql", "postgres")
_FORMS = "a folder, or postgresql://HOST/DB?index=NAME"
# `Path` leaves one slash; one letter is a drive of Windows
_SCHEME = match_pattern("([A-Za-z][A-Za-z0-9+.-]+):(/?)")


def is_address(name: str | Path) -> bool:
    """Return whether a name is an address of PostgreSQL; otherwise it is that of a folder.

    Raises:
        InputError: it is the address of something else, which may hold a password.
    """
    match = _SCHEME.match(str(name))
    if match is None:
        return False
    scheme, slash = match.groups()
    if isinstance(name, str) and scheme.lower() in _POSTGRES:
        return True
    if slash and not os.path.exists(name):  # noqa: PTH110 (which refuses no long name)
        raise InputError(f"{scheme}:// is not the scheme of an index's address; give {_FORMS}")
    return False


def store_of(name: str | Path | Store) -> Store:
    """Return the store of a name; nothing is opened yet.

    Raises:
        InputError: an address names no index in PostgreSQL, or what it needs is not installed.
    """
    if isinstance(name, Store):
        return name
    if is_address(name):
        from rejoinder.stores.postgres.store import PostgresStore

        return PostgresStore.at(str(name))
    if Path(name, MILVUS).is_file():
        from rejoinder.stores.milvus.store import MilvusStore

        return MilvusStore(name)
    return FolderStore(name)
