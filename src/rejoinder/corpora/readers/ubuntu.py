"""The Ubuntu Dialogue Corpus: technical support on IRC between two people, versions 1 and 2, as CSV.

The header says which form a file has; without one (V1) the first ten rows do. `__eot__` ends a turn (V1: `__EOS__` or
`</s>`) and `__eou__` an utterance within it. The rows name no dialogues, so the thread is the hash of the first turn.
Format: github.com/rkadlec/ubuntu-ranking-dataset-creator (V2), Lowe et al. 2015, section 3.3 (V1).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.example import Example, content_thread
from rejoinder.corpora.formats import BadRecordError, csv_rows, dialogue_examples, parse_records
from rejoinder.corpora.lines import Reading, strip_compression
from rejoinder.errors import InputError

LIST = 10
"""Rows of V1's validation and test files that make one list of candidates."""
_PAIR = ["context", "utterance", "label"]
_WIDE = ["context", "ground truth utterance"]
_LABELS = {"1": True, "1.0": True, "0": False, "0.0": False}
_OLD_TURN_END = re.compile(r"__EOS__|</s>")


@dataclass(frozen=True)
class UbuntuSettings:
    """Settings of `rejoinder data ubuntu`."""

    pairs: bool = False
    """Every message of a row with what precedes it, without candidates: the consecutive pairs that ACL19 takes. The
    rows repeat the beginnings of their dialogues; what is equal is dropped with the duplicates."""


def split_turns(context: str) -> list[str]:
    """Return the turns of a context, oldest first, blank ones included."""
    turns = context.split("__eot__") if "__eot__" in context else _OLD_TURN_END.split(context)
    if not turns[-1].strip():  # what follows the last mark
        turns.pop()
    return [join_utterances(turn) for turn in turns]


def join_utterances(turn: str) -> str:
    """Return the utterances of a turn as one message."""
    return " ".join(filter(None, (utterance.strip() for utterance in turn.split("__eou__"))))


def read_ubuntu(path: Path, reading: Reading, settings: UbuntuSettings) -> Iterator[Example]:
    """Read the examples of a file of the corpus, compressed or not."""
    for number, context, responses, label in _choices(path, reading):
        turns = split_turns(context)
        messages = [turn for turn in turns if turn]
        candidates = tuple(map(join_utterances, responses))
        response = candidates[label or 0]
        reading.blank_messages += len(turns) - len(messages)
        if not messages or not response:
            reading.drop("blank responses" if messages else "blank contexts")
            continue
        name, thread = f"{strip_compression(path).stem}:{number}", content_thread(messages[:1])
        if settings.pairs:
            turns = [*messages, response]
            yield from dialogue_examples(turns, name=name, thread=thread, source="ubuntu", reading=reading)
        else:
            listed = () if label is None else candidates
            yield Example(reading.newest(messages), response, name, thread, "ubuntu", listed, label)


_Choice: TypeAlias = tuple[int, str, Sequence[str], int | None]
"""Line, context, responses and the right one's place among them; None: the only one."""


class _Pair(NamedTuple):
    number: int
    context: str
    utterance: str
    right: bool


def _choices(path: Path, reading: Reading) -> Iterator[_Choice]:
    """Return the contexts of a file of any form, each with its responses."""
    rows = csv_rows(path, reading)
    number, first = next(rows, (0, []))
    header = [cell.strip().lower() for cell in first]
    if not first:
        return iter(())

    def parse_wide(number: int, row: list[str]) -> list[_Choice]:
        if len(row) != len(header):
            raise BadRecordError(f"{len(row)} columns instead of {len(header)}, which the header has")
        return [(number, row[0], row[1:], 0)]

    if header[:2] == _WIDE and len(header) > 2:
        return parse_records(path, reading, rows, parse_wide)
    if len(header) == len(_PAIR) and header[2] in _LABELS:
        rows = itertools.chain([(number, first)], rows)
    elif header != _PAIR:
        raise InputError(
            f"{path}:{number}: the first row is {', '.join(first)[:60]!r}; read are files that begin with "
            "Context,Utterance,Label or with Context,Ground Truth Utterance,Distractor_0,..."
        )
    return _labelled(parse_records(path, reading, rows, _parse_pair), path, reading)


def _parse_pair(number: int, row: list[str]) -> Iterable[_Pair]:
    if len(row) != len(_PAIR):
        raise BadRecordError(f"{len(row)} columns instead of 3: context, utterance, label")
    if row[2].strip() not in _LABELS:
        raise BadRecordError(f"the label is {row[2][:20]!r}; it is 1 or 0")
    return [_Pair(number, row[0], row[1], _LABELS[row[2].strip()])]


def _labelled(pairs: Iterator[_Pair], path: Path, reading: Reading) -> Iterator[_Choice]:
    """Training rows, or lists of candidates if the first ten rows are one."""
    head = list(itertools.islice(pairs, LIST))
    lists = not _fault_of_list(head)
    what = f"lists of {LIST} candidates" if lists else "pairs; those of label 0 are left out"
    reading.notes.append(f"{path}: rows with labels, read as {what}, by the first {LIST} rows")
    pairs = itertools.chain(head, pairs)
    for rows in _lists(pairs) if lists else ([pair] for pair in pairs):
        number, context, utterance, right = rows[0]
        fault = _fault_of_list(rows) if lists else ""
        if fault:
            reading.bad_line(path, number, fault)
        elif lists:
            yield number, context, [pair.utterance for pair in rows], [pair.right for pair in rows].index(True)
        elif right:
            yield number, context, [utterance], None
        else:
            reading.drop("responses drawn at random (label 0)")


def _lists(pairs: Iterator[_Pair]) -> Iterator[list[_Pair]]:
    """Ten rows at a time, fewer where the context changes before: after a missing row the next list is whole."""
    for _, rows in itertools.groupby(pairs, key=lambda pair: pair.context):
        while block := list(itertools.islice(rows, LIST)):
            yield block


def _fault_of_list(rows: Sequence[_Pair]) -> str:
    """Return why these rows are no list of candidates; nothing if they are one."""
    if len({pair.context for pair in rows}) != 1 or len(rows) != LIST:
        return f"{len(rows)} rows of one context instead of {LIST}, the first of which is this one"
    right = sum(pair.right for pair in rows)
    return "" if right == 1 else f"{right} of the {LIST} rows of one context have label 1; exactly one has"


CORPUS = Corpus(
    name="ubuntu",
    title="Ubuntu Dialogue Corpus V1 and V2: technical support on IRC between two people.",
    reads="train.csv, valid.csv and test.csv of V2; trainset.csv, valset.csv and testset.csv of V1",
    licence="none stated for the data; the scripts that make V2 are Apache-2.0",
    origin="github.com/rkadlec/ubuntu-ranking-dataset-creator makes V2; V1 was at cs.mcgill.ca",
    expected="V2: 1,000,000 training rows, about half of label 1; 19,560 validation and 18,920 test examples",
    read=read_ubuntu,
    settings=UbuntuSettings,
)
