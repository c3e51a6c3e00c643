"""WhatsApp: the text file of an exported chat, from Android or an iPhone, in any language.

Android writes `31/12/20, 23:59 - Name: text`, iPhones `[31.12.20, 23:59:59] Name: text` or, long
ago, `31.12.20 23:59:59: Name: text`. A line that does not begin as the first one does continues
the message before. An iPhone marks its own lines (attachments, joins) with U+200E after the
name; Android writes those of a group without a name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rejoinder.corpora.clocks import HALF, half_of_day
from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample, Source
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.chat import Chat, ChatMessage
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.readers.times import date_seconds, find_order
from rejoinder.errors import InputError
from rejoinder.patterns import match_pattern, search_pattern

_MARKS = "\u200e\u200f\u202a\u202b\u202c\u2068\u2069\ufeff"
_LINE = match_pattern(
    rf"[{_MARKS}]*(\[?)(\d{{1,4}})[{_MARKS}]?[./-][ {_MARKS}]?(\d{{1,2}})[{_MARKS}]?[./-]"
    rf"[ {_MARKS}]?(\d{{1,4}})\.?[,،]?\s+"
    r"(?:(?:à|às|a las|um|kl\.?|klo|alle|em|в|о|at)\s+)?"  # noqa: RUF001 (Cyrillic)
    rf"(?:({HALF})\s?)?"
    r"(\d{1,2})[:.](\d{2})(?:[:.](\d{2}))?"
    rf"(?:\s?({HALF}))?(?:\s?Uhr)?"
    r"(\]|\s[-\u2013]|:?)\s(.*)",
    re.DOTALL,
)
_AUTHOR = match_pattern(rf"[{_MARKS}]*+(?:~\s?)?([^:]{{1,80}}?)[{_MARKS}]*+:(?:\s(.*))?", re.DOTALL)
_UNKNOWN_HALF = match_pattern(r"(\S{1,15}(?: \S{1,15})?) [-\u2013] ")
_FILE_SUFFIX = (
    r"\.(?:jpe?g|png|gif|webp|heic|bmp|mp4|mov|avi|mkv|3gp|opus|og[ag]|mp3|m4a|aac|amr|wav|pdf|docx?|"
    r"xlsx?|pptx?|od[tsp]|rtf|txt|csv|zip|rar|7z|vcf|ics|apk)"
)
# Names with blanks stand before known words only: "Please read terms.pdf (first page)".
_SAYS_ATTACHED = (
    r"file attached|Datei angehängt|archivo adjunto|fichier joint|file allegato|arquivo anexado|"
    r"ficheiro anexado|bestand bijgevoegd|dosya ekli|файл добавлен"
)
_ATTACHED = match_pattern(
    rf"[{_MARKS}]*+(?:<[^<>]{{3,60}}>|(?i:(?!www\.)[^\s/]{{1,120}}{_FILE_SUFFIX} \([^()]{{3,40}}\)|"
    rf"\S.{{0,120}}{_FILE_SUFFIX} \((?:{_SAYS_ATTACHED})\))|null)"
)
_EDITED = search_pattern(
    r"(?<!\s)\s*+(?:\u200e<[^<>]{3,60}+>|<(?:This message was edited|"
    r"Diese Nachricht wurde bearbeitet|Se editó este mensaje|Ce message a été modifié|"
    r"Questo messaggio è stato modificato|Mensagem editada|Esta mensagem foi editada|"
    r"Dit bericht is bewerkt|Bu mesaj düzenlendi|Сообщение изменено|"
    r"Данное сообщение изменено)\.?>)\s*+$"
)
_DELETED = match_pattern(
    r"(?:You deleted this message|This message was deleted|Diese Nachricht wurde gelöscht|"
    r"Du hast diese Nachricht gelöscht|Eliminaste este mensaje|Se eliminó este mensaje|"
    r"Este mensaje fue eliminado|Ce message a été supprimé|Vous avez supprimé ce message|"
    r"Questo messaggio è stato eliminato|Hai eliminato questo messaggio|Mensagem apagada|"
    r"Esta mensagem foi apagada|Você apagou esta mensagem|Dit bericht is verwijderd|"
    r"U hebt dit bericht verwijderd|Bu mesaj silindi|Сообщение удалено|"
    r"Данное сообщение удалено)\.?"
)


class WhatsAppLine(NamedTuple):
    """A line that begins a message, or tells what happened."""

    mark: str  # around or after the time: "[]", "-", ":" or nothing; the same in a whole file
    date: tuple[int, int, int]
    clock: tuple[int, int, int]
    half: str  # "a" or "p" of a clock of twelve hours, else nothing
    author: str  # nothing: it tells what happened
    text: str


def whatsapp_line(text: str) -> WhatsAppLine | None:
    """Return the parts of a line; None if it continues the one before."""
    match = _LINE.fullmatch(text)
    if match is None or int(match[6]) > 24 or int(match[7]) > 59:
        return None
    mark = match[1] + match[10].strip().replace("\u2013", "-")
    author = _AUTHOR.fullmatch(match[11])
    is_said = author is not None and not set('"\u201c\u201d\u201e') & set(author[1])
    if mark not in ("[]", "-") and not (is_said and mark in (":", "")):
        return None  # a date in a text
    return WhatsAppLine(
        mark=mark,
        date=(int(match[2]), int(match[3]), int(match[4])),
        clock=(int(match[6]), int(match[7]), int(match[8] or 0)),
        half=half_of_day(match[5] or match[9] or ""),
        author=author[1].strip(" \u202f\xa0") if author and is_said else "",
        text=(author[2] or "") if author and is_said else match[11],
    )


def read_whatsapp(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield the chat of a file."""
    source = sample.source
    lines: list[tuple[WhatsAppLine, list[str]]] = []
    for number, text in source.lines(choice.encoding or sample.encoding, reading):
        line = whatsapp_line(text)
        if line is not None and (not lines or line.mark == lines[0][0].mark):
            lines.append((line, [line.text]))
        elif lines:
            lines[-1][1].append(text)
        elif text.strip(_MARKS + " \t"):
            raise InputError(
                f"{source}:{number}: no WhatsApp chat: a line begins with date and time"
            )
    _check_halves(source, [line for line, _ in lines])
    halves = any(line.half for line, _ in lines)
    order = find_order((line.date for line, _ in lines), twelve_hours=halves)
    chat = Chat(endless=True, name=source.path.stem)
    for line, texts in lines:
        text = _caption("\n".join(texts).rstrip())
        if reason := _left_out(line.author, text):
            reading.drop(reason)
            continue
        time = date_seconds(line.date, line.clock, line.half, order)
        chat.messages.append(ChatMessage(line.author, _EDITED.sub("", text).strip(_MARKS), time))
    yield _with_agent(chat, source.path.stem)


