"""A table of messages: a row (or JSON object) each, with the conversation, author, text and time.

Rows of a conversation may be scattered over the file; where all have a time, it orders them, and
rows of one time have the order of the file, or the reverse if its newest rows come first. Rows
without a conversation are one chat, which a silence splits. A column that says who answers
(`direction`, `inbound`) stands for the author where no column names one.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.columns import (
    MESSAGE,
    columns_of,
    find_column,
    fold,
    is_known,
    name_keys,
    value_of,
)
from rejoinder.corpora.forms.delimited import REPEATED_HEADERS
from rejoinder.corpora.forms.json_rows import json_rows
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.forms.tables import open_table
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.chat import (
    Chat,
    ChatMessage,
    chat_name,
    is_newest_first,
    sort_by_time,
)
from rejoinder.corpora.readers.chat_apps.messenger import mend_messages
from rejoinder.corpora.readers.flags import NO, PRIVATE_NOTES, YES, HiddenMessages, word_of
from rejoinder.corpora.readers.form import OF_TABLES, Form
from rejoinder.corpora.readers.repeats import REPEATED, Repeats
from rejoinder.corpora.readers.times import CLOCK, order_of_times, parse_time
from rejoinder.errors import InputError
from rejoinder.html_text import text_of_html

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
_NEEDED = ("author", "text")
WORDS = {"conversation": CONVERSATION, "author": AUTHOR, "text": MESSAGE, "time": TIME,
         "agent": AGENT, "private": PRIVATE, "public": PUBLIC, "id": ID}  # fmt: skip
KNOWN = frozenset(word for words in WORDS.values() for word in words) - {"id"}  # of any table
_AGENT_WORDS = frozenset(
    """agent assistant bot support operator staff admin outbound outgoing out representative
    teammate gpt model""".split()  # noqa: SIM905
)
_INCOMING = YES | {"incoming", "inbound", "in", "customer"}  # in columns of `_MEANT_CUSTOMER`
_OUTGOING = NO | _AGENT_WORDS
_SHOWN = 40  # letters of a value in a note
_SHOWN_VALUES = 3  # of flags, in notes
_OF_ROWS = frozenset(("message_id", "msg_id", "user_id", "author_id", "sender_id"))
_SIDES = frozenset(AGENT) - frozenset(AUTHOR)  # columns that say who answers, and name nobody
_MEANT_CUSTOMER = frozenset(  # columns in which "true" is a customer's
    ("inbound", "incoming", "is_inbound", "is_incoming", "from_customer", "is_customer")
)


def read_messages(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield the chats of a table of messages."""
    source = sample.source
    form, names, rows = _rows(sample, choice, reading)
    columns = _with_sides(columns_of(names, WORDS, choice, str(source)))
    if missing := [role for role in _NEEDED if role not in columns]:
        raise InputError(
            f"{source}: no column for {' or '.join(missing)}; there is "
            f"{', '.join(names)[:200] or 'none'}: name it with --set columns={missing[0]}=NAME"
        )
    unknown: Counter[tuple[str, str]] = Counter()  # columns and values of flags
    hidden = HiddenMessages()
    repeats = Repeats()
    words = ", ".join(f"{role} = {name}" for role, name in columns.items())
    reading.notes.append(f"{source}: {form}: {words}")
    reading.notes += _other_ids(names, columns, str(source))
    messages: list[tuple[str, Any, ChatMessage]] = []  # with the names of their chats, and times
    for where, row in rows:
        if not isinstance(row, dict):
            reading.bad_row(where, f"a JSON {type(row).__name__}; an object is read")
            continue
        unknown.update(_unknown_flags(row, columns))
        message = _message_of_row(row, columns)
        if reason := _why_left_out(row, columns, message, hidden):
            reading.drop(reason)
            continue
        name = chat_name(value_of(row, columns, "conversation"))
        time = _time_of_row(row, columns)
        if repeats.has_id(_key_of_row(row, columns, time, message), name):
            reading.drop(REPEATED)
            continue
        messages.append((name, time, message))
    reading.notes += [
        f"{source}: {name}: {count:,} values {value!r} are neither yes nor no"
        for (name, value), count in unknown.most_common(_SHOWN_VALUES)
    ]
    reading.notes += hidden.notes(source)
    unnamed = sum(not name for name, _, _ in messages)
    if "conversation" in columns and unnamed:
        reading.notes.append(
            f"{source}: {unnamed:,} messages without a conversation are one chat, which a "
            "silence splits"
        )
    ordered = _ordered(messages, columns, str(source), reading)
    yield from mend_messages(ordered, str(source), reading) if form == "JSON" else ordered


def _rows(
    sample: Sample, choice: Choice, reading: Reading
) -> tuple[str, list[str], Iterator[tuple[str, Any]]]:
    """Return a table's form in words, its columns' names, and its rows, each with its place."""
    if sample.kind.startswith("json"):
        return "JSON", list(sample.columns), json_rows(sample, "", reading)
    table = open_table(sample, choice, KNOWN, reading)
    return table.form, table.names, table.rows


