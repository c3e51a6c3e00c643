"""Examples as memory-mapped token ids.

A folder is named by a hash of all that its content depends on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rejoinder.arrays import Column, Ids, Joined, ranges
from rejoinder.conversations import Context
from rejoinder.corpora.forms.examples import Piece, pieces_of, read_columns, read_piece
from rejoinder.digests import file_digest
from rejoinder.engine import Engine
from rejoinder.errors import InputError
from rejoinder.files import atomic_file, atomic_folder
from rejoinder.json_parsing import parse_json
from rejoinder.networks.pair_batches import VectorBatch
from rejoinder.progress import Advance
from rejoinder.text.dialogue import Dialogue
from rejoinder.text.history import HistoryText
from rejoinder.text.ngrams import mix
from rejoinder.text.tokenizer import Tokenizer, encode_messages

TokenRows: TypeAlias = npt.NDArray[np.int64]
Split: TypeAlias = Literal["train", "valid"]
# of each side of some examples: all ids, and each text's length
Sides: TypeAlias = list[tuple[Ids, Ids]]

FORMAT = 3
MANIFEST = "manifest.json"
INPUT = "input"
RESPONSE = "response"
HISTORY = "history"  # where wanted: all texts of histories; each example's slots, one a text
SLOTS = "slots"
CANDIDATES = "candidates"  # where wanted
_COLUMNS = ("context", "response")
_LISTS = ("candidates", "label")


@dataclass(frozen=True, slots=True)
class Histories:
    """A model's earlier messages of each example: any number of texts, each in a slot.

    See `HistoryText`.
    """

    texts: Column | Joined
    slots: Column | Joined  # of each example, one a text
    firsts: TokenRows  # each example's first text (n,)

    def gather(self, rows: TokenRows) -> tuple[Ids, Ids, TokenRows]:
        """Return ids and lengths of the examples' texts, and owner and slot of each, (2, m)."""
        slots, counts = self.slots.gather(rows)
        owners = np.repeat(np.arange(len(rows)), counts)
        return *self.texts.gather(ranges(self.firsts[rows], counts)), np.stack(
            [owners, slots.astype(np.int64)]
        )

    def counts(self, rows: TokenRows) -> Ids:
        """Return how many texts each of the given examples has (n,)."""
        return self.slots.gather(rows)[1]

    def numbers(self, rows: TokenRows) -> TokenRows:
        """Return which of the texts the given examples have."""
        return ranges(self.firsts[rows], self.counts(rows))

    def hashes(self, rows: TokenRows) -> TokenRows:
        """Return hashes that are equal for histories of equal texts."""
        ids, lengths, (owners, _) = self.gather(rows)
        return token_hashes(ids, np.bincount(owners, lengths, len(rows)).astype(np.int32))

    @staticmethod
    def join(parts: Sequence[Histories]) -> Histories:
        """Return those of several stores, numbered through."""
        starts = np.cumsum([0, *(len(part.texts) for part in parts[:-1])])
        firsts = np.concatenate(
            [part.firsts + start for part, start in zip(parts, starts, strict=True)]
        )
        return Histories(
            Joined([part.texts for part in parts]), Joined([part.slots for part in parts]), firsts
        )


@dataclass(frozen=True, slots=True)
class RawExamples:
    """Contexts and responses as JSON, example i in lines[offsets[i] : offsets[i + 1]]."""

    lines: npt.NDArray[np.uint8]
    offsets: TokenRows

    def read(self, rows: TokenRows) -> list[tuple[list[str], str]]:
        """Return context, oldest message first, and response of the given examples."""
        pieces = (
            bytes(self.lines[self.offsets[row] : self.offsets[row + 1]]) for row in rows.tolist()
        )
        return [(example["context"], example["response"]) for example in map(json.loads, pieces)]


@dataclass(frozen=True, slots=True)
class Given:
    """Wrong candidates that the data gives with its n examples, k each.

    Those of an example follow each other.
    """

    texts: Column  # n · k responses
    hashes: TokenRows  # equal for responses of equal tokens (n · k,)
    count: int  # k


