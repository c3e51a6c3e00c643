"""Records of replies by the names of their fields: what each field is, and which have no reply."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.readers.answers.columns import (
    misspelt,
    numbered_questions,
    reply_columns,
    roles_of,
)


class RecordShapes:
    """The columns of records, which the first records with the same names of fields tell."""

    def __init__(self, choice: Choice) -> None:
        """Set what the user says of the columns."""
        self._choice = choice
        self._judged: dict[tuple[str, ...], list[Mapping[str, Any]]] = defaultdict(list)
        self._columns: dict[tuple[str, ...], dict[str, str]] = {}

    def judge(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Take records by which the columns of others are judged."""
        for record in records:
            self._judged[tuple(record)].append(record)

    def columns(self, record: Mapping[str, Any], where: str) -> dict[str, str]:
        """Return the columns of a record. InputError: as for `reply_columns`."""
        names = tuple(record)
        if names not in self._columns:
            judged = self._judged.pop(names, [record])
            self._columns[names] = reply_columns(names, self._choice, where, "field", judged)
        return self._columns[names]

    def notes(self) -> list[str]:
        """Return what the fields of the first record are taken for, and slips in names of all."""
        shapes = list(self._columns.items())
        roles = [roles_of(columns, numbered_questions(names)) for names, columns in shapes[:1]]
        slips = (note for names, columns in shapes for note in misspelt(names, columns))
        return [*roles, *dict.fromkeys(slips)]


def is_blank(value: Any) -> bool:
    """Return whether a reply is missing: nothing, or a text without a letter or sign."""
    return value is None or (isinstance(value, str) and not value.strip())
