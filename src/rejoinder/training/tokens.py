"""Examples as memory-mapped token ids: tokenised once, named by their content, read at random.

A store is a folder with raw little-endian arrays and a manifest. Its name is a hash of all that its content depends
on (the data's digest, the vocabulary's fingerprint, the longest length, for models that read it how the history is
joined), so that a stale one is never found.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rejoinder.corpora.engine import Engine
from rejoinder.corpora.example import Piece, pieces_of, read_columns, read_piece
from rejoinder.errors import InputError
from rejoinder.files import atomic_file, atomic_folder
from rejoinder.models.history import HistoryText
from rejoinder.text.tokenizer import Tokenizer

Ids = npt.NDArray[np.int32]
Rows = npt.NDArray[np.int64]
Split = Literal["train", "valid"]
Sides: TypeAlias = list[tuple[Ids, Ids]]
"""Of each side of some examples all ids, and the length of each text."""

FORMAT = 1
MANIFEST = "manifest.json"
SIDES = ("input", "response")
"""Columns of every store."""

HISTORY = "history"
"""Column of the stores for models that read earlier messages too."""


@dataclass(frozen=True, slots=True)
class Column:
    """Texts as token ids.

    Attributes:
        ids: the ids of all texts, one after the other, int32 (T,).
        offsets: text i has ids[offsets[i] : offsets[i + 1]], int64 (n + 1,).
    """

    ids: Ids
    offsets: Rows

    def gather(self, rows: Rows) -> tuple[Ids, Ids]:
        """Ids of the given texts, one after the other, and the length of each."""
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        ends = np.cumsum(lengths)
        places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + lengths, lengths)
        return self.ids[places], lengths.astype(np.int32)


class Texts(Protocol):
    """Texts as token ids, wherever they are: a `Column`, or several as one (`mixing.JoinedTexts`)."""

    def gather(self, rows: Rows) -> tuple[Ids, Ids]:
        """Ids of the given texts, one after the other, and the length of each."""
        ...


class Numbers(Protocol):
    """A number of each example: an array, or several as one (`mixing.JoinedNumbers`)."""

    def __len__(self) -> int:
        """How many examples there are."""
        ...

    def __getitem__(self, rows: Rows, /) -> Rows:
        """The numbers of the given examples, in the shape of `rows`."""
        ...


@dataclass(frozen=True, slots=True)
class TokenStore:
    """Tokenised examples.

    Attributes:
        input: the newest message of each context.
        response: the responses.
        response_hash: equal for responses of equal tokens, int64 (n,).
        history: the earlier messages of each context as one text, empty where there are none; None where the model
            does not read them.
    """

    input: Texts
    response: Texts
    response_hash: Numbers
    history: Texts | None = None

    def __len__(self) -> int:
        return len(self.response_hash)


def open_store(path: Path) -> TokenStore:
    """Map a store into memory.

    Raises:
        InputError: it is not whole.
    """
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT:
            raise ValueError("another format")
        n, tokens = manifest["examples"], manifest["tokens"]
        columns = [
            Column(
                _map(path / f"{side}.ids", np.dtype("<i4"), tokens[side]),
                _map(path / f"{side}.offsets", np.dtype("<i8"), n + 1),
            )
            for side in (*SIDES, *(side for side in tokens if side == HISTORY))
        ]
        return TokenStore(columns[0], columns[1], _map(path / "response.hash", np.dtype("<i8"), n), *columns[2:])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not a whole token store ({error}); delete it and run again") from None


def build_store(
    path: Path,
    data: str | Path,
    split: Split,
    tokenizer: Tokenizer,
    max_length: int,
    advance: Callable[[int], object] = int,
    history: HistoryText | None = None,
    engine: Engine | None = None,
) -> TokenStore:
    """Tokenise a split, whole or not at all.

    Examples without a token in their input or response are left out: they have nothing to learn from.

    Args:
        path: the store's folder.
        data: examples, as `corpora.example.read_columns` reads them.
        split: which of their splits.
        tokenizer: the vocabulary.
        max_length: tokens of a text that are kept.
        advance: called with the number of examples after each batch of them.
        history: how earlier messages become a text; None leaves them out.
        engine: its workers tokenise, a piece of the examples each; None does it here. The store is the same.
    """
    with atomic_folder(path, marker=MANIFEST) as part:
        writer = _Writer(part, SIDES if history is None else (*SIDES, HISTORY))
        try:
            encode = _Encode(tokenizer, max_length, history)
            pieces = pieces_of(data, split)
            batches = itertools.chain.from_iterable(map(encode.batches, pieces))
            for sides in batches if engine is None else _by_engine(engine, encode, pieces, part):
                writer.add(sides)
                advance(len(sides[0][1]))
        finally:
            writer.close()
        manifest = {"format": FORMAT, "examples": writer.examples, "empty": writer.empty, "tokens": writer.tokens}
        (part / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    return open_store(path)


@dataclass(frozen=True)
class _Encode:
    """How texts become token ids; workers get it by pickling."""

    tokenizer: Tokenizer
    max_length: int
    history: HistoryText | None

    def batches(self, piece: Piece) -> Iterator[Sides]:
        """Ids and lengths of a piece of the examples, some thousand at a time."""
        for texts in _texts_of(read_piece(piece, ("context", "response")), self.history):
            yield [self.tokenizer.encode_ragged(side, self.max_length) for side in texts]


def _by_engine(engine: Engine, encode: _Encode, pieces: Iterable[Piece], folder: Path) -> Iterator[Sides]:
    """Ids and lengths of the pieces, in order. Workers leave them in files, which all must see."""
    sides = len(SIDES) if encode.history is None else len(SIDES) + 1
    names = (folder / f"piece-{number:06}" for number in itertools.count())
    work = functools.partial(encode_piece, encode)
    with contextlib.closing(engine.map(work, zip(names, pieces, strict=False))) as files:
        for name in files:
            with name.open("rb") as file:
                while file.peek(1):
                    yield [(np.load(file), np.load(file)) for _ in range(sides)]
            name.unlink()


def encode_piece(encode: _Encode, task: tuple[Path, Piece]) -> Path:
    """Tokenise a piece of the examples into a file, batch after batch: a task of an engine."""
    name, piece = task
    with atomic_file(name, durable=False) as part, part.open("wb") as file:
        for sides in encode.batches(piece):
            for array in itertools.chain.from_iterable(sides):
                np.save(file, array)
    return name


def read_texts(data: str | Path, split: Split, history: HistoryText | None = None) -> Iterator[list[list[str]]]:
    """Newest messages, responses and, if asked for, histories, some thousands at a time."""
    yield from _texts_of(read_columns(data, split, columns=("context", "response")), history)


def _texts_of(batches: Iterable[pa.RecordBatch], history: HistoryText | None) -> Iterator[list[list[str]]]:
    for batch in batches:
        contexts = batch.column("context")
        texts = [_newest(contexts), batch.column("response").to_pylist()]
        if history is not None:
            texts.append([history.join(context) for context in contexts.to_pylist()])
        yield texts


def content_key(*parts: object) -> str:
    """Short name for content that depends on nothing but the parts."""
    return hashlib.sha256(json.dumps([str(part) for part in parts]).encode()).hexdigest()[:16]


def token_hashes(ids: Ids, lengths: Ids) -> Rows:
    """A 64-bit hash of each text's tokens: the sum of a pseudo-random number for each (place, token)."""
    lengths = lengths.astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    places = np.arange(len(ids)) - np.repeat(starts, lengths)
    mixed = _mix(ids.astype(np.uint64) << np.uint64(32) | places.astype(np.uint64))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
    return (sums[starts + lengths] - sums[starts]).view(np.int64)


