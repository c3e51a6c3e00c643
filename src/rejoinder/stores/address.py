"""The store of an index, by its name: a folder, or the address of a database."""

from __future__ import annotations

from pathlib import Path

from rejoinder.stores.folder.store import MILVUS, FolderStore
from rejoinder.stores.store import Store

POSTGRES = ("postgresql:", "postgres:")


def store_of(name: str | Path | Store) -> Store:
    """Return the store of a name; nothing is opened yet.

    Raises:
        InputError: an address of a database names none, or what it needs is not installed.
    """
    if isinstance(name, Store):
        return name
    if isinstance(name, str) and name.startswith(POSTGRES):
        from rejoinder.stores.postgres.store import PostgresStore

        return PostgresStore.at(name)
    if Path(name, MILVUS).is_file():
        from rejoinder.stores.milvus.store import MilvusStore

        return MilvusStore(name)
    return FolderStore(name)
