"""What is evaluated on, read to be compared with: pairs of messages, or single texts."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from rejoinder.corpora.lines import Reading
from rejoinder.corpora.pretraining.recipe import Evaluation
from rejoinder.corpora.pretraining.turns import TurnTable
from rejoinder.corpora.sources import CORPORA, read_settings
from rejoinder.errors import InputError
from rejoinder.files import parse_json

TEXTS = "texts"


def find_files(sets: Sequence[Evaluation], folder: Path) -> dict[str, list[Path]]:
    """The files of each set, once they are seen to be there and their readers to exist.

    Raises:
        InputError: names the first that is not.
    """
    for each in sets:
        if each.reader != TEXTS and (each.reader not in CORPORA or CORPORA[each.reader].read is None):
            known = ", ".join(name for name, corpus in CORPORA.items() if corpus.read is not None)
            raise InputError(f"evaluation set {each.name}: no reader {each.reader!r}; there are {TEXTS}, {known}")
    found = {each.name: [folder / name for name in each.files] for each in sets}
    for name, files in found.items():
        for file in files:
            if not file.is_file():
                raise InputError(f"evaluation set {name}: {file} is not there; check the folder of evaluation sets")
    return found


def read_sets(sets: Sequence[Evaluation], folder: Path) -> tuple[TurnTable, TurnTable]:
    """The pairs and the single texts of all sets, each set's place as the source of its dialogues."""
    pairs, texts = TurnTable(), TurnTable()
    for number, (each, files) in enumerate(zip(sets, find_files(sets, folder).values(), strict=True)):
        for file in files:
            if each.reader == TEXTS:
                for text in _texts(file):
                    texts.add([text], 1, number)
            else:
                for turns in _pairs(each, file):
                    pairs.add(turns, 1, number)
    return pairs.close(), texts.close()


def _pairs(given: Evaluation, file: Path) -> Iterator[tuple[str, str]]:
    corpus = CORPORA[given.reader]
    assert corpus.read is not None  # seen by find_files
    for example in corpus.read(file, Reading(history=0), read_settings(corpus, given.settings)):
        yield example.context[-1], example.response


def _texts(file: Path) -> list[str]:
    try:
        if file.suffix == ".csv":
            with file.open(encoding="utf-8", newline="") as opened:
                return [row[0] for row in list(csv.reader(opened))[1:] if row]
        if file.suffix == ".json":
            return [str(text) for part in parse_json(file.read_text(encoding="utf-8")).values() for text, _ in part]
        return file.read_text(encoding="utf-8").splitlines()
    except (ValueError, AttributeError, TypeError) as error:  # UnicodeDecodeError is a ValueError
        raise InputError(f"{file}: not a file of texts ({error}); see [[evaluation]] in docs/pretraining.md") from None
