"""Mailboxes: an mbox file, an .eml file, or a zip file or folder of those.

Mails are a chat by what they answer (References, In-Reply-To), in any order. Where an answer names
no mail, they are one by subject and by the participants that they share. Quotes, salutations,
closings and signatures are removed, as of messages that are searched for. The author is the
address.
"""

from __future__ import annotations

import email
import email.policy
import email.utils
from collections.abc import Iterator
from email.message import EmailMessage
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample, Source, keep_open
from rejoinder.corpora.limits import MAX_DOCUMENT_BYTES, MAX_HEADER, MAX_PARTS, MAX_REFERENCES
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.chat import AUTOMATIC, Chat, ChatMessage
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.readers.messages.mail_bodies import body_of
from rejoinder.corpora.readers.messages.threads import Mail, MailThreads
from rejoinder.corpora.readers.repeats import REPEATED, Repeats
from rejoinder.corpora.readers.times import parse_time
from rejoinder.errors import InputError
from rejoinder.patterns import search_pattern
from rejoinder.text.mails.cleaning import own_text

_BROKEN_HEADERS = (LookupError, ValueError, TypeError, AttributeError, RecursionError)
_TOO_MANY_PARTS = f"mails of more than {MAX_PARTS} parts, or nested too deep"
_AUTOMATIC_HEADERS = (
    "Auto-Submitted",
    "X-Autoreply",
    "X-Auto-Reply",
    "X-Autorespond",
    "X-Autoresponder",
)
_NOT_AUTOMATIC = ("", "no", "false")
_MAIL_FILES = (".eml", ".mbox")
_DAY = search_pattern(rb"[A-Z][a-z]{2} [A-Z][a-z]{2} ")  # Mon Jan
_CLOCK = search_pattern(rb"\d\d:\d\d")
_MAIL_ID = search_pattern(r"<[^<>\s]++>")


