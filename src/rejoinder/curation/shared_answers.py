"""Answers that feedback may name at any of several servers over one database.

They stand for a day beside the log, redacted as its entries are. Their table is one that PostgreSQL
does not log: what was said reaches neither its write-ahead log nor its standbys, and a crash of
PostgreSQL empties it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from rejoinder.corpora.redaction import redact
from rejoinder.curation.feedback import FeedbackLog
from rejoinder.curation.tickets import KEPT

MOST_SHARED = 200_000  # the oldest make room
_TIDIED_EVERY = 1000  # answers between two deletions of old ones
# One statement for any number of answers, which PostgreSQL need not read anew each time.
_ADD = """INSERT INTO answer (id, time, content)
  SELECT id, ?, content FROM json_to_recordset(CAST(? AS json)) AS row (id text, content text)
  ON CONFLICT (id) DO NOTHING"""


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
        """Keep answers, all or none."""
        if self._log.settings().redact:
            answers = {name: _redacted(answer) for name, answer in answers.items()}
        rows = [
            {"id": name, "content": msgspec.json.encode(answer).decode()}
            for name, answer in answers.items()
        ]
        with self._log.database.connected(create=True) as connection:
            connection.execute(_ADD, (time.time(), msgspec.json.encode(rows).decode()))
        self._until_tidied -= len(rows)
        if self._until_tidied <= 0:
            self._until_tidied = _TIDIED_EVERY
            self.tidy()

    def find(self, name: str) -> RecentAnswer | None:
        """Return an answer by its id; None: there is none, or it was too long ago."""
        query = "SELECT content FROM answer WHERE id = ? AND time >= ?"
        rows = self._log.database.rows(query, (name, time.time() - KEPT))
        return RecentAnswer(*msgspec.json.decode(rows[0][0])) if rows else None

    def tidy(self) -> None:
        """Delete what is too old, and the oldest of too many."""
        with self._log.database.connected(create=True) as connection:
            connection.execute(
                "DELETE FROM answer WHERE time < ? "
                "OR number <= (SELECT max(number) FROM answer) - ?",
                (time.time() - KEPT, MOST_SHARED),
            )


def _redacted(answer: RecentAnswer) -> RecentAnswer:
    messages = [
        redact(message)
        if isinstance(message, str)
        else message | {"content": redact(message.get("content") or "")}
        for message in answer.messages
    ]
    return answer._replace(messages=messages)
