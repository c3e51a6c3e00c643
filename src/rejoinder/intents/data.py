"""Texts with their intents, read from common file formats.

- `.csv`, `.tsv`: two columns, text and label; a first row with their names is a header
- `.jsonl`: one object a line, `{"text": ..., "label": ...}` or `"labels": [...]`
- `.json`: one object of parts, each a list of `[text, label]`, as CLINC150 has it; `oos_val` joins
  the part `val`; or one object of intents, each a list of texts; or the texts of LUIS, CLU, wit.ai,
  Watson Assistant, Alexa, Rasa's JSON or intents.json
- `.yml`, `.md`: Rasa's NLU data
- a folder with `seq.in` and `label`, whose lines belong together, or with a folder or file for each
  part

Files may be compressed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from rejoinder.arrays import IntArray
from rejoinder.checks import check_list
from rejoinder.conversations import TEXTS
from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.lines import COMPRESSIONS, open_lines, open_pieces, strip_compression
from rejoinder.corpora.readers.answers.texts.marks import MARKS_OF_QUESTIONS
from rejoinder.corpora.readers.bots.rasa import examples_of_intents
from rejoinder.corpora.registry.recognition import inspect, title_of
from rejoinder.errors import InputError
from rejoinder.intents.exports import Utterance, notes_on, read_export
from rejoinder.intents.sampling import draw
from rejoinder.intents.tables import Row, read_csv, read_items, read_json, read_jsonl
from rejoinder.progress import counted
from rejoinder.text.background import background, multilingual_background

# Parts of a data set, and their names in files.
PARTS = {"train": ("train",), "valid": ("valid", "val", "validation", "dev"), "test": ("test",)}
TEXTS_FILE = "seq.in"
LABELS_FILE = "label"
LISTED = 3  # intents that an error lists
OUT_OF_SCOPE = "oos"  # label of texts that have none of the intents (CLINC150's name)

_DELIMITED = (".csv", ".tsv", ".tab")
_RASA = (".yml", ".yaml", ".md")
_KNOWN = (
    "JSON of LUIS, CLU, wit.ai, Watson, Alexa, Rasa and intents.json is read, and"
    ' {"train": [[text, label], ...], ...} or {label: [text, ...], ...};'
    " one object a line is .jsonl"
)


@dataclass(frozen=True)
class _Reading:
    """The settings by which texts are read, and notes on unclear files."""

    out_of_scope: str = OUT_OF_SCOPE
    multi_label: bool = False
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class IntentData:
    """Texts and their labels: one per text, or several if `multi_label`."""

    texts: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = field(default=(), compare=False)  # how an unclear file was read

    def __post_init__(self) -> None:
        """Raise InputError for a single text, and for labels that are not in tuples."""
        check_list(self.texts, TEXTS)
        check_list(self.labels, "give a list of labels")
        for names in self.labels:
            check_list(names, "give the labels of each text in a tuple, such as ('weather',)")

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def names(self) -> tuple[str, ...]:
        """The distinct labels, sorted."""
        return tuple(sorted({name for labels in self.labels for name in labels}))

    @property
    def classes(self) -> IntArray:
        """Position in `names` of each text's only label, (n,)."""
        places = {name: position for position, name in enumerate(self.names)}
        return np.array([places[name] for (name,) in self.labels], dtype=np.int64)

    def rows(self, chosen: IntArray | Sequence[int]) -> IntentData:
        """Return the texts at these positions."""
        return replace(
            self,
            texts=tuple(self.texts[i] for i in chosen),
            labels=tuple(self.labels[i] for i in chosen),
        )