def _why_left_out(
    row: Mapping[str, Any],
    columns: Mapping[str, str],
    message: ChatMessage,
    hidden: HiddenMessages,
) -> str:
    """Return why a row is left out, or nothing."""
    if all(fold(row.get(columns[role]) or "") == fold(columns[role]) for role in _NEEDED):
        return REPEATED_HEADERS
    if _is_note(row, columns, hidden):
        return PRIVATE_NOTES
    return "" if message.text else "messages without a text"


def _is_note(row: Mapping[str, Any], columns: Mapping[str, str], hidden: HiddenMessages) -> bool:
    return any(
        role in columns and hidden.hides(columns[role], row.get(columns[role]), public=public)
        for role, public in (("private", False), ("public", True))
    )


def _key_of_row(
    row: Mapping[str, Any], columns: Mapping[str, str], time: Any, message: ChatMessage
) -> tuple[str, ...] | None:
    """Return what no other message of a conversation has; None if a row has no id and no time.

    The column `id` may be the ticket's, and ids without a conversation may begin anew, so these
    count with the text only.
    """
    own = str(value_of(row, columns, "id") or "").strip()
    when = str(time or "").strip()
    if own and "conversation" in columns and fold(columns["id"]) != "id":
        return (own,)
    return (own, when, message.author, message.text) if own or when else None


def _with_sides(columns: dict[str, str]) -> dict[str, str]:
    """Return the columns of the roles; one that says who answers stands for the author, too."""
    if "author" in columns:
        is_side = is_known(columns["author"], _SIDES)
        return {"agent": columns["author"], **columns} if is_side else columns
    return {"author": columns["agent"], **columns} if "agent" in columns else columns


def _ordered(
    messages: Sequence[tuple[str, Any, ChatMessage]],
    columns: Mapping[str, str],
    source: str,
    reading: Reading,
) -> Iterator[Chat]:
    """Yield chats whose messages are ordered by their times, if all are readable.

    Messages without a conversation are a chat that has no end.
    """
    values = [value for _, value, _ in messages]
    order = order_of_times(values)
    timed = [
        (name, dataclasses.replace(message, time=parse_time(value, order)))
        for name, value, message in messages
    ]
    times = [message.time for _, message in timed]
    unread = [str(value or "") for value, time in zip(values, times, strict=True) if time is None]
    if "time" in columns and unread:
        shown = next((f", such as {value[:_SHOWN]!r}" for value in unread if value.strip()), "")
        reading.notes.append(
            f"{source}: {len(unread):,} of {len(values):,} times are missing or cannot be "
            f"read{shown}; their chats keep the order of the file"
        )
    newest_first = is_newest_first(timed)
    chats: dict[str, Chat] = {}
    for name, message in timed:
        chats.setdefault(name, Chat(name=name, endless=not name)).messages.append(message)
    for chat in chats.values():
        sort_by_time(chat.messages, newest_first=newest_first)
        yield chat


def _time_of_row(row: Mapping[str, Any], columns: Mapping[str, str]) -> Any:
    """Return a row's time, with its day from the column `date` if it is a clock alone."""
    value = value_of(row, columns, "time")
    day = next((name for name in row if fold(name) == "date" and name != columns.get("time")), None)
    if day is None or not row[day] or not CLOCK.fullmatch(str(value or "").strip()):
        return value
    return f"{str(row[day]).strip().removesuffix('T00:00:00')} {str(value).strip()}"


def _message_of_row(row: Mapping[str, Any], columns: Mapping[str, str]) -> ChatMessage:
    text = row.get(columns["text"])
    text = "" if text is None else str(text)
    author = row.get(columns["author"])
    name = columns.get("agent")
    agent = None
    if name is not None and row.get(name) not in (None, ""):
        value = word_of(row[name])
        if is_known(name, _MEANT_CUSTOMER):
            agent = value in _OUTGOING if value in _OUTGOING | _INCOMING else None
        else:
            agent = value in YES or bool(set(fold(value).split("_")) & _AGENT_WORDS)
    if agent is not None and name == columns["author"]:
        author = "agent" if agent else "customer"
    plain = text_of_html(text) if fold(columns["text"]).endswith("html") else text.strip()
    return ChatMessage("" if author is None else str(author).strip(), plain, None, agent)


def _unknown_flags(row: Mapping[str, Any], columns: Mapping[str, str]) -> set[tuple[str, str]]:
    """Return the columns of flags whose value in a row is not known, each with the value."""
    known: dict[str, Set[str]] = {}
    if "agent" in columns and is_known(columns["agent"], _MEANT_CUSTOMER):
        known["agent"] = _OUTGOING | _INCOMING
    values = {
        columns[role]: word_of(value_of(row, columns, role)) for role in known.keys() & columns
    }
    words = {columns[role]: known[role] for role in known.keys() & columns}
    return {
        (name, value[:_SHOWN])
        for name, value in values.items()
        if value and value not in words[name]
    }


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

    authors = [name for name in (*AUTHOR, *_SIDES) if name not in ("name", "user", "role")]
    scattered = has(*CONVERSATION) and has(*AUTHOR, *_SIDES)
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
