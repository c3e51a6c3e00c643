"""Chats of Messenger and Instagram in JSON, and of Telegram in HTML."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Iterator, Sequence

from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.chat import Chat, ChatMessage
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.readers.html_text import parse_html, text_of_element
from rejoinder.corpora.readers.times import parse_time
from rejoinder.corpora.source import Sample, Source, json_values, keep_open
from rejoinder.corpora.tables import Choice
from rejoinder.errors import InputError
from rejoinder.patterns import match_pattern, search_pattern

ATTACHMENTS = "attachments and messages without a text"


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


# Messenger and Instagram: "Download your information" in JSON; since 2024 also the export of
# end-to-end encrypted chats, whose fields have other names.

_MESSENGER_FILE = search_pattern(r"(?:^|/)message_\d{1,6}\.json$")
_NAMES = ("sender_name", "senderName")
_TEXTS = ("content", "text")
_TIMES = ("timestamp_ms", "timestamp")


def read_messenger(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield a chat for each folder of files, oldest message first."""
    del choice
    path = sample.source.path
    names = [name for name in sample.members if _MESSENGER_FILE.search(name)]
    folders: dict[str, list[Source]] = {}
    for name in names:
        folders.setdefault(name.rpartition("/")[0], []).append(Source(path, name))
    with keep_open(path):
        chats = [
            _messenger_chat(files, sample.encoding, reading)
            for files in (folders or {"": [sample.source]}).values()
        ]
    yield from map(_with_agent, mend_messages(chats, str(sample.source), reading))


def _messenger_chat(files: Sequence[Source], encoding: str, reading: Reading) -> Chat:
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
    chat.messages.reverse()  # the newest one stands first
    if all(message.time is not None for message in chat.messages):
        chat.messages.sort(key=lambda message: message.time or 0.0)
    return chat


def _with_agent(chat: Chat) -> Chat:
    """Mark the agent of a chat of two: it is named after the other one."""
    authors = {message.author for message in chat.messages}
    if len(authors) != 2 or chat.name not in authors:
        return chat
    messages = [
        dataclasses.replace(message, agent=message.author != chat.name) for message in chat.messages
    ]
    return dataclasses.replace(chat, messages=messages)


MESSENGER = Form(
    name="messenger",
    title="Messenger or Instagram chats",
    holds="chats",
    export="Facebook, Instagram: Accounts Centre, Download your information, JSON; the .zip",
    matches=lambda sample: (
        any(map(_MESSENGER_FILE.search, sample.members))
        or {"messages.item.sender_name", "messages.item.timestamp_ms"} <= sample.keys
        or {"messages.item.senderName", "messages.item.timestamp"} <= sample.keys
    ),
    read=read_messenger,
)


# Telegram: messages.html, messages2.html, ... of a chat's export as HTML.

_TELEGRAM_FILE = search_pattern(r"(?:^|/)messages\d{0,6}\.html$")
_DATE = match_pattern(
    r"(\d{2})\.(\d{2})\.(\d{4}) (\d{2}):(\d{2}):(\d{2})(?: UTC([+-]\d{2}:\d{2}))?"
)
_HAS = "contains(concat(' ', normalize-space(@class), ' '), ' {} ')"
_MESSAGES = f"//div[{_HAS.format('message')}]"
_SENDER = f"./div[{_HAS.format('body')}]/div[{_HAS.format('from_name')}]"
_TEXT = f".//div[{_HAS.format('text')}]"
_TIME = f".//div[{_HAS.format('date')}]/@title"
_TITLE = f"//div[{_HAS.format('page_header')}]//div[{_HAS.format('text')}]"


def read_telegram_html(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield a chat for each folder of files."""
    path = sample.source.path
    names = [name for name in sample.members if _TELEGRAM_FILE.search(name)]
    folders: dict[str, list[Source]] = {}
    for name in sorted(names, key=lambda name: (name.rpartition("/")[0], len(name), name)):
        folders.setdefault(name.rpartition("/")[0], []).append(Source(path, name))
    with keep_open(path):
        for files in (folders or {"": [sample.source]}).values():
            chat = Chat(endless=True)
            for file in files:
                _read_page(file, choice.encoding, chat, reading)
            yield _with_agent(chat)


def _read_page(file: Source, encoding: str, chat: Chat, reading: Reading) -> None:
    tree = parse_html(file.text(encoding, reading))
    if tree is None:
        raise InputError(f"{file} holds no HTML with a text")
    titles = tree.xpath(_TITLE)
    chat.name = chat.name or (text_of_element(titles[0]) if titles else "")
    author = ""
    for node in tree.xpath(_MESSAGES):
        kinds = set(str(node.get("class")).split())
        if "service" in kinds:
            author = ""
            reading.drop("service messages (joins, calls, pins)")
            continue
        senders = node.xpath(_SENDER)
        if senders:
            author = " ".join(text_of_element(senders[0]).split())
        texts = node.xpath(_TEXT)
        text = text_of_element(texts[0]) if texts else ""
        if not text or not author:
            reading.drop(ATTACHMENTS)
            continue
        times = node.xpath(_TIME)
        chat.messages.append(ChatMessage(author, text, _telegram_time(times[0] if times else "")))


def _telegram_time(text: str) -> float | None:
    match = _DATE.fullmatch(str(text)[:60])
    if match is None:
        return None
    day, month, year, *clock = (int(match[group]) for group in range(1, 7))
    zone = f"{match[7]}" if match[7] else "+00:00"
    try:
        moment = f"{year:04}-{month:02}-{day:02}T{clock[0]:02}:{clock[1]:02}:{clock[2]:02}{zone}"
        return datetime.datetime.fromisoformat(moment).timestamp()
    except ValueError:
        return None


TELEGRAM_HTML = Form(
    name="telegram-html",
    title="Telegram export as HTML",
    holds="chats",
    export="Telegram Desktop: the chat's menu, Export chat history, HTML; messages.html or a .zip",
    matches=lambda sample: (
        any(map(_TELEGRAM_FILE.search, sample.members))
        or (sample.kind == "html" and 'class="message default clearfix' in sample.text)
    ),
    read=read_telegram_html,
)
