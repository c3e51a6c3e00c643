"""Attachments, and the agent of a chat of two."""

from __future__ import annotations

import dataclasses

from rejoinder.corpora.readers.chat import Chat

ATTACHMENTS = "attachments and messages without a text"


def mark_agent(chat: Chat) -> Chat:
    """Mark the agent of a chat of two: it is named after the other one."""
    authors = {message.author for message in chat.messages}
    if len(authors) != 2 or chat.name not in authors:
        return chat
    messages = [
        dataclasses.replace(message, agent=message.author != chat.name) for message in chat.messages
    ]
    return dataclasses.replace(chat, messages=messages)
