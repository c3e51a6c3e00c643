"""A table with a chat in a cell of each row."""

from __future__ import annotations

from collections.abc import Iterator

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.columns import MESSAGE, QUESTIONS, REPLY, columns_of, find_column
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.forms.tables import open_table
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.chat import Chat, chat_name
from rejoinder.corpora.readers.form import OF_TABLES, Form
from rejoinder.corpora.readers.messages.table import AUTHOR, CONVERSATION
from rejoinder.corpora.readers.messages.transcript import chat_of_lines
from rejoinder.errors import InputError
from rejoinder.html_text import is_html, text_of_html

_CHAT = ("transcript", "chat_transcript", "chat_log", "conversation_text", "chat_text",
         "conversation_transcript")  # fmt: skip
_WORDS = {"text": _CHAT, "conversation": (*CONVERSATION, "id")}


def read_transcript_table(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield the chat of each row."""
    table = open_table(sample, choice, frozenset(_CHAT), reading)
    source = sample.source
    columns = columns_of(table.names, _WORDS, choice, str(source))
    if "text" not in columns:
        names = ", ".join(table.names)[:200]
        raise InputError(
            f"{source}: no column {' or '.join(_CHAT[:2])}; there is {names}: name it with "
            "--set columns=text=NAME"
        )
    words = ", ".join(f"{role} = {name}" for role, name in columns.items())
    reading.notes.append(f"{source}: {table.form}: {words}")
    for number, (_, row) in enumerate(table.rows, 1):
        name = chat_name(row.get(columns.get("conversation", ""))) or str(number)
        cell = str(row[columns["text"]] or "")
        cell = text_of_html(cell) if is_html(cell) else cell
        chat = chat_of_lines(cell.splitlines(), name, reading)
        if not chat.messages:
            reading.drop("rows without a chat")
        yield chat


TRANSCRIPT_TABLE = Form(
    name="transcript-table",
    title="table with a chat in a cell of each row",
    holds="chats",
    export="any tool: .csv or .xlsx with a column transcript of lines such as `Agent: ...`",
    matches=lambda sample: (
        bool(sample.columns)
        and not sample.kind.startswith("json")
        and find_column(sample.columns, _CHAT) is not None
        and find_column(sample.columns, (*AUTHOR, *MESSAGE, *QUESTIONS, *REPLY)) is None
    ),
    read=read_transcript_table,
    takes=OF_TABLES,
)
