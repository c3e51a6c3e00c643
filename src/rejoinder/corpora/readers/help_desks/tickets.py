"""Tickets and conversations of Zendesk, Intercom, Chatwoot and Freshdesk, exported or from APIs.

A file holds one of them, an array, a list in an object, or one a line. Private notes are left
out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.json_values import dicts, json_values, texts_of
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.chat import (
    AUTOMATIC,
    Chat,
    ChatMessage,
    chat_name,
    omit_bots,
    sort_by_time,
)
from rejoinder.corpora.readers.flags import PRIVATE_NOTES, HiddenMessages, is_hidden, is_yes
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.readers.help_desks.fields import first_text
from rejoinder.corpora.readers.repeats import REPEATED, Repeats
from rejoinder.corpora.readers.sides import OF_BOTS
from rejoinder.corpora.readers.times import parse_time

_DELETED = "deleted messages"
_TICKET_LISTS = ("tickets", "conversations", "data", "payload", "results", "data.payload")
_TICKET_BASES = ("", "item.", *(f"{name}.item." for name in _TICKET_LISTS))


def _records(sample: Sample, key: str, reading: Reading) -> Iterator[dict[str, Any]]:
    """Yield the objects that have a key."""
    base = next((base for base in _TICKET_BASES if f"{base}{key}" in sample.keys), "item.")
    path = base.removesuffix(".")
    for _, record in json_values(sample.source, {path}, sample.encoding, reading):
        if isinstance(record, dict):
            yield record


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _add(chat: Chat, message: ChatMessage, reading: Reading) -> None:
    if message.text:
        chat.messages.append(message)
    else:
        reading.drop("attachments and messages without a text")


def _omit_bots(chat: Chat, reading: Reading) -> None:
    if count := omit_bots(chat):
        reading.drop(OF_BOTS, count)


def read_zendesk(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield the public comments of tickets; whoever is not the requester is an agent."""
    del choice
    hidden = HiddenMessages()
    for ticket in _records(sample, "comments", reading):
        comments = _by_time(dicts(ticket.get("comments")))
        users = {user.get("id"): user for user in dicts(ticket.get("users"))}
        requester = ticket.get("requester_id") or _dict(ticket.get("requester")).get("id")
        requester = requester or _first_public_author(comments)
        chat = Chat(name=chat_name(ticket.get("id")))
        repeats = Repeats()
        for comment in comments:
            if reason := _why_comment_left_out(comment, hidden, repeats):
                reading.drop(reason)
                continue
            author = _author_id(comment)
            user = _dict(comment.get("author")) or users.get(author, {})
            role = user.get("role")
            agent = role in ("agent", "admin") if role else author != requester
            name = str(user.get("name") or author or "")
            text = first_text(comment, ("plain_body", "body", "html_body"))
            time = parse_time(comment.get("created_at"))
            _add(chat, ChatMessage(name, text, time, agent), reading)
        chat.names = [str(user["name"]) for user in users.values() if user.get("name")]
        yield chat
    reading.notes += hidden.notes(sample.source)


def _why_comment_left_out(comment: dict[str, Any], hidden: HiddenMessages, repeats: Repeats) -> str:
    """Return why a comment of Zendesk is left out, or nothing."""
    if hidden.hides("public", comment.get("public"), public=True):
        return PRIVATE_NOTES
    if _is_automatic(comment):
        return AUTOMATIC
    return REPEATED if repeats.has_id(comment.get("id")) else ""


def _is_automatic(comment: dict[str, Any]) -> bool:
    """Return whether a trigger or an automation of Zendesk wrote a comment."""
    channel = _dict(comment.get("via")).get("channel")
    return channel in ("rule", "system") or str(_author_id(comment)) == "-1"


