"""An index whose replies are in Milvus: milvus-lite's file in its folder, or a server's collection.

The folder keeps the manifest: the model, where the replies are, the next position, and a digest of
all that was added and deleted, in this order. Milvus names candidates by its graph (HNSW); they are
scored from the exact vectors as everywhere. An `add` writes to Milvus first and then replaces the
manifest: rows from its end on are of one that was not finished, which no search finds and the next
change removes. Deleted positions are in the manifest until their rows are gone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.conversations import check_count
from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.protocol import DualEncoder, has_unit_vectors
from rejoinder.encoders.words.keywords import WordIndex
from rejoinder.engine import Engine
from rejoinder.errors import BusyError, InputError, MissingExtraError, RejoinderError, shown
from rejoinder.progress import Advance, silent
from rejoinder.retrieval.encoding.batches import encoded_batches
from rejoinder.retrieval.encoding.head import fit_replies, needs_head, write_head
from rejoinder.retrieval.encoding.scoring import read_head
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.options import Where
from rejoinder.retrieval.reader import open_segments
from rejoinder.retrieval.replies import Reply
from rejoinder.retrieval.search import Searcher
from rejoinder.stores.ann import CANDIDATES, EF_CONSTRUCTION, LINKS
from rejoinder.stores.manifest import (
    DATABASE,
    Manifest,
    Positions,
    StoreRecord,
    check_encoder,
    new_folder,
    read_manifest,
    read_runs,
    write_runs,
)
from rejoinder.stores.scan import Flags, Found, exact_scores
from rejoinder.stores.segments import Line, texts_of, value_texts

EMBEDDED = "milvus"  # in place of an address: the database is a file in the index's folder
LEAST_EFFORT = 2048  # of a search in the graph (ef): nearly all find the ten best of 100,000
MOST_FOUND = 16_384  # Milvus gives no more
PATIENCE = 10.0  # seconds for a server to answer
LONGEST = 65_535  # bytes of a reply with its payload, and of the tokens of its fields
_decode = msgspec.json.Decoder(Line).decode


def open_index(
    folder: str | Path, encoder: DualEncoder | None = None, *, verify: bool | None = None
) -> Index | Store:
    """Open an index, wherever its replies are; see `Index.open`."""
    folder = Path(folder)
    manifest, segments = open_segments(folder, encoder, verify)
    if manifest.store is None:
        return Index(folder, manifest, segments, encoder)
    return Store(folder, manifest, encoder)


class Store(Searcher):
    """Encoded replies in Milvus, searched, added and deleted as those of `Index` are."""

    def __init__(self, folder: Path, manifest: Manifest, encoder: DualEncoder | None) -> None:
        self.folder = folder
        self.manifest = manifest
        self.encoder = encoder
        self._client = _connect(folder, self.record)

    @classmethod
    def build(
        cls,
        encoder: DualEncoder,
        replies: Iterable[str | Candidate],
        folder: str | Path,
        address: str = EMBEDDED,
        *,
        batch: int = 1024,
        overwrite: bool = False,
        as_written: bool = False,
        progress: Advance | None = None,
        engine: Engine | None = None,
    ) -> Self:
        """Encode replies into Milvus, all or none, as an index in `folder`. See `Index.build`.

        `address` is that of a server, as http://HOST:19530 (MILVUS_TOKEN in the environment: its
        token); `EMBEDDED`: a file in `folder`, which one process at a time can open.
        """
        folder = Path(folder)
        collection = f"rejoinder_{secrets.token_hex(8)}"
        record = StoreRecord("" if address == EMBEDDED else address, collection)
        encoder = check_encoder(encoder)
        with new_folder(encoder, folder, overwrite=overwrite, plain=not as_written) as (new, part):
            old = read_manifest(folder).store if folder.exists() and any(folder.iterdir()) else None
            manifest = replace(new, store=record)
            manifest.write(part)
            made = cls(part, manifest, encoder)
            try:
                examples = made._extend(replies, batch, progress, engine)
                if needs_head(examples, (reply for _, reply in made), encoder):
                    made._fit(batch)
                if made.manifest.size:
                    made._ask("flush")
            except BaseException:
                if record.address:
                    made._ask("drop_collection")
                raise
            finally:
                made.close()
        _release(folder)  # of what stood there before
        if old is not None and old.address:
            _connect(folder, old).drop_collection(old.collection)
        return cls.open(folder, encoder)

    @classmethod
    def open(cls, folder: str | Path, encoder: DualEncoder | None = None) -> Self:
        """Open an index whose replies are in Milvus.

        Raises:
            InputError: there is no such index, or it is of another model; the server is silent.
            BusyError: another process has the file open.
        """
        manifest, _ = open_segments(Path(folder), encoder, verify=None)
        return cls(Path(folder), manifest, encoder)

    @property
    def record(self) -> StoreRecord:
        """Location and validity of the replies."""
        assert self.manifest.store is not None
        return self.manifest.store

    def close(self) -> None:
        """Leave the database; a file is then free for other processes."""
        self._client.close()
        if not self.record.address:
            _release(self.folder)

    def refresh(self) -> bool:
        """Take over what others have changed since; return whether they have."""
        manifest = read_manifest(self.folder)
        if manifest.store is None or manifest.store.collection != self.record.collection:
            raise InputError(f"{self.folder} was built again; open it again")
        changed = manifest != self.manifest
        self.manifest = manifest
        return changed

    def __len__(self) -> int:
        return self.record.count

    def candidates(self, first: int = 0) -> Iterator[tuple[int, Candidate]]:
        """Yield positions, from `first` on, and their replies."""
        check_count("first", first, 0)
        if self.manifest.size:
            for row in self._rows(f"position >= {first} and {self._there()}", "line"):
                yield row["position"], _decode(row["line"]).candidate()

    def facts(self) -> Mapping[str, object]:
        """Return what the index is shown by."""
        address = self.record.address or str(self.folder / DATABASE)
        model = self.manifest.model.name or self.manifest.model.fingerprint[:12]
        return {"folder": str(self.folder), "milvus": address, "replies": len(self), "model": model}

    def count(self, where: Where | None = None) -> int:
        """Return how many replies a search can find."""
        return self._count(self._filter(where).condition)

    def add(
        self,
        replies: Iterable[str | Candidate],
        *,
        batch: int = 1024,
        progress: Advance | None = None,
        engine: Engine | None = None,
    ) -> range:
        """Add replies, all or none; return their positions. See `Index.add`."""
        self._model()
        with self._write_lock():
            self._sweep()
            first = self.record.end
            self._extend(replies, batch, progress, engine)
            return range(first, self.record.end)

    def delete(self, positions: Iterable[int]) -> int:
        """Delete replies by their positions, all or none; return how many. See `Index.delete`."""
        chosen = sorted(set(positions))
        for position in chosen:
            check_count("a position", position, 0)
        with self._write_lock():
            self._sweep()
            for start in range(0, len(chosen), 1000):
                some = chosen[start : start + 1000]
                found = {row["position"] for row in self._ask("get", some, ["position"])}
                if missing := [position for position in some if position not in found]:
                    raise InputError(
                        f"{self.folder} has no reply {missing[0]}, or it was deleted before"
                    )
            if chosen:
                content = f"{self.record.digest} without {chosen}"
                digest = hashlib.sha256(content.encode()).hexdigest()
                record = replace(self.record, count=self.record.count - len(chosen), digest=digest)
                deleted = write_runs(np.array(chosen))
                self._write(replace(self.manifest, store=record, deleted=deleted))
                self._sweep()
        return len(chosen)

    def _extend(
        self,
        replies: Iterable[str | Candidate],
        batch: int,
        progress: Advance | None,
        engine: Engine | None,
    ) -> int:
        """Encode and insert replies; return how many titles and examples they have."""
        encoder = self._model()
        head = None if self.manifest.head is None else read_head(self.folder, self.manifest.head)
        examples = 0
        record = self.record
        size = self.manifest.size
        digest = hashlib.sha256(record.digest.encode())
        for encoded in encoded_batches(
            replies, record.end, encoder, batch, engine, head, plain=self.manifest.plain
        ):
            checked = encoded.checked(record.end, size, unit=has_unit_vectors(encoder))
            vectors = checked.vectors
            examples += checked.examples
            if not size:
                size = vectors.shape[1]
                self._create(size)
            rows = [_row(record.end + i, line, vectors[i]) for i, line in enumerate(checked.lines)]
            self._ask("insert", rows)
            digest.update(b"".join(checked.lines))
            digest.update(vectors.astype("<f4").tobytes())
            record = replace(record, end=record.end + len(rows), count=record.count + len(rows))
            (progress or silent)(len(rows))
        if record.end > self.record.end:
            record = replace(record, digest=digest.hexdigest())
            self._write(replace(self.manifest, size=size, store=record))
        return examples

    def _fit(self, batch: int) -> None:
        """Fit the head to all replies, which are just inserted, and score them by it."""
        rows = sorted(self._rows(self._there(), "line", "vector"), key=lambda row: row["position"])
        candidates = [_decode(row["line"]).candidate() for row in rows]
        responses = np.array([row["vector"] for row in rows], dtype=np.float32)
        plain = self.manifest.plain
        head, weights, held_out = fit_replies(self._model(), candidates, responses, plain=plain)
        vectors = head.vectors(weights, responses)
        values = [
            _row(row["position"], row["line"].encode(), vector)
            for row, vector in zip(rows, vectors, strict=True)
        ]
        for start in range(0, len(values), batch):
            self._ask("upsert", values[start : start + batch])
        record = write_head(self.folder, head, held_out, self.record.end)
        digest = hashlib.sha256(f"{self.record.digest} {record.digest}".encode()).hexdigest()
        self._write(replace(self.manifest, store=replace(self.record, digest=digest), head=record))

    def _create(self, size: int) -> None:
        from pymilvus import DataType

        if self._ask("has_collection"):  # of an addition that was not finished
            self._ask("drop_collection")
        schema = self._client.create_schema(auto_id=False)
        schema.add_field("position", DataType.INT64, is_primary=True)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=size)
        schema.add_field("line", DataType.VARCHAR, max_length=LONGEST)
        schema.add_field("fields", DataType.VARCHAR, max_length=LONGEST)
        indexes = self._client.prepare_index_params()
        graph = {"M": LINKS, "efConstruction": EF_CONSTRUCTION}
        indexes.add_index("vector", index_type="HNSW", metric_type="IP", params=graph)
        options = {"schema": schema, "index_params": indexes, "consistency_level": "Strong"}
        self._ask("create_collection", **options)

    def _filter(self, where: Where | None) -> FilteredStore:
        conditions = [self._there()]
        if callable(where):
            raise InputError(
                f"{self.folder}: Milvus filters by fields and their values, not by a function"
            )
        if not isinstance(where, Mapping | None):
            raise InputError(f"where is {shown(where)}; it is a mapping of fields to values")
        for name, value in (where or {}).items():
            if not self._count(_contains([_token(name)])):
                raise InputError(f"{self.folder}: no reply has a field {name!r}")
            tokens = [_token(name, text) for text in sorted(texts_of(name, value))]
            conditions.append(_contains(tokens))
        return FilteredStore(self, " and ".join(conditions))

    def _there(self) -> str:
        """Return the condition that a row is one of this index."""
        gone = read_runs(self.manifest.deleted).tolist()
        return f"position < {self.record.end}" + (f" and position not in {gone}" if gone else "")

    def _rows(self, condition: str, *fields: str) -> Iterator[dict[str, Any]]:
        """Yield the positions and some fields of rows."""
        options = {"filter": condition, "output_fields": ["position", *fields]}
        with contextlib.closing(self._ask("query_iterator", batch_size=1000, **options)) as rows:
            while some := rows.next():
                yield from some

    def _count(self, condition: str) -> int:
        if not self.manifest.size:
            return 0
        [row] = self._ask("query", filter=condition, output_fields=["count(*)"])
        return int(row["count(*)"])

    def _sweep(self) -> None:
        """Remove the rows of what was deleted, and those of additions that were not finished."""
        if not self.manifest.size:
            return
        if gone := read_runs(self.manifest.deleted).tolist():
            self._ask("delete", ids=gone)
        self._ask("delete", filter=f"position >= {self.record.end}")
        if self.manifest.deleted:
            self._write(replace(self.manifest, deleted=""))

    def _ask(self, what: str, *given: Any, **options: Any) -> Any:
        """Call a method of Milvus' client for the collection."""
        from pymilvus import MilvusException

        try:
            return getattr(self._client, what)(self.record.collection, *given, **options)
        except MilvusException as error:
            raise RejoinderError(
                f"{self.folder}: Milvus failed to {what} ({error}); try again"
            ) from error

    def _write(self, manifest: Manifest) -> None:
        manifest.write(self.folder)
        self.manifest = manifest


