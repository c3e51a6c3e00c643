"""The collections of an index: on a server, or in a file of the index's folder.

A folder names its server, and may come from a stranger: only a server that the user has named is
asked, and gets the token.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from rejoinder.errors import BusyError, InputError, MissingExtraError
from rejoinder.patterns import match_pattern
from rejoinder.stores.folder.store import MILVUS
from rejoinder.stores.store import UnreachableError

SERVER = "MILVUS_URI"  # in the environment, as Milvus' own tools have it
EMBEDDED = "milvus"  # in place of an address: the database is a file in the index's folder
DATABASE = "replies.db"  # of milvus-lite
PATIENCE = 10.0  # seconds for a server to answer
MOST_AT_ONCE = 16_384  # rows that Milvus gives
GRAPH = {"index_type": "HNSW", "params": {"M": 32, "efConstruction": 40}}  # as in `ann`
FLAT = {"index_type": "FLAT"}
_PREFIX = match_pattern(r"rejoinder_[0-9a-f]{16}")


class _Place(msgspec.Struct):
    """What a folder says of its collections."""

    address: str
    prefix: str


class Collections:
    """The collections of the index in a folder, whose names have a prefix of their own.

    `address` is what the user has named, if anything; the folder may name it, too.
    """

    def __init__(self, folder: Path, address: str | None) -> None:
        self.folder = folder
        self.asked = address
        self.address = address or EMBEDDED
        self.prefix = f"rejoinder_{secrets.token_hex(8)}"
        self._client: Any = None

    def __reduce__(self) -> tuple[Callable[..., Collections], tuple[Path, str | None]]:
        return _followed, (self.folder, self.asked)

    @property
    def is_embedded(self) -> bool:
        """Return whether they are in a file of the folder."""
        return self.address == EMBEDDED

    @property
    def client(self) -> Any:
        """A client of the database, connected when it is first asked for."""
        if self._client is None:
            self._client = connect(self.folder, self.address)
        return self._client

    def ask(self, what: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of Milvus' client."""
        from pymilvus import MilvusException

        try:
            return getattr(self.client, what)(*arguments, **options)
        except MilvusException as error:
            raise UnreachableError(
                f"{self.folder}: Milvus failed to {what} ({error}); try again"
            ) from None

    def name_of(self, segment: str) -> str:
        """Return the name of a segment's collection."""
        return f"{self.prefix}_{segment.replace('-', '_')}"

    def names(self) -> list[str]:
        """Return the names of all collections."""
        names: list[str] = self.ask("list_collections")
        return [name for name in names if name.startswith(self.prefix)]

    def index(self, collection: str, kind: Mapping[str, Any]) -> None:
        """Make the index of a collection's vectors one of another kind."""
        self.ask("flush", collection)  # a server's graphs are of segments that are written
        self.ask("release_collection", collection)
        self.ask("drop_index", collection, "vector")
        indexes = self.client.prepare_index_params()
        indexes.add_index("vector", metric_type="IP", **kind)
        self.ask("create_index", collection, indexes)
        self.ask("load_collection", collection)

    def to_json(self) -> bytes:
        """Return what the folder says of them."""
        return msgspec.json.encode(_Place(self.address, self.prefix))

    def follow(self) -> None:
        """Take over which collections the folder names, on which server.

        Raises:
            InputError: the user has named another server, or none.
        """
        place = self._read_place()
        if place.address not in (EMBEDDED, self.asked, os.environ.get(SERVER)):
            raise InputError(
                f"{self.folder} says that its replies are on the Milvus server {place.address}; set"
                f" {SERVER} to that address if you trust the server: it gets MILVUS_TOKEN"
            )
        if place.prefix != self.prefix:
            self.address = place.address
            self.prefix = place.prefix
            self._client = None  # of a file that is gone

    def _read_place(self) -> _Place:
        path = self.folder / MILVUS
        try:
            place = msgspec.json.decode(path.read_bytes(), type=_Place)
        except FileNotFoundError:
            raise InputError(f"{self.folder} is no longer in Milvus; open it again") from None
        except msgspec.MsgspecError as error:
            raise InputError(f"{path} is damaged ({error}); copy the folder again") from None
        if not _PREFIX.fullmatch(place.prefix):  # others' collections may begin with it
            raise InputError(f"{path} is damaged (its prefix is not ours); copy the folder again")
        return place

    def drop(self) -> None:
        """Remove all collections of a server."""
        if not self.is_embedded:
            with contextlib.suppress(InputError, OSError):
                for name in self.names():
                    self.ask("drop_collection", name)

    def close(self) -> None:
        """Leave the database; a file is then free for other processes."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if self.is_embedded:
            release(self.folder)


def _followed(folder: Path, address: str | None) -> Collections:
    """Return the collections of an index in a folder, in another process."""
    collections = Collections(folder, address)
    collections.follow()
    return collections


def connect(folder: Path, address: str) -> Any:
    """Connect to Milvus."""
    try:
        from pymilvus import MilvusClient
    except ImportError as error:
        raise MissingExtraError("an index in Milvus", "milvus") from error
    # it writes what it raises to standard error, too
    logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
    uri = str((folder / DATABASE).absolute()) if address == EMBEDDED else address
    try:
        client = MilvusClient(uri, token=os.environ.get("MILVUS_TOKEN", ""), timeout=PATIENCE)
        client.list_collections()
    except Exception as error:
        if address != EMBEDDED:
            raise UnreachableError(
                f"no Milvus server answers at {uri} ({error}); start it, or set MILVUS_TOKEN"
            ) from error
        raise BusyError(
            f"{uri}: another process has it open, or it is damaged; a Milvus server "
            f"(--store http://HOST:19530) admits many ({error})"
        ) from error
    return client


def release(folder: Path) -> None:
    """Let go of the file in a folder, if this process has it open."""
    from milvus_lite.server_manager import server_manager_instance

    server_manager_instance.release_server(str((folder / DATABASE).absolute()))
