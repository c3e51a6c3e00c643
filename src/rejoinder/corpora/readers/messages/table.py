"""A table of messages: a row (or JSON object) each, with the conversation, author, text and time.

Rows of a conversation may be scattered over the file; where all have a time, it orders them, and
rows of one time have the order of the file, or the reverse if its newest rows come first. Rows
without a conversation are one chat, which a silence splits. A column that says who answers
(`direction`, `inbound`) stands for the author where no column names one. Messages of the system are
left out, and those of bots where agents answer, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.columns import (
    MESSAGE,
    columns_of,
    find_column,
    fold,
    is_known,
    name_keys,
)
from rejoinder.corpora.forms.json_rows import json_rows
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.forms.tables import open_table
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.chat import Chat, ChatMessage, is_newest_first, sort_by_time
from rejoinder.corpora.readers.chat_apps.messenger import mend_messages
from rejoinder.corpora.readers.form import OF_TABLES, Form
from rejoinder.corpora.readers.messages.rows import NAMELESS, NEEDED, MessageRow, MessageRows
from rejoinder.corpora.readers.times import order_of_times, parse_time
from rejoinder.errors import InputError

CONVERSATION = ("conversation", "conversation_id", "conversationid", "ticket", "ticket_id",
                "chat", "chat_id", "thread", "thread_id", "session", "session_id", "dialogue",
                "dialogue_id", "dialog_id", "case_id", "room_id",
                "conversations_thread_id")  # fmt: skip
AUTHOR = ("author", "sender", "from", "speaker", "username", "user", "author_id", "sender_id",
          "participant", "role", "name")  # fmt: skip
TIME = ("time", "timestamp", "datetime", "date", "created_at", "created", "sent_at", "createdat")
AGENT = ("is_agent", "role", "sender_type", "author_type", "user_type", "direction", "inbound",
         "incoming", "is_inbound", "is_incoming", "from_customer", "is_customer",
         "is_bot")  # fmt: skip
PRIVATE = ("private", "is_private", "internal", "is_internal", "visibility")
PUBLIC = ("public", "is_public")
ID = ("message_id", "messageid", "msg_id", "comment_id", "id")
WORDS = {"conversation": CONVERSATION, "author": AUTHOR, "text": MESSAGE, "time": TIME,
         "agent": AGENT, "private": PRIVATE, "public": PUBLIC, "id": ID}  # fmt: skip
KNOWN = frozenset(word for words in WORDS.values() for word in words) - {"id"}  # of any table
_SHOWN = 40  # letters of a value in a note
_SIDES = NAMELESS | {"role"}  # columns that say who answers
_OF_ROWS = frozenset(("message_id", "msg_id", "user_id", "author_id", "sender_id"))


def read_messages(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield the chats of a table of messages."""
    source = sample.source
    form, names, cells = _cells(sample, choice, reading)
    columns = _with_sides(columns_of(names, WORDS, choice, str(source)))
    if missing := [role for role in NEEDED if role not in columns]:
        raise InputError(
            f"{source}: no column for {' or '.join(missing)}; there is "
            f"{', '.join(names)[:200] or 'none'}: name it with --set columns={missing[0]}=NAME"
        )
    words = ", ".join(f"{role} = {name}" for role, name in columns.items())
    reading.notes.append(f"{source}: {form}: {words}")
    reading.notes += _other_ids(names, columns, str(source))
    messages = MessageRows(columns, reading)
    for where, row in cells:
        if isinstance(row, dict):
            messages.add(row)
        else:
            reading.bad_row(where, f"a JSON {type(row).__name__}; an object is read")
    rows = messages.finish(source)
    unnamed = sum(not row.chat for row in rows)
    if "conversation" in columns and unnamed:
        reading.notes.append(
            f"{source}: {unnamed:,} messages without a conversation are one chat, which a "
            "silence splits"
        )
    ordered = _ordered(rows, columns, str(source), reading)
    yield from mend_messages(ordered, str(source), reading) if form == "JSON" else ordered


