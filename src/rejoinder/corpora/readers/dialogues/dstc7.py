"""DSTC7 track 1 (NOESIS), sentence selection: Ubuntu support chat and student advising.

A file is a JSON array of dialogues. Of training dialogues every utterance but the first is a
response, without candidates (POLY, section 5), of others the last. Of several right answers
(Advising) the first among the candidates is the response, and the others leave the list.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.dialogues import dialogue_examples
from rejoinder.corpora.forms.formats import text_of
from rejoinder.corpora.forms.source import Source
from rejoinder.corpora.forms.tab_pairs import tab_pairs
from rejoinder.corpora.json_values import json_values
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.records import BadRecordError, parse_records
from rejoinder.corpora.schema import Example
from rejoinder.corpora.splits import content_thread
from rejoinder.errors import InputError
from rejoinder.settings import documented

_NONE = "NONE"  # stands for the id of the right candidate where none is right (subtask 4)


@documented
class Dstc7Settings:
    """Settings of `rejoinder data dstc7`."""

    answers: str = ""
    """File with the answers of the test set."""

    def __post_init__(self) -> None:
        if self.answers and not Path(self.answers).is_file():
            raise InputError(
                f"answers is {self.answers}, which is not a file; "
                "name the file with the test set's answers"
            )


def read_dstc7(path: Path, reading: Reading, settings: Dstc7Settings) -> Iterator[Example]:
    """Yield the examples of a file, dialogue by dialogue; a fault names the dialogue's number."""
    answers = {}
    wanted = "no answer; a line is an example id, a tab and ids of candidates"
    for name, rest in tab_pairs(settings.answers, reading, wanted) if settings.answers else ():
        ids, _, text = rest.partition("\t")
        answers[name] = {candidate.strip(): text for candidate in ids.split(",")}

    def parse(number: int, record: Any) -> Iterator[Example]:
        if not isinstance(record, dict):
            raise BadRecordError(f"dialogue {number}: it is not a JSON object")
        try:
            yield from _dstc7_examples(record, answers, reading)
        except BadRecordError as error:
            raise BadRecordError(f"dialogue {number}: {error}") from None

    values = json_values(Source(path), {"item"}, reading=reading)
    numbered = enumerate((value for _, value in values), 1)
    first = next(numbered, None)
    if first is None:
        raise InputError(f"{path}:1: no dialogue; a JSON array of dialogues is read")
    yield from parse_records(path, reading, itertools.chain([first], numbered), parse)


def _dstc7_examples(
    record: Mapping[str, Any], known: Mapping[str, Mapping[str, str]], reading: Reading
) -> Iterator[Example]:
    """Yield a record's examples, one for each right answer, with its candidates."""
    name = _id(record.get("example-id"), "example-id")
    utterances = [
        text_of(message.get("utterance"), f"messages-so-far[{position}].utterance")
        for position, message in enumerate(
            _objects(record.get("messages-so-far"), "messages-so-far")
        )
    ]
    answers = known.get(name)
    if "options-for-correct-answers" in record:
        answers = _options(record, "options-for-correct-answers")
    if answers is None:
        raise BadRecordError(
            f"example {name} has no answer; name the file of the answers: --set answers=FILE"
        )
    answers = {candidate: text for candidate, text in answers.items() if candidate.upper() != _NONE}
    messages = [message for message in utterances if message.strip()]
    reading.blank_messages += len(utterances) - len(messages)
    if not messages:
        raise BadRecordError("messages-so-far is blank; it needs at least one message")
    thread = content_thread(messages[:2])
    options = _options(record, "options-for-next") if "options-for-next" in record else {}
    if (reading.part or record.get("data-split")) != "train":
        response, candidates, label = _choice(options, answers, reading)
        if response:
            yield Example(
                reading.newest(messages), response, name, thread, "dstc7", candidates, label
            )
        return
    messages += [text for text in answers.values() if text.strip()][:1]
    yield from dialogue_examples(
        messages, name=name, thread=thread, source="dstc7", reading=reading
    )


def _choice(
    options: Mapping[str, str], answers: Mapping[str, str], reading: Reading
) -> tuple[str, tuple[str, ...], int | None]:
    """Return response, candidates and its place among them; a blank response if there is none."""
    if len(options) < 2:
        raise BadRecordError(f"{len(options)} candidates in options-for-next; 2 or more are read")
    right = [candidate for candidate in answers if candidate in options]
    if not right or not options[right[0]].strip():
        reading.drop("dialogues without a right candidate" if not right else "blank responses")
        return "", (), None
    kept = [candidate for candidate in options if candidate == right[0] or candidate not in right]
    return options[right[0]], tuple(options[candidate] for candidate in kept), kept.index(right[0])


def _options(record: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return texts by candidate ids, in the order of the list; repeated candidates count once."""
    options: dict[str, str] = {}
    for position, option in enumerate(_objects(record[name], name)):
        candidate = _id(option.get("candidate-id"), f"{name}[{position}].candidate-id")
        options[candidate] = text_of(option.get("utterance"), f"{name}[{position}].utterance")
    return options


def _objects(value: Any, name: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise BadRecordError(f"{name} is missing or no list of objects")
    return value


def _id(value: Any, name: str) -> str:
    """Return an id as text; Ubuntu's examples and Advising's candidates have numbers."""
    if type(value) is int:
        return str(value)
    if not value:
        raise BadRecordError(f"{name} is missing or blank")
    return text_of(value, name)


DSTC7 = Corpus(
    name="dstc7",
    title="DSTC7 track 1: next utterance among 100, Ubuntu support chat and student advising.",
    reads="ubuntu_{train,dev,test}_subtask_*.json and Advising's; answers of the test sets from "
    "their .tsv",
    licence="none stated for the data; the repository of the task is MIT",
    origin="ibm.github.io/dstc-noesis/public/datasets.html; Ubuntu's files also "
    "parl.ai/downloads/dstc7/dstc7_v2.tgz",
    expected="Ubuntu subtask 1: 100,000 training, 5,000 development and 1,000 test dialogues, 100 "
    "candidates each",
    read=read_dstc7,
    settings=Dstc7Settings,
)
