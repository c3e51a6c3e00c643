"""Texts with their intents, read from the files people have.

| what | how it is told |
|---|---|
| `.csv`, compressed or not | two columns, text and label; a first row of their names (see below) is a header |
| `.jsonl` | one object a line: `{"text": ..., "label": ...}`, or `"labels": [...]` |
| `.json` | one object of parts, each a list of `[text, label]`: CLINC150's own files; `oos_val` joins the part `val` |
| a folder with `seq.in` and `label` | line i of one belongs to line i of the other |
| a folder of parts | `train`, `valid` (or `val`) and `test`, each a folder or file as above |
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rejoinder.corpora.csv_pairs import csv_rows
from rejoinder.corpora.lines import Reading, open_lines, open_pieces, strip_compression
from rejoinder.errors import InputError

TEXT_FIELDS = ("text", "utterance", "sentence", "query")
LABEL_FIELDS = ("label", "labels", "intent", "intents", "category")
PARTS = ("train", "valid", "test")
TEXTS_FILE, LABELS_FILE = "seq.in", "label"
OUT_OF_SCOPE = "oos"
"""The label that says that a text has none of the intents (CLINC150's name for it)."""

_OTHER_NAMES = {"valid": ("valid", "val", "validation", "dev"), "train": ("train",), "test": ("test",)}
_ENDINGS = (".csv", ".jsonl", ".json")

Row = tuple[str, str, tuple[str, ...]]
"""Where a text stands, to be told in errors; the text; its labels."""


@dataclass(frozen=True)
class IntentData:
    """Texts and their intents.

    Attributes:
        texts: n texts.
        labels: the labels of each; one, unless texts may have several.
    """

    texts: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if len(self.texts) != len(self.labels):
            raise InputError(f"{len(self.texts)} texts but labels of {len(self.labels)}; give labels to every text")

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def names(self) -> tuple[str, ...]:
        """The different labels, in order of their letters."""
        return tuple(sorted({name for labels in self.labels for name in labels}))

    def rows(self, chosen: npt.NDArray[np.int64] | Sequence[int]) -> IntentData:
        """Some of the texts, by their numbers."""
        numbers = [int(i) for i in chosen]
        return IntentData(tuple(self.texts[i] for i in numbers), tuple(self.labels[i] for i in numbers))

    def apart(self, label: str = OUT_OF_SCOPE) -> tuple[IntentData, IntentData]:
        """The texts in scope, and those that carry `label`."""
        out = np.array([label in labels for labels in self.labels], dtype=bool)
        return self.rows(np.flatnonzero(~out)), self.rows(np.flatnonzero(out))

    def __add__(self, other: IntentData) -> IntentData:
        return IntentData(self.texts + other.texts, self.labels + other.labels)


def read_intents(path: str | Path, part: str | None = None, *, separator: str | None = None) -> IntentData:
    """Read texts with their intents (see the table above).

    Args:
        path: a file or a folder.
        part: which part, of a path that holds several: train, valid or test.
        separator: what stands between the labels of a text that may have several; None: a text has one.

    Raises:
        InputError: names file, line and reason, or the parts that there are.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path} does not exist; name a CSV or JSONL file of texts and labels, or a folder")
    texts, labels = [], []
    for where, text, given in _read(path, part):
        names = _split(given, separator)
        if not text.strip():
            raise InputError(f"{where}: the text is blank; a text and its label are needed")
        if not all(name.strip() for name in names):
            raise InputError(f"{where}: a label is blank; name the intent of {text[:40]!r}")
        if separator is None and len(names) != 1:
            raise InputError(f"{where}: {len(names)} labels; one is read, unless several are allowed (--several)")
        texts.append(text)
        labels.append(tuple(dict.fromkeys(name.strip() for name in names)))
    if not texts:
        raise InputError(f"{path} holds no texts; a text and its label are needed")
    return IntentData(tuple(texts), tuple(labels))


def has_part(path: str | Path, part: str) -> bool:
    """Whether a path holds several parts, and this one among them."""
    path = Path(path)
    if path.is_dir() and not (path / TEXTS_FILE).is_file():
        return _part_of(path, part) is not None
    if path.is_file() and strip_compression(path).suffix.lower() == ".json":
        return any(key in _read_parts(path) for key in _OTHER_NAMES[part])
    return False


def _split(names: tuple[str, ...], separator: str | None) -> tuple[str, ...]:
    if separator is None or len(names) != 1:
        return names
    return tuple(part for part in names[0].split(separator)) if names[0].strip() else ()


def _read(path: Path, part: str | None) -> Iterator[Row]:
    if part is not None and part not in PARTS:
        raise InputError(f"there is no part {part!r}; allowed are {', '.join(PARTS)}")
    if path.is_dir():
        if (path / TEXTS_FILE).is_file():
            return _from_parallel(path)
        return _from_folder(path, part or PARTS[0])
    readers = {".csv": _from_csv, ".jsonl": _from_jsonl, ".ndjson": _from_jsonl}
    kind = strip_compression(path).suffix.lower()
    if kind == ".json":
        return _from_json(path, part or PARTS[0])
    if kind not in readers:
        known = ".csv, .jsonl, .json (each may end in .zst, .gz, .bz2 or .xz too)"
        raise InputError(f"{path}: intents are read from {known}, or a folder with {TEXTS_FILE} and {LABELS_FILE}")
    return readers[kind](path)


def _part_of(folder: Path, part: str) -> Path | None:
    for name in _OTHER_NAMES[part]:
        for found in (folder / name, *(folder / f"{name}{ending}" for ending in _ENDINGS)):
            if found.exists():
                return found
    return None


def _from_folder(folder: Path, part: str) -> Iterator[Row]:
    found = _part_of(folder, part)
    if found is None:
        there = ", ".join(sorted(child.name for child in folder.iterdir())[:8]) or "nothing"
        raise InputError(f"{folder} has no part {part} ({part}.csv, {part}.jsonl or a folder {part}); it holds {there}")
    if found.is_dir() and not (found / TEXTS_FILE).is_file():
        raise InputError(f"{found} has no {TEXTS_FILE}; a part's folder holds {TEXTS_FILE} and {LABELS_FILE}")
    return _read(found, None if found.is_dir() or found.suffix != ".json" else part)


def _from_parallel(folder: Path) -> Iterator[Row]:
    texts, labels = list(open_lines(folder / TEXTS_FILE)), list(open_lines(folder / LABELS_FILE))
    if len(texts) != len(labels):
        raise InputError(f"{folder}: {len(texts)} lines in {TEXTS_FILE} but {len(labels)} in {LABELS_FILE}")
    for (number, text), (_, label) in zip(texts, labels, strict=True):
        yield f"{folder / TEXTS_FILE}:{number}", text, (label,)


def _from_csv(path: Path) -> Iterator[Row]:
    columns: tuple[int, int] | None = None
    width = 0
    for number, row in csv_rows(path, Reading()):
        where = f"{path}:{number}"
        if columns is None:
            columns, is_header, width = *_columns(row, where), len(row)
            if is_header:
                continue
        if len(row) != width:
            raise InputError(f"{where}: {len(row)} columns instead of {width}; put texts with commas in double quotes")
        yield where, row[columns[0]], (row[columns[1]],)


def _columns(first: Sequence[str], where: str) -> tuple[tuple[int, int], bool]:
    """Columns of text and label, and whether the row is a header."""
    names = [name.strip().lower() for name in first]
    text = next((names.index(name) for name in TEXT_FIELDS if name in names), None)
    label = next((names.index(name) for name in LABEL_FIELDS if name in names), None)
    if text is not None and label is not None:
        return (text, label), True
    if len(first) != 2:
        raise InputError(
            f"{where}: {len(first)} columns and no header that names a text ({', '.join(TEXT_FIELDS)}) and a label "
            f"({', '.join(LABEL_FIELDS)}); add one"
        )
    return (0, 1), False


def _from_jsonl(path: Path) -> Iterator[Row]:
    for number, line in open_lines(path):
        if line.strip():
            where = f"{path}:{number}"
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InputError(f"{where}: not JSON ({error}); one object a line is read") from None
            yield where, *_fields(record, where)


def _fields(record: Any, where: str) -> tuple[str, tuple[str, ...]]:
    names = record.keys() if isinstance(record, Mapping) else ()
    text = next((record[name] for name in TEXT_FIELDS if name in names), None)
    label = next((record[name] for name in LABEL_FIELDS if name in names), None)
    labels = label if isinstance(label, list) else [label]
    if not isinstance(text, str) or not all(isinstance(name, str) for name in labels):
        raise InputError(f'{where}: {{"text": "...", "label": "..."}} is read, given {json.dumps(record)[:80]}')
    return text, tuple(labels)


def _read_parts(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(b"".join(open_pieces(path)))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error})") from None
    if not isinstance(content, dict) or not all(isinstance(rows, list) for rows in content.values()):
        raise InputError(f'{path}: {{"train": [[text, label], ...], ...}} is read; one object a line is .jsonl')
    return content


def _from_json(path: Path, part: str) -> Iterator[Row]:
    content = _read_parts(path)
    names = [name for name in _OTHER_NAMES[part] if name in content]
    if not names:
        raise InputError(f"{path} has no part {part}; it holds {', '.join(content)[:80] or 'nothing'}")
    for name in (names[0], f"{OUT_OF_SCOPE}_{names[0]}"):
        yield from _pairs(content.get(name, ()), f"{path} ({name})")


def _pairs(rows: Iterable[Any], where: str) -> Iterator[Row]:
    for number, row in enumerate(rows):
        if not (isinstance(row, list) and len(row) == 2 and all(isinstance(cell, str) for cell in row)):
            raise InputError(f"{where}, item {number}: [text, label] is read, given {json.dumps(row)[:60]}")
        yield f"{where}, item {number}", row[0], (row[1],)
