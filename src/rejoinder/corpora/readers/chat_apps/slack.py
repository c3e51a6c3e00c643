"""Slack: the zip file of a workspace's export, its folder, or a day of a channel.

Messages of a thread are a chat of their own; the others of a channel are its chat. A reply shows
that its parent begins a thread; so does the parent's number of replies.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample, Source, keep_open
from rejoinder.corpora.json_values import json_values
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.chat import Chat, ChatMessage
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.readers.times import parse_time
from rejoinder.patterns import search_pattern

_DAY = search_pattern(r"(?:^|/)([^/]+)/\d{4}-\d{2}-\d{2}\.json$")
_MARKUP = search_pattern(r"<([@#!]?)([^<>|]+)(?:\|([^<>]*))?>")
_MENTION = search_pattern(r"<@([A-Z0-9]+)")
_MESSAGES = (None, "bot_message", "thread_broadcast", "me_message", "file_share")


def _channels(sample: Sample, reading: Reading) -> Iterator[Chat]:
    path = sample.source.path
    days = [name for name in sample.members if _DAY.search(name)]
    names: dict[str, str] = {}
    for file in (name for name in sample.members if name.rpartition("/")[2] == "users.json"):
        for _, user in json_values(Source(path, file), {"item"}, reading=reading):
            names[str(user.get("id"))] = _user_name(user)
    channels: dict[str, list[Source]] = {}
    for day in days:
        channels.setdefault(day.rpartition("/")[0], []).append(Source(path, day))
    for name, files in (channels or {sample.source.name.stem: [sample.source]}).items():
        yield from _channel(name, files, names, reading)


def read_slack(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield the chats of the channels, one channel after the other."""
    del choice
    with keep_open(sample.source.path):
        yield from _channels(sample, reading)


def _channel(
    name: str, files: list[Source], names: dict[str, str], reading: Reading
) -> Iterator[Chat]:
    """Yield a channel's stream of messages, and each of its threads."""
    chats: dict[str, Chat] = {}  # by the time of the message that begins a thread, or may
    threads: set[str] = set()
    for file in files:
        # An export has a list of messages, an answer of the API an object with one.
        for _, item in json_values(file, {"item", "messages.item"}, reading=reading):
            if not isinstance(item, dict) or item.get("subtype") not in _MESSAGES:
                reading.drop("lines of Slack itself (joins, topics)")
                continue
            text = clean_slack_text(str(item.get("text") or ""), names)
            if not text:
                reading.drop("attachments and messages without a text")
                continue
            author = _author(item, names)
            message = ChatMessage(author, text, parse_time(item.get("ts")))
            mentioned = [names.get(user, "") for user in _MENTION.findall(str(item.get("text")))]
            start = str(item.get("thread_ts") or item.get("ts"))
            if item.get("reply_count") or start != str(item.get("ts")):
                threads.add(start)
            chat = chats.setdefault(start, Chat(name=f"{name} {start}"))
            chat.messages.append(message)
            chat.names += filter(None, mentioned)
    stream = Chat(name=name, endless=True)
    for start in [start for start in chats if start not in threads]:
        single = chats.pop(start)
        stream.messages += single.messages
        stream.names += single.names
    for chat in (stream, *chats.values()):
        chat.messages.sort(key=lambda message: message.time or 0.0)
        yield chat


def _author(item: dict[str, Any], names: dict[str, str]) -> str:
    profile = item.get("user_profile")
    profile = profile if isinstance(profile, dict) else {}
    user = str(item.get("user") or item.get("bot_id") or "")
    own = item.get("username") or profile.get("display_name") or profile.get("real_name")
    return names.get(user) or str(own or user or "unknown")


def _user_name(user: dict[str, Any]) -> str:
    profile = user.get("profile")
    profile = profile if isinstance(profile, dict) else {}
    values = (profile.get("display_name"), profile.get("real_name"), user.get("real_name"))
    return next((str(value) for value in values if value), str(user.get("name") or user.get("id")))


def clean_slack_text(text: str, names: dict[str, str]) -> str:
    """Return a text without Slack's markup: names for users, labels for links."""

    def replace(match: re.Match[str]) -> str:
        kind, target, label = match.groups()
        if kind == "@":
            return f"@{names.get(target) or label or target}"
        if kind == "!":
            return label or f"@{target.partition('^')[0]}"
        return f"#{label or target}" if kind == "#" else label or target.removeprefix("mailto:")

    return html.unescape(_MARKUP.sub(replace, text)).strip()


SLACK = Form(
    name="slack",
    title="Slack export",
    holds="chats",
    export="Slack: workspace settings, Import/Export Data, Export; the .zip as it is",
    matches=lambda sample: (
        any(map(_DAY.search, sample.members))
        or any(
            {f"{base}item.ts", f"{base}item.type", f"{base}item.text"} <= sample.keys
            for base in ("", "messages.")
        )
    ),
    read=read_slack,
)