def _mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64's finaliser (Steele et al. 2014), which turns counters into pseudo-random numbers."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _newest(contexts: pa.ListArray) -> list[str]:
    """Last message of each context."""
    offsets = contexts.offsets.to_numpy()
    if (offsets[1:] == offsets[:-1]).any():
        raise InputError("an example has an empty context; every example needs at least one message")
    newest: list[str] = contexts.values.take(pa.array(offsets[1:] - 1)).to_pylist()
    return newest


def _map(path: Path, dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
    if path.stat().st_size != count * dtype.itemsize:
        raise ValueError(f"{path.name} has {path.stat().st_size} bytes instead of {count * dtype.itemsize}")
    return np.memmap(path, dtype, mode="r", shape=(count,)) if count else np.empty(0, dtype)


class _Writer:
    """Appends tokenised examples to the files of a store."""

    def __init__(self, folder: Path, sides: tuple[str, ...]) -> None:
        self.examples, self.empty = 0, 0
        self.tokens = dict.fromkeys(sides, 0)
        names = [f"{side}.{kind}" for side in sides for kind in ("ids", "offsets")] + ["response.hash"]
        self._files: dict[str, IO[bytes]] = {name: (folder / name).open("wb") for name in names}
        for side in sides:
            self._write(f"{side}.offsets", np.zeros(1), "<i8")

    def add(self, sides: Sides) -> None:
        """Append examples; each side is ids and lengths."""
        keep = (sides[0][1] > 0) & (sides[1][1] > 0)
        self.empty += int((~keep).sum())
        self.examples += int(keep.sum())
        for name, (all_ids, all_lengths) in zip(self.tokens, sides, strict=True):
            ids, lengths = all_ids[np.repeat(keep, all_lengths)], all_lengths[keep]
            self._write(f"{name}.ids", ids, "<i4")
            self._write(f"{name}.offsets", self.tokens[name] + np.cumsum(lengths, dtype=np.int64), "<i8")
            self.tokens[name] += len(ids)
            if name == "response":
                self._write("response.hash", token_hashes(ids, lengths), "<i8")

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()

    def _write(self, name: str, values: npt.NDArray[Any], dtype: str) -> None:
        self._files[name].write(np.ascontiguousarray(values.astype(dtype)).data)
