"""Examples written as token stores, by one process or several."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rejoinder.arrays import Ids
from rejoinder.conversations import Context
from rejoinder.corpora.forms.examples import Piece, pieces_of, read_piece
from rejoinder.engine import Engine
from rejoinder.errors import InputError
from rejoinder.files import atomic_file, atomic_folder
from rejoinder.progress import Advance
from rejoinder.text.dialogue import Dialogue
from rejoinder.text.history import HistoryText
from rejoinder.text.tokenizer import Tokenizer, encode_messages
from rejoinder.training.data.examples import COLUMNS, Split, newest_and_response
from rejoinder.training.data.tokens import (
    CANDIDATES,
    FORMAT,
    HISTORY,
    INPUT,
    MANIFEST,
    RESPONSE,
    SLOTS,
    TokenStore,
    open_store,
    token_hashes,
)

# of each side of some examples: all ids, and each text's length
Sides: TypeAlias = list[tuple[Ids, Ids]]

_LISTS = ("candidates", "label")


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
        for batch in read_piece(piece, (*COLUMNS, *_LISTS) if self.given else COLUMNS):
            wrong = [_wrong_candidates(batch)] if self.given else []
            contexts = batch.column("context").to_pylist()
            if self.dialogue is None:
                texts = [*newest_and_response(contexts, batch), *wrong]
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
        raw = (batch for piece in pieces_of(data, split) for batch in read_piece(piece, COLUMNS))
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
