"""MultiWOZ: customers who plan a trip, and those who book it (Budzianowski et al. 2018).

Versions 2.0 and 2.1 are one JSON object, `data.json`, of dialogues by name. Version 2.2, like the
Schema-Guided Dialogues, has arrays of dialogues.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.dialogues import Dialogue, dialogue_examples
from rejoinder.corpora.forms.formats import text_of
from rejoinder.corpora.forms.source import Source
from rejoinder.corpora.json_values import dicts, json_values
from rejoinder.corpora.lines import Reading, open_lines
from rejoinder.corpora.records import BadRecordError, parse_records
from rejoinder.corpora.schema import Example
from rejoinder.corpora.splits import Split, split_of
from rejoinder.errors import InputError
from rejoinder.settings import documented

_LOG = ".log"  # behind a dialogue's name: where its turns are


@documented
class MultiwozSettings:
    """Settings of `rejoinder data multiwoz`."""

    respond: Literal["system", "all"] = "system"
    """Whose messages are responses: those of the system, or all."""
    valid_list: str = ""
    """File with the names of the validation dialogues of data.json (`valListFile`)."""
    test_list: str = ""
    """File with the names of its test dialogues (`testListFile`)."""

    def __post_init__(self) -> None:
        for name in ("valid_list", "test_list"):
            value = getattr(self, name)
            if value and not Path(value).is_file():
                raise InputError(
                    f"{name} is {value}, which is not a file; name a list of dialogues"
                )


def read_multiwoz(path: Path, reading: Reading, settings: MultiwozSettings) -> Iterator[Example]:
    """Yield the examples of a file, dialogue by dialogue; a fault names the dialogue's number."""

    def parse(number: int, named: tuple[str, Any]) -> Dialogue:
        name, record = named
        try:
            name, turns = _turns(name, record)
        except BadRecordError as error:
            raise BadRecordError(f"dialogue {number}: {error}") from None
        reading.blank_messages += sum(not text.strip() for _, text in turns)
        responses = [
            index
            for index, (is_system, _) in enumerate(turns)
            if is_system or settings.respond == "all"
        ]
        return dialogue_examples(
            [text for _, text in turns],
            name=name,
            thread=name,
            source="multiwoz",
            reading=reading,
            responses=responses,
        )

    yield from parse_records(path, reading, enumerate(_dialogues(path, reading), 1), parse)


class _OfDialogues:
    """The paths of what is read: the log of each dialogue by name, or the dialogues of an array."""

    def __contains__(self, path: object) -> bool:
        return path == "item" or str(path).endswith(_LOG)


def _dialogues(path: Path, reading: Reading) -> Iterator[tuple[str, Any]]:
    """Yield a file's dialogues, each with its name if that is outside of it."""
    values = json_values(Source(path), _OfDialogues(), reading=reading)
    first = next(values, None)
    if first is None:
        raise InputError(f"{path}: no dialogue; data.json of MultiWOZ or an array of them is read")
    for place, value in itertools.chain([first], values):
        yield place.removesuffix(_LOG) if place.endswith(_LOG) else "", value


def _turns(name: str, record: Any) -> tuple[str, list[tuple[bool, str]]]:
    """Return a dialogue's name, and of each turn whether the system says it, and its text."""
    if name:  # the customer begins
        texts = [_text(turn, "text", f"log[{index}]") for index, turn in enumerate(dicts(record))]
        return name, [(index % 2 == 1, text) for index, text in enumerate(texts)]
    if not isinstance(record, dict) or not isinstance(record.get("turns"), list):
        raise BadRecordError("no turns; an object with dialogue_id and turns is read")
    turns = [
        (turn.get("speaker") == "SYSTEM", _text(turn, "utterance", f"turns[{index}]"))
        for index, turn in enumerate(dicts(record["turns"]))
    ]
    return text_of(record.get("dialogue_id"), "dialogue_id"), turns


def _text(turn: Mapping[str, Any], key: str, place: str) -> str:
    return text_of(turn.get(key), f"{place}.{key}").strip()


def split_by_lists(thread: str, settings: MultiwozSettings) -> Split:
    """Return the part of a dialogue by the published lists, or by `split_of` without any."""
    if not settings.valid_list and not settings.test_list:
        return split_of(thread)
    if thread in _names(settings.test_list):
        return "test"
    return "valid" if thread in _names(settings.valid_list) else "train"


@functools.lru_cache(maxsize=2)
def _names(path: str) -> frozenset[str]:
    """Return the names of dialogues that a list has, one a line."""
    if not path:
        return frozenset()
    return frozenset(line.strip() for _, line in open_lines(Path(path)) if line)


MULTIWOZ = Corpus(
    name="multiwoz",
    title="MultiWOZ: customers who plan a trip, and those who book it.",
    reads="data.json of 2.0 and 2.1, dialogues_*.json of 2.2; also the Schema-Guided Dialogues",
    licence="MIT; CC BY-SA 4.0 of the Schema-Guided Dialogues",
    origin="github.com/budzianowski/multiwoz",
    expected="10,438 dialogues: 8,438 to train, 1,000 to validate, 1,000 to test",
    read=read_multiwoz,
    split=split_by_lists,
    settings=MultiwozSettings,
)
