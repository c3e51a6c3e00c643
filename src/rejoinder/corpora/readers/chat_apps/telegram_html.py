"""Telegram: messages.html, messages2.html, ... of a chat's export as HTML."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample, Source, keep_open
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.chat import Chat, ChatMessage
from rejoinder.corpora.readers.chat_apps.chat_of_two import ATTACHMENTS, mark_agent
from rejoinder.corpora.readers.form import Form
from rejoinder.errors import InputError
from rejoinder.html_text import parse_html, text_of_element
from rejoinder.patterns import match_pattern, search_pattern

_FILE = search_pattern(r"(?:^|/)messages\d{0,6}\.html$")
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
    names = [name for name in sample.members if _FILE.search(name)]
    folders: dict[str, list[Source]] = {}
    for name in sorted(names, key=lambda name: (name.rpartition("/")[0], len(name), name)):
        folders.setdefault(name.rpartition("/")[0], []).append(Source(path, name))
    with keep_open(path):
        for files in (folders or {"": [sample.source]}).values():
            chat = Chat(endless=True)
            for file in files:
                _read_page(file, choice.encoding, chat, reading)
            yield mark_agent(chat)


def _read_page(file: Source, encoding: str, chat: Chat, reading: Reading) -> None:
    """Add the messages of a page to a chat."""
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
        chat.messages.append(ChatMessage(author, text, _time(times[0] if times else "")))


def _time(text: str) -> float | None:
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
        any(map(_FILE.search, sample.members))
        or (sample.kind == "html" and 'class="message default clearfix' in sample.text)
    ),
    read=read_telegram_html,
)
