"""From replies to a segment: what an index asks of a model, and how replies are encoded and written."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from rejoinder.corpora.engine import Engine
from rejoinder.errors import InputError
from rejoinder.progress import Advance
from rejoinder.ranker import Context, ContextVectors, FloatArray
from rejoinder.retrieval.candidates import Candidate
from rejoinder.retrieval.codes import Dtype, check_rows
from rejoinder.retrieval.manifest import ModelRecord, SegmentRecord
from rejoinder.retrieval.segments import SegmentWriter, to_line


class ResponseEncoder(Protocol):
    """What an index needs of a model (`models.encoder.Encoder` has it). See `ranker.DualEncoder` for `unit_length`."""

    @property
    def fingerprint(self) -> str:
        """Digest of weights, configuration and vocabulary."""
        ...

    @property
    def name(self) -> str:
        """Where the model was loaded from."""
        ...

    def encode_contexts(self, contexts: Sequence[Context]) -> FloatArray | ContextVectors:
        """Encode conversations: (n, d), or m vectors each."""
        ...

    def encode_responses(self, responses: Sequence[str]) -> FloatArray:
        """Encode responses: (n, d)."""
        ...


def has_unit_vectors(encoder: ResponseEncoder) -> bool:
    """Whether the encoder's vectors are of unit length; another length is then a sign of a diverged training."""
    return bool(getattr(encoder, "unit_length", True))


def check_model(index: Path, record: ModelRecord, encoder: ResponseEncoder) -> None:
    """Refuse to search an index with another model than its own.

    Raises:
        InputError: the fingerprints differ; names both.
    """
    if record.fingerprint != encoder.fingerprint:
        raise InputError(
            f"{index} was built with the model {record.name or '(unnamed)'} of fingerprint {record.fingerprint[:12]}, "
            f"but {encoder.name or 'the given model'} has {encoder.fingerprint[:12]}; use that model (--model), "
            "or index the replies again with this one"
        )


def batches(replies: Iterable[str | Candidate], size: int) -> Iterator[list[Candidate]]:
    """Replies in lists of `size`, plain texts made candidates."""
    candidates = (Candidate(reply) if isinstance(reply, str) else reply for reply in replies)
    while batch := list(itertools.islice(candidates, size)):
        yield batch


def write_segment(
    folder: Path,
    name: str,
    replies: Iterable[Sequence[Candidate]],
    encoder: ResponseEncoder,
    *,
    first: int,
    dtype: Dtype,
    progress: Advance | None,
    engine: Engine | None = None,
) -> tuple[SegmentRecord, int]:
    """Encode batches of replies and write them to a folder.

    Args:
        folder: where to write.
        name: what the folder will be called in the end.
        replies: batches.
        encoder: the model.
        first: position of the first reply.
        dtype: form of the rows in the scan.
        progress: called with the number of replies just encoded.
        engine: its workers encode, each batch as one task; None encodes here.

    Returns:
        The segment's record and the size d of its vectors.

    Raises:
        InputError: a payload is no JSON, or the model's vectors are not unit vectors.
    """
    with SegmentWriter(folder, first, dtype) as writer:
        for lines, encoded in _encoded(_lines(replies, first), encoder, engine):
            vectors = check_rows(encoded, "reply", first + writer.count, unit=has_unit_vectors(encoder))
            writer.write(lines, vectors)
            if progress is not None:
                progress(len(lines))
        return writer.finish(name), writer.size


def encode_with(model: str, fingerprint: str, texts: Sequence[str]) -> FloatArray:
    """Encode responses with a model by its name, which stays open in this process: a task of an engine.

    Raises:
        InputError: there is no such model here, or it is another one there.
    """
    return _open_model(model, fingerprint).encode_responses(texts)


@functools.lru_cache(1)
def _open_model(model: str, fingerprint: str) -> ResponseEncoder:
    from rejoinder.models.persistence import load

    encoder = load(model)
    if encoder.fingerprint != fingerprint:
        raise InputError(f"{model} is another model on a worker's machine; all machines must see the same one")
    return encoder


def _lines(replies: Iterable[Sequence[Candidate]], first: int) -> Iterator[tuple[list[bytes], list[str]]]:
    """Of each batch what is stored, checked before anything is encoded, and the texts."""
    for batch in replies:
        yield [to_line(candidate, first + i) for i, candidate in enumerate(batch)], [each.text for each in batch]
        first += len(batch)


def _encoded(
    batches_: Iterable[tuple[list[bytes], list[str]]], encoder: ResponseEncoder, engine: Engine | None
) -> Iterator[tuple[list[bytes], FloatArray]]:
    """Batches of lines with the vectors of their texts, in order."""
    if engine is None:
        for lines, texts in batches_:
            yield lines, encoder.encode_responses(texts)
        return
    given: deque[list[bytes]] = deque()

    def tasks() -> Iterator[list[str]]:
        for lines, texts in batches_:
            given.append(lines)
            yield texts

    model = str(Path(encoder.name).resolve()) if Path(encoder.name).is_dir() else encoder.name
    work = functools.partial(encode_with, model, encoder.fingerprint)
    with contextlib.closing(engine.map(work, tasks())) as results:
        for vectors in results:
            yield given.popleft(), vectors
