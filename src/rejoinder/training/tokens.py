"""Examples as memory-mapped token ids: tokenised once, named by their content, read at random.

A store is a folder with raw little-endian arrays and a manifest. Its name is a hash of all that its content depends
on (the data's digest, the vocabulary's fingerprint, the longest length, for models that read it how the history is
joined), so that a stale one is never found.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from rejoinder.corpora.engine import Engine
from rejoinder.corpora.examples import pieces_of
from rejoinder.errors import InputError
from rejoinder.files import DIGEST, atomic_folder, file_digest, is_altered, parse_json, signed
from rejoinder.models.dialogue import Dialogue, HistoryText
from rejoinder.text.tokenizer import Tokenizer
from rejoinder.training.tokenising import Encode, Sides, encode_all, read_dialogues

Ids = npt.NDArray[np.int32]
Rows = npt.NDArray[np.int64]
Split = Literal["train", "valid"]

FORMAT = 2
UNSIGNED = 1
"""Format of stores without digests, which earlier versions wrote."""
MANIFEST = "manifest.json"
SIDES = ("input", "response")
"""Columns of every store."""

CANDIDATES = "candidates"
"""Column of the stores whose data gives wrong candidates that are wanted."""

HASHED = ("response", CANDIDATES)
"""Columns whose texts are told apart by a hash."""

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
class RawExamples:
    """Contexts and responses as texts.

    Attributes:
        lines: JSON of each example, one after the other, uint8.
        offsets: example i is lines[offsets[i] : offsets[i + 1]], int64 (n + 1,).
    """

    lines: npt.NDArray[np.uint8]
    offsets: Rows

    def read(self, rows: Rows) -> list[tuple[list[str], str]]:
        """Context, oldest message first, and response of the given examples."""
        pieces = (bytes(self.lines[self.offsets[row] : self.offsets[row + 1]]) for row in rows.tolist())
        return [(each["context"], each["response"]) for each in map(json.loads, pieces)]


@dataclass(frozen=True, slots=True)
class Given:
    """Wrong candidates that the data gives with its n examples, k each, those of an example one after the other.

    Attributes:
        texts: n · k responses.
        hashes: equal for responses of equal tokens, int64 (n · k,).
        count: k.
    """

    texts: Column
    hashes: Rows
    count: int


@dataclass(frozen=True, slots=True)
class TokenStore:
    """Tokenised examples.

    Attributes:
        input: the newest message of each context, or, for models that read it as one text, the whole context.
        response: the responses.
        response_hash: equal for responses of equal tokens, int64 (n,).
        history: the earlier messages of each context as one text, empty where there are none; None where the model
            does not read them.
        texts: the examples as they were before tokenising, for a teacher; None where nobody reads them.
        given: the wrong candidates that the data gives; None where nobody wants them.
    """

    input: Texts
    response: Texts
    response_hash: Numbers
    history: Texts | None = None
    texts: RawExamples | None = None
    given: Given | None = None

    def __len__(self) -> int:
        return len(self.response_hash)


def open_store(path: Path) -> TokenStore:
    """Map a store into memory.

    Raises:
        InputError: it is not whole.
    """
    try:
        manifest = parse_json((path / MANIFEST).read_text(encoding="utf-8"))
        if manifest["format"] not in (FORMAT, UNSIGNED):
            raise ValueError("another format")
        if manifest["format"] == FORMAT or DIGEST in manifest:
            _check_digests(path, manifest)
        n, tokens = manifest["examples"], manifest["tokens"]
        k = manifest.get("given", 0)
        columns = {side: _column(path, side, tokens[side], n * k if side == CANDIDATES else n) for side in tokens}
        texts = None
        if "text_bytes" in manifest:
            lines = _map(path / "texts.jsonl", np.dtype("u1"), manifest["text_bytes"])
            texts = RawExamples(lines, _map(path / "texts.offsets", np.dtype("<i8"), n + 1))
        hashes = _map(path / "response.hash", np.dtype("<i8"), n)
        given = None
        if CANDIDATES in columns:
            given = Given(columns[CANDIDATES], _map(path / "candidates.hash", np.dtype("<i8"), n * k), k)
        return TokenStore(columns["input"], columns["response"], hashes, columns.get(HISTORY), texts, given)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not a whole token store ({error}); delete it and run again") from None


def _check_digests(path: Path, manifest: Mapping[str, Any]) -> None:
    """Read all files once (about 1 GB a second): a flipped bit would train another model without a word."""
    if is_altered(manifest):
        raise ValueError(f"{MANIFEST} was altered")
    for name, digest in manifest["files"].items():
        if file_digest(path / name) != digest:
            raise ValueError(f"{name} was altered")


def _column(path: Path, side: str, tokens: int, texts: int) -> Column:
    ids = _map(path / f"{side}.ids", np.dtype("<i4"), tokens)
    return Column(ids, _map(path / f"{side}.offsets", np.dtype("<i8"), texts + 1))


def build_store(
    path: Path,
    data: str | Path,
    split: Split,
    tokenizer: Tokenizer,
    max_length: int,
    advance: Callable[[int], object] = int,
    history: HistoryText | None = None,
    dialogue: Dialogue | None = None,
    engine: Engine | None = None,
    *,
    with_texts: bool = False,
    with_given: bool = False,
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
        dialogue: how whole contexts are read as the input, for models that do; `max_length` and `history` have no
            part then.
        engine: its workers tokenise, a piece of the examples each; None does it here. The store is the same.
        with_texts: keep the texts too.
        with_given: keep the wrong candidates that the data gives.
    """
    sides = (*SIDES, *([] if history is None else [HISTORY]), *([CANDIDATES] if with_given else []))
    with atomic_folder(path, None) as part:
        writer = _Writer(part, sides, with_texts=with_texts)
        raw: Iterator[tuple[list[list[str]], list[str]] | None]
        raw = read_dialogues(pieces_of(data, split)) if with_texts else itertools.repeat(None)
        try:
            encode = Encode(tokenizer, max_length, history, dialogue, with_given)
            for encoded in encode_all(encode, pieces_of(data, split), part, engine):
                writer.add(encoded, encode.marks, next(raw))
                advance(len(encoded[0][1]))
        finally:
            writer.close()
        manifest = {"format": FORMAT, "examples": writer.examples, "empty": writer.empty, "tokens": writer.tokens}
        if with_texts:
            manifest["text_bytes"] = writer.text_bytes
        if with_given:
            manifest["given"] = writer.given
        manifest["files"] = {file.name: file_digest(file) for file in sorted(part.iterdir())}
        (part / MANIFEST).write_text(json.dumps(signed(manifest)), encoding="utf-8")
    return open_store(path)


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