@dataclass(frozen=True, slots=True)
class TokenStore:
    """Tokenised examples; what the model, a teacher or a stage does not read is None."""

    input: Column | Joined
    """Newest messages, or, for models that read contexts as one text, the whole contexts."""
    response: Column | Joined
    response_hash: TokenRows | Joined  # equal for responses of equal tokens (n,)
    history: Histories | None = None
    texts: RawExamples | None = None  # the examples before tokenising
    given: Given | None = None
    vectors: Callable[[Ids, Ids], VectorBatch] | None = None
    """Of texts, where the trunk learns nothing (`initialisation`)."""
    start: Callable[[Ids, Ids], VectorBatch] | None = None
    """Those before it learns, where it is anchored there."""

    def __len__(self) -> int:
        return len(self.response_hash)


def join_stores(stores: Sequence[TokenStore]) -> TokenStore:
    """Return several stores, made for one model, as one; their examples are numbered through."""
    if len(stores) == 1:
        return stores[0]
    columns: dict[str, Any] = {}
    for field in dataclasses.fields(TokenStore):
        parts = [getattr(store, field.name) for store in stores]
        join = Histories.join if field.name == "history" else Joined
        columns[field.name] = None if parts[0] is None else join(parts)
    return TokenStore(**columns)


def open_store(path: Path) -> TokenStore:
    """Map a store into memory."""
    try:
        manifest = parse_json((path / MANIFEST).read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT:
            raise ValueError("another format")
        n = manifest["examples"]
        k = manifest.get("given", 0)
        tokens = manifest["tokens"]
        sizes = dict.fromkeys(tokens, n) | {CANDIDATES: n * k, HISTORY: tokens.get(SLOTS, 0)}
        columns = {
            side: Column(
                _map(path, f"{side}.ids", "<i4", tokens[side]),
                _map(path, f"{side}.offsets", "<i8", size + 1),
            )
            for side, size in sizes.items()
            if side in tokens
        }
        histories = None
        if SLOTS in columns:
            histories = Histories(columns[HISTORY], columns[SLOTS], columns[SLOTS].offsets[:-1])
        texts = candidates = None
        if "text_bytes" in manifest:
            lines = _map(path, "texts.jsonl", "u1", manifest["text_bytes"])
            texts = RawExamples(lines, _map(path, "texts.offsets", "<i8", n + 1))
        if CANDIDATES in columns:
            candidates = Given(columns[CANDIDATES], _map(path, "candidates.hash", "<i8", n * k), k)
        hashes = _map(path, "response.hash", "<i8", n)
        return TokenStore(columns[INPUT], columns[RESPONSE], hashes, histories, texts, candidates)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path}: not a whole token store ({error}); delete it and run again"
        ) from None


def _map(folder: Path, name: str, kind: str, count: int) -> npt.NDArray[Any]:
    path = folder / name
    dtype = np.dtype(kind)
    if path.stat().st_size != count * dtype.itemsize:
        raise ValueError(
            f"{name} has {path.stat().st_size} bytes instead of {count * dtype.itemsize}"
        )
    return np.memmap(path, dtype, mode="r", shape=(count,)) if count else np.empty(0, dtype)


@dataclass(frozen=True)
class Encode:
    """Encoding of examples as token ids; workers get it by pickling."""

    tokenizer: Tokenizer
    max_length: int  # tokens of a text that are kept
    history: HistoryText | None = None  # how earlier messages become texts; None leaves them out
    dialogue: Dialogue | None = None
    """Settings for contexts as one text, without `max_length` and `history`."""
    given: bool = False  # encode the wrong candidates of each example too, as a last side

    @property
    def sides(self) -> list[str]:
        """Names of the sides of a store, in order."""
        sides = [INPUT, RESPONSE]
        if self.history is not None:
            sides += [HISTORY, SLOTS]
        if self.given:
            sides.append(CANDIDATES)
        return sides

    def batches(self, piece: Piece) -> Iterator[Sides]:
        """Yield ids and lengths of a piece of the examples, some thousand examples at a time."""
        for batch in read_piece(piece, (*_COLUMNS, *_LISTS) if self.given else _COLUMNS):
            wrong = [_wrong_candidates(batch)] if self.given else []
            contexts = batch.column("context").to_pylist()
            if self.dialogue is None:
                texts = [*_newest_and_response(contexts, batch), *wrong]
                sides = [encode_messages(self.tokenizer, side, self.max_length) for side in texts]
                if self.history is not None:
                    sides[2:2] = self._histories(contexts)
                yield sides
            else:
                responses = batch.column("response").to_pylist()
                yield [
                    self.dialogue.contexts(contexts),
                    *map(self.dialogue.responses, [responses, *wrong]),
                ]

    def _histories(self, contexts: Sequence[Context]) -> Sides:
        """Return the tokens of all texts of some contexts' histories, and each history's slots."""
        assert self.history is not None
        texts: list[str] = []
        slots: list[int] = []
        counts: list[int] = []
        for context in contexts:  # one by one: a million pairs at once keep the collector busy
            earlier = self.history.texts(context)
            counts.append(len(earlier))
            for slot, text in earlier:
                slots.append(slot)
                texts.append(text)
        encoded = self.history.encode(self.tokenizer, texts, self.max_length)
        return [encoded, (np.array(slots, np.int32), np.array(counts, np.int32))]


