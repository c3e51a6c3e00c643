"""Messenger and Instagram: "Download your information" in JSON.

Since 2024 also the export of end-to-end encrypted chats, whose fields have other names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample, Source, keep_open
from rejoinder.corpora.json_values import json_values
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.chat import Chat, ChatMessage, sort_by_time
from rejoinder.corpora.readers.chat_apps.chat_of_two import ATTACHMENTS, mark_agent
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.readers.times import parse_time
from rejoinder.patterns import search_pattern


def mend_encoding(texts: Sequence[str]) -> list[str]:
    """Return texts whose letters are UTF-8 read as Latin-1, as Facebook writes them, as they were.

    Texts are left as they are if one of them cannot have come about so.
    """
    mended = []
    for text in texts:
        if text.isascii():
            mended.append(text)
            continue
        try:
            mended.append(text.encode("latin-1").decode("utf-8"))
        except UnicodeError:
            return list(texts)
    return mended


def mend_messages(chats: Iterable[Chat], name: str, reading: Reading) -> list[Chat]:
    """Return the chats of a file with names and texts in the right encoding; note a change."""
    chats = list(chats)
    texts = [
        text
        for chat in chats
        for text in (chat.name, *(part for m in chat.messages for part in (m.author, m.text)))
    ]
    mended = mend_encoding(texts)
    if mended == texts:
        return chats
    reading.notes.append(f"{name}: UTF-8 that was taken for Latin-1 was put right")
    right = iter(mended)
    result = []
    for chat in chats:
        title = next(right)
        messages = [
            dataclasses.replace(message, author=next(right), text=next(right))
            for message in chat.messages
        ]
        result.append(dataclasses.replace(chat, name=title, messages=messages))
    return result


_FILE = search_pattern(r"(?:^|/)message_\d{1,6}\.json$")
_NAMES = ("sender_name", "senderName")
_TEXTS = ("content", "text")
_TIMES = ("timestamp_ms", "timestamp")


def read_messenger(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield a chat for each folder of files, oldest message first."""
    del choice
    path = sample.source.path
    names = [name for name in sample.members if _FILE.search(name)]
    folders: dict[str, list[Source]] = {}
    for name in names:
        folders.setdefault(name.rpartition("/")[0], []).append(Source(path, name))
    with keep_open(path):
        chats = [
            _chat(files, sample.encoding, reading)
            for files in (folders or {"": [sample.source]}).values()
        ]
    yield from map(mark_agent, mend_messages(chats, str(sample.source), reading))


def _chat(files: Sequence[Source], encoding: str, reading: Reading) -> Chat:
    """Return the chat of an export's files, in the order of time."""
    chat = Chat(endless=True)
    for file in files:
        wanted = {"messages.item", "title", "threadName"}
        for key, value in json_values(file, wanted, encoding, reading):
            if key != "messages.item":
                chat.name = str(value or "")
                continue
            item = value if isinstance(value, dict) else {}
            if item.get("is_unsent") is True or item.get("isUnsent") is True:
                reading.drop("deleted messages")
                continue
            text = next((item[key] for key in _TEXTS if isinstance(item.get(key), str)), "")
            author = next((item[key] for key in _NAMES if isinstance(item.get(key), str)), "")
            if not text.strip() or not author:
                reading.drop(ATTACHMENTS)
                continue
            time = next((parse_time(item[key]) for key in _TIMES if item.get(key)), None)
            chat.messages.append(ChatMessage(author, text.strip(), time))
    sort_by_time(chat.messages, newest_first=True)
    return chat


MESSENGER = Form(
    name="messenger",
    title="Messenger or Instagram chats",
    holds="chats",
    export="Facebook, Instagram: Accounts Centre, Download your information, JSON; the .zip",
    matches=lambda sample: (
        any(map(_FILE.search, sample.members))
        or {"messages.item.sender_name", "messages.item.timestamp_ms"} <= sample.keys
        or {"messages.item.senderName", "messages.item.timestamp"} <= sample.keys
    ),
    read=read_messenger,
)
