"""The log of an index: which replies were offered, which one was taken, and which were changed.

It is an SQLite file beside the index (`INDEX.feedback.db`), so it outlives an index that is built
again. Replies stand in it by their texts, since positions of another index mean other replies. An
entry is on the disk once `append` has returned, whatever ends the process then; a power cut may
cost the entries of the last moments.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from rejoinder.corpora import Candidate, text_key
from rejoinder.corpora.redaction import redact
from rejoinder.errors import BusyError, InputError
from rejoinder.files import atomic_file, lock_path, locked
from rejoinder.settings import Count, section, validate

SUFFIX = ".feedback.db"
FORMAT = 1
MOST_ENTRIES = 1_000_000  # the oldest are deleted
Taken: TypeAlias = Literal["first", "offered", "unoffered", "text", "none"]
Kind: TypeAlias = Literal["add", "edit", "retire", "merge", "move", "undo"]
State: TypeAlias = dict[int, Candidate | None]  # replies by position; None: there is none
SHOWN = 50  # changes
_APPLICATION = 0x52454A4F  # "REJO": SQLite's application_id
_TIDIED_EVERY = 1000  # entries between two deletions of old ones
_DAY = 86_400.0
_ERROR_NUMBERS = {  # of the operating system, by the beginnings of SQLite's names
    "SQLITE_FULL": errno.ENOSPC,
    "SQLITE_READONLY": errno.EACCES,
    "SQLITE_CANTOPEN": errno.EACCES,
    "SQLITE_PERM": errno.EACCES,
    "SQLITE_IOERR": errno.EIO,
}
_TIMEOUT = 10.0  # seconds for which a write waits for another process
_TABLES = """
PRAGMA journal_mode = WAL;
CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE reply (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
CREATE TABLE entry (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  time REAL NOT NULL,
  context TEXT NOT NULL,
  offered TEXT NOT NULL,
  chosen INTEGER,
  text TEXT,
  source TEXT NOT NULL
);
CREATE INDEX entry_time ON entry (time);
CREATE TABLE change (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  time REAL NOT NULL,
  kind TEXT NOT NULL,
  before TEXT NOT NULL,
  after TEXT NOT NULL,
  undone INTEGER NOT NULL DEFAULT 0
);
INSERT INTO setting VALUES ('salt', lower(hex(randomblob(16))));
"""
_SETTINGS = "SELECT name, value FROM setting WHERE name NOT IN ('salt', 'forgotten')"


@section
class FeedbackSettings:
    """Settings of a log; `rejoinder feedback INDEX --set KEY=VALUE` changes them."""

    redact: bool = True
    """Replace e-mail addresses, card, account and phone numbers before an entry is written."""
    days: Count = 365
    """Age at which entries are deleted."""
    learn: Literal["later", "at-once"] = "later"
    """When a choice becomes an example: at the next `rejoinder learn`, or soon, by the server."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the log. Replies are texts, as they were when they were offered."""

    context: tuple[str, ...]  # the newest messages, oldest first
    offered: tuple[str, ...]
    chosen: str | None
    text: str | None  # what was sent, if that was no reply of the index
    source: str = ""  # a digest, in the log; empty where none was named
    time: float = 0.0  # seconds since 1970
    id: int = 0

    @property
    def taken(self) -> Taken:
        """Return what was taken: the first reply, another (if only unoffered), a text, or none."""
        if self.chosen is None:
            return "none" if self.text is None else "text"
        if self.chosen not in self.offered:
            return "unoffered"
        return "first" if self.offered[0] == self.chosen else "offered"


class FeedbackLog:
    """The log of an index; its file is made by the first entry or setting. Threads may share it."""

    def __init__(self, index: Path) -> None:
        real = Path(os.path.realpath(index))
        self.path = real.with_name(real.name + SUFFIX)
        self._lock = threading.RLock()
        self._open: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None  # device and inode of the open file
        self._salt = b""
        self._until_tidied = 0
        self.latest_settings = FeedbackSettings()  # at the last `append`

    # --- Writing

    def append(self, entries: Sequence[Entry]) -> list[int]:
        """Write entries, all or none; return their numbers."""
        with self.writing() as connection:
            settings = _settings_of(connection.execute(_SETTINGS))
            self.latest_settings = settings
            ids = [self._insert(connection, entry, settings) for entry in entries]
            self._until_tidied -= len(entries)
            if self._until_tidied <= 0:
                _tidy(connection, settings)
                self._until_tidied = _TIDIED_EVERY
        return ids

    def set(self, **values: Any) -> FeedbackSettings:
        """Change settings; return all of them. Entries that are too old by them are deleted."""
        settings = validate(FeedbackSettings, {**asdict(self.settings()), **values}, "feedback")
        with self.writing() as connection:
            rows = [
                (name, msgspec.json.encode(value).decode())
                for name, value in asdict(settings).items()
            ]
            connection.executemany("INSERT OR REPLACE INTO setting VALUES (?, ?)", rows)
            _tidy(connection, settings)
        return settings

    def delete(
        self,
        *,
        ids: Sequence[int] | None = None,
        before: float | None = None,
        source: str | None = None,
    ) -> int:
        """Delete the entries to which all of what is given applies. Return how many.

        Without any condition all entries go, and the log of changes too. Their bytes are
        overwritten. `before` is in seconds since 1970.
        """
        if not self.path.exists():
            return 0
        with self.writing() as connection:
            found = connection.execute(
                "DELETE FROM entry WHERE (:ids IS NULL OR id IN (SELECT value FROM "
                "json_each(:ids))) AND (:before IS NULL OR time < :before) AND (:source IS NULL "
                "OR source = :source)",
                {
                    "ids": None if ids is None else msgspec.json.encode(list(ids)).decode(),
                    "before": before,
                    "source": None if source is None else self._digest(source),
                },
            )
            if ids is None and before is None and source is None:
                connection.execute("DELETE FROM change")
            _drop_unused_replies(connection)
            count = found.rowcount
        with self.connected() as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return count

    def forget(self) -> None:
        """Let no entry that is there now become an example by itself; see `forgotten`."""
        if self.path.exists():
            with self.writing() as connection:
                connection.execute(
                    "INSERT OR REPLACE INTO setting "
                    "SELECT 'forgotten', ifnull(max(id), 0) FROM entry"
                )

    # --- Reading

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return the rows of a query; none while there is no file."""
        if not self.path.exists():
            return []
        with self.connected() as connection:
            return connection.execute(query, values).fetchall()

    @property
    def forgotten(self) -> int:
        """The number of the last entry when examples were last taken away."""
        rows = self.rows("SELECT value FROM setting WHERE name = 'forgotten'")
        return int(rows[0][0]) if rows else 0

    def settings(self) -> FeedbackSettings:
        """Return the settings, which other processes may change."""
        return _settings_of(self.rows(_SETTINGS))

    def __len__(self) -> int:
        rows = self.rows("SELECT count(*) FROM entry")
        return int(rows[0][0]) if rows else 0

    def __iter__(self) -> Iterator[Entry]:
        return self.entries()

    def entries(self, after: int = 0) -> Iterator[Entry]:
        """Yield entries, from behind a number on, in the order in which they were written."""
        if not self.path.exists():
            return
        decode = msgspec.json.decode
        while True:
            with self.connected() as connection:
                texts = dict(connection.execute("SELECT id, text FROM reply"))
                rows = connection.execute(
                    "SELECT id, time, context, offered, chosen, text, source FROM entry "
                    "WHERE id > ? ORDER BY id LIMIT 10000",
                    (after,),
                ).fetchall()
            for row in rows:
                yield Entry(
                    context=tuple(decode(row[2])),
                    offered=tuple(texts[reply] for reply in decode(row[3])),
                    chosen=None if row[4] is None else texts[row[4]],
                    text=row[5],
                    source=row[6],
                    time=row[1],
                    id=row[0],
                )
            if not rows:
                return
            after = rows[-1][0]

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._open is not None:
                self._open.close()
                self._open = None

    # ---

    def _insert(
        self, connection: sqlite3.Connection, entry: Entry, settings: FeedbackSettings
    ) -> int:
        hide = redact if settings.redact else str
        values = (
            entry.time or time.time(),
            msgspec.json.encode([hide(message) for message in entry.context]).decode(),
            msgspec.json.encode([_reply_id(connection, text) for text in entry.offered]).decode(),
            None if entry.chosen is None else _reply_id(connection, entry.chosen),
            None if entry.text is None else hide(entry.text),
            self._digest(entry.source),
        )
        made = connection.execute(
            "INSERT INTO entry (time, context, offered, chosen, text, source) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            values,
        )
        assert made.lastrowid is not None
        return made.lastrowid

    def _digest(self, source: str) -> str:
        """Return what is kept of a source: equal ones stay equal, and none can be read."""
        if not source:
            return ""
        return hashlib.blake2b(
            source.encode(errors="replace"), key=self._salt, digest_size=8
        ).hexdigest()

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection in a transaction, which an exception undoes."""
        with self.connected(create=True) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.rollback()
                raise
            connection.execute("COMMIT")

    @contextlib.contextmanager
    def connected(self, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        """Yield a connection, which no other thread has meanwhile."""
        with self._lock, _named_errors(self.path):
            if self._open is not None and _inode(self.path) != self._file:
                self.close()  # somebody has moved the file away; what is written must not go there
            if self._open is None:
                self._open = _connect(self.path, create=create)
                self._file = _inode(self.path)
                row = self._open.execute("SELECT value FROM setting WHERE name = 'salt'").fetchone()
                self._salt = bytes.fromhex(row[0])
            yield self._open


def _connect(path: Path, *, create: bool) -> sqlite3.Connection:
    if create and not path.exists():
        _make(path)
    connection = _connection(path, "rw")
    try:
        [kind] = connection.execute("PRAGMA application_id").fetchone()
        [version] = connection.execute("PRAGMA user_version").fetchone()
        if kind != _APPLICATION:
            raise InputError(f"{path} is no log of Rejoinder; move it away")
        if version > FORMAT:
            raise InputError(
                f"{path} has format {version}; this version reads {FORMAT}: update rejoinder"
            )
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA secure_delete = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _make(path: Path) -> None:
    """Make the file of a log, whole or not at all, unless another process has done so meanwhile."""
    with locked(lock_path(path), f"{path} is being made", wait=True):
        if path.exists():
            return
        with atomic_file(path) as part:
            connection = _connection(part, "rwc")
            connection.executescript(_TABLES)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {FORMAT}")
            connection.close()


def _connection(path: Path, mode: str) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(
        address, uri=True, isolation_level=None, timeout=_TIMEOUT, check_same_thread=False
    )


def _reply_id(connection: sqlite3.Connection, text: str) -> int:
    row = connection.execute("SELECT id FROM reply WHERE text = ?", (text,)).fetchone()
    if row is None:
        row = (connection.execute("INSERT INTO reply (text) VALUES (?)", (text,)).lastrowid,)
    return int(row[0])


def _settings_of(rows: Iterable[tuple[str, str]]) -> FeedbackSettings:
    return FeedbackSettings(**{name: msgspec.json.decode(value) for name, value in rows})


def _tidy(connection: sqlite3.Connection, settings: FeedbackSettings) -> None:
    """Delete what is too old, and the oldest of too many."""
    connection.execute("DELETE FROM entry WHERE time < ?", (time.time() - settings.days * _DAY,))
    connection.execute("DELETE FROM change WHERE time < ?", (time.time() - settings.days * _DAY,))
    connection.execute(
        "DELETE FROM entry WHERE id <= (SELECT max(id) FROM entry) - ?", (MOST_ENTRIES,)
    )


def _drop_unused_replies(connection: sqlite3.Connection) -> None:
    connection.execute(
        "DELETE FROM reply WHERE id NOT IN (SELECT value FROM entry, json_each(entry.offered)) "
        "AND id NOT IN (SELECT chosen FROM entry WHERE chosen IS NOT NULL)"
    )


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


@contextlib.contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into those of files, which say what to do."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise BusyError(f"{path} is being written by another process; try again") from None
        for prefix, number in _ERROR_NUMBERS.items():
            if name.startswith(prefix):
                raise OSError(number, os.strerror(number), str(path)) from None
        raise InputError(
            f"{path} is damaged ({error}); move it away, and a new one begins"
        ) from None


@dataclass(frozen=True, slots=True)
class Change:
    """A change of some replies."""

    id: int
    time: float  # seconds since 1970
    kind: Kind
    before: State
    after: State
    undone: bool


def changes(log: FeedbackLog, limit: int = SHOWN) -> list[Change]:
    """Return the latest changes, newest first."""
    rows = log.rows(
        "SELECT id, time, kind, before, after, undone FROM change ORDER BY id DESC LIMIT ?",
        (limit,),
    )
    return [
        Change(at, when, kind, _read(before), _read(after), undone=bool(undone))
        for at, when, kind, before, after, undone in rows
    ]


def renamed(log: FeedbackLog) -> dict[str, str]:
    """Return keys of texts that replies had, with those that they have now (`text_key`)."""
    keys: dict[str, str] = {}
    for change in changes(log, -1):  # newest first
        if change.undone or change.kind == "undo":
            continue
        for old, new in _renamings(change):
            keys.setdefault(old, keys.get(new, new))
    return keys


def _renamings(change: Change) -> Iterable[tuple[str, str]]:
    kept = next((reply for reply in change.after.values() if reply is not None), None)
    for position, old in change.before.items():
        new = change.after.get(position)
        if change.kind == "merge" and new is None:
            new = kept
        if old is not None and new is not None and text_key(old.text) != text_key(new.text):
            yield text_key(old.text), text_key(new.text)


def _read(text: str) -> State:
    pairs: list[tuple[int, Candidate | None]] = msgspec.json.decode(
        text, type=list[tuple[int, Candidate | None]]
    )
    return dict(pairs)
