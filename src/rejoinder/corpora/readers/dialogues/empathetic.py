"""EmpatheticDialogues: somebody tells of a feeling, somebody listens (Rashkin et al. 2019)."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator
from pathlib import Path

from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.dialogues import dialogue_examples
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.records import BadRecordError, parse_lines
from rejoinder.corpora.schema import Example

_HEADER = "conv_id"
_COMMA = "_comma_"  # in place of one within a field
_FIELDS = 8  # behind which test files have candidates


def read_empathetic(path: Path, reading: Reading, _: object = None) -> Iterator[Example]:
    """Yield the examples of a file; the rows of a conversation follow one another."""
    rows = parse_lines(path, reading, _parse_row)
    for name, own in itertools.groupby(rows, operator.itemgetter(0)):
        turns = [text for _, text in own]
        reading.blank_messages += turns.count("")
        reading.without_reply += len(turns) == 1
        yield from dialogue_examples(
            turns, name=name, thread=name, source="empathetic-dialogues", reading=reading
        )


def _parse_row(_: int, line: str) -> list[tuple[str, str]]:
    """Return the conversation and the utterance of a row. Its quotes are no quotes of CSV."""
    fields = line.split(",")
    if fields[0] == _HEADER:
        return []
    if len(fields) < _FIELDS:
        raise BadRecordError(
            f"{len(fields)} fields; a row has {_FIELDS}, and {_COMMA} for a comma in them"
        )
    return [(fields[0], fields[5].replace(_COMMA, ",").strip())]


EMPATHETIC = Corpus(
    name="empathetic-dialogues",
    title="EmpatheticDialogues: somebody tells of a feeling, and somebody listens.",
    reads="train.csv, valid.csv, test.csv",
    licence="CC BY-NC 4.0",
    origin="dl.fbaipublicfiles.com/parlai/empatheticdialogues/empatheticdialogues.tar.gz",
    expected="24,850 conversations: 19,533 to train, 2,770 to validate, 2,547 to test",
    read=read_empathetic,
)