@dataclass(frozen=True)
class TrainingTexts:
    """Texts in scope and out of scope, of the training and of the validation part."""

    train: IntentData
    valid: IntentData | None = None
    oos_texts: tuple[str, ...] = ()
    valid_oos_texts: tuple[str, ...] = ()
    is_background: bool = False  # everyday messages stand for those out of scope

    def __post_init__(self) -> None:
        """Raise InputError for a single text out of scope in place of a list."""
        check_list(self.oos_texts, TEXTS)
        check_list(self.valid_oos_texts, TEXTS)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return how unclear files were read."""
        return self.train.notes + (() if self.valid is None else self.valid.notes)

    @property
    def has_oos(self) -> bool:
        """Return whether texts are out of scope."""
        return bool(self.oos_texts or self.valid_oos_texts)

    def with_background(self, *, is_multilingual: bool = False) -> TrainingTexts:
        """Return the texts with messages that belong to no intent as those out of scope.

        Of an encoder that `is_multilingual` other languages are not a sign of such messages.
        """
        texts = multilingual_background() if is_multilingual else background()
        return replace(self, oos_texts=texts, is_background=True)


def read_training(
    train: str | Path,
    *,
    separator: str | None = None,
    out_of_scope: str = OUT_OF_SCOPE,
    shots: int | None = None,
    seed: int = 0,
) -> TrainingTexts:
    """Read training texts, or `shots` of each intent, and validation texts if there are any."""
    inside, oos_texts = read_scoped(train, "train", separator=separator, out_of_scope=out_of_scope)
    if len(inside.names) < 2:
        raise InputError(
            f"{train}: {counted(len(inside.names), 'intent')}; two at least are needed"
        )
    if shots is not None:
        inside = inside.rows(draw(inside.classes, shots, seed))
    if not has_part(train, "valid"):
        return TrainingTexts(inside, None, oos_texts)
    valid_inside, valid_oos_texts = read_scoped(
        train, "valid", separator=separator, out_of_scope=out_of_scope
    )
    return TrainingTexts(inside, valid_inside, oos_texts, valid_oos_texts)


def read_scoped(
    path: str | Path, part: str, *, separator: str | None = None, out_of_scope: str = OUT_OF_SCOPE
) -> tuple[IntentData, tuple[str, ...]]:
    """Read a part's texts in scope, and those out of scope, which have the label `out_of_scope`."""
    data = read_intents(path, part, separator=separator, out_of_scope=out_of_scope)
    # if texts may have several intents, all are in scope, and this label counts as no intent
    if separator is not None:
        labels = tuple(
            tuple(name for name in names if name != out_of_scope) for names in data.labels
        )
        return replace(data, labels=labels), ()
    oos_texts = tuple(
        text for text, names in zip(data.texts, data.labels, strict=True) if out_of_scope in names
    )
    inside = data.rows([row for row, names in enumerate(data.labels) if out_of_scope not in names])
    if not len(inside):
        raise InputError(f"{path} holds no text in scope; all have the label {out_of_scope}")
    return inside, oos_texts


