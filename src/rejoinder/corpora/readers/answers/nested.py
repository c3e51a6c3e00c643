"""Records of replies in the lists of JSON and YAML, which categories may hold, however deep.

Objects of answers by their questions may stand there, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.columns import find_column
from rejoinder.corpora.limits import check_values
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.answers.columns import TITLE, names_a_reply, names_questions_too
from rejoinder.corpora.readers.answers.records import candidate_of, gathered
from rejoinder.corpora.readers.answers.shapes import RecordShapes, is_blank
from rejoinder.corpora.readers.answers.table import NO_REPLY
from rejoinder.corpora.readers.answers.texts.marks import asks
from rejoinder.corpora.readers.standing import is_inactive, why_unused
from rejoinder.corpora.schema import Candidate

_CATEGORY = ("category", "section", "topic", "group", *TITLE, "label")


class CategoryRecord(NamedTuple):
    """A record, and the category that holds it."""

    category: str
    record: dict[str, Any]


class _Inner(NamedTuple):
    value: Any
    category: str
    is_listed: bool = False


def entries_of(value: Any) -> Iterator[CategoryRecord]:
    """Yield the records in the lists of a value, at any depth."""
    waiting = [_Inner(value, "")]
    known: set[int] = set()  # references of YAML may repeat a value
    while waiting:
        part = waiting.pop()
        if isinstance(part.value, dict) and _is_entry(part):
            yield CategoryRecord(part.category, part.value)
            continue
        if id(part.value) in known:
            continue
        known.add(id(part.value))
        if isinstance(part.value, list):
            objects = [item for item in part.value if isinstance(item, dict)]
            waiting += [_Inner(item, part.category, is_listed=True) for item in reversed(objects)]
        elif isinstance(part.value, dict) and _are_asked(part.value):
            for key, answer in part.value.items():
                yield CategoryRecord(part.category, _record_of(str(key).strip(), answer))
        elif isinstance(part.value, dict):
            own, held = _with_records_apart(part)
            if own:
                yield CategoryRecord(part.category, own)
            waiting += reversed(_parts_of(held, part.category))


def candidates_of(
    entries: Sequence[CategoryRecord], choice: Choice, reading: Reading, source: str, title: str
) -> Iterator[Candidate]:
    """Yield the replies of records; those that name none are counted."""
    named = [entry for entry in entries if choice.columns or names_a_reply(entry.record)]
    if len(entries) > len(named):
        reading.drop(NO_REPLY, len(entries) - len(named))
    shapes = RecordShapes(choice)
    shapes.judge(entry.record for entry in named)
    candidates = list(_candidates(named, shapes, choice, reading, source))
    if notes := shapes.notes():
        reading.notes.append(f"{source}: {title}: {notes[0]}")
        reading.notes += [f"{source}: {note}" for note in notes[1:]]
    yield from gathered(candidates, reading, source)


def _is_entry(part: _Inner) -> bool:
    """Return whether an object of a list is a record, and no category with records."""
    if not part.is_listed:
        return False
    inner = [item for item in part.value.values() if _holds_objects(item)]
    if names_a_reply(part.value):
        return not any(_are_answered(item) for item in inner)
    return not inner and not _are_asked(part.value)


def _with_records_apart(part: _Inner) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the reply that an object is, if it is one, and what else holds records."""
    if not part.is_listed or not names_a_reply(part.value):
        return {}, part.value
    held = {key: item for key, item in part.value.items() if _are_answered(item)}
    return {key: item for key, item in part.value.items() if key not in held}, held


def _holds_objects(value: Any) -> bool:
    is_list = isinstance(value, list) and bool(value) and isinstance(value[0], dict)
    return is_list or isinstance(value, dict)


def _are_answered(value: Any) -> bool:
    """Return whether a list holds records with questions and answers."""
    is_list = isinstance(value, list) and bool(value) and isinstance(value[0], dict)
    return is_list and names_questions_too(value[0])


def _are_asked(value: Mapping[Any, Any]) -> bool:
    """Return whether an object has answers by their questions: most of its keys ask."""
    asked = sum(isinstance(key, str) and asks(key.strip()) for key in value)
    return 2 * asked > len(value)


def _record_of(key: str, answer: Any) -> dict[str, Any]:
    """Return the record of an answer by its question, or by its title."""
    asked = {"question" if asks(key) else "title": key}
    if isinstance(answer, dict):
        return {**asked, **answer}
    if isinstance(answer, list) and answer:
        return {**asked, "answer": answer[0], "variants": answer[1:]}
    return {**asked, "answer": answer}


def _parts_of(value: Mapping[Any, Any], category: str) -> list[_Inner]:
    """Return the lists and objects in an object, with its name or theirs as their category."""
    inner = {key: item for key, item in value.items() if _holds_objects(item)}
    if len(inner) > 1:
        return [_Inner(item, str(key)) for key, item in inner.items()]
    column = find_column([name for name, item in value.items() if isinstance(item, str)], _CATEGORY)
    name = category if column is None else value[column]
    return [_Inner(item, name) for item in inner.values()]


def _candidates(
    entries: Iterable[CategoryRecord],
    shapes: RecordShapes,
    choice: Choice,
    reading: Reading,
    source: str,
) -> Iterator[Candidate]:
    categories = {entry.category for entry in entries}
    count = 0
    for number, (category, record) in enumerate(entries, 1):
        where = f"{source}: entry {number}"
        if not choice.inactive and is_inactive(record):
            reading.drop(why_unused(choice))
            continue
        count += sum(len(value) for value in record.values() if isinstance(value, list))
        check_values(count, source)  # which references may repeat
        columns = shapes.columns(record, where)
        is_sorted = len(categories) > 1 and "category" not in record  # one is the file's title
        entry = {"category": category, **record} if is_sorted and category else record
        if not isinstance(entry[columns["text"]], str | list) or is_blank(entry[columns["text"]]):
            reading.drop(NO_REPLY)
        else:
            yield candidate_of(entry, columns, where)
