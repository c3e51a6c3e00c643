"""Messages of any tool: tables with a row each, mailboxes, and the JSON of language models."""

from __future__ import annotations

import email
import email.policy
import email.utils
import re
from collections.abc import Iterator, Mapping
from email.message import EmailMessage
from typing import Any

from rejoinder.conversations import NO_TURNS
from rejoinder.corpora.limits import MAX_DOCUMENT_BYTES, MAX_HEADER, MAX_PARTS, MAX_REFERENCES
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.chat import Chat, ChatMessage
from rejoinder.corpora.readers.form import OF_TABLES, Form
from rejoinder.corpora.readers.html_text import text_of_html
from rejoinder.corpora.readers.messengers import mend_messages
from rejoinder.corpora.readers.times import date_numbers, find_order, parse_time
from rejoinder.corpora.source import Sample, Source, json_values, keep_open
from rejoinder.corpora.tables import (
    REPEATED_HEADERS,
    Choice,
    columns_of,
    find_column,
    fold,
    json_rows,
    open_table,
)
from rejoinder.errors import InputError
from rejoinder.mail_quotes import newest_text
from rejoinder.patterns import search_pattern

# A table of messages: a row (or JSON object) each, with the conversation, author, text and time.
#
# Rows of a conversation may be scattered over the file; where all have a time, it orders them.
# Without a column for the conversation the file is one chat, which a silence splits.

CONVERSATION = ("conversation", "conversation_id", "conversationid", "ticket", "ticket_id",
                "chat", "chat_id", "thread", "thread_id", "session", "session_id", "dialogue",
                "dialogue_id", "dialog_id", "case_id", "room_id")  # fmt: skip
AUTHOR = ("author", "sender", "from", "speaker", "username", "user", "author_id", "sender_id",
          "participant", "role", "name")  # fmt: skip
TEXT = ("text", "message", "body", "content", "comment", "utterance", "msg")
TIME = ("time", "timestamp", "datetime", "date", "created_at", "created", "sent_at", "createdat")
AGENT = ("is_agent", "role", "sender_type", "author_type", "user_type", "direction", "inbound",
         "incoming", "is_bot")  # fmt: skip
PRIVATE = ("private", "is_private", "internal")
_NEEDED = ("author", "text")
WORDS = {"conversation": CONVERSATION, "author": AUTHOR, "text": TEXT, "time": TIME,
         "agent": AGENT, "private": PRIVATE}  # fmt: skip
KNOWN = frozenset(word for words in WORDS.values() for word in words)
_AGENT_WORDS = frozenset(
    """agent assistant bot support operator staff admin outbound outgoing out representative
    teammate gpt model""".split()  # noqa: SIM905
)
_TRUE = frozenset(("true", "1", "yes", "y", "t"))
_MEANT_CUSTOMER = frozenset(("inbound", "incoming"))  # columns in which "true" is a customer's