def _by_time(comments: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return comments in the order of their times if all have one, else as they are."""
    timed = [(parse_time(comment.get("created_at")), comment) for comment in comments]
    if all(time is not None for time, _ in timed):
        timed.sort(key=lambda pair: pair[0] or 0.0)
    return [comment for _, comment in timed]


def _first_public_author(comments: Iterable[dict[str, Any]]) -> Any:
    """Return whose comment is the first that customers see: an agent's note may stand before."""
    written = (
        comment
        for comment in comments
        if not is_hidden(comment.get("public"), public=True) and not _is_automatic(comment)
    )
    return next(map(_author_id, written), None)


def _author_id(comment: dict[str, Any]) -> Any:
    return comment.get("author_id") or _dict(comment.get("author")).get("id")


def read_intercom(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield conversations: the first message, and the parts with a text that are not notes."""
    del choice
    for record in _records(sample, "conversation_parts", reading):
        chat = Chat(name=chat_name(record.get("id")))
        source = _dict(record.get("source"))
        parts = record.get("conversation_parts")
        parts = parts.get("conversation_parts") if isinstance(parts, dict) else parts
        first = {"created_at": record.get("created_at"), **source}
        repeats = Repeats()
        for part in [first, *dicts(parts)]:
            if reason := _why_part_left_out(part, part is first, repeats):
                reading.drop(reason)
                continue
            author = _dict(part.get("author"))
            agent = author.get("type") in ("admin", "bot", "team")
            name = str(author.get("name") or author.get("id") or author.get("type") or "")
            text = first_text(part, ("body",))
            time = parse_time(part.get("created_at"))
            is_bot = author.get("type") == "bot"
            _add(chat, ChatMessage(name, text, time, agent, is_bot), reading)
        sort_by_time(chat.messages)
        _omit_bots(chat, reading)
        yield chat


_OUTBOUND = "10"  # source of a Freshdesk ticket that an agent opens by e-mail
_INCOMING = (0, "0", "incoming")
_TEMPLATES = (3, "3", "template")  # greetings, forms, surveys
_OUTGOING = (1, "1", "outgoing", *_TEMPLATES)


def _why_part_left_out(part: dict[str, Any], is_first: bool, repeats: Repeats) -> str:
    """Return why a part of a conversation of Intercom is left out, or nothing."""
    if part.get("part_type") in ("note", "note_and_reopen"):
        return PRIVATE_NOTES
    if not is_first and not part.get("body"):
        return "events (assigned, closed)"
    return REPEATED if repeats.has_id(part.get("id")) else ""


def read_chatwoot(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield conversations with their messages, or the messages of conversations."""
    del choice
    chats: dict[str, Chat] = {}
    nested = next(
        (base for base in _TICKET_BASES if f"{base}messages.item.message_type" in sample.keys), None
    )
    if nested is None:
        records = _records(sample, "message_type", reading)
    else:
        records = (
            {"conversation_id": record.get("id"), **message}
            for record in _records(sample, "messages", reading)
            for message in dicts(record.get("messages"))
        )
    hidden = HiddenMessages()
    repeats = Repeats()
    for message in records:
        name = chat_name(message.get("conversation_id"))
        chat = chats.setdefault(name, Chat(name=name))
        if reason := _why_message_left_out(message, hidden, repeats):
            reading.drop(reason)
        else:
            _add(chat, _message_of_chatwoot(message), reading)
    reading.notes += hidden.notes(sample.source)
    for chat in chats.values():
        sort_by_time(chat.messages)
        _omit_bots(chat, reading)
        yield chat


def _why_message_left_out(message: dict[str, Any], hidden: HiddenMessages, repeats: Repeats) -> str:
    """Return why a message of Chatwoot is left out, or nothing."""
    if hidden.hides("private", message.get("private")):
        return PRIVATE_NOTES
    if is_yes(_dict(message.get("content_attributes")).get("deleted")):
        return _DELETED
    if message.get("message_type") not in (*_INCOMING, *_OUTGOING):
        return "activities (assigned, resolved)"
    is_repeat = repeats.has_id(message.get("id"), message.get("conversation_id"))
    return REPEATED if is_repeat else ""


def _message_of_chatwoot(message: dict[str, Any]) -> ChatMessage:
    kind = message.get("message_type")
    sender = _dict(message.get("sender"))
    name = str(sender.get("name") or sender.get("id") or kind)
    time = parse_time(message.get("created_at"))
    text = first_text(message, ("content",))
    is_bot = kind in _TEMPLATES or sender.get("type") == "agent_bot"
    return ChatMessage(name, text, time, kind in _OUTGOING, is_bot)


def read_freshdesk(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield tickets: the description and what follows, as `conversations` or `notes`."""
    del choice
    key = next(
        (key for key in ("conversations", "helpdesk_ticket") if _has_ticket_fields(sample, key)),
        "description",
    )
    hidden = HiddenMessages()
    for record in _records(sample, key, reading):
        ticket = _dict(record.get("helpdesk_ticket")) or record
        chat = Chat(name=chat_name(ticket.get("display_id") or ticket.get("id")))
        requester = _dict(ticket.get("requester"))
        asker = ticket.get("requester_id") or requester.get("id")
        chat.names = texts_of([requester.get("name"), ticket.get("requester_name")])
        text = first_text(ticket, ("description_text", "description", "description_html"))
        time = parse_time(ticket.get("created_at"))
        is_outbound = str(ticket.get("source")) == _OUTBOUND
        writer = ticket.get("responder_id") or "agent" if is_outbound else asker or "requester"
        _add(chat, ChatMessage(str(writer), text, time, is_outbound), reading)
        repeats = Repeats()
        for entry in [*dicts(ticket.get("conversations")), *dicts(ticket.get("notes"))]:
            note = _dict(entry.get("note")) or _dict(entry.get("helpdesk_note")) or entry
            if reason := _why_note_left_out(note, hidden, repeats):
                reading.drop(reason)
            else:
                _add(chat, _message_of_note(note, asker), reading)
        sort_by_time(chat.messages)
        yield chat
    reading.notes += hidden.notes(sample.source)


def _why_note_left_out(note: dict[str, Any], hidden: HiddenMessages, repeats: Repeats) -> str:
    """Return why an entry of a Freshdesk ticket is left out, or nothing."""
    if hidden.hides("private", note.get("private")):
        return PRIVATE_NOTES
    if is_yes(note.get("deleted")):
        return _DELETED
    return REPEATED if repeats.has_id(note.get("id")) else ""


def _message_of_note(note: dict[str, Any], asker: Any) -> ChatMessage:
    """Return an entry of a Freshdesk ticket as a message; `asker` is who opened the ticket."""
    author = note.get("user_id")
    incoming = note.get("incoming")  # of customers in copy, too
    is_other = asker is not None and author != asker
    agent = not incoming if isinstance(incoming, bool) else is_other
    text = first_text(note, ("body_text", "body", "body_html"))
    return ChatMessage(str(author or ""), text, parse_time(note.get("created_at")), agent)


def _has_ticket_fields(sample: Sample, *keys: str) -> bool:
    return any(all(f"{base}{key}" in sample.keys for key in keys) for base in _TICKET_BASES)


def _any_of(*groups: Iterable[str]) -> Callable[[Sample], bool]:
    return lambda sample: any(_has_ticket_fields(sample, *keys) for keys in groups)


TICKET_FORMS = [
    Form(
        name="zendesk",
        title="Zendesk tickets",
        holds="chats",
        export="Zendesk: Admin Center, Account, Tools, Reports, Export: JSON with comments; or API "
        "GET /api/v2/tickets/ID/comments.json?include=users",
        matches=_any_of(
            ("comments.item.author_id", "comments.item.public"),
            ("comments.item.author_id", "comments.item.plain_body"),
            ("comments.item.author", "comments.item.public"),
        ),
        read=read_zendesk,
    ),
    Form(
        name="intercom",
        title="Intercom conversations",
        holds="chats",
        export="Intercom API: GET /conversations/ID of each conversation, an object a line",
        matches=_any_of(("conversation_parts", "source")),
        read=read_intercom,
    ),
    Form(
        name="chatwoot",
        title="Chatwoot conversations",
        holds="chats",
        export="Chatwoot API: GET /api/v1/accounts/ID/conversations/ID/messages, an answer a line",
        matches=_any_of(
            ("message_type", "content", "conversation_id"),
            ("messages.item.message_type", "messages.item.content"),
        ),
        read=read_chatwoot,
    ),
    Form(
        name="freshdesk",
        title="Freshdesk tickets",
        holds="chats",
        export="Freshdesk API: GET /api/v2/tickets/ID?include=conversations,requester, one a line; "
        "or the old account export (Tickets*.json)",
        matches=_any_of(
            ("conversations.item.body_text", "conversations.item.incoming"),
            ("helpdesk_ticket.description",),
            ("conversations", "description_text", "requester_id"),
        ),
        read=read_freshdesk,
    ),
]
