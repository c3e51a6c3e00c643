"""An index in Milvus: milvus-lite's file in its folder, or the collections of a server.

The folder keeps the manifest and the small files; each segment is a collection. Milvus has no
transactions and needs none here: what no manifest names is swept away.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import logging
import math
import os
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.errors import BusyError, InputError, MissingExtraError
from rejoinder.files import atomic_folder
from rejoinder.progress import Track
from rejoinder.stores.database.candidates import (
    DatabaseCandidates,
    GraphQuestion,
    check_method,
    left_out,
    measured,
    unmeasured,
)
from rejoinder.stores.database.content import Content
from rejoinder.stores.database.segment import DatabaseSegment, StoredRow
from rejoinder.stores.folder.store import FOLDER, MILVUS, FolderStore
from rejoinder.stores.manifest import REPLIES, ApproximateRecord, Manifest, Method
from rejoinder.stores.names import free_name
from rejoinder.stores.scan import Rows
from rejoinder.stores.segments import Line, Segment, value_texts
from rejoinder.stores.store import UnreachableError

EMBEDDED = "milvus"  # in place of an address: the database is a file in the index's folder
DATABASE = "replies.db"  # of milvus-lite
PATIENCE = 10.0  # seconds for a server to answer
LONGEST = 65_535  # bytes of a reply with its payload
_MOST_TOKENS = 4096  # of a reply's fields and values
_TOKEN_BYTES = 32
_AT_ONCE = 1000  # rows
_MOST_AT_ONCE = 16_384  # that Milvus gives
_LEAST_SIZE = 2  # of a vector, of a collection without replies
_PAGE_BYTES = 16 << 20
_decode = msgspec.json.Decoder(Line).decode


class MilvusStore(FolderStore):
    """Keeps the manifest of an index in a folder, and its segments in Milvus.

    Args:
        folder: of the index.
        address: of a server, as http://HOST:19530 (MILVUS_TOKEN in the environment: its token);
            `EMBEDDED`: a file in the folder, which one process at a time can open. None: as the
            folder says.
    """

    def __init__(self, folder: str | Path, address: str | None = None) -> None:
        super().__init__(folder)
        self.address = address or EMBEDDED
        self.prefix = f"rejoinder_{secrets.token_hex(8)}"
        self._client: Any = None
        if address is None:
            self._follow()

    def __reduce__(self) -> tuple[type[MilvusStore], tuple[Path]]:
        return type(self), (self.folder,)

    @property
    def client(self) -> Any:
        """A client of the database, connected when it is first asked for."""
        if self._client is None:
            self._client = _connect(self.folder, self.address)
        return self._client

    def read_manifest(self) -> Manifest:
        """See `FolderStore.read_manifest`; an index that was built again has other collections."""
        manifest = super().read_manifest()
        self._follow()
        return manifest

    def _follow(self) -> None:
        """Take over which collections the folder names, on which server."""
        try:
            content = (self.folder / MILVUS).read_bytes()
        except FileNotFoundError:
            raise InputError(f"{self.folder} is no longer in Milvus; open it again") from None
        known = msgspec.json.decode(content, type=dict[str, str])
        if known["prefix"] != self.prefix:
            self.address = known["address"]
            self.prefix = known["prefix"]
            self._client = None  # of a file that is gone

    def close(self) -> None:
        """Leave the database; a file is then free for other processes."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if self.address == EMBEDDED:
            _release(self.folder)

    def collection(self, segment: str) -> str:
        """Return the name of a segment's collection."""
        return f"{self.prefix}_{segment.replace('-', '_')}"

    def ask(self, what: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of Milvus' client."""
        from pymilvus import MilvusException

        try:
            return getattr(self.client, what)(*arguments, **options)
        except MilvusException as error:
            raise UnreachableError(
                f"{self}: Milvus failed to {what} ({error}); try again"
            ) from None

    def check(self) -> None:
        """Raise what opening the index would raise now, without reading all of it."""
        present = set(self._collections())
        for record in self.read_manifest().segments:
            if self.collection(record.name) not in present:
                raise InputError(f"{self}: {record.name} is gone; build the index again")

    def open_segment(self, manifest: Manifest, number: int, *, verify: bool) -> Segment:
        """Open a segment; one that is not searched by a graph is read now."""
        segment = Collected(self, manifest, number)
        self.ask("load_collection", segment.collection)
        return segment.opened(manifest, number, verify=verify)

    @contextlib.contextmanager
    def new_segment(self, name: str) -> Iterator[CollectionWriter]:  # type: ignore[override]  # both fulfil `SegmentWriter`
        """Take the content of a segment, whose collection is kept whole or not at all."""
        writer = CollectionWriter(self, self.collection(name))
        try:
            yield writer
            writer.flush()
        except BaseException:
            with contextlib.suppress(Exception):  # the next sweep does it
                self.ask("drop_collection", writer.collection)
            raise

    def free_name(self, name: str) -> str:
        """Return the name, or that with a number behind, that no segment has."""
        taken = set(self._collections())
        return free_name(name, lambda candidate: self.collection(candidate) in taken)

    def _collections(self) -> list[str]:
        names: list[str] = self.ask("list_collections")
        return [name for name in names if name.startswith(self.prefix)]

    def size(self) -> int:
        """Return the number of bytes of the folder, and of what its segments hold on a server."""
        if self.address == EMBEDDED:
            return super().size()
        return super().size() + sum(segment.bytes for segment in self.read_manifest().segments)

    def sweep(self, manifest: Manifest) -> None:
        """Remove the files and the collections that a manifest does not name."""
        super().sweep(manifest)
        known = {self.collection(record.name) for record in manifest.segments}
        for name in self._collections():
            if name not in known:
                self.ask("drop_collection", name)

    @contextlib.contextmanager
    def create(self, *, overwrite: bool) -> Iterator[MilvusStore]:
        """Yield an empty store, which takes this one's place at the end."""
        self.check_free(overwrite=overwrite)
        old = MilvusStore(self.folder) if (self.folder / MILVUS).is_file() else None
        with atomic_folder(self.folder, FOLDER, overwrite=overwrite) as part:
            new = MilvusStore(part, self.address)
            content = {"address": new.address, "prefix": new.prefix}
            new.write_file(MILVUS, msgspec.json.encode(content))
            try:
                yield new
            except BaseException:
                new.drop()
                raise
            finally:
                new.close()
            self.close()
            if old is not None and old.address != EMBEDDED:
                old.drop()
        self.prefix = new.prefix

    def drop(self) -> None:
        """Remove all collections of a server."""
        if self.address != EMBEDDED:
            with contextlib.suppress(InputError, OSError):
                for name in self._collections():
                    self.ask("drop_collection", name)

    def check_candidates(self) -> None:
        """Do nothing: Milvus makes the graphs, which takes no other extra."""

    def build_candidates(
        self,
        segments: Sequence[Rows],
        contexts: Sequence[FloatArray],
        recall: float,
        method: Method | None,
        track: Track,
    ) -> ApproximateRecord:
        """Make graphs (HNSW) in Milvus; see `Index.approximate`."""
        check_method(self, method)
        count = sum(rows.count for rows in segments)
        with track("Building", count, "replies") as advance:
            for rows in segments:
                segment = rows.source
                assert isinstance(segment, Collected)
                self._index(segment.collection, _GRAPH)
                advance(rows.count)
        named = MilvusCandidates(self, unmeasured(count, recall))
        return measured(named, segments, contexts, track)

    def _index(self, collection: str, kind: Mapping[str, Any]) -> None:
        self.ask("flush", collection)  # a server's graphs are of segments that are written
        self.ask("release_collection", collection)
        self.ask("drop_index", collection, "vector")
        indexes = self.client.prepare_index_params()
        indexes.add_index("vector", metric_type="IP", **kind)
        self.ask("create_index", collection, indexes)
        self.ask("load_collection", collection)

    def open_candidates(self, record: ApproximateRecord) -> MilvusCandidates:  # type: ignore[override]  # both are a `CandidateSearch`
        """Open the graphs of the database."""
        return MilvusCandidates(self, record)


_GRAPH = {"index_type": "HNSW", "params": {"M": 32, "efConstruction": 40}}  # as in `ann`
_FLAT = {"index_type": "FLAT"}


class Collected(DatabaseSegment):
    """An open segment in a collection."""

    def __init__(self, store: MilvusStore, manifest: Manifest, number: int) -> None:
        super().__init__(manifest, number, store)
        self.store = store

    @property
    def collection(self) -> str:
        """The name of its collection."""
        return self.store.collection(self.record.name)

    def rows_from(self, found: Sequence[Mapping[str, Any]]) -> dict[int, StoredRow]:
        """Return rows of what a query gave."""
        rows = {}
        for entity in found:
            vector = np.asarray(entity["vector"], np.float32)
            own = _from_text(entity["response"]) if self.has_responses else vector
            rows[int(entity["row"])] = StoredRow(entity["line"].encode(), vector, own)
        return rows

    @property
    def columns(self) -> list[str]:
        """The fields of a row."""
        return ["row", "line", "vector", *(["response"] if self.has_responses else [])]

    def _read_lines(self) -> list[bytes]:
        """Read what is stored of all replies."""
        size = self.record.files[REPLIES][0]
        return [line.encode() for line in self._column("line", size)]

    def _read_vectors(self, *, of_texts: bool) -> FloatArray:
        """Read the vectors of all replies, (n, d), or the encodings of their texts."""
        size = 4 * self.size * self.record.count
        rows = (
            [*map(_from_text, self._column("response", size))]
            if of_texts
            else self._column("vector", size)
        )
        return np.array(rows, dtype=np.float32).reshape(-1, self.size)

    def _column(self, name: str, size: int) -> list[Any]:
        """Read a column of all rows, of so many bytes together, in few pages: each costs a scan."""
        page = _PAGE_BYTES * self.record.count // max(1, size)
        options: dict[str, Any] = {
            "output_fields": ["row", name],
            "batch_size": min(max(page, _AT_ONCE), _MOST_AT_ONCE),
        }
        values: dict[int, Any] = {}
        pages = self.store.ask("query_iterator", self.collection, filter="row >= 0", **options)
        with contextlib.closing(pages):
            while some := pages.next():
                values.update((entity["row"], entity[name]) for entity in some)
        return [values[row] for row in sorted(values)]

    def _fetch(self, rows: Sequence[int]) -> dict[int, StoredRow]:
        """Read some rows."""
        entities = self.store.ask("get", self.collection, list(rows), output_fields=self.columns)
        return self.rows_from(entities)

    def _find_having(self, name: str, wanted: Collection[str]) -> list[int] | None:
        """Return the rows with one of the texts in a field; None: no row has the field."""
        if not self._count(condition([_token(name)])):
            return None
        having = condition([_token(name, text) for text in wanted])
        options: dict[str, Any] = {"output_fields": ["row"], "batch_size": _AT_ONCE}
        pages = self.store.ask("query_iterator", self.collection, filter=having, **options)
        rows: list[int] = []
        with contextlib.closing(pages):
            while some := pages.next():
                rows += [entity["row"] for entity in some]
        return rows

    def _count(self, what: str) -> int:
        [row] = self.store.ask("query", self.collection, filter=what, output_fields=["count(*)"])
        return int(row["count(*)"])


class CollectionWriter:
    """Takes the replies of a new segment; fulfils `store.SegmentWriter`."""

    def __init__(self, store: MilvusStore, collection: str) -> None:
        self.collection = collection
        self._store = store
        self._content = Content()

    def write(
        self, lines: Sequence[bytes], vectors: FloatArray, responses: FloatArray | None
    ) -> None:
        """Add replies as they are stored, their vectors, (n, d), and their texts' encodings."""
        first = self._content.rows
        if not first:
            self._create(vectors.shape[1], with_responses=responses is not None)
        rows = [_row(first + i, line) for i, line in enumerate(lines)]
        for i, row in enumerate(rows):
            row["vector"] = vectors[i]
            if responses is not None:
                row["response"] = _to_text(responses[i])
        self._store.ask("insert", self.collection, rows)
        self._content.add(lines, vectors, responses)

    def files(self) -> dict[str, tuple[int, str]]:
        """Return the size and the SHA-256 of each part of the content, as of files in a folder."""
        return self._content.files()

    def flush(self) -> None:
        """Let what was written survive a crash; nothing is a collection, too.

        A server keeps what it has acknowledged in a log, and needs seconds to write a segment.
        """
        if not self._content.rows:
            self._create(_LEAST_SIZE, with_responses=True)
        if self._store.address == EMBEDDED:
            self._store.ask("flush", self.collection)

    def _create(self, size: int, *, with_responses: bool) -> None:
        from pymilvus import DataType

        client = self._store.client
        schema = client.create_schema(auto_id=False)
        schema.add_field("row", DataType.INT64, is_primary=True)
        schema.add_field("line", DataType.VARCHAR, max_length=LONGEST)
        schema.add_field(
            "fields",
            DataType.ARRAY,
            element_type=DataType.VARCHAR,
            max_capacity=_MOST_TOKENS,
            max_length=_TOKEN_BYTES,
        )
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=size)
        if with_responses:  # nothing is searched for by these
            schema.add_field("response", DataType.VARCHAR, max_length=LONGEST)
        indexes = client.prepare_index_params()
        indexes.add_index("vector", metric_type="IP", **_FLAT)
        options = {"schema": schema, "index_params": indexes, "consistency_level": "Strong"}
        self._store.ask("create_collection", self.collection, **options)


