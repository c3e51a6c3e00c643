"""Examples to token ids, some thousand at a time: here, or in the workers of an engine."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from rejoinder.corpora.engine import Engine
from rejoinder.corpora.example import Split
from rejoinder.corpora.examples import Piece, read_columns, read_piece
from rejoinder.errors import InputError
from rejoinder.files import atomic_file
from rejoinder.models.dialogue import Dialogue, HistoryText
from rejoinder.text.tokenizer import Ids, Tokenizer

Sides: TypeAlias = list[tuple[Ids, Ids]]
"""Of each side of some examples (input, response, perhaps history) all ids, and the length of each text."""
_COLUMNS = ("context", "response")
_LISTS = ("candidates", "label")


@dataclass(frozen=True)
class Encode:
    """How examples become token ids; workers get it by pickling.

    Attributes:
        tokenizer: the vocabulary.
        max_length: tokens of a text that are kept.
        history: how earlier messages become a text; None leaves them out.
        dialogue: how whole contexts are read as the input; None reads the newest message alone.
    """

    tokenizer: Tokenizer
    max_length: int
    history: HistoryText | None = None
    dialogue: Dialogue | None = None
    given: bool = False
    """Encode the wrong candidates of each example too, as a last side."""

    @property
    def marks(self) -> int:
        """Tokens of a text that says nothing."""
        return 0 if self.dialogue is None else self.dialogue.marks

    def batches(self, piece: Piece) -> Iterator[Sides]:
        """Ids and lengths of a piece of the examples."""
        for batch in read_piece(piece, (*_COLUMNS, *_LISTS) if self.given else _COLUMNS):
            wrong = wrong_candidates(batch) if self.given else []
            if self.dialogue is not None:
                contexts, responses = (batch.column(name).to_pylist() for name in _COLUMNS)
                sides = [self.dialogue.contexts(contexts), self.dialogue.responses(responses)]
                yield [*sides, self.dialogue.responses(wrong)] if self.given else sides
            else:
                texts = [*_texts(batch, self.history), *([wrong] if self.given else [])]
                yield [self.tokenizer.encode_ragged(side, self.max_length) for side in texts]


def wrong_candidates(batch: pa.RecordBatch) -> list[str]:
    """The candidates of some examples that are not the response, those of an example one after the other.

    Raises:
        InputError: an example has no list, or lists differ in length.
    """
    lists, labels = (batch.column(name).to_pylist() for name in _LISTS)
    if any(not texts or label is None for texts, label in zip(lists, labels, strict=True)):
        raise InputError(
            "given_negatives: an example has no candidates; prepare data that gives them (as `rejoinder data convai2` "
            "does), or draw negatives with negatives = 15"
        )
    lengths = {len(texts) for texts in lists}
    if len(lengths) > 1:
        raise InputError(
            f"given_negatives: lists of {min(lengths)} and of {max(lengths)} candidates; all must be of one length"
        )
    return [text for texts, label in zip(lists, labels, strict=True) for text in (*texts[:label], *texts[label + 1 :])]


def encode_all(encode: Encode, pieces: Iterable[Piece], folder: Path, engine: Engine | None) -> Iterator[Sides]:
    """Ids and lengths of the pieces, in order.

    Args:
        encode: what is to be done.
        pieces: of the examples.
        folder: where workers leave what they made, for a while; all must see it.
        engine: its workers do it; None does it here.
    """
    if engine is None:
        for piece in pieces:
            yield from encode.batches(piece)
        return
    names = (folder / f"piece-{number:06}" for number in itertools.count())
    work = functools.partial(encode_piece, encode)
    with contextlib.closing(engine.map(work, zip(names, pieces, strict=False))) as files:
        for name in files:
            with name.open("rb") as file:
                while sides := _load(file):
                    yield sides
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


def _load(file: BufferedReader) -> Sides:
    """The next batch in a file of `encode_piece`; nothing at its end."""
    if not file.peek(1):
        return []
    return [(np.load(file), np.load(file)) for _ in range(int(np.load(file)))]


def read_texts(data: str | Path, split: Split) -> Iterator[list[list[str]]]:
    """Newest messages and responses, some thousands at a time."""
    for batch in read_columns(data, split, _COLUMNS):
        yield _texts(batch, None)


def read_dialogues(pieces: Iterable[Piece]) -> Iterator[tuple[list[list[str]], list[str]]]:
    """Contexts and responses of the pieces, in the batches that `Encode.batches` has."""
    for batch in itertools.chain.from_iterable(read_piece(piece, _COLUMNS) for piece in pieces):
        contexts, responses = (column.to_pylist() for column in batch.columns)
        yield contexts, responses


def _texts(batch: pa.RecordBatch, history: HistoryText | None) -> list[list[str]]:
    """Newest messages, responses and, if asked for, histories."""
    contexts = batch.column("context")
    texts = [_newest(contexts), batch.column("response").to_pylist()]
    if history is not None:
        texts.append([history.join(context) for context in contexts.to_pylist()])
    return texts


def _newest(contexts: pa.ListArray) -> list[str]:
    """Last message of each context."""
    offsets = contexts.offsets.to_numpy()
    if (offsets[1:] == offsets[:-1]).any():
        raise InputError("an example has an empty context; every example needs at least one message")
    newest: list[str] = contexts.values.take(pa.array(offsets[1:] - 1)).to_pylist()
    return newest