def _newest_and_response(
    contexts: Sequence[Sequence[str]], batch: pa.RecordBatch
) -> list[list[str]]:
    """Return the newest messages and the responses of a batch, whose contexts are given."""
    # lists, since `to_numpy` of their offsets imports pandas where it is installed: a second
    if not all(contexts):
        raise InputError(
            "an example has an empty context; every example needs at least one message"
        )
    return [[context[-1] for context in contexts], batch.column("response").to_pylist()]


def _wrong_candidates(batch: pa.RecordBatch) -> list[str]:
    lists = batch.column("candidates").to_pylist()
    labels = batch.column("label").to_pylist()
    if any(not texts or label is None for texts, label in zip(lists, labels, strict=True)):
        raise InputError(
            "given_negatives: an example has no candidates; prepare data that gives them"
            " (as `rejoinder data convai2` does), or draw some with negatives = 15"
        )
    _check_equal_lengths({len(texts) for texts in lists})
    return [
        text
        for texts, label in zip(lists, labels, strict=True)
        for text in (*texts[:label], *texts[label + 1 :])
    ]


def _check_equal_lengths(lengths: set[int]) -> None:
    if len(lengths) > 1:
        raise InputError(
            f"given_negatives: lists of {min(lengths)} and of {max(lengths)} candidates;"
            " all must be of one length"
        )


def read_texts(data: str | Path, split: Split) -> Iterator[list[list[str]]]:
    """Yield newest messages and responses, some thousands at a time."""
    for batch in read_columns(data, split, _COLUMNS):
        yield _newest_and_response(batch.column("context").to_pylist(), batch)


