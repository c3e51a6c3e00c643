"""Limits of what is read of a file, in one place: each is far above what honest files hold.

A small file may hold much: a compressed one, one that repeats a text by reference, or one whose
values are within each other. What is unpacked, made and nested is limited, and not a file's size.
"""

from __future__ import annotations

from rejoinder.errors import InputError

MAX_LINE_BYTES = 64 * 1024 * 1024  # a longer line is bad
MAX_DOCUMENT_BYTES = 1 << 28  # of a file that is read whole
FREE_BYTES = 1 << 24
MOST_TIMES = 200
"""A file that unpacks to more than so many times its size, and to more than `FREE_BYTES`, is
refused."""
MAX_MEMBERS = 100_000  # files of a folder or a zip file

SAMPLE_BYTES = 1 << 20  # the beginning of a file, by which its form is recognised
MAX_LOOKED_AT = 2_000  # letters of a line that are looked at for that
MAX_KEYS = 4_000  # different paths of keys in a sample
MAX_PATH = 1_000  # letters of a path of keys; longer ones are not told apart

MAX_BRACKETS = 200  # of a line of Markdown that are looked at for links
MAX_DEPTH = 64  # objects or arrays within each other
MAX_VALUES = 1_000_000  # texts, numbers, keys, objects and arrays of one record of JSON or YAML
MAX_COLUMNS = 2_000  # of a table
MAX_CELLS = 20_000_000  # of a workbook, empty ones included
MAX_SHEET_ROWS = 1_048_576  # Excel's own limit

MAX_HEADER = 1_000  # letters of a mail's header that are read
MAX_REFERENCES = 4_000  # letters of the header with the mails before
MAX_PARTS = 50  # parts of a mail

MAX_NAME = 100  # letters of a participant's name that is redacted
MAX_HISTORY = 1_000  # earlier messages of a whole context: all of 20,000 turns are 200 million
MAX_WAY = 200  # earlier messages that a branch of a tree of messages repeats


def check_unpacked(size: int, packed: int, name: str, *, advice: str) -> None:
    """Raise InputError if a file unpacks to too much: `size` bytes out of `packed` ones."""
    if size > max(FREE_BYTES, MOST_TIMES * packed):
        raise InputError(f"{name} decompresses to more than {MOST_TIMES} times its size; {advice}")


def check_columns(count: int, name: str) -> None:
    """Raise InputError if a table has too many columns."""
    if count > MAX_COLUMNS:
        raise InputError(
            f"{name}: {count:,} columns; a table has at most {MAX_COLUMNS:,}: leave out those that "
            "are not needed, or name the delimiter with --set format=table,delimiter=NAME"
        )


def check_values(count: int, name: str) -> None:
    """Raise InputError if a record has too many values."""
    if count > MAX_VALUES:
        raise InputError(
            f"{name}: more than {MAX_VALUES:,} values in one record; write one object a line, or "
            "split the file"
        )
