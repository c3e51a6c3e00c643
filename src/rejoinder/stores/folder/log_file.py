"""The SQLite file of an index's log: how it is made, opened, brought up to date, and its errors."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from rejoinder.errors import BusyError
from rejoinder.files import atomic_file
from rejoinder.locks import lock_path, locked
from rejoinder.stores.log.database import TIMEOUT, LogDatabase, LogError

SUFFIX = ".feedback.db"
FORMAT = 2
"""1 had no requests, and its first edition no changes."""
_CHECK_TIMEOUT = 0.3  # seconds for which `check` waits
_PAUSE = 0.02
_APPLICATION = 0x52454A4F  # "REJO": SQLite's application_id
_ERROR_NUMBERS = {  # of the operating system, by the beginnings of SQLite's names
    "SQLITE_FULL": errno.ENOSPC,
    "SQLITE_READONLY": errno.EACCES,
    "SQLITE_CANTOPEN": errno.EACCES,
    "SQLITE_PERM": errno.EACCES,
    "SQLITE_IOERR": errno.EIO,
}
_TABLES = (
    "CREATE TABLE IF NOT EXISTS setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS reply (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE)",
    """CREATE TABLE IF NOT EXISTS entry (
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      time REAL NOT NULL,
      context TEXT NOT NULL,
      offered TEXT NOT NULL,
      chosen INTEGER,
      text TEXT,
      source TEXT NOT NULL
    )""",
    "CREATE INDEX IF NOT EXISTS entry_time ON entry (time)",
    """CREATE TABLE IF NOT EXISTS change (
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      time REAL NOT NULL,
      kind TEXT NOT NULL,
      before TEXT NOT NULL,
      after TEXT NOT NULL,
      undone INTEGER NOT NULL DEFAULT 0
    )""",
    """CREATE TABLE IF NOT EXISTS request (
      key TEXT PRIMARY KEY,
      time REAL NOT NULL,
      digest TEXT NOT NULL,
      result TEXT NOT NULL,
      token TEXT NOT NULL
    ) WITHOUT ROWID""",
    "INSERT OR IGNORE INTO setting VALUES ('salt', lower(hex(randomblob(16))))",
)
_COLUMNS = (  # of tables of earlier formats
    ("change", "token", "TEXT NOT NULL DEFAULT ''"),
    ("change", "undoes", "INTEGER NOT NULL DEFAULT 0"),
    ("entry", "ticket", "TEXT"),
)


class LogFile(LogDatabase):
    """The SQLite file of a log, beside the folder of its index."""

    def __init__(self, index: Path) -> None:
        real = Path(os.path.realpath(index))
        self.path = real.with_name(real.name + SUFFIX)
        self._shown = self.path
        if index.name and os.path.abspath(index) == str(real):  # noqa: PTH100 (links stay)
            self._shown = index.with_name(index.name + SUFFIX)
        self._lock = threading.RLock()
        self._open: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None  # device and inode of the open file
        self._salt = b""

    @property
    def shown(self) -> Path:
        """The file's path, as the index is named."""
        return self._shown

    @property
    def salt(self) -> bytes:
        """The salt of digests of sources, once a connection is open."""
        return self._salt

    def exists(self) -> bool:
        """Return whether the file is there."""
        return self.path.exists()

    @contextlib.contextmanager
    def connected(self, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        """Yield a connection, which no other thread has meanwhile."""
        try:
            with self._lock, _named_errors(self.shown):
                if self._open is not None and _inode(self.path) != self._file:
                    self._leave()
                if self._open is None:
                    self._open = _connect(self.path, self.shown, create=create)
                    self._file = _inode(self.path)
                    self._salt = _salt(self._open)
                yield self._open
        except LogError as error:
            self.failure = error
            raise

    @contextlib.contextmanager
    def writing(self, *, create: bool = True) -> Iterator[sqlite3.Connection]:
        """Yield a connection in a transaction, which an exception undoes."""
        try:
            with self.connected(create=create) as connection:
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
        except (BusyError, OSError) as error:
            self.failure = error
            raise
        self.failure = None

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection whose reads all see the same state, whatever others write."""
        with self.connected() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("COMMIT")

    def check(self) -> None:
        """Raise what a write would raise now; where the last one failed, write."""
        if not self.path.exists() and self.failure is None:
            return
        with _named_errors(self.shown):
            connection = _connect(
                self.path, self.shown, create=self.failure is not None, wait=_CHECK_TIMEOUT
            )
            with contextlib.closing(connection):
                connection.execute("BEGIN IMMEDIATE")
                if self.failure is not None:
                    connection.execute("UPDATE setting SET value = value WHERE name = 'salt'")
                connection.execute("COMMIT")
                if isinstance(self.failure, LogError):
                    _check_content(connection)
        self.failure = None

    def overwrite_deleted(self) -> None:
        """Leave no byte of what was deleted in the file and in those beside it.

        Raises:
            BusyError: another process has been reading for so long that bytes are left.
        """
        if not self.path.exists():
            return
        with self.connected() as connection:
            connection.execute("VACUUM")
            self.truncate_wal(connection)

    def settle_deleted(self) -> None:
        """Empty the write-ahead log, unless others are reading it."""
        with self.connected() as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def truncate_wal(self, connection: sqlite3.Connection) -> None:
        """Write what the write-ahead log holds into the file, and empty it.

        Raises:
            BusyError: another process has been reading all the while.
        """
        end = time.monotonic() + TIMEOUT
        while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            if time.monotonic() > end:
                raise BusyError(
                    f"the entries are deleted, but {self.shown}-wal still holds their bytes while"
                    " another process reads it; do the same again when that has ended"
                )
            time.sleep(_PAUSE)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._open is not None:
                self._open.close()
                self._open = None

    def _leave(self) -> None:
        """Close a file that somebody has moved away: what is written must not go there.

        SQLite removes, by its name, the write-ahead log of a file that is closed. That may be the
        new file's by now.
        """
        assert self._open is not None
        connection = self._open
        self._open = None
        if _inode(self.path) is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            if sys.version_info >= (3, 12):
                connection.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE)
            else:  # it cannot be told so: it stays open
                _LEFT.append(connection)
                return
        with contextlib.suppress(sqlite3.Error):
            connection.close()


_LEFT: list[sqlite3.Connection] = []  # open files that have moved away


def _connect(
    path: Path, shown: Path, *, create: bool, wait: float | None = None
) -> sqlite3.Connection:
    """Open a log, which may have to be made; refuse a foreign, newer or damaged one."""
    if create and not path.exists():
        _make(path, shown)
    if path.is_dir():
        raise LogError(f"{shown} is a folder; move it away, and a log begins there")
    connection = _connection(path, "rw", TIMEOUT if wait is None else wait)
    try:
        [kind] = connection.execute("PRAGMA application_id").fetchone()
        [version] = connection.execute("PRAGMA user_version").fetchone()
        if kind != _APPLICATION:
            raise LogError(f"{shown} is not a log of Rejoinder; move it away")
        if version > FORMAT:
            raise LogError(
                f"{shown} has format {version}; this version reads {FORMAT}: update rejoinder"
            )
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA secure_delete = ON")
        if version < FORMAT:
            _update(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _salt(connection: sqlite3.Connection) -> bytes:
    row = connection.execute("SELECT value FROM setting WHERE name = 'salt'").fetchone()
    if row is None:
        raise sqlite3.DatabaseError("its settings are gone")
    return bytes.fromhex(row[0])


def _check_content(connection: sqlite3.Connection) -> None:
    """Raise DatabaseError if pages of the file are damaged, or tables are gone."""
    [result] = connection.execute("PRAGMA quick_check(1)").fetchone()
    if result != "ok":
        raise sqlite3.DatabaseError(result)
    for table in ("reply", "entry", "change", "request"):
        connection.execute(f"SELECT 1 FROM {table} LIMIT 1")  # noqa: S608 (names of ours)
    _salt(connection)


def _make(path: Path, shown: Path) -> None:
    """Make the file of a log, whole or not at all, unless another process has done so meanwhile."""
    with locked(lock_path(path), f"{shown} is being made", seconds=None, path=shown):
        if path.exists():
            return
        for suffix in ("-wal", "-shm"):  # of a file that was moved away: SQLite would read them
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        # SQLite gives the files beside it the same mode
        with atomic_file(path, private=True) as part:
            connection = _connection(part, "rwc", TIMEOUT)
            with contextlib.closing(connection):
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                _update(connection)


def _update(connection: sqlite3.Connection) -> None:
    """Bring the tables of a new file, or of one of an earlier format, to this format."""
    connection.execute("BEGIN IMMEDIATE")
    for statement in _TABLES:
        connection.execute(statement)
    for table, column, kind in _COLUMNS:
        known = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        if column not in known:
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    connection.execute("COMMIT")


def _connection(path: Path, mode: str, wait: float) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(
        address, uri=True, isolation_level=None, timeout=wait, check_same_thread=False
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
        if name.startswith("SQLITE_CONSTRAINT"):  # the same request, by another process just now
            raise BusyError(f"{path} was written by another process; try again") from None
        for prefix, number in _ERROR_NUMBERS.items():
            if name.startswith(prefix):
                raise OSError(number, os.strerror(number), str(path)) from None
        raise LogError(f"{path} is damaged ({error}); move it away, and a new one begins") from None
