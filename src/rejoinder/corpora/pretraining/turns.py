"""All messages of a corpus as one table in memory: their words as bytes, and numbers in arrays.

A row is a message. The pair of a row is the message before it in its dialogue, and the message itself as the
response. What is compared is words alone (`splits.words_of`), each followed by one space in `words`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rejoinder.corpora.dialogues import Threads
from rejoinder.corpora.formats import BadRecordError, parse_object, spoken_turns, text_of
from rejoinder.corpora.lines import Reading, open_lines, strip_compression
from rejoinder.corpora.pretraining.cleaning import clean
from rejoinder.corpora.pretraining.filters import fault_of
from rejoinder.corpora.pretraining.recipe import Filters
from rejoinder.corpora.splits import words_of

IntArray: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
BLOCK_BYTES = 1 << 22


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A line of a file: its turns, none blank, and the place of the first that is a new response."""

    name: str
    turns: list[str]
    first: int = 1
    tree: str = ""
    """Lines that are branches of one reply tree have the same."""


def read_dialogues(path: Path, reading: Reading, cleaners: Sequence[str] = ()) -> Iterator[Dialogue]:
    """Read a file of dialogues, one JSON object a line (see `corpora.jsonl`).

    Args:
        path: the file.
        reading: whether to skip bad lines, and the counts.
        cleaners: applied to each message (see `cleaning`); what is blank then was not said.

    Raises:
        InputError: a fault of the file, or of a line.
    """
    threads, stem = Threads(), strip_compression(path).stem
    for number, line in open_lines(path, reading):
        if not line or line.isspace():
            continue
        reading.lines += 1
        try:
            record = parse_object(line)
            turns, first = spoken_turns(record)
            if cleaners:
                cleaned = [clean(turn, cleaners) for turn in turns]
                turns, first = spoken_turns({"turns": cleaned, "from": min(first, max(1, len(turns)))})
            name = text_of(record.get("id") or f"{stem}:{number}", "id")
        except BadRecordError as error:
            reading.bad_line(path, number, str(error))
            continue
        reading.without_reply += len(turns) <= first
        yield Dialogue(name, turns, first, threads.find(turns, first))


class TurnTable:
    """The table, filled dialogue by dialogue; the arrays are there after `close`.

    Attributes:
        words: all words as UTF-8, a space after each: (b,) uint8.
        start: (r + 1,): where in `words` a row begins; it ends where the next begins.
        counts: (r,): words of a row.
        dialogue: (r,): number of the row's dialogue.
        place: (r,): place of the row in its dialogue.
        fault: (r,): what `filters.fault_of` says of it.
        pair: (r,): whether the row is a new response to the row before it.
        rows: (d + 1,): first row of a dialogue; it ends where the next begins.
        source: (d,): number of the dialogue's source.
    """

    words: npt.NDArray[np.uint8]
    start: IntArray
    counts: npt.NDArray[np.int32]
    dialogue: npt.NDArray[np.int32]
    place: npt.NDArray[np.int32]
    fault: npt.NDArray[np.uint8]
    pair: Mask
    rows: IntArray
    source: npt.NDArray[np.int32]

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._columns: dict[str, array[int]] = {}
        codes = {"start": "q", "counts": "i", "dialogue": "i", "place": "i", "fault": "B", "pair": "B"}
        for name, code in (*codes.items(), ("rows", "q"), ("source", "i")):
            self._columns[name] = array(code)

    def add(self, turns: Sequence[str], first: int, source: int, filters: Filters | None = None) -> list[list[str]]:
        """Add a dialogue whose turns are new responses from `first` on; gives back the words of each turn."""
        columns = self._columns
        number = len(columns["source"])
        columns["source"].append(source)
        columns["rows"].append(len(columns["start"]))
        found = []
        for place, turn in enumerate(turns):
            words = words_of(turn)
            found.append(words)
            columns["start"].append(len(self._bytes))
            columns["counts"].append(len(words))
            columns["dialogue"].append(number)
            columns["place"].append(place)
            columns["fault"].append(fault_of(turn, words, filters) if filters else 0)
            columns["pair"].append(place >= max(1, first))
            if words:
                self._bytes += " ".join(words).encode("utf-8") + b" "
        return found

    def close(self) -> TurnTable:
        """Make the arrays; nothing can be added any more."""
        columns: dict[str, Any] = self._columns
        columns["start"].append(len(self._bytes))
        columns["rows"].append(len(columns["counts"]))
        for name, column in columns.items():
            setattr(self, name, np.array(column) if name != "pair" else np.array(column).astype(bool))
        self.words = np.frombuffer(self._bytes, np.uint8)
        self._columns = {}
        return self

    @property
    def pair_rows(self) -> IntArray:
        """Rows that are responses, ascending."""
        return np.flatnonzero(self.pair)

    @property
    def sources(self) -> npt.NDArray[np.int32]:
        """(r,): number of each row's source."""
        return self.source[self.dialogue]

    @property
    def pair_words(self) -> IntArray:
        """(r,): words of a row and the row before it; of a row without a pair 0."""
        counts = self.counts.astype(np.int64)
        both = counts + np.concatenate([[0], counts[:-1]]) if len(counts) else counts
        return np.where(self.pair, both, 0)

    def blocks(self, size: int = BLOCK_BYTES) -> Iterator[tuple[int, int]]:
        """Ranges of rows, whole dialogues of about `size` bytes."""
        ends = self.start[self.rows[1:]]
        low = 0
        while low < len(ends):
            high = max(low + 1, int(np.searchsorted(ends, self.start[self.rows[low]] + size, side="right")))
            yield int(self.rows[low]), int(self.rows[high])
            low = high
