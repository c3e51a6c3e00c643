"""Replies of an index: as its segments store them, and as a search chooses and explains them.

A segment has float32 vectors and the replies, memory-mapped; `writing` writes it. The choice among
the best candidates of a search has no repeats, no near-duplicates, and as much diversity as was
asked for.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec
import numpy as np

from rejoinder.arrays import FloatArray, unit_rows
from rejoinder.corpora.keys import text_key
from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.encoders.words.keywords import WordIndex
from rejoinder.errors import InputError
from rejoinder.files import file_digest, is_within
from rejoinder.retrieval import templates
from rejoinder.retrieval.manifest import (
    OFFSETS,
    REPLIES,
    RESPONSES,
    VECTORS,
    Manifest,
    runs_of,
)
from rejoinder.retrieval.options import SearchOptions
from rejoinder.retrieval.queries import Queries
from rejoinder.retrieval.scan import Array, Flags, Found, Positions, Scores, exact_scores
from rejoinder.retrieval.scoring import encode_conversations

IN_MEMORY = 1 << 20  # bytes of a file that is read when it is opened; a larger one is mapped


class Line(msgspec.Struct):
    """The stored form of a reply."""

    text: str
    payload: dict[str, Any] = {}
    title: str = ""
    examples: list[tuple[str, ...]] = []
    learned: list[tuple[str, ...]] = []

    def candidate(self) -> Candidate:
        """Return the reply."""
        return Candidate(
            self.text, self.payload, self.title, tuple(self.examples), tuple(self.learned)
        )


_LINES = msgspec.json.Decoder(Line)


def texts_of(name: str, value: object) -> set[str]:
    """Return the texts of what a filter wants of a field: one value, or one of several."""
    values = (
        value if isinstance(value, Collection) and not isinstance(value, str | Mapping) else [value]
    )
    try:
        return {text for each in values for text in value_texts(each)}
    except TypeError as error:
        raise InputError(
            f"where {name!r}: {error}; values are of JSON types, as those of payloads are"
        ) from None


def value_texts(value: object) -> list[str]:
    """Return the texts by which a payload's value is found, as JSON writes them.

    A list has those of its items.
    """
    values = value if isinstance(value, list) and value else [value]
    return [
        each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in values
    ]


class Segment:
    """An open segment.

    Only what is used is read from the disk; `verify` compares content, not sizes alone.
    """

    def __init__(self, index: Path, manifest: Manifest, place: int, *, verify: bool) -> None:
        self.record = record = manifest.segments[place]
        self.folder = index / record.name
        self.check_files(content=verify)
        self.vectors = self._map(VECTORS, "<f4", (record.count, manifest.size))
        self.responses = self.vectors  # encodings of the texts
        if RESPONSES in record.files:
            self.responses = self._map(RESPONSES, "<f4", (record.count, manifest.size))
        self._offsets = self._map(OFFSETS, "<i8", (record.count + 1,))
        self._replies = self._map(REPLIES, "|u1", (record.files.get(REPLIES, (0, ""))[0],))
        self._columns: dict[str, tuple[dict[str, int], Array]] = {}

    def check_files(self, *, content: bool) -> None:
        """Refuse files that are not what the manifest says."""
        for name, (size, digest) in self.record.files.items():
            path = self.folder / name
            if not is_within(path, self.folder.parent):
                raise InputError(f"{path} is a link out of the index; copy the files themselves")
            if not path.is_file():
                raise InputError(
                    f"{path} is missing; build the index again or copy the whole folder again"
                )
            if (found := path.stat().st_size) != size:
                raise InputError(
                    f"{path} has {found} bytes instead of {size}; build the index again or copy it "
                    "again"
                )
            if content and file_digest(path) != digest:
                raise InputError(
                    f"{path} was altered after it was written; build the index again or copy it "
                    "again"
                )

    @functools.cached_property
    def positions(self) -> Positions:
        """The positions of its rows, (n,), ascending."""
        return self._positions(np.arange(self.record.count))

    def position(self, row: int) -> int:
        """Return the position of a row."""
        return int(self._positions(np.array(row))) if self.record.holes else self.record.first + row

    def rows(self, positions: Positions) -> Positions:
        """Return the rows of positions that it has."""
        starts, _, missing = self._holes
        return (
            positions
            - self.record.first
            - missing[np.searchsorted(starts, positions, side="right")]
        )

    def _positions(self, rows: Positions) -> Positions:
        _, behind, missing = self._holes
        return np.asarray(
            self.record.first + rows + missing[np.searchsorted(behind, rows, side="right")]
        )

    @functools.cached_property
    def _holes(self) -> tuple[Positions, Positions, Positions]:
        """Starts of the runs of holes, rows behind them, (n,); holes of the first i, (n + 1,)."""
        starts, counts = runs_of(self.record.holes)
        missing = np.concatenate([[0], np.cumsum(counts)])
        return starts, starts - self.record.first - missing[:-1], missing

    def line(self, row: int) -> bytes:
        """Return what is stored of one reply."""
        return bytes(self._replies[self._offsets[row] : self._offsets[row + 1]])

    def candidate(self, row: int) -> Candidate:
        """Read one reply."""
        return self._read(row).candidate()

    def _read(self, row: int) -> Line:
        try:
            return _LINES.decode(self.line(row))
        except (ValueError, RecursionError):
            path = self.folder / REPLIES
            raise InputError(
                f"{path}: line {row + 1} was altered; build the index again or copy it again"
            ) from None

    def having(self, name: str, wanted: Collection[str]) -> Flags | None:
        """Return which rows have one of the `wanted` texts in a field of their payload.

        None: no row has the field.

        The first call for a field reads all payloads; what it finds is kept.

        """
        if name not in self._columns:
            numbers: dict[str, int] = {}
            self._columns[name] = (
                numbers,
                np.array(
                    [
                        (row, numbers.setdefault(text, len(numbers)))
                        for row, line in enumerate(self.lines())
                        if name in line.payload
                        for text in value_texts(line.payload[name])
                    ],
                    dtype=np.int32,
                ).reshape(-1, 2),
            )
        numbers, pairs = self._columns[name]
        flags = np.zeros(self.record.count, dtype=bool)
        flags[
            pairs[np.isin(pairs[:, 1], [numbers[text] for text in wanted if text in numbers]), 0]
        ] = True
        return flags if numbers else None

    def lines(self) -> Iterator[Line]:
        """Read all replies, one after the other."""
        lines = self._replies.data
        decode = msgspec.json.Decoder(Line).decode
        for row, (start, end) in enumerate(itertools.pairwise(self._offsets.tolist())):
            try:
                yield decode(lines[start:end])
            except (msgspec.DecodeError, RecursionError):
                yield self._read(row)  # its error says which line was altered

    def _map(self, name: str, kind: str, shape: tuple[int, ...]) -> Array:
        expected = math.prod(shape) * np.dtype(kind).itemsize
        if self.record.files.get(name, (None,))[0] != expected:
            raise InputError(
                f"{self.folder / name} does not fit the manifest; build the index again"
            )
        # or an index of many additions would take more open files than a process may have
        if expected <= IN_MEMORY:
            return np.fromfile(self.folder / name, dtype=kind).reshape(shape)
        # As a plain array, which is faster to index.
        return np.asarray(np.memmap(self.folder / name, dtype=kind, mode="r", shape=shape))


@dataclass(frozen=True, slots=True)
class Why:
    """The reason for a reply: its part with most weight, and its text most like the context."""

    view: Literal["text", "title", "example"]
    like: tuple[str, ...]  # the reply's text, its title, or the nearest of its examples
    similarity: float  # cosine of its encoding and the conversation's
    learned: bool = False  # whether it is an example that was learned: a customer wrote it
    sentence: str = ""  # of a message of several: the one that the reply answers
    opposes: str = ""  # the title or example that says the opposite of the message


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of an index."""

    text: str
    score: float  # cosine of its encoding and the context's, or what `scoring` or the model says
    position: int  # its number in the input, from 0; the same whatever was added or deleted since
    payload: Mapping[str, Any]  # whatever other fields its input had
    title: str = ""
    examples: tuple[tuple[str, ...], ...] = ()  # conversations that it is known to answer
    learned: tuple[tuple[str, ...], ...] = ()  # those of them that were learned
    why: Why | None = None  # if it was asked for
    part: int = 0  # of the newest message that it fits; see `parts`
    also: bool = False  # whether it answers another question of the message than the first reply
    opposes: str = ""  # what it answers that says the opposite of the message; see `opposites`

    @classmethod
    def of(cls, candidate: Candidate, score: float, position: int) -> Reply:
        """Return a candidate with its score."""
        examples = (*candidate.examples, *candidate.learned)
        return cls(
            candidate.text,
            score,
            position,
            candidate.payload,
            candidate.title,
            examples,
            candidate.learned,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the reply as JSON types; its title and why it was found only where it has them."""
        values: dict[str, Any] = {
            "text": self.text,
            "score": self.score,
            "position": self.position,
            "payload": dict(self.payload),
        }
        if self.title:
            values["title"] = self.title
        if self.also:
            values["also"] = True
        if self.why is not None:
            values["why"] = asdict(self.why)
            for name in ("sentence", "opposes"):
                if not values["why"][name]:
                    del values["why"][name]
        return values


NEAR_COPY = 0.95  # cosine from which two replies count as the same suggestion


class FilteredIndex(Protocol):
    """The replies of an index that pass a filter, by their numbers."""

    @property
    def count(self) -> int:
        """Number that no search exceeds; 0 where there are none."""

    def candidates(self, contexts: Sequence[FloatArray], k: int, minimum: float, /) -> Found:
        """Return the best k for the vectors (m, d) of each context; see `scan.search`."""

    def vectors(self, numbers: Positions) -> FloatArray:
        """Return the vectors by which candidates are scored: (n, d)."""

    def responses(self, numbers: Positions) -> FloatArray:
        """Return the encodings of the texts of candidates: (n, d)."""

    def reply(self, number: int, score: float) -> Reply:
        """Return a candidate with its score."""

    def words(self) -> tuple[WordIndex, Flags]:
        """Return the words of all replies, (n,), and which of these pass."""


def postprocess(
    numbers: Positions,
    scores: Scores,
    filtered: FilteredIndex,
    forbidden: frozenset[str],
    options: SearchOptions,
    *,
    pool: int,
    is_last: bool,
) -> list[Reply] | None:
    """Return the best k replies of the candidates of a context, which come best first.

    k is chosen among the `pool` best that may be given. None if there are fewer, unless `is_last`
    says that there are no more candidates.
    """
    chosen, replies = remove_near_duplicates(
        numbers, scores, filtered, forbidden, pool, distinct=options.distinct
    )
    if len(replies) < pool and not is_last:
        return None
    if not options.diversity or not replies:
        return replies
    order = diversify(filtered.responses(chosen), [reply.score for reply in replies], options)
    return [replies[i] for i in order]


def remove_near_duplicates(
    numbers: Positions,
    scores: Scores,
    filtered: FilteredIndex,
    forbidden: frozenset[str],
    count: int,
    *,
    distinct: bool,
) -> tuple[Positions, list[Reply]]:
    """Return the numbers of the best `count` candidates without forbidden ones, and their replies.

    With `distinct` also without near-duplicates of better ones, most of which are not even read.
    """
    vectors = unit_rows(filtered.responses(numbers)) if distinct else None
    chosen: list[int] = []
    replies: list[Reply] = []
    keys = set(forbidden)
    near = np.zeros(len(numbers), dtype=bool)
    for row, (number, score) in enumerate(zip(numbers.tolist(), scores.tolist(), strict=True)):
        if len(replies) == count:
            break
        if near[row]:
            continue
        reply = filtered.reply(number, score)
        key = text_key(reply.text) if forbidden or distinct else ""
        if key in keys:
            continue
        chosen.append(number)
        replies.append(reply)
        if vectors is not None:
            keys.add(key)
            near |= vectors @ vectors[row] >= NEAR_COPY
    return np.array(chosen, dtype=np.int64), replies


def diversify(vectors: FloatArray, scores: Sequence[float], options: SearchOptions) -> list[int]:
    """Return the rows of k of the replies, by maximal marginal relevance; see `SearchOptions`."""
    vectors = unit_rows(vectors)
    relevance = (1 - options.diversity) * np.array(scores)
    nearest = np.full(len(scores), -1.0)
    chosen: list[int] = []
    while len(chosen) < min(options.k, len(scores)):
        gains = relevance - options.diversity * nearest
        gains[chosen] = -np.inf
        chosen.append(int(gains.argmax()))
        nearest = np.maximum(nearest, vectors @ vectors[chosen[-1]])
    return chosen


def explain(
    encoder: DualEncoder, queries: Queries, replies: Sequence[list[Reply]], *, plain: bool
) -> list[list[Reply]]:
    """Return the replies to conversations with why each was found.

    `plain` says whether their texts were encoded without the frame of templates.
    """
    explained = []
    for rows, own in zip(queries.rows, replies, strict=True):
        texts = [templates.plain(reply.text) if plain else reply.text for reply in own]
        responses = encoder.encode_responses(texts)
        found = []
        for reply, response in zip(own, responses, strict=True):
            row = rows[reply.part]
            why = _why(encoder, reply, queries.vectors[row] / queries.sharpness, response)
            if len(rows) > 1:
                why = replace(why, sentence=queries.inputs[row])
            found.append(replace(reply, why=replace(why, opposes=reply.opposes)))
        explained.append(found)
    return explained


def _why(
    encoder: DualEncoder,
    reply: Reply,
    vectors: FloatArray,
    response: FloatArray,
) -> Why:
    by_text = float(exact_scores(vectors, response[None])[0])
    titles: list[tuple[str, ...]] = [(reply.title,)] if reply.title else []
    likes = [*titles, *reply.examples]
    if not likes or len(vectors) > 1:
        return Why("text", (reply.text,), by_text)
    similarities = encode_conversations(encoder, likes) @ vectors[0]
    nearest = int(similarities.argmax())
    if by_text > similarities[nearest]:
        return Why("text", (reply.text,), by_text)
    view: Literal["title", "example"] = "title" if nearest < len(titles) else "example"
    learned = view == "example" and likes[nearest] in reply.learned
    return Why(view, likes[nearest], float(similarities[nearest]), learned)
