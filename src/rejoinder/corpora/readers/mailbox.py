"""Mailboxes: an mbox file, an .eml file, or a zip file or folder of those.

Mails are a chat by what they answer (References, In-Reply-To), else by subject. Quoted text and
signatures are removed by mail-parser-reply, in its languages. The author is the address.
"""

from __future__ import annotations

import email
import email.policy
import email.utils
import re
from collections.abc import Iterator
from email.message import EmailMessage
from typing import Any

from rejoinder.corpora.form import Chat, Form, Message
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.markup import text_of_html
from rejoinder.corpora.source import MAX_DOCUMENT_BYTES, Sample, Source
from rejoinder.corpora.tables import Choice
from rejoinder.corpora.times import parse_time
from rejoinder.errors import InputError

_FILES = (".eml", ".mbox")
_START = re.compile(rb"From \S+.*\d{4}\s*$|From .*[A-Z][a-z]{2} [A-Z][a-z]{2} .*\d\d:\d\d")
_PREFIX = re.compile(r"^\s*(?:(?:re|aw|fwd?|wg|sv|antw|res|rv|tr)\s*(?:\[\d+\])?\s*:\s*)+", re.I)
_LANGUAGES = ["en", "de", "fr", "it", "es", "nl", "da", "sv", "pl", "cs", "ja", "ko", "zh"]
_SIGNATURE = re.compile(r"^-- ?$.*", re.MULTILINE | re.DOTALL)


def read_mailbox(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield the chats of a mailbox, in the order of their first mails."""
    del choice
    from mailparser_reply import EmailReplyParser

    parser = EmailReplyParser(languages=_LANGUAGES)
    names = [name for name in sample.members if name.lower().endswith(_FILES)]
    files = [Source(sample.source.path, name) for name in names] or [sample.source]
    chats: dict[str, Chat] = {}
    of_mail: dict[str, str] = {}  # the chat of each Message-ID
    for file in files:
        for mail in _mails(file, reading):
            try:
                message, name = _message(mail, parser)
                is_automatic = str(mail.get("Auto-Submitted", "no")).lower() != "no"
                thread = "" if is_automatic or not message.text else _thread(mail, of_mail)
            except (LookupError, ValueError, TypeError, AttributeError):  # of broken headers
                reading.drop("mails whose headers cannot be read")
                continue
            if is_automatic:
                reading.drop("automatic answers")
            elif not message.text:
                reading.drop("mails without a text of their own")
            else:
                chat = chats.setdefault(thread, Chat())
                chat.messages.append(message)
                chat.names = (*chat.names, *filter(None, (name,)))
    for name, chat in chats.items():
        if all(message.time is not None for message in chat.messages):
            chat.messages.sort(key=lambda message: message.time or 0.0)
        chat.name = name
        yield chat


def _mails(file: Source, reading: Reading) -> Iterator[EmailMessage]:
    """Yield the mails of a file: those that lines with "From " begin, or the only one."""
    lines: list[bytes] = []
    size = 0
    blank = True
    with file.open(reading) as stream:
        for line in stream:
            if blank and lines and _START.match(line):
                yield _parsed(lines)
                lines = []
                size = 0
            blank = not line.strip()
            size += len(line)
            if size > MAX_DOCUMENT_BYTES:
                raise InputError(f"{file}: a mail of more than {MAX_DOCUMENT_BYTES >> 20} MiB")
            lines.append(line[1:] if line.startswith(b">From ") else line)
    yield _parsed(lines)


def _parsed(lines: list[bytes]) -> EmailMessage:
    content = b"".join(lines[1:] if _START.match(lines[0]) else lines)
    mail: Any = email.message_from_bytes(content, policy=email.policy.default)
    return mail


def _message(mail: EmailMessage, parser: Any) -> tuple[Message, str]:
    """Return a mail as a message, and the name of its author."""
    name, address = email.utils.parseaddr(str(mail.get("From", "")))
    text = _SIGNATURE.sub("", _body(mail).replace("\r\n", "\n"))
    own = parser.parse_reply(text) if text.strip() else ""
    time = parse_time(str(mail.get("Date", "")))
    return Message(address.lower() or name or "unknown", (own or "").strip(), time), name


def _body(mail: EmailMessage) -> str:
    """Return the text of a mail, of HTML without tags."""
    body = mail.get_body(("plain", "html"))
    if body is None:
        return ""
    try:
        text = str(body.get_content())
    except (LookupError, UnicodeError):  # an encoding that nobody knows
        payload: Any = body.get_payload(decode=True)
        text = payload.decode("utf-8", "replace") if isinstance(payload, bytes) else ""
    return text_of_html(text) if body.get_content_type() == "text/html" else text


def _thread(mail: EmailMessage, of_mail: dict[str, str]) -> str:
    """Return the chat that a mail continues, or a new one; remember it by the mail's id."""
    own = str(mail.get("Message-ID", "")).strip()
    text = f"{mail.get('References', '')} {mail.get('In-Reply-To', '')}"
    earlier = re.findall(r"<[^<>\s]+>", text)
    subject = _PREFIX.sub("", str(mail.get("Subject", ""))).strip().casefold()
    is_answer = bool(earlier) or _PREFIX.match(str(mail.get("Subject", "")) or "") is not None
    thread = next((of_mail[name] for name in earlier if name in of_mail), "")
    if not thread and is_answer and subject:
        thread = of_mail.get(f"subject {subject}", "")
    thread = thread or own or f"mail {len(of_mail)}"
    for name in filter(None, (own, *earlier)):
        of_mail.setdefault(name, thread)
    if subject:
        of_mail[f"subject {subject}"] = thread
    return thread


FORM = Form(
    name="mailbox",
    title="mailbox (mbox, eml)",
    holds="chats",
    export="Thunderbird: ImportExportTools, Export folder (mbox); Gmail: takeout.google.com, Mail; "
    "Outlook: save mails as .eml",
    matches=lambda sample: (
        sample.kind == "mail" or any(name.lower().endswith(_FILES) for name in sample.members)
    ),
    read=read_mailbox,
)