class MilvusCandidates(DatabaseCandidates):
    """Searches by the graphs of an index's collections; the effort is Milvus' `ef`."""

    most_effort = _MOST_AT_ONCE

    def __init__(self, store: MilvusStore, record: ApproximateRecord) -> None:
        super().__init__(record)
        self.store = store

    def check(self, *, content: bool) -> None:
        """A collection that is loaded has its graph."""

    def _ask(
        self, questions: Sequence[GraphQuestion], effort: int
    ) -> list[Mapping[int, StoredRow]]:
        """Return the rows that answer each question, found with a search effort."""
        return [self._answer(question, effort) for question in questions]

    def _answer(self, question: GraphQuestion, effort: int) -> Mapping[int, StoredRow]:
        rows = question.rows
        segment = question.segment
        assert isinstance(segment, Collected)
        if question.count > self.most_effort:
            raise InputError(
                f"{question.count} candidates are asked for; Milvus finds {self.most_effort:,} at"
                " most"
            )
        conditions = [
            condition([_token(field, text) for text in texts])
            for field, texts in rows.conditions or ()
        ]
        if len(gone := left_out(rows)):
            conditions.append(f"row not in {gone.tolist()}")
        # A filter leaves most of what is in sight out.
        wanted = math.ceil(max(effort, question.count) * rows.count / max(1, rows.present))
        [hits] = self.store.ask(
            "search",
            segment.collection,
            question.vector[None],
            anns_field="vector",
            limit=question.count,
            filter=" and ".join(conditions),
            output_fields=segment.columns,
            search_params={"params": {"ef": min(wanted, self.most_effort)}},
        )
        return segment.rows_from([hit["entity"] | {"row": hit["row"]} for hit in hits])


