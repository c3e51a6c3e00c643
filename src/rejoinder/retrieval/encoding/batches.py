"""Replies encoded in batches, for a segment that is written, or written again."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import unicodedata
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from rejoinder.arrays import FloatArray
from rejoinder.checks import check_column, check_count
from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.open import open_encoder
from rejoinder.encoders.protocol import DualEncoder, has_unit_vectors
from rejoinder.engine import Engine
from rejoinder.errors import InputError, shown
from rejoinder.progress import Advance
from rejoinder.retrieval.encoding import templates
from rejoinder.retrieval.encoding.scoring import Head
from rejoinder.retrieval.encoding.views import encode_views
from rejoinder.stores.manifest import Manifest
from rejoinder.stores.rows import OrderedRows, gone_rows
from rejoinder.stores.runs import Positions, join_runs, read_runs
from rejoinder.stores.segments import Segment
from rejoinder.stores.store import Store
from rejoinder.stores.writing import (
    Batch,
    Batches,
    checked_parts,
    copied,
    copy_of,
    example_count,
    joinable,
    to_line,
    write_segment,
)

Lines: TypeAlias = Iterator[tuple[list[bytes], list[Candidate]]]
"""Of each batch of replies what is stored, and the replies as an encoder reads them."""


def extend(
    manifest: Manifest,
    store: Store,
    encoder: DualEncoder,
    replies: Iterable[str | Candidate],
    batch: int,
    progress: Advance | None,
    engine: Engine | None,
    segments: Sequence[Segment] = (),
    head: Head | None = None,
) -> Manifest:
    """Write replies as a new segment and return the manifest that counts it in.

    The one in the store stays.

    The last of the index's `segments` go into the new one while they are no larger (`JOINED_BYTES`
    at most): n replies added one by one are in about log2 n segments, and each was copied as often
    at most. With a `head` their titles and examples count.
    """
    encoded = encoded_batches(
        replies, manifest.end, encoder, batch, engine, head, plain=manifest.plain
    )
    if (first := next(encoded, None)) is None:
        return manifest
    old = joinable(segments, len(first.lines), _covered(manifest))
    kept = manifest.leaving_out([segment.record.name for segment in old])
    kept_batches = copied(OrderedRows.of(old, [None] * len(old)), batch)
    batches = itertools.chain(kept_batches, _counted(itertools.chain([first], encoded), progress))
    holes = join_runs(segment.record.holes for segment in old)
    return write_segment(
        kept, store, batches, unit=has_unit_vectors(encoder), holes=holes, progress=None
    )


def _covered(manifest: Manifest) -> int:
    """Return how many rows an approximate search covers: they stay."""
    return manifest.approximate.count if manifest.approximate else 0


def revise(
    manifest: Manifest,
    store: Store,
    encoder: DualEncoder,
    changes: Mapping[int, Candidate],
    segments: Sequence[Segment],
    head: Head | None,
    batch: int = 1024,
) -> Manifest:
    """Write replies at positions that there are as a revision; return the manifest with it.

    With a `head` a reply's vector changes by what its discriminant does: how far the regression
    moved it from there, when the head was fitted, stays (docs/choices.md). The last revisions among
    the `segments` go into the new one as in `extend`, without what is superseded.
    """
    positions = np.array(sorted(changes), dtype=np.int64)
    old = joinable(segments, len(positions), _covered(manifest), revises=True)
    left = OrderedRows.of(old, gone_rows(old, positions))
    lines = _changed_lines(changes, positions, batch, plain=manifest.plain)
    new: Batches = _encoded(lines, encoder, None, head)
    if head is not None:
        new = _moved(positions, new, segments, encoder, head, plain=manifest.plain)
    return write_segment(
        manifest.leaving_out([segment.record.name for segment in old]),
        store,
        _merged(positions, new, left),
        unit=has_unit_vectors(encoder),
        revised=np.union1d(positions, left.positions),
    )


def _changed_lines(
    changes: Mapping[int, Candidate], positions: Positions, batch: int, *, plain: bool
) -> Lines:
    for start in range(0, len(positions), batch):
        part = {at: changes[at] for at in positions[start : start + batch].tolist()}
        lines = [to_line(reply, at) for at, reply in part.items()]
        yield lines, read_as(part.values(), plain=plain)


def _moved(
    positions: Positions,
    new: Batches,
    segments: Sequence[Segment],
    encoder: DualEncoder,
    head: Head,
    *,
    plain: bool,
) -> Batches:
    """Yield new replies at ascending positions, moved as far as their earlier editions were."""
    start = 0
    for batch in new:
        own = positions[start : start + len(batch.lines)]
        start = start + len(batch.lines)
        vectors = batch.vectors.copy()
        old = OrderedRows.latest(segments, own)
        if len(old):
            views = encode_views(encoder, read_as(old.candidates(), plain=plain))
            unmoved = head.vectors(head.discriminants(views, len(old)), old.few_responses())
            vectors[np.searchsorted(own, old.positions)] += old.few_vectors() - unmoved
        yield batch._replace(vectors=vectors)


def _merged(positions: Positions, new: Batches, left: OrderedRows) -> Batches:
    """Yield new replies at ascending positions, and rows that are left, in the order of all."""
    left.check()
    start = done = 0
    for batch in new:
        own = positions[start : start + len(batch.lines)]
        start = start + len(batch.lines)
        end = int(np.searchsorted(left.positions, own[-1]))
        part = left.part(done, end)
        done = end
        if not len(part):
            yield batch
            continue
        copy = copy_of(part)
        order = np.argsort(np.concatenate([own, part.positions]))
        lines = [*batch.lines, *copy.lines]
        vectors = np.concatenate([batch.vectors, copy.vectors])[order]
        responses = None
        if batch.responses is not None and copy.responses is not None:
            responses = np.concatenate([batch.responses, copy.responses])[order]
        examples = batch.examples + copy.examples
        yield Batch([lines[row] for row in order.tolist()], vectors, responses, examples)
    if done < len(left):
        yield copy_of(left.part(done, len(left)))


def _counted(batches: Batches, progress: Advance | None) -> Batches:
    for batch in batches:
        yield batch
        if progress is not None:
            progress(len(batch.lines))


def encoded_batches(
    replies: Iterable[str | Candidate],
    first: int,
    encoder: DualEncoder,
    batch: int,
    engine: Engine | None,
    head: Head | None = None,
    *,
    plain: bool,
) -> Iterator[Batch]:
    """Yield replies, from position `first` on, `batch` at once, checked before encoding."""
    check_count("batch", batch)
    candidates = as_candidates(replies)
    batches = iter(lambda: list(itertools.islice(candidates, batch)), [])
    return _encoded(_lines(batches, first, plain=plain), encoder, engine, head)


def rewrite(
    manifest: Manifest,
    store: Store,
    segments: Sequence[Segment],
    old: Manifest,
    encoder: DualEncoder | None,
    batch: int,
    progress: Advance | None,
    engine: Engine | None = None,
) -> Manifest:
    """Write what is left of `segments` as one, at the same positions.

    Return the empty `manifest` with it.

    `old` is the manifest that they are of. The vectors stay, or come from an `encoder`.

    """
    check_count("batch", batch)
    left = OrderedRows.of(segments, gone_rows(segments, read_runs(old.deleted)))
    batches: Batches
    if encoder is None:
        batches = copied(left, batch)
    else:
        lines = (
            (rows.lines(), read_as(rows.candidates(), plain=manifest.plain))
            for rows in checked_parts(left, batch)
        )
        batches = _encoded(lines, encoder, engine, None)
    # Vectors that stay were checked when they were written.
    unit = encoder is not None and has_unit_vectors(encoder)
    return write_segment(manifest, store, batches, unit=unit, holes=old.gone, progress=progress)


def encode_with(model: str, fingerprint: str, texts: Sequence[str]) -> FloatArray:
    """Encode responses with a model by its name: a task of an engine.

    The model stays open in this process.
    """
    return _worker_model(model, fingerprint).encode_responses(texts)


@functools.lru_cache(1)
def _worker_model(model: str, fingerprint: str) -> DualEncoder:
    encoder = open_encoder(model)
    if encoder.fingerprint != fingerprint:
        raise InputError(
            f"{model} is another model on a worker's machine; all machines must see the same one"
        )
    return encoder


def as_candidates(replies: Iterable[str | Candidate]) -> Iterator[Candidate]:
    """Yield replies as an index keeps them; see `as_candidate`.

    Raises:
        InputError: there is no list of them, or one is of another type.
    """
    if isinstance(replies, str | Mapping) or not isinstance(replies, Iterable):
        raise InputError(f"give a list of replies, texts or Candidates; given: {shown(replies)}")
    check_column(replies)
    return map(as_candidate, replies)


def as_candidate(reply: object) -> Candidate:
    """Return a reply as an index keeps it: plain texts, JSON types, distinct examples as tuples.

    Raises:
        InputError: it is neither a text nor a Candidate, or one of its fields is of another type.
    """
    if isinstance(reply, str):
        reply = Candidate(reply)
    if not isinstance(reply, Candidate):
        raise InputError(f"a reply is a text or a Candidate; given: {shown(reply)}")
    if not isinstance(reply.text, str):
        raise InputError(f"the text of a reply is {shown(reply.text)}; give a text")
    if not reply.text.strip():
        raise InputError(f"the text of a reply is blank ({shown(reply.text)}); give a text")
    if not isinstance(reply.title, str):
        raise InputError(
            f"the title of {reply.text[:60]!r} is {shown(reply.title)}; give a text, '' for none"
        )
    return Candidate(
        str(reply.text),
        _payload(reply),
        str(reply.title),
        as_examples(reply.text, reply.examples),
        as_examples(reply.text, reply.learned),
    )


def _payload(reply: Candidate) -> Mapping[str, Any]:
    """Return what came with a reply, of the types that reading it as JSON gives."""
    if not isinstance(reply.payload, Mapping):
        raise InputError(
            f"the payload of {reply.text[:60]!r} is {shown(reply.payload)};"
            " give a mapping, such as {'id': 1}"
        )
    if not reply.payload:
        return {}
    try:
        payload: dict[str, Any] = json.loads(json.dumps(dict(reply.payload), allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return reply.payload  # `to_line` refuses it, with the position of the reply
    return payload


def as_examples(text: str, examples: object) -> tuple[tuple[str, ...], ...]:
    """Return the distinct examples of a reply; questions and lists, as JSON has them, as tuples."""
    read: dict[tuple[str, ...], None] = {}
    for example in _listed(text, examples):
        messages = (example,) if isinstance(example, str) else _listed(text, example)
        if not all(isinstance(message, str) for message in messages):
            raise _unread(text, example)
        read[tuple(map(str, messages))] = None
    return tuple(read)


def _listed(text: str, values: object) -> Collection[Any]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Collection):
        raise _unread(text, values)
    return values


def _unread(text: str, value: object) -> InputError:
    return InputError(
        f"the examples of {text[:60]!r} are a list of questions, or of lists of messages;"
        f" given: {shown(value)}"
    )


def _lines(replies: Iterable[list[Candidate]], first: int, *, plain: bool) -> Lines:
    """Yield batches, checked before anything is encoded, with replies as an encoder reads them."""
    for batch in replies:
        lines = [to_line(candidate, first + i) for i, candidate in enumerate(batch)]
        yield lines, read_as(batch, plain=plain)
        first += len(batch)


def read_as(replies: Iterable[Candidate], *, plain: bool) -> list[Candidate]:
    """Return replies as an encoder reads them: `plain`, or as they are written.

    A letter and its accent are one in all (Unicode's NFC).
    """
    read = []
    for reply in replies:
        text = templates.plain(reply.text) if plain else reply.text
        text = unicodedata.normalize("NFC", text)
        read.append(reply if text == reply.text else replace(reply, text=text))
    return read


def _encoded(
    batches: Lines, encoder: DualEncoder, engine: Engine | None, head: Head | None
) -> Iterator[Batch]:
    """Encode batches here, or on an engine's workers, in order."""
    if engine is None:
        for lines, candidates in batches:
            texts = [candidate.text for candidate in candidates]
            yield _batch(lines, candidates, encoder.encode_responses(texts), encoder, head)
        return
    waiting: deque[tuple[list[bytes], list[Candidate]]] = deque()

    def tasks() -> Iterator[list[str]]:
        for lines, candidates in batches:
            waiting.append((lines, candidates))
            yield [candidate.text for candidate in candidates]

    model = str(Path(encoder.name).resolve()) if Path(encoder.name).is_dir() else encoder.name
    work = functools.partial(encode_with, model, encoder.fingerprint)
    with contextlib.closing(engine.map(work, tasks())) as results:
        for vectors in results:
            lines, candidates = waiting.popleft()
            yield _batch(lines, candidates, vectors, encoder, head)


def _batch(
    lines: list[bytes],
    candidates: list[Candidate],
    responses: FloatArray,
    encoder: DualEncoder,
    head: Head | None,
) -> Batch:
    examples = sum(map(example_count, candidates))
    if head is None:
        return Batch(lines, responses, None, examples)
    views = encode_views(encoder, candidates)
    weights = head.discriminants(views, len(candidates))
    return Batch(lines, head.vectors(weights, responses), responses, examples)
