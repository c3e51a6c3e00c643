"""The Ubuntu Dialogue Corpus, version 2: technical support on IRC between two people, as CSV.

`__eot__` ends a turn and `__eou__` an utterance within it. The rows name no dialogues, so the
thread is the hash of the first turn. Format: github.com/rkadlec/ubuntu-ranking-dataset-creator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.dialogues import dialogue_examples
from rejoinder.corpora.forms.csv_pairs import csv_rows
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.records import BadRecordError, parse_records
from rejoinder.corpora.schema import Example
from rejoinder.corpora.splits import content_thread
from rejoinder.errors import InputError
from rejoinder.settings import documented

_PAIR = ["context", "utterance", "label"]
_WIDE = ["context", "ground truth utterance"]
_LABELS = {"1": True, "1.0": True, "0": False, "0.0": False}


@documented
class UbuntuSettings:
    """Settings of `rejoinder data ubuntu`."""

    pairs: bool = False
    """Every message of a row with what precedes it, without candidates: the consecutive pairs that
    ACL19 takes. The rows repeat the beginnings of their dialogues; what is equal is dropped with
    the duplicates."""


def split_turns(context: str) -> list[str]:
    """Return the turns of a context, oldest first, blank ones included."""
    turns = context.split("__eot__")
    if not turns[-1].strip():  # what follows the last mark
        turns.pop()
    return [join_utterances(turn) for turn in turns]


def join_utterances(turn: str) -> str:
    """Return the utterances of a turn as one message."""
    return " ".join(filter(None, (utterance.strip() for utterance in turn.split("__eou__"))))


def read_ubuntu(path: Path, reading: Reading, settings: UbuntuSettings) -> Iterator[Example]:
    """Read the examples of a file of the corpus, compressed or not."""
    for number, context, responses in _choices(path, reading):
        turns = split_turns(context)
        messages = [turn for turn in turns if turn]
        response, *others = map(join_utterances, responses)
        reading.blank_messages += len(turns) - len(messages)
        if not messages or not response:
            reading.drop("blank responses" if messages else "blank contexts")
            continue
        name = f"{reading.stem(path)}:{number}"
        thread = content_thread(messages[:1])
        if settings.pairs:
            turns = [*messages, response]
            yield from dialogue_examples(
                turns, name=name, thread=thread, source="ubuntu", reading=reading
            )
        else:
            newest = reading.newest(messages)
            candidates = (response, *others) if others else ()
            label = 0 if others else None
            yield Example(newest, response, name, thread, "ubuntu", candidates, label)


def _choices(path: Path, reading: Reading) -> Iterator[tuple[int, str, Sequence[str]]]:
    """Yield line, context and responses of each row that counts; the first response is right."""
    rows = csv_rows(path, reading)
    number, first = next(rows, (0, []))
    header = [cell.strip().lower() for cell in first]
    if first and header != _PAIR and (header[:2] != _WIDE or len(header) < 3):
        raise InputError(
            f"{path}:{number}: the first row is {', '.join(first)[:60]!r}; Context,Utterance,Label "
            "or Context,Ground Truth Utterance,Distractor_0,... is read"
        )

    def parse(number: int, row: list[str]) -> Iterator[tuple[int, str, Sequence[str]]]:
        if len(row) != len(header):
            raise BadRecordError(
                f"{len(row)} columns instead of {len(header)}, which the header has"
            )
        if header != _PAIR:
            yield number, row[0], row[1:]
        elif row[2].strip() not in _LABELS:
            raise BadRecordError(f"the label is {row[2][:20]!r}; it is 1 or 0")
        elif _LABELS[row[2].strip()]:
            yield number, row[0], row[1:2]
        else:
            reading.drop("responses drawn at random (label 0)")

    return parse_records(path, reading, rows, parse)


UBUNTU = Corpus(
    name="ubuntu",
    title="Ubuntu Dialogue Corpus V2: technical support on IRC between two people.",
    reads="train.csv, valid.csv and test.csv of V2",
    licence="none stated for the data; the scripts that make V2 are Apache-2.0",
    origin="github.com/rkadlec/ubuntu-ranking-dataset-creator makes V2",
    expected="V2: 1,000,000 training rows, about half of label 1; 19,560 validation and 18,920 "
    "test examples",
    read=read_ubuntu,
    settings=UbuntuSettings,
)