def _cells(
    sample: Sample, choice: Choice, reading: Reading
) -> tuple[str, list[str], Iterator[tuple[str, Any]]]:
    """Return a table's form in words, its columns' names, and its rows, each with its place."""
    if sample.kind.startswith("json"):
        return "JSON", list(sample.columns), json_rows(sample, (), reading)
    table = open_table(sample, choice, KNOWN, reading)
    return table.form, table.names, table.rows


def _with_sides(columns: dict[str, str]) -> dict[str, str]:
    """Return the columns of the roles; one that says who answers stands for the author, too."""
    if "author" in columns:
        is_side = is_known(columns["author"], _SIDES)
        return {"agent": columns["author"], **columns} if is_side else columns
    return {"author": columns["agent"], **columns} if "agent" in columns else columns


def _ordered(
    rows: list[MessageRow], columns: Mapping[str, str], source: str, reading: Reading
) -> Iterator[Chat]:
    """Yield chats whose messages are ordered by their times, if all are readable.

    Messages without a conversation are a chat that has no end. The rows are taken out of their
    list, and the chats are not kept, so that a large table is held once.
    """
    timed, unread = _timed(rows)
    if "time" in columns and unread:
        shown = next((f", such as {value[:_SHOWN]!r}" for value in unread if value.strip()), "")
        reading.notes.append(
            f"{source}: {len(unread):,} of {len(timed):,} times are missing or cannot be "
            f"read{shown}; their chats keep the order of the file"
        )
    newest_first = is_newest_first(timed)
    chats: dict[str, Chat] = {}
    for name, message in timed:
        chats.setdefault(name, Chat(name=name, endless=not name)).messages.append(message)
    timed.clear()
    for name in list(chats):
        chat = chats.pop(name)
        sort_by_time(chat.messages, newest_first=newest_first)
        yield chat


def _timed(rows: list[MessageRow]) -> tuple[list[tuple[str, ChatMessage]], list[str]]:
    """Return the messages with the names of their chats, and the times that cannot be read.

    Afterwards `rows` is empty.
    """
    order = order_of_times(row.time for row in rows)
    timed = []
    unread = []
    rows.reverse()
    while rows:
        row = rows.pop()
        agent = None if row.side is None else row.side == "agent"
        time = parse_time(row.time, order)
        timed.append((row.chat, ChatMessage(row.author, row.text, time, agent)))
        if time is None:
            unread.append(str(row.time or ""))
    return timed, unread


def _other_ids(names: Sequence[str], columns: Mapping[str, str], source: str) -> list[str]:
    """Return a note of columns that may be the conversation, where none is known to be."""
    free = [name for name in names if name not in columns.values()]
    ids = [
        name for name in free if name_keys(name)[1].endswith("_id") and fold(name) not in _OF_ROWS
    ]
    if "conversation" in columns or not ids:
        return []
    return [
        f"{source}: no column for the conversation; if it is {ids[0]}, name it with "
        f"--set columns=conversation={ids[0]}"
    ]


def _is_table_of_messages(sample: Sample) -> bool:
    """Return whether a table has texts with their authors, and conversations or times."""

    def has(*names: str) -> bool:
        return find_column(sample.columns, names) is not None

    authors = [name for name in (*AUTHOR, *NAMELESS) if name not in ("name", "user", "role")]
    scattered = has(*CONVERSATION) and has(*AUTHOR, *NAMELESS)
    return has(*MESSAGE) and (scattered or (has(*authors) and has(*TIME)))


MESSAGES = Form(
    name="messages",
    title="table of messages",
    holds="chats",
    export="any tool: a row a message (CSV, Excel, Parquet, JSON) with conversation, author, text, "
    "time",
    matches=_is_table_of_messages,
    read=read_messages,
    takes=OF_TABLES,
)