def build_store(
    path: Path,
    data: str | Path,
    split: Split,
    encode: Encode,
    advance: Advance = int,
    engine: Engine | None = None,
    with_texts: bool = False,
) -> TokenStore:
    """Tokenise a split, whole or not at all; examples with an empty side are left out.

    `with_texts` keeps the texts.
    """
    with atomic_folder(path, None) as part, contextlib.ExitStack() as files:
        writer = _Writer(part, encode, files, with_texts)
        batches = _encode_all(encode, pieces_of(data, split), part, engine)
        raw = (batch for piece in pieces_of(data, split) for batch in read_piece(piece, _COLUMNS))
        for sides, texts in zip(
            batches, raw if with_texts else itertools.repeat(None), strict=False
        ):
            writer.add(sides, texts)
            advance(len(sides[0][1]))
        manifest = {"format": FORMAT, **writer.counts, "tokens": writer.tokens}
        (part / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    return open_store(path)


def _encode_all(
    encode: Encode, pieces: Iterable[Piece], folder: Path, engine: Engine | None
) -> Iterator[Sides]:
    """Yield ids and lengths of the pieces, in order.

    Workers leave theirs in the folder for a while.
    """
    if engine is None:
        yield from itertools.chain.from_iterable(map(encode.batches, pieces))
        return
    tasks = ((folder / f"piece-{number:06}", piece) for number, piece in enumerate(pieces))
    with contextlib.closing(engine.map(functools.partial(encode_piece, encode), tasks)) as done:
        for name in done:
            with name.open("rb") as file:
                while file.peek(1):
                    yield [(np.load(file), np.load(file)) for _ in range(int(np.load(file)))]
            name.unlink()


def encode_piece(encode: Encode, task: tuple[Path, Piece]) -> Path:
    """Tokenise a piece of the examples into a file, batch after batch: a task of an engine."""
    name, piece = task
    with atomic_file(name, durable=False) as part, part.open("wb") as file:
        for sides in encode.batches(piece):
            np.save(file, np.array(len(sides)))
            for array in itertools.chain.from_iterable(sides):
                np.save(file, array)
    return name


class _Writer:
    """Appends tokenised examples to the files of a store."""

    def __init__(
        self, folder: Path, encode: Encode, files: contextlib.ExitStack, with_texts: bool
    ) -> None:
        self.tokens = dict.fromkeys(encode.sides, 0)
        self.counts = {"examples": 0, "empty": 0}
        if with_texts:
            self.counts["text_bytes"] = 0
        if encode.given:
            self.counts["given"] = 0
        # tokens of an empty text
        self._marks = 0 if encode.dialogue is None else encode.dialogue.marks
        names = [f"{side}.{kind}" for side in encode.sides for kind in ("ids", "offsets")]
        names += [f"{side}.hash" for side in encode.sides if side in (RESPONSE, CANDIDATES)]
        names += ["texts.jsonl", "texts.offsets"] if with_texts else []
        self._files: dict[str, IO[bytes]] = {
            n: files.enter_context((folder / n).open("wb")) for n in names
        }
        for name in names:
            if name.endswith(".offsets"):
                self._write(name, np.zeros(1), "<i8")

    def add(self, sides: Sides, raw: pa.RecordBatch | None) -> None:
        """Append examples, and their texts where they are kept."""
        keep = (sides[0][1] > self._marks) & (sides[1][1] > self._marks)
        self.counts["empty"] += int((~keep).sum())
        self.counts["examples"] += int(keep.sum())
        by_name = dict(zip(self.tokens, sides, strict=True))
        for name, (ids, lengths) in by_name.items():
            kept = keep
            if name == CANDIDATES:
                kept = self._repeated(keep, len(lengths))
            elif name == HISTORY:
                kept = np.repeat(keep, by_name[SLOTS][1])
            self._add_side(name, ids, lengths, kept)
        if raw is not None:
            rows = zip(
                *(column.to_pylist() for column in raw.filter(pa.array(keep)).columns), strict=True
            )
            lines = [
                json.dumps({"context": context, "response": response}).encode()
                for context, response in rows
            ]
            self._files["texts.jsonl"].write(b"".join(lines))
            ends = self.counts["text_bytes"] + np.cumsum(
                [len(line) for line in lines], dtype=np.int64
            )
            self._write("texts.offsets", ends, "<i8")
            self.counts["text_bytes"] += sum(map(len, lines))

    def _add_side(self, name: str, ids: Ids, lengths: Ids, keep: npt.NDArray[np.bool_]) -> None:
        ids = ids[np.repeat(keep, lengths)]
        lengths = lengths[keep]
        self._write(f"{name}.ids", ids, "<i4")
        self._write(
            f"{name}.offsets", self.tokens[name] + np.cumsum(lengths, dtype=np.int64), "<i8"
        )
        self.tokens[name] += len(ids)
        if f"{name}.hash" in self._files:
            self._write(f"{name}.hash", token_hashes(ids, lengths), "<i8")

    def _repeated(self, keep: npt.NDArray[np.bool_], candidates: int) -> npt.NDArray[np.bool_]:
        """Return the candidates that are kept, as many of each example in all batches."""
        count = candidates // len(keep)
        _check_equal_lengths({count + 1, (self.counts["given"] or count) + 1})
        self.counts["given"] = count
        return np.repeat(keep, count)

    def _write(self, name: str, values: npt.NDArray[Any], dtype: str) -> None:
        self._files[name].write(np.ascontiguousarray(values.astype(dtype)).data)


def data_digest(data: Path, splits: Sequence[Split]) -> str:
    """Return the SHA-256 of a file, or of names and contents of the files of a folder's splits."""
    if data.is_file():
        return file_digest(data)
    files = sorted(file for split in splits for file in data.glob(f"{split}-*.parquet"))
    listed = "".join(f"{file.name} {file_digest(file)}\n" for file in files)
    return hashlib.sha256(listed.encode()).hexdigest()


def token_hashes(ids: Ids, lengths: Ids) -> TokenRows:
    """Return a 64-bit hash of each text's tokens.

    It is the sum of a pseudo-random number for each (place, token).
    """
    places = ranges(0, lengths)
    mixed = mix(ids.astype(np.uint64) << np.uint64(32) | places.astype(np.uint64))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
    ends = np.cumsum(lengths, dtype=np.int64)
    return (sums[ends] - sums[ends - lengths]).view(np.int64)
