"""Mailboxes: an mbox file, an .eml file, or a zip file or folder of those.

Mails are a chat by what they answer (References, In-Reply-To). Where an answer names no mail, they
are one by subject and by the participants that they share. Quotes, salutations, closings and
signatures are removed, as of messages that are searched for. The author is the address.
"""

from __future__ import annotations

import email
import email.policy
import email.utils
import re
from collections.abc import Iterator, Sequence, Set
from email.message import EmailMessage
from typing import Any, NamedTuple

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample, Source, keep_open
from rejoinder.corpora.limits import MAX_DOCUMENT_BYTES, MAX_HEADER, MAX_PARTS, MAX_REFERENCES
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.chat import Chat, ChatMessage, sort_by_time
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.readers.times import parse_time
from rejoinder.errors import InputError
from rejoinder.html_text import text_of_html
from rejoinder.patterns import search_pattern
from rejoinder.text.mails.cleaning import own_text

_BROKEN_HEADERS = (LookupError, ValueError, TypeError, AttributeError, RecursionError)
_TOO_MANY_PARTS = f"mails of more than {MAX_PARTS} parts, or nested too deep"
_MAX_THREADS = 200  # of one subject, the newest, that an answer without references may continue
_MAIL_FILES = (".eml", ".mbox")
_DAY = search_pattern(rb"[A-Z][a-z]{2} [A-Z][a-z]{2} ")  # Mon Jan
_CLOCK = search_pattern(rb"\d\d:\d\d")
_PREFIX = search_pattern(
    r"^\s*+(?:(?:re|aw|fwd?|wg|sv|antw|res|rv|tr)\s*+(?:\[\d++\]\s*+)?:\s*+)++", re.IGNORECASE
)
_MAIL_ID = search_pattern(r"<[^<>\s]++>")


def read_mailbox(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield the chats of a mailbox, in the order of their first mails."""
    del choice
    with keep_open(sample.source.path):
        yield from _read_mailbox(sample, reading)


def _read_mailbox(sample: Sample, reading: Reading) -> Iterator[Chat]:
    """Yield the threads of a mailbox, by Message-ID and by subject."""
    names = [name for name in sample.members if name.lower().endswith(_MAIL_FILES)]
    files = [Source(sample.source.path, name) for name in names] or [sample.source]
    chats: dict[str, Chat] = {}
    of_mail: dict[str, str] = {}  # the chat of each Message-ID
    of_subject: dict[str, list[_Thread]] = {}
    mails = (mail for file in files for mail in _mails(file, reading))
    for number, mail in enumerate(mails, 1):
        if mail is None:
            reading.drop(_TOO_MANY_PARTS)
            continue
        try:
            message, name = _message_of_mail(mail)
            is_automatic = str(mail.get("Auto-Submitted", "no")).lower() != "no"
            is_left_out = is_automatic or not message.text
            thread = "" if is_left_out else _thread(mail, f"mail {number}", of_mail, of_subject)
        except _BROKEN_HEADERS:
            reading.drop("mails whose headers cannot be read")
            continue
        if is_automatic:
            reading.drop("automatic answers")
        elif not message.text:
            reading.drop("mails without a text of their own")
        else:
            chat = chats.setdefault(thread, Chat())
            chat.messages.append(message)
            chat.names += filter(None, (name,))
    for name, chat in chats.items():
        sort_by_time(chat.messages)
        chat.name = name
        yield chat


def _mails(file: Source, reading: Reading) -> Iterator[EmailMessage | None]:
    """Yield the mails of a file: those that lines with "From " begin, or the only one.

    None stands for a mail of too many parts.
    """
    lines: list[bytes] = []
    size = 0
    blank = True
    with file.open(reading) as stream:
        for line in stream:
            if blank and lines and _is_mail_start(line):
                yield _parsed(lines)
                lines = []
                size = 0
            blank = not line.strip()
            size += len(line)
            if size > MAX_DOCUMENT_BYTES:
                raise InputError(f"{file}: a mail of more than {MAX_DOCUMENT_BYTES >> 20} MiB")
            lines.append(line[1:] if line.startswith(b">From ") else line)
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


def _message_of_mail(mail: EmailMessage) -> tuple[ChatMessage, str]:
    """Return a mail as a message, and the name of its author."""
    name, address = email.utils.parseaddr(str(mail.get("From", "")))
    text = own_text(_body(mail))
    time = parse_time(str(mail.get("Date", "")))
    return ChatMessage(address.lower() or name or "unknown", text, time), name


def _body(mail: EmailMessage) -> str:
    """Return the text of a mail, of HTML without tags and with marks before quoted lines."""
    body = mail.get_body(("plain", "html"))
    if body is None:
        return ""
    try:
        text = str(body.get_content())
    except (LookupError, UnicodeError):  # an encoding that nobody knows
        payload: Any = body.get_payload(decode=True)
        text = payload.decode("utf-8", "replace") if isinstance(payload, bytes) else ""
    is_html = body.get_content_type() == "text/html"
    return text_of_html(text, quote_mark="> ") if is_html else text


class _Thread(NamedTuple):
    """A chat of a subject, with the addresses of its mails."""

    name: str
    opener: str
    people: set[str]

    def fit(self, people: Set[str]) -> int:
        """Return how well an answer's addresses fit: 0, another thread's; 3, both sides' are there.

        A mail without a recipient fits. An opener's domain does not count: customers share it.
        """
        if len(people) < 2 or len(self.people) < 2:
            return 1
        if len(people & self.people) > 1:
            return 3
        opener = {self.opener}
        domains = _domains(people - opener) & _domains(self.people - opener)
        return 2 if self.opener in people and domains else 0


def _domains(people: Set[str]) -> set[str]:
    return {address.rpartition("@")[2] for address in people}


def _people(mail: EmailMessage) -> list[str]:
    """Return the addresses of a mail, its author's first."""
    fields = [str(mail.get(name, "")) for name in ("From", "To", "Cc")]
    return [address.lower() for _, address in email.utils.getaddresses(fields) if address]


def _thread(
    mail: EmailMessage,
    name_of_new: str,
    of_mail: dict[str, str],
    of_subject: dict[str, list[_Thread]],
) -> str:
    """Return the chat that a mail continues, or a new one; remember it by the mail's id.

    Where a mail has no id, its chat has the name `name_of_new`.
    """
    own = str(mail.get("Message-ID", "")).strip()
    text = f"{mail.get('References', '')} {mail.get('In-Reply-To', '')}"
    earlier = _MAIL_ID.findall(text)
    subject = _PREFIX.sub("", str(mail.get("Subject", ""))).strip().casefold()
    people = _people(mail)
    is_answer = not earlier and _PREFIX.match(str(mail.get("Subject", "")) or "") is not None
    thread = next((of_mail[name] for name in earlier if name in of_mail), "")
    threads = of_subject.setdefault(subject, []) if subject else []
    if not thread and is_answer and threads:
        best = max(reversed(threads), key=lambda candidate: candidate.fit(set(people)))
        thread = best.name if best.fit(set(people)) else ""
    thread = thread or own or name_of_new
    for name in filter(None, (own, *earlier)):
        of_mail.setdefault(name, thread)
    _remember(threads, thread, people)
    return thread


def _remember(threads: list[_Thread], name: str, people: Sequence[str]) -> None:
    """Make a thread the newest of its subject, with the addresses of a mail."""
    known = next((thread for thread in threads if thread.name == name), None)
    if known is not None:
        threads.remove(known)
    threads.append(known or _Thread(name, people[0] if people else "", set()))
    threads[-1].people.update(people)
    del threads[:-_MAX_THREADS]


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