def read_intents(
    path: str | Path,
    part: str | None = None,
    *,
    separator: str | None = None,
    out_of_scope: str = OUT_OF_SCOPE,
) -> IntentData:
    """Read texts with their intents (see above), of one `part` of a path that holds several.

    A `separator` stands between the labels of a text that may have several. What an export has as
    out of scope, such as the intent None of LUIS, gets the label `out_of_scope`. An InputError
    names file, line and reason.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(
            f"{path} does not exist; name a CSV or JSONL file of texts and labels, or a folder"
        )
    texts = []
    labels = []
    reading = _Reading(out_of_scope, separator is not None)
    for where, text, written in _read(path, part, reading):
        names = written
        if separator is not None and len(written) == 1:
            names = tuple(written[0].split(separator)) if written[0].strip() else ()
        if not text.strip():
            raise InputError(f"{where}: the text is blank; give a text and its label")
        if not all(name.strip() for name in names):
            raise InputError(f"{where}: a label is blank; name the intent of {text[:40]!r}")
        if separator is None and len(names) != 1:
            raise InputError(
                f"{where}: {len(names)} labels; give one (`rejoinder intents train --multi-label`"
                " alone takes several)"
            )
        texts.append(text)
        labels.append(tuple(dict.fromkeys(name.strip() for name in names)))
    if not texts:
        named = f"the part {part} of {path}" if part and path.is_dir() else str(path)
        raise InputError(f"{named} holds no texts; give texts and their labels")
    return IntentData(tuple(texts), tuple(labels), tuple(reading.notes))


def read_all_parts(path: str | Path) -> IntentData:
    """Read texts with their intents, of all parts that a path holds.

    A note names the parts if they are several.
    """
    parts = [part for part in PARTS if has_part(path, part)]
    if not parts:
        return read_intents(path)
    read = [read_intents(path, part) for part in parts]
    notes = [note for data in read for note in data.notes]
    if len(parts) > 1:
        notes.append(f"{path}: the texts of its parts {', '.join(parts)} are read together")
    return IntentData(
        tuple(text for data in read for text in data.texts),
        tuple(names for data in read for names in data.labels),
        tuple(notes),
    )


def has_part(path: str | Path, part: str) -> bool:
    """Return whether a path holds several parts, including this one with a text."""
    path = Path(path)
    if path.is_dir():
        path_of_part = None if (path / TEXTS_FILE).is_file() else _find_part(path, part)
        return path_of_part is not None and not _is_blank(path_of_part, part)
    if not path.is_file() or strip_compression(path).suffix.lower() != ".json":
        return False
    content = _read_object(path)
    if listed := read_export(content):
        return part in _parts_of(listed)
    return any(content.get(name) for name in PARTS[part])


def check_shots(data: IntentData, shots: int) -> None:
    """Raise InputError if an intent has fewer than `shots` texts: a draw would take all of them."""
    counts = Counter(name for names in data.labels for name in names)
    few = [f"{name} ({count})" for name, count in sorted(counts.items()) if count < shots]
    if few:
        more = f" and {len(few) - LISTED} more" if len(few) > LISTED else ""
        raise InputError(
            f"{shots} texts of each intent cannot be drawn: {len(few)} of"
            f" {counted(len(counts), 'intent')} have fewer, {', '.join(few[:LISTED])}{more};"
            f" draw {min(counts.values())} or fewer, take all texts, or add some"
        )


def _read(path: Path, part: str | None, reading: _Reading) -> Iterator[Row]:
    if path.is_dir():
        return (
            _parallel_rows(path)
            if (path / TEXTS_FILE).is_file()
            else _part_rows(path, part or "train", reading)
        )
    kind = strip_compression(path).suffix.lower()
    if kind == ".json":
        return _object_rows(path, part or "train", reading)
    if kind in _RASA:
        return _rasa_rows(path)
    if kind in _DELIMITED:
        return read_csv(path, reading.notes, multi_label=reading.multi_label)
    if kind in (".jsonl", ".ndjson"):
        return read_jsonl(path, multi_label=reading.multi_label)
    raise InputError(
        f"{path}: intents are read from .csv, .tsv, .jsonl, .json, .yml (each may end in .zst,"
        f" .gz, .bz2 or .xz too), or a folder with {TEXTS_FILE} and {LABELS_FILE}"
    )


def _find_part(folder: Path, part: str) -> Path | None:
    places = (
        folder / f"{name}{ending}{compression}"
        for name in PARTS[part]
        for ending in ("", *_DELIMITED, ".jsonl", ".ndjson", ".json", *_RASA)
        for compression in (("", *COMPRESSIONS) if ending else ("",))
    )
    return next((candidate for candidate in places if candidate.exists()), None)


def _is_blank(path: Path, part: str) -> bool:
    """Return whether a part's file or folder holds no text."""
    file = path / TEXTS_FILE if path.is_dir() else path
    is_empty = file.is_file() and not file.stat().st_size
    return is_empty or next(_read(path, part, _Reading()), None) is None


def _part_rows(folder: Path, part: str, reading: _Reading) -> Iterator[Row]:
    if (source := _find_part(folder, part)) is None:
        children = ", ".join(sorted(child.name for child in folder.iterdir())[:8]) or "nothing"
        raise InputError(
            f"{folder} has no part {part} ({part}.csv,"
            f" {part}.jsonl or a folder {part}); it holds {children}"
        )
    if source.is_dir() and not (source / TEXTS_FILE).is_file():
        raise InputError(
            f"{source} has no {TEXTS_FILE}; a part's folder holds {TEXTS_FILE} and {LABELS_FILE}"
        )
    return _read(source, part, reading)


