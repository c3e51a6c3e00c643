"""An index in Milvus.

The folder keeps the manifest and the small files; each segment is a collection. Milvus has no
transactions and needs none here: what no manifest names is swept away.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from rejoinder.arrays import FloatArray
from rejoinder.errors import InputError
from rejoinder.files import atomic_folder
from rejoinder.progress import Track
from rejoinder.stores.database.candidates import check_method, measured, unmeasured
from rejoinder.stores.folder.store import FOLDER, MILVUS, FolderStore
from rejoinder.stores.manifest import ApproximateRecord, Manifest, Method
from rejoinder.stores.milvus.candidates import MilvusCandidates
from rejoinder.stores.milvus.collections import GRAPH, Collections
from rejoinder.stores.milvus.segments import Collected
from rejoinder.stores.milvus.writer import CollectionWriter
from rejoinder.stores.names import free_name
from rejoinder.stores.scan import Rows
from rejoinder.stores.segments import Segment


class MilvusStore(FolderStore):
    """Keeps the manifest of an index in a folder, and its segments in Milvus.

    Args:
        folder: of the index.
        address: of a server, as http://HOST:19530 (MILVUS_TOKEN in the environment: its token);
            `EMBEDDED`: a file in the folder, which one process at a time can open. None: as the
            folder says, whose server MILVUS_URI in the environment names, too.
    """

    def __init__(self, folder: str | Path, address: str | None = None) -> None:
        super().__init__(folder)
        self.collections = Collections(self.folder, address)
        if address is None:
            self.collections.follow()

    def __reduce__(self) -> tuple[Callable[..., MilvusStore], tuple[Path, str | None]]:
        return _reopened, (self.folder, self.collections.asked)

    def read_manifest(self) -> Manifest:
        """See `FolderStore.read_manifest`; an index that was built again has other collections."""
        manifest = super().read_manifest()
        self.collections.follow()
        return manifest

    def close(self) -> None:
        """Leave the database; a file is then free for other processes."""
        self.collections.close()

    def check(self) -> None:
        """Raise what opening the index would raise now, without reading all of it."""
        present = set(self.collections.names())
        for record in self.read_manifest().segments:
            if self.collections.name_of(record.name) not in present:
                raise InputError(f"{self}: {record.name} is gone; build the index again")

    def open_segment(self, manifest: Manifest, number: int, *, verify: bool) -> Segment:
        """Open a segment; one that is not searched by a graph is read now."""
        segment = Collected(self.collections, manifest, number)
        self.collections.ask("load_collection", segment.collection)
        return segment.opened(manifest, number, verify=verify)

    @contextlib.contextmanager
    def new_segment(self, name: str) -> Iterator[CollectionWriter]:  # type: ignore[override]  # both fulfil `SegmentWriter`
        """Take the content of a segment, whose collection is kept whole or not at all."""
        writer = CollectionWriter(self.collections, self.collections.name_of(name))
        try:
            yield writer
            writer.flush()
        except BaseException:
            with contextlib.suppress(Exception):  # the next sweep does it
                self.collections.ask("drop_collection", writer.collection)
            raise

    def free_name(self, name: str) -> str:
        """Return the name, or that with a number behind, that no segment has."""
        taken = set(self.collections.names())
        return free_name(name, lambda candidate: self.collections.name_of(candidate) in taken)

    def size(self) -> int:
        """Return the number of bytes of the folder, and of what its segments hold on a server."""
        if self.collections.is_embedded:
            return super().size()
        return super().size() + sum(segment.bytes for segment in self.read_manifest().segments)

    def sweep(self, manifest: Manifest) -> None:
        """Remove the files and the collections that a manifest does not name."""
        super().sweep(manifest)
        known = {self.collections.name_of(record.name) for record in manifest.segments}
        for name in self.collections.names():
            if name not in known:
                self.collections.ask("drop_collection", name)

    @contextlib.contextmanager
    def create(self, *, overwrite: bool) -> Iterator[MilvusStore]:
        """Yield an empty store, which takes this one's place at the end."""
        self.check_free(overwrite=overwrite)
        is_in_milvus = (self.folder / MILVUS).is_file()
        old = _reopened(self.folder, self.collections.asked) if is_in_milvus else None
        with atomic_folder(
            self.folder, FOLDER, overwrite=overwrite, seconds=self._patience()
        ) as part:
            new = MilvusStore(part, self.collections.address)
            new.write_file(MILVUS, new.collections.to_json())
            try:
                yield new
            except BaseException:
                new.collections.drop()
                raise
            finally:
                new.close()
            self.close()
            if old is not None:
                old.collections.drop()
        self.collections.prefix = new.collections.prefix

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
                self.collections.index(segment.collection, GRAPH)
                advance(rows.count)
        named = MilvusCandidates(self.collections, unmeasured(count, recall))
        return measured(named, segments, contexts, track)

    def open_candidates(self, record: ApproximateRecord) -> MilvusCandidates:  # type: ignore[override]  # both are a `CandidateSearch`
        """Open the graphs of the database."""
        return MilvusCandidates(self.collections, record)


def _reopened(folder: Path, address: str | None) -> MilvusStore:
    """Return the store of an index in a folder, in another process."""
    store = MilvusStore(folder, address)
    store.collections.follow()
    return store
