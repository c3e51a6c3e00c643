"""Answers that feedback may name at any of several servers over one database.

They stand for a day beside the log, redacted as its entries are. Their table is one that PostgreSQL
does not log: what was said reaches neither its write-ahead log nor its standbys, and a crash of
PostgreSQL empties it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from rejoinder.corpora.redaction import redact
from rejoinder.curation.feedback import FeedbackLog
from rejoinder.curation.tickets import KEPT
from rejoinder.errors import InputError
from rejoinder.stores.log import answer_table

MOST_SHARED = 200_000  # the oldest make room
_TIDIED_EVERY = 1000  # answers between two deletions of old ones


class RecentAnswer(NamedTuple):
    """An answer that feedback may name."""

    source: str  # "first" or "second", of those that the server has
    messages: list[Any]  # the newest ones, which the log keeps
    positions: list[int]
    texts: list[str]


class SharedAnswers:
    """The answers of all servers over the database of a log, by their ids."""

    def __init__(self, log: FeedbackLog) -> None:
        self._log = log
        self._until_tidied = 0

    def add(self, answers: Mapping[str, RecentAnswer]) -> None:
        """Keep answers, all or none.

        A search changes nothing but this table: it brings no schema to a later format, which other
        servers may not read yet.

        Raises:
            InputError: the schema is of an early format, and has no such table.
        """
        database = self._log.database
        if not database.keeps_answers():
            raise InputError(
                f"{database.shown} has no table of answers yet; the next feedback or change of the"
                " index makes it"
            )
        if self._log.settings().redact:
            answers = {name: _redacted(answer) for name, answer in answers.items()}
        with database.connected() as connection:
            answer_table.insert(connection, answers, time.time())
        self._until_tidied -= len(answers)
        if self._until_tidied <= 0:
            self._until_tidied = _TIDIED_EVERY
            self.tidy()

    def find(self, name: str) -> RecentAnswer | None:
        """Return an answer by its id; None: there is none, or it was too long ago."""
        if not self._log.database.keeps_answers():
            return None
        values = answer_table.find(self._log.database, name, time.time() - KEPT)
        return None if values is None else RecentAnswer(*values)

    def tidy(self) -> None:
        """Delete what is too old, and the oldest of too many."""
        if not self._log.database.keeps_answers():
            return
        with self._log.database.connected() as connection:
            answer_table.delete_old(connection, time.time() - KEPT, MOST_SHARED)


def _redacted(answer: RecentAnswer) -> RecentAnswer:
    messages = [
        redact(message)
        if isinstance(message, str)
        else message | {"content": redact(message.get("content") or "")}
        for message in answer.messages
    ]
    return answer._replace(messages=messages)