def _map(path: Path, dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
    if path.stat().st_size != count * dtype.itemsize:
        raise ValueError(f"{path.name} has {path.stat().st_size} bytes instead of {count * dtype.itemsize}")
    return np.memmap(path, dtype, mode="r", shape=(count,)) if count else np.empty(0, dtype)


class _Writer:
    """Appends tokenised examples to the files of a store."""

    def __init__(self, folder: Path, sides: tuple[str, ...], *, with_texts: bool = False) -> None:
        self.examples, self.empty = 0, 0
        self.tokens = dict.fromkeys(sides, 0)
        self.given = 0
        names = [f"{side}.{kind}" for side in sides for kind in ("ids", "offsets")]
        names += [f"{side}.hash" for side in sides if side in HASHED]
        self._files: dict[str, IO[bytes]] = {name: (folder / name).open("wb") for name in names}
        for side in sides:
            self._write(f"{side}.offsets", np.zeros(1), "<i8")
        self.text_bytes = 0
        if with_texts:
            self._files |= {name: (folder / name).open("wb") for name in ("texts.jsonl", "texts.offsets")}
            self._write("texts.offsets", np.zeros(1), "<i8")

    def add(
        self,
        sides: Sides,
        marks: int = 0,
        given: tuple[list[list[str]], list[str]] | None = None,
    ) -> None:
        """Append examples.

        Args:
            sides: ids and lengths of each side.
            marks: tokens that an empty text has; one that has no more is empty.
            given: the contexts and responses themselves, where they are kept.
        """
        keep = (sides[0][1] > marks) & (sides[1][1] > marks)
        self.empty += int((~keep).sum())
        self.examples += int(keep.sum())
        for name, (all_ids, all_lengths) in zip(self.tokens, sides, strict=True):
            kept = np.repeat(keep, self._count(name, len(keep), len(all_lengths)))
            ids, lengths = all_ids[np.repeat(kept, all_lengths)], all_lengths[kept]
            self._write(f"{name}.ids", ids, "<i4")
            self._write(f"{name}.offsets", self.tokens[name] + np.cumsum(lengths, dtype=np.int64), "<i8")
            self.tokens[name] += len(ids)
            if name in HASHED:
                self._write(f"{name}.hash", token_hashes(ids, lengths), "<i8")

        if given is not None:
            self._add_texts([pair for pair, kept in zip(zip(*given, strict=True), keep.tolist(), strict=True) if kept])

    def _count(self, side: str, examples: int, texts: int) -> int:
        """Texts that a side has of each example; candidates, as many in all batches."""
        if side != CANDIDATES:
            return 1
        count = texts // examples
        if self.given not in (0, count):
            raise InputError(
                f"given_negatives: lists of {self.given + 1} and of {count + 1} candidates; all must be of one length"
            )
        self.given = count
        return count

    def _add_texts(self, pairs: list[tuple[list[str], str]]) -> None:
        lines = [json.dumps({"context": context, "response": response}).encode() for context, response in pairs]
        self._files["texts.jsonl"].write(b"".join(lines))
        sizes = np.fromiter(map(len, lines), np.int64, len(lines))
        self._write("texts.offsets", self.text_bytes + np.cumsum(sizes), "<i8")
        self.text_bytes += int(sizes.sum())

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()

    def _write(self, name: str, values: npt.NDArray[Any], dtype: str) -> None:
        self._files[name].write(np.ascontiguousarray(values.astype(dtype)).data)