def condition(tokens: Sequence[str]) -> str:
    """Return the condition that one of the tokens is there; of no tokens, none is."""
    return f"array_contains_any(fields, {json.dumps(tokens or ['-'])})"


def _row(row: int, line: bytes) -> dict[str, Any]:
    payload = _decode(line).payload
    tokens = {_token(name) for name in payload}
    tokens |= {_token(name, text) for name, value in payload.items() for text in value_texts(value)}
    if len(line) > LONGEST or len(tokens) > _MOST_TOKENS:
        raise InputError(
            f"a reply has {len(line):,} bytes with its payload, and {len(tokens):,} fields and "
            f"values; Milvus holds {LONGEST:,} bytes, and {_MOST_TOKENS:,} of those: "
            f"{line[:60].decode(errors='replace')}"
        )
    return {"row": row, "line": line.decode(), "fields": sorted(tokens)}


def _to_text(vector: FloatArray) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")


def _from_text(text: str) -> FloatArray:
    return np.frombuffer(base64.b64decode(text), "<f4")


def _token(*name_and_text: str) -> str:
    """Return hexadecimal digits that stand for a field, or for its value, in a condition."""
    content = json.dumps(name_and_text).encode()
    return hashlib.blake2b(content, digest_size=_TOKEN_BYTES // 2).hexdigest()


def _connect(folder: Path, address: str) -> Any:
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


def _release(folder: Path) -> None:
    """Let go of the file in a folder, if this process has it open."""
    from milvus_lite.server_manager import server_manager_instance

    server_manager_instance.release_server(str((folder / DATABASE).absolute()))