@dataclass
class FilteredStore:
    """Rows in Milvus that pass a filter; fulfils `replies.FilteredIndex`."""

    store: Store
    condition: str
    hits: dict[int, tuple[str, FloatArray]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number that no search exceeds."""
        return len(self.store)

    def candidates(self, contexts: Sequence[FloatArray], k: int, minimum: float) -> Found:
        """Return the best k of each context among those that Milvus names."""
        if k > MOST_FOUND:
            raise InputError(f"{k} replies are asked for; Milvus finds {MOST_FOUND:,} at most")
        wanted = min(math.ceil(CANDIDATES * k), MOST_FOUND)
        options: dict[str, Any] = {"output_fields": ["line", "vector"], "filter": self.condition}
        options["search_params"] = {"params": {"ef": max(2 * wanted, LEAST_EFFORT)}}
        queries = iter(self.store._ask("search", np.concatenate(contexts), limit=wanted, **options))
        found: Found = []
        for context in contexts:
            rows = {hit["position"]: hit["entity"] for _ in context for hit in next(queries)}
            for position, row in rows.items():
                self.hits[position] = row["line"], np.asarray(row["vector"], np.float32)
            numbers = np.array(sorted(rows), dtype=np.int64)
            scores = exact_scores(context, self.vectors(numbers))
            order = np.lexsort((numbers, -scores))[:k]
            order = order[scores[order] >= minimum]
            found.append((numbers[order], scores[order]))
        return found

    def vectors(self, numbers: Positions) -> FloatArray:
        """Return the vectors of candidates: (n, d)."""
        rows = [self.hits[number][1] for number in numbers.tolist()]
        return np.stack(rows) if rows else np.zeros((0, self.store.manifest.size), np.float32)

    responses = vectors  # near-duplicates are told by the same vectors

    def reply(self, number: int, score: float) -> Reply:
        """Return a candidate with its score."""
        candidate = _decode(self.hits[number][0]).candidate()
        return Reply.of(candidate, score, number)

    def words(self) -> tuple[WordIndex, Flags]:
        """Refuse what would read all replies."""
        raise InputError(
            f"{self.store.folder}: hybrid search reads all replies, which are in Milvus here; "
            "take an index on disk"
        )


def _connect(folder: Path, record: StoreRecord) -> Any:
    """Connect to Milvus, and load the collection of an index."""
    try:
        from pymilvus import MilvusClient
    except ImportError as error:
        raise MissingExtraError("an index in Milvus", "milvus") from error
    # it writes what it raises to standard error, too
    logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
    place = record.address or str((folder / DATABASE).absolute())
    try:
        client = MilvusClient(place, token=os.environ.get("MILVUS_TOKEN", ""), timeout=PATIENCE)
        if client.has_collection(record.collection):
            client.load_collection(record.collection)
    except Exception as error:
        if record.address:
            raise InputError(
                f"no Milvus server answers at {place} ({error}); start it, or set MILVUS_TOKEN"
            ) from error
        raise BusyError(
            f"{place}: another process has it open, or it is damaged; a Milvus server "
            f"(--store http://HOST:19530) admits many ({error})"
        ) from error
    return client


def _release(folder: Path) -> None:
    """Let go of the file in a folder, if this process has it open."""
    from milvus_lite.server_manager import server_manager_instance

    server_manager_instance.release_server(str((folder / DATABASE).absolute()))


def _row(position: int, line: bytes, vector: FloatArray) -> dict[str, Any]:
    payload = _decode(line).payload
    tokens = {_token(name) for name in payload}
    tokens |= {_token(name, text) for name, value in payload.items() for text in value_texts(value)}
    fields = " ".join(sorted(tokens))
    if max(len(line), len(fields)) > LONGEST:
        raise InputError(
            f"reply {position} has {len(line):,} bytes with its payload, and {len(tokens):,} "
            f"fields and values; Milvus holds {LONGEST:,} bytes, and {LONGEST // 33:,} of those"
        )
    return {"position": position, "vector": vector, "line": line.decode(), "fields": fields}


def _token(*name_and_text: str) -> str:
    """Return 32 hexadecimal digits that stand for a field, or for its value, in a condition."""
    return hashlib.blake2b(json.dumps(name_and_text).encode(), digest_size=16).hexdigest()


def _contains(tokens: Sequence[str]) -> str:
    """Return the condition that one of the tokens is there."""
    return "(" + " or ".join(f'fields like "%{token}%"' for token in tokens or ["-"]) + ")"
