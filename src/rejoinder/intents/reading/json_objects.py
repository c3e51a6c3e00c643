"""Intents in one JSON object: of parts, of intents with their texts, or as another tool has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rejoinder.corpora.json_values import dicts
from rejoinder.corpora.lines import open_pieces
from rejoinder.corpora.readers.answers.texts.marks import MARKS_OF_QUESTIONS
from rejoinder.corpora.registry.recognition import title_of
from rejoinder.errors import InputError
from rejoinder.intents.data import OUT_OF_SCOPE
from rejoinder.intents.reading.exports import Utterance, notes_on, read_export
from rejoinder.intents.reading.tables import Row, read_items, read_json

# Parts of a data set, and their names in files.
PARTS = {"train": ("train",), "valid": ("valid", "val", "validation", "dev"), "test": ("test",)}
_PART_NAMES = frozenset(name for names in PARTS.values() for name in names)
_SHOWN_LABELS = 3
_KNOWN = (
    "JSON of LUIS, CLU, wit.ai, Watson, Alexa, Rasa and intents.json is read, and"
    ' {"train": [[text, label], ...], ...} or {label: [text, ...], ...};'
    " one object a line is .jsonl"
)


@dataclass(frozen=True)
class IntentReading:
    """The settings by which texts are read, and notes on unclear files."""

    out_of_scope: str = OUT_OF_SCOPE
    multi_label: bool = False
    notes: list[str] = field(default_factory=list)


def object_has_part(path: Path, part: str) -> bool:
    """Return whether a JSON object has several parts, including this one with a text."""
    content = _read_object(path)
    if listed := read_export(content):
        return part in _parts_of(listed)
    return not _lists_texts(content) and any(content.get(name) for name in PARTS[part])


def object_rows(path: Path, part: str, reading: IntentReading) -> Iterator[Row]:
    """Yield the texts and labels of a part of a JSON object, or of its utterances."""
    content = _read_object(path)
    if listed := read_export(content):
        yield from _utterance_rows(path, listed, part, reading)
        return
    if _lists_texts(content):
        yield from _listed_rows(path, content, reading)
        return
    if not all(isinstance(rows, list) for rows in content.values()) or not _PART_NAMES & set(
        content
    ):
        raise InputError(_unknown(path, content))
    key = next((name for name in PARTS[part] if name in content), None)
    if key is None:
        raise InputError(
            f"{path} has no part {part}; it holds {', '.join(content)[:80] or 'nothing'}"
        )
    for name in (key, f"{OUT_OF_SCOPE}_{key}"):
        yield from read_items(content.get(name, ()), f"{path} ({name})")


def _lists_texts(content: Mapping[str, Any]) -> bool:
    """Return whether an object has a list of texts for each intent, whatever their names.

    Lists of texts whose names are all those of parts have no labels.
    """
    if not all(isinstance(rows, list) for rows in content.values()):
        return False
    items = [item for rows in content.values() for item in rows]
    are_texts = bool(items) and all(isinstance(item, str) for item in items)
    return are_texts and not set(content) <= _PART_NAMES


def _listed_rows(
    path: Path, content: Mapping[str, list[str]], reading: IntentReading
) -> Iterator[Row]:
    """Yield the texts and labels of an object with a list of texts for each intent."""
    answered = [
        label
        for label, texts in content.items()
        if len(texts) == 1 and (len(label.split()) > 1 or label.endswith(MARKS_OF_QUESTIONS))
    ]
    if len(answered) > len(content) / 2:
        raise InputError(
            f"{path} looks like questions with an answer each, such as {answered[0][:40]!r}, not"
            " like intents with texts; give {label: [text, text, ...], ...}, or index answers with"
            " `rejoinder index build`"
        )
    labels = ", ".join(list(content)[:_SHOWN_LABELS])[:80]
    more = ", ..." if len(content) > _SHOWN_LABELS else ""
    reading.notes.append(
        f"{path}: keys are read as intents ({labels}{more}), their lists as texts of them"
    )
    for label, texts in content.items():
        for number, text in enumerate(texts):
            yield f"{path} ({label}), item {number}", text, (label,)


def _utterance_rows(
    path: Path, listed: list[Utterance], part: str, reading: IntentReading
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
        if label is not None and utterance.text is not None:
            yield f"{path}, utterance {number}", utterance.text, (label,)
    reading.notes.extend(f"{path}: {line}" for line in notes_on(chosen.values()))


def _parts_of(listed: list[Utterance]) -> tuple[str, ...]:
    """Return the parts of an export; none if all its texts are of one."""
    parts = tuple(dict.fromkeys(utterance.part for utterance in listed))
    return parts if len(parts) > 1 else ()


def _read_object(path: Path) -> dict[str, Any]:
    """Return an object; a list of objects is read as the intents of one."""
    content = read_json(b"".join(open_pieces(path)), str(path))
    if isinstance(content, list):
        return {"intents": dicts(content)}
    if not isinstance(content, dict):
        raise InputError(_unknown(path, {}))
    return content


def _unknown(path: Path, content: Mapping[str, Any]) -> str:
    """Return what a JSON file seems to be, if that is known, and what is read instead."""
    intents = dicts(content.get("intents"))
    if any("tag" in intent or "patterns" in intent for intent in intents):
        return (
            f'{path}: no intent has both "tag" and "patterns"; give'
            ' {"intents": [{"tag": ..., "patterns": [...]}]}'
        )
    if title := title_of(path):
        return f"{path} looks like {title}, whose intents are not read; {_KNOWN}"
    return f"{path}: {_KNOWN}"