def read_messages(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield the chats of a table of messages."""
    source = sample.source
    rows: Iterator[tuple[str, Any]]
    if sample.kind.startswith("json"):
        names = list(sample.columns)
        rows = json_rows(sample, "", reading)
        form = "JSON"
    else:
        table = open_table(sample, choice, KNOWN, reading)
        names, rows, form = table.names, iter(table.rows), table.form
    columns = columns_of(names, WORDS, choice, str(source))
    if missing := [role for role in _NEEDED if role not in columns]:
        raise InputError(
            f"{source}: no column for {' or '.join(missing)}; there is "
            f"{', '.join(names)[:200] or 'none'}: name it with --set columns={missing[0]}=NAME"
        )
    words = ", ".join(f"{role} = {name}" for role, name in columns.items())
    reading.notes.append(f"{source}: {form}: {words}")
    chats: dict[str, list[tuple[Any, ChatMessage]]] = {}
    for where, row in rows:
        if not isinstance(row, dict):
            raise InputError(f"{where}: a JSON {type(row).__name__}; an object is read")
        if _flag(row.get(columns.get("private", ""))):
            reading.drop("private notes")
            continue
        if all(fold(row.get(columns[role]) or "") == fold(columns[role]) for role in _NEEDED):
            reading.drop(REPEATED_HEADERS)
            continue
        message = _message_of_row(row, columns)
        if not message.text:
            reading.drop("messages without a text")
            continue
        name = str(row.get(columns.get("conversation", ""), ""))
        chats.setdefault(name, []).append((row.get(columns.get("time", "")), message))
    ordered = _ordered(chats, "conversation" not in columns)
    yield from mend_messages(ordered, str(source), reading) if form == "JSON" else ordered


def _ordered(chats: Mapping[str, list[tuple[Any, ChatMessage]]], endless: bool) -> Iterator[Chat]:
    """Yield chats whose messages are ordered by their times, if all are readable."""
    values = [value for messages in chats.values() for value, _ in messages]
    order = find_order(filter(None, map(date_numbers, values)))
    for name, messages in chats.items():
        timed = [
            ChatMessage(message.author, message.text, parse_time(value, order), message.agent)
            for value, message in messages
        ]
        if all(message.time is not None for message in timed):
            timed.sort(key=lambda message: message.time or 0.0)
        yield Chat(timed, name, endless)


def _message_of_row(row: Mapping[str, Any], columns: Mapping[str, str]) -> ChatMessage:
    text = row.get(columns["text"])
    text = "" if text is None else str(text)
    author = row.get(columns["author"])
    name = columns.get("agent")
    agent = None
    if name is not None and row.get(name) not in (None, ""):
        value = str(row[name]).strip().casefold()
        key = fold(name)
        if key in _MEANT_CUSTOMER:
            agent = value not in _TRUE
        else:
            agent = value in _TRUE or bool(set(fold(value).split("_")) & _AGENT_WORDS)
    plain = text_of_html(text) if fold(columns["text"]).endswith("html") else text.strip()
    return ChatMessage("" if author is None else str(author).strip(), plain, None, agent)


def _flag(value: Any) -> bool:
    return str(value).casefold() in _TRUE if value is not None else False


def _is_table_of_messages(sample: Sample) -> bool:
    """Return whether a table has texts with their authors, and conversations or times."""

    def has(*names: str) -> bool:
        return find_column(sample.columns, names) is not None

    authors = [name for name in AUTHOR if name not in ("name", "user", "role")]
    scattered = has(*CONVERSATION) and has(*AUTHOR)
    return has(*TEXT) and (scattered or (has(*authors) and has(*TIME)))


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


# Mailboxes: an mbox file, an .eml file, or a zip file or folder of those.
#
# Mails are a chat by what they answer (References, In-Reply-To), else by subject. Quoted text and
# signatures are removed by mail-parser-reply, in its languages. The author is the address.

_BROKEN_HEADERS = (LookupError, ValueError, TypeError, AttributeError, RecursionError)
_TOO_MANY_PARTS = f"mails of more than {MAX_PARTS} parts, or nested too deep"
_MAIL_FILES = (".eml", ".mbox")
_DAY = search_pattern(rb"[A-Z][a-z]{2} [A-Z][a-z]{2} ")  # Mon Jan
_CLOCK = search_pattern(rb"\d\d:\d\d")
_PREFIX = search_pattern(
    r"^\s*+(?:(?:re|aw|fwd?|wg|sv|antw|res|rv|tr)\s*+(?:\[\d++\]\s*+)?:\s*+)++", re.IGNORECASE
)
_MAIL_ID = search_pattern(r"<[^<>\s]++>")
_SIGNATURE = search_pattern(r"^-- ?$.*", re.MULTILINE | re.DOTALL)


def read_mailbox(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield the chats of a mailbox, in the order of their first mails."""
    del choice
    with keep_open(sample.source.path):
        yield from _read_mailbox(sample, reading)


def _read_mailbox(sample: Sample, reading: Reading) -> Iterator[Chat]:
    names = [name for name in sample.members if name.lower().endswith(_MAIL_FILES)]
    files = [Source(sample.source.path, name) for name in names] or [sample.source]
    chats: dict[str, Chat] = {}
    of_mail: dict[str, str] = {}  # the chat of each Message-ID
    for file in files:
        for mail in _mails(file, reading):
            if mail is None:
                reading.drop(_TOO_MANY_PARTS)
                continue
            try:
                message, name = _message_of_mail(mail)
                is_automatic = str(mail.get("Auto-Submitted", "no")).lower() != "no"
                thread = "" if is_automatic or not message.text else _thread(mail, of_mail)
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
        if all(message.time is not None for message in chat.messages):
            chat.messages.sort(key=lambda message: message.time or 0.0)
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
    text = _SIGNATURE.sub("", _body(mail).replace("\r\n", "\n"))
    time = parse_time(str(mail.get("Date", "")))
    return ChatMessage(address.lower() or name or "unknown", newest_text(text), time), name


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
    earlier = _MAIL_ID.findall(text)
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


# Conversations as language models have them: ShareGPT, OpenAI's messages, ChatGPT's export.

_AGENT_ROLES = frozenset(("gpt", "assistant", "model", "bot", "chatgpt", "bing", "bard", "agent"))
_BASES = ("", "item.")


def read_chat_json(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield the conversations of a file."""
    del choice
    base = "item" if any(key.startswith("item.") for key in sample.keys) else ""
    for _, record in json_values(sample.source, {base}, sample.encoding, reading):
        chat = Chat(name=str(record.get("id") or "") if isinstance(record, dict) else "")
        for message in _messages_of_chat(record):
            role, text, time = message
            if role in NO_TURNS:
                reading.drop("instructions and calls of tools")
            elif not text.strip():
                reading.drop("attachments and messages without a text")
            else:
                chat.messages.append(ChatMessage(role, text, time, role in _AGENT_ROLES))
        yield chat


def _messages_of_chat(record: Any) -> Iterator[tuple[str, str, float | None]]:
    """Yield role, text and time of the messages of a conversation."""
    if not isinstance(record, dict):
        return
    mapping = record.get("mapping")
    if isinstance(mapping, dict):
        for message in _branch(mapping, record.get("current_node")):
            author = message.get("author")
            role = author.get("role") if isinstance(author, dict) else ""
            time = parse_time(message.get("create_time")) if message.get("create_time") else None
            yield str(role or ""), _text_of_message(message.get("content")), time
        return
    messages = record.get("messages") or record.get("conversations") or record.get("conversation")
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict):
            role = message.get("role") or message.get("from") or ""
            text = message.get("content") if "content" in message else message.get("value")
            yield str(role).lower(), _text_of_message(text), None


def _branch(mapping: dict[str, Any], last: Any) -> list[dict[str, Any]]:
    """Return the messages of ChatGPT's tree that lead to the last one that was shown."""
    if last not in mapping:
        last = next(reversed(mapping), None)
    messages = []
    seen = set()
    while isinstance(last, str) and last in mapping and last not in seen:
        seen.add(last)
        node = mapping[last] if isinstance(mapping[last], dict) else {}
        if isinstance(node.get("message"), dict):
            messages.append(node["message"])
        last = node.get("parent")
    return messages[::-1]


def _text_of_message(content: Any) -> str:
    """Return a text, the text parts of a message, or those of ChatGPT's export."""
    if isinstance(content, dict):
        content = content.get("parts") or content.get("text")
    if isinstance(content, list):
        pieces = (piece.get("text") if isinstance(piece, dict) else piece for piece in content)
        content = "\n".join(piece for piece in pieces if isinstance(piece, str))
    return content.strip() if isinstance(content, str) else ""


def _is_chat_json(sample: Sample) -> bool:
    return any(
        {f"{base}{messages}.item.{role}", f"{base}{messages}.item.{text}"} <= sample.keys
        for base in _BASES
        for messages in ("messages", "conversations", "conversation")
        for role, text in (("role", "content"), ("from", "value"))
    ) or any(f"{base}mapping" in sample.keys for base in _BASES)


CHAT_JSON = Form(
    name="chat-json",
    title="chats of language models (ShareGPT, OpenAI, ChatGPT)",
    holds="chats",
    export="ChatGPT: Settings, Data controls, Export data; others: the data set's JSON",
    matches=_is_chat_json,
    read=read_chat_json,
)