def read_mailbox(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield the chats of a mailbox, in the order of their oldest mails."""
    del choice
    with keep_open(sample.source.path):
        yield from _read_mailbox(sample, reading)


def _read_mailbox(sample: Sample, reading: Reading) -> Iterator[Chat]:
    """Yield the threads of a mailbox, each with the id of its first mail as its name."""
    names = [name for name in sample.members if name.lower().endswith(_MAIL_FILES)]
    files = [Source(sample.source.path, name) for name in names] or [sample.source]
    threads = MailThreads()
    repeats = Repeats()
    mails = (mail for file in files for mail in _mails(file, reading))
    for number, mail in enumerate(mails, 1):
        if mail is None:
            reading.drop(_TOO_MANY_PARTS)
            continue
        try:
            threads.join(_ids(mail, number))
            is_automatic = _is_automatic(mail)
            read = None if is_automatic else _read_mail(mail, number)
        except _BROKEN_HEADERS:
            reading.drop("mails whose headers cannot be read")
            continue
        if read is None or not read.message.text:
            reading.drop(AUTOMATIC if is_automatic else "mails without a text of their own")
        elif repeats.has(read.key, read.message.author, read.message.time):
            reading.drop(REPEATED)
        else:
            threads.add(read)
    for thread in threads.all():
        authors = [mail.name for mail in thread if mail.name]
        yield Chat([mail.message for mail in thread], thread[0].root, names=authors)


def _is_automatic(mail: EmailMessage) -> bool:
    """Return whether the headers of a mail say that a program answered.

    `Precedence: bulk` and `X-Auto-Response-Suppress` do not: help desks add them to agents' mails.
    """
    if any(_header(mail, name) not in _NOT_AUTOMATIC for name in _AUTOMATIC_HEADERS):
        return True
    return _header(mail, "Precedence").replace("-", "_") == "auto_reply"


def _header(mail: EmailMessage, name: str) -> str:
    return str(mail.get(name, "")).strip().casefold()


def _own_id(mail: EmailMessage) -> str:
    text = str(mail.get("Message-ID", "")).strip()
    return next(iter(_MAIL_ID.findall(text)), text)


def _ids(mail: EmailMessage, number: int) -> list[str]:
    """Return the id of a mail, or its number in words, and the ids of the mails before it."""
    own = _own_id(mail) or f"mail {number}"
    return [own, *_MAIL_ID.findall(f"{mail.get('References', '')} {mail.get('In-Reply-To', '')}")]


def _mails(file: Source, reading: Reading) -> Iterator[EmailMessage | None]:
    """Yield the mails of a file: of an mbox those that lines with "From " begin, else the only one.

    None stands for a mail of too many parts.
    """
    lines: list[bytes] = []
    size = 0
    blank = True
    is_mbox: bool | None = None  # None: no line is read
    with file.open(reading) as stream:
        for line in stream:
            if is_mbox is None and line.strip():
                is_mbox = line.startswith(b"From ")
            if is_mbox and blank and lines and _is_mail_start(line):
                yield _parsed(lines)
                lines = []
                size = 0
            blank = not line.strip()
            size += len(line)
            if size > MAX_DOCUMENT_BYTES:
                raise InputError(f"{file}: a mail of more than {MAX_DOCUMENT_BYTES >> 20} MiB")
            lines.append(line[1:] if is_mbox and line.startswith(b">From ") else line)
    yield _parsed(lines)


def _is_mail_start(line: bytes) -> bool:
    """Return whether a line begins a mail: "From ", and at the end a year, or a day and a clock."""
    rest = line.removeprefix(b"From ").rstrip()
    if rest == line.rstrip() or not rest:
        return False
    if rest[-4:].isdigit() and len(rest) > 4 and not line[5:6].isspace():
        return True
    day = _DAY.search(rest)
    return day is not None and _CLOCK.search(rest, day.end()) is not None


class _ShortHeaders(email.policy.EmailPolicy):
    """Headers of which a part is read: the parser takes the square of their length."""

    def header_fetch_parse(self, name: str, value: str) -> Any:
        """Return a header's value; of references the newest."""
        is_long = name.lower() == "references"
        short = value[-MAX_REFERENCES:] if is_long else value[:MAX_HEADER]
        return super().header_fetch_parse(name, short)


_POLICY = _ShortHeaders()


def _parsed(lines: list[bytes]) -> EmailMessage | None:
    content = b"".join(lines[1:] if _is_mail_start(lines[0]) else lines)
    if content.lower().count(b"content-type:") > MAX_PARTS:
        return None
    try:
        mail: Any = email.message_from_bytes(content, policy=_POLICY)
    except RecursionError:  # of comments within each other, in a header that divides parts
        return None
    return mail


def _read_mail(mail: EmailMessage, number: int) -> Mail:
    """Return a mail as a message of its author, with the headers that tell its thread."""
    name, address = email.utils.parseaddr(str(mail.get("From", "")))
    time = parse_time(str(mail.get("Date", "")))
    own, *earlier = _ids(mail, number)
    return Mail(
        message=ChatMessage(address.lower() or name or "unknown", own_text(body_of(mail)), time),
        name=name,
        key=own,
        root=earlier[0] if earlier else _own_id(mail),
        depth=len(earlier),
        subject=str(mail.get("Subject", "")),
        people=_people(mail),
    )


def _people(mail: EmailMessage) -> list[str]:
    """Return the addresses of a mail, its author's first."""
    fields = [str(mail.get(name, "")) for name in ("From", "To", "Cc")]
    return [address.lower() for _, address in email.utils.getaddresses(fields) if address]


MAILBOX = Form(
    name="mailbox",
    title="mailbox (mbox, eml)",
    holds="chats",
    export="Thunderbird: ImportExportTools, Export folder (mbox); Gmail: takeout.google.com, Mail; "
    "Outlook: save mails as .eml",
    matches=lambda sample: (
        sample.kind == "mail" or any(name.lower().endswith(_MAIL_FILES) for name in sample.members)
    ),
    read=read_mailbox,
)
