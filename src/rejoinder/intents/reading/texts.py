"""Texts with their intents, read from common file formats.

- `.csv`, `.tsv`, `.tab`: two columns, text and label; a first row with their names is a header
- `.jsonl`, `.ndjson`: one object a line, `{"text": ..., "label": ...}` or `"labels": [...]`
- `.json`: one object of parts, each a list of `[text, label]`, as CLINC150 has it; `oos_val` joins
  the part `val`; or one object of intents, each a list of texts; or the texts of LUIS, CLU, wit.ai,
  Watson Assistant, Alexa, Rasa's JSON or intents.json
- `.yml`, `.yaml`, `.md`: Rasa's NLU data
- a folder with `seq.in` and `label`, whose lines belong together, or with a folder or file for each
  part

Files may be compressed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.lines import COMPRESSIONS, open_lines, strip_compression
from rejoinder.corpora.readers.bots.rasa import examples_of_intents
from rejoinder.corpora.registry.recognition import inspect
from rejoinder.errors import InputError
from rejoinder.intents.data import OUT_OF_SCOPE, IntentData, TrainingTexts, check_shots
from rejoinder.intents.reading.json_objects import (
    PARTS,
    IntentReading,
    object_has_part,
    object_rows,
)
from rejoinder.intents.reading.tables import TAB_SEPARATED, Row, read_csv, read_jsonl
from rejoinder.intents.sampling import draw
from rejoinder.patterns import match_pattern
from rejoinder.progress import counted

TEXTS_FILE = "seq.in"
LABELS_FILE = "label"

_DELIMITED = (".csv", *TAB_SEPARATED)
_LINES = (".jsonl", ".ndjson")
_RASA = (".yml", ".yaml", ".md")
_INTENT_OF_RASA = match_pattern(r"\s{0,99}(?:-\s{0,9}|## {0,9})intent:.*")
_FILES = (*_DELIMITED, *_LINES, ".json", *_RASA)
_ENDINGS = ", ".join(_FILES)


def read_training(
    train: str | Path,
    *,
    separator: str | None = None,
    out_of_scope: str = OUT_OF_SCOPE,
    shots: int | None = None,
    seed: int = 0,
) -> TrainingTexts:
    """Read training texts, or `shots` of each intent, and validation texts if there are any.

    An intent with fewer is an InputError.
    """
    inside, oos_texts = read_scoped(train, "train", separator=separator, out_of_scope=out_of_scope)
    if len(inside.names) < 2:
        raise InputError(
            f"{train}: {counted(len(inside.names), 'intent')}; two at least are needed"
        )
    if shots is not None:
        check_shots(inside, shots)
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
            f"{path} does not exist; name a file of texts and labels ({_ENDINGS}), or a folder"
        )
    texts = []
    labels = []
    reading = IntentReading(out_of_scope, separator is not None)
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
    return object_has_part(path, part)


def _read(path: Path, part: str | None, reading: IntentReading) -> Iterator[Row]:
    if path.is_dir():
        return (
            _parallel_rows(path)
            if (path / TEXTS_FILE).is_file()
            else _part_rows(path, part or "train", reading)
        )
    kind = strip_compression(path).suffix.lower()
    if kind == ".json":
        return object_rows(path, part or "train", reading)
    if kind in _RASA:
        return _rasa_rows(path)
    if kind in _DELIMITED:
        return read_csv(path, reading.notes, multi_label=reading.multi_label)
    if kind in _LINES:
        return read_jsonl(path, multi_label=reading.multi_label)
    raise InputError(
        f"{path}: intents are read from {_ENDINGS} (each may end in {', '.join(COMPRESSIONS)} too),"
        f" or a folder with {TEXTS_FILE} and {LABELS_FILE}"
    )


def _find_part(folder: Path, part: str) -> Path | None:
    places = (
        folder / f"{name}{ending}{compression}"
        for name in PARTS[part]
        for ending in ("", *_FILES)
        for compression in (("", *COMPRESSIONS) if ending else ("",))
    )
    return next(filter(_may_be_part, places), None)


def _may_be_part(path: Path) -> bool:
    """Return whether a file or folder may be a part; of YAML and Markdown only Rasa's intents."""
    if strip_compression(path).suffix.lower() not in _RASA:
        return path.exists()
    if not path.is_file() or not path.stat().st_size:
        return False
    return any(_INTENT_OF_RASA.fullmatch(line) for _, line in open_lines(path))


def _is_blank(path: Path, part: str) -> bool:
    """Return whether a part's file or folder holds no text."""
    file = path / TEXTS_FILE if path.is_dir() else path
    is_empty = file.is_file() and not file.stat().st_size
    return is_empty or next(_read(path, part, IntentReading()), None) is None


def _part_rows(folder: Path, part: str, reading: IntentReading) -> Iterator[Row]:
    if (source := _find_part(folder, part)) is None:
        children = ", ".join(sorted(child.name for child in folder.iterdir())[:8]) or "nothing"
        raise InputError(
            f"{folder} has no part {part} (a folder {part}, or {part} with one of {_ENDINGS});"
            f" it holds {children}"
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
        raise InputError(
            f"{path} has no examples of intents; name a file of Rasa's NLU data (nlu.yml with"
            ' "- intent:", or Markdown with "## intent:"), or a table of text and label'
        )
    for intent, texts in intents.items():
        for number, text in enumerate(texts):
            yield f"{path}, {intent}, example {number}", text, (intent,)