def _check_halves(source: Source, lines: Sequence[WhatsAppLine]) -> None:
    """Raise InputError if a word that is not known follows the clock in most lines."""
    words = Counter(
        match[1] for line in lines if not line.mark and (match := _UNKNOWN_HALF.match(line.author))
    )
    (word, count) = next(iter(words.most_common(1)), ("", 0))
    if count > len(lines) // 4:
        raise InputError(
            f"{source}: {word!r} behind the clock is not a half of the day that is known; "
            "export the chat again with the phone set to 24 hours or to English"
        )


def _caption(text: str) -> str:
    """Return a message without a first line that stands for an attachment, if more follows."""
    first, _, rest = text.partition("\n")
    first = first.strip(_MARKS + " ")
    is_attached = first != "null" and _ATTACHED.fullmatch(first) is not None
    return rest if rest.strip() and is_attached else text


def _left_out(author: str, text: str) -> str:
    """Return why a message is left out, or nothing."""
    plain = text.strip(_MARKS + " \n")
    if not author:
        return "lines of WhatsApp itself (joins, encryption)"
    if _DELETED.fullmatch(plain):
        return "deleted messages"
    if _ATTACHED.fullmatch(plain) or text.startswith("\u200e"):
        return "attachments, calls and lines of WhatsApp"
    return "" if plain else "messages without a text"


def _with_agent(chat: Chat, stem: str) -> Chat:
    """Mark the agent of a chat of two if the file is named after the other one."""
    authors = {message.author for message in chat.messages}
    others = [author for author in authors if f" {stem}".endswith(f" {author}")]
    if len(authors) != 2 or len(others) != 1:
        return chat
    messages = [
        ChatMessage(message.author, message.text, message.time, message.author != others[0])
        for message in chat.messages
    ]
    return Chat(messages, chat.name, chat.endless)


def _is_whatsapp(sample: Sample) -> bool:
    first = next((line for line in sample.text.splitlines() if line.strip(_MARKS + " \t")), "")
    return not sample.kind.startswith("json") and whatsapp_line(first) is not None


WHATSAPP = Form(
    name="whatsapp",
    title="WhatsApp chat",
    holds="chats",
    export="WhatsApp: in the chat the menu, More, Export chat, Without media; the .txt or .zip",
    matches=_is_whatsapp,
    read=read_whatsapp,
)