def _parallel_rows(folder: Path) -> Iterator[Row]:
    texts = list(open_lines(folder / TEXTS_FILE))
    labels = list(open_lines(folder / LABELS_FILE))
    if len(texts) != len(labels):
        raise InputError(
            f"{folder}: {len(texts)} lines in {TEXTS_FILE} but {len(labels)} in {LABELS_FILE}"
        )
    for (number, text), (_, label) in zip(texts, labels, strict=True):
        yield f"{folder / TEXTS_FILE}:{number}", text, (label,)


def _rasa_rows(path: Path) -> Iterator[Row]:
    """Yield the texts and labels of Rasa's NLU data."""
    intents = examples_of_intents(inspect(path, Choice(is_settable=False)))
    if not intents:
        raise InputError(f"{path} holds no examples of intents; Rasa's NLU data are read")
    for intent, texts in intents.items():
        for number, text in enumerate(texts):
            yield f"{path}, {intent}, example {number}", text, (intent,)


def _object_rows(path: Path, part: str, reading: _Reading) -> Iterator[Row]:
    """Yield the texts and labels of a part of a JSON object, or of its utterances."""
    content = _read_object(path)
    if listed := read_export(content):
        yield from _utterance_rows(path, listed, part, reading)
        return
    has_lists = all(isinstance(rows, list) for rows in content.values())
    has_parts = any(name in content for names in PARTS.values() for name in names)
    if has_lists and not has_parts and any(content.values()):
        yield from _listed_rows(path, content)
        return
    if not has_lists or not has_parts:
        raise InputError(_unknown(path))
    key = next((name for name in PARTS[part] if name in content), None)
    if key is None:
        raise InputError(
            f"{path} has no part {part}; it holds {', '.join(content)[:80] or 'nothing'}"
        )
    for name in (key, f"{OUT_OF_SCOPE}_{key}"):
        yield from read_items(content.get(name, ()), f"{path} ({name})")


def _listed_rows(path: Path, content: Mapping[str, list[Any]]) -> Iterator[Row]:
    """Yield the texts and labels of an object with a list of texts for each intent."""
    is_faq = any(label.strip().endswith(MARKS_OF_QUESTIONS) for label in content)
    are_texts = all(isinstance(text, str) for texts in content.values() for text in texts)
    if is_faq or not are_texts:
        raise InputError(_unknown(path))
    for label, texts in content.items():
        for number, text in enumerate(texts):
            yield f"{path} ({label}), item {number}", text, (label,)


def _utterance_rows(
    path: Path, listed: list[Utterance], part: str, reading: _Reading
) -> Iterator[Row]:
    """Yield the texts and labels of an export, or of its part if it has several."""
    parts = _parts_of(listed)
    if parts and part not in parts:
        raise InputError(f"{path} has no part {part}; it holds {', '.join(parts)}")
    chosen = {
        number: candidate
        for number, candidate in enumerate(listed)
        if candidate.part == part or not parts
    }
    for number, utterance in chosen.items():
        label = reading.out_of_scope if utterance.out_of_scope else utterance.intent
        if label is not None:
            yield f"{path}, utterance {number}", utterance.text, (label,)
    reading.notes.extend(f"{path}: {line}" for line in notes_on(chosen.values()))


def _parts_of(listed: list[Utterance]) -> tuple[str, ...]:
    """Return the parts of an export; none if all its texts are of one."""
    parts = tuple(dict.fromkeys(utterance.part for utterance in listed))
    return parts if len(parts) > 1 else ()


def _read_object(path: Path) -> dict[str, Any]:
    content = read_json(b"".join(open_pieces(path)), str(path))
    if not isinstance(content, dict):
        raise InputError(_unknown(path))
    return content


def _unknown(path: Path) -> str:
    """Return what a JSON file seems to be, if that is known, and what is read instead."""
    if title := title_of(path):
        return f"{path} looks like {title}, whose intents are not read; {_KNOWN}"
    return f"{path}: {_KNOWN}"
