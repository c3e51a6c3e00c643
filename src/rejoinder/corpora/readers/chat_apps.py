"""Exports of chat apps: WhatsApp, Telegram, Slack, Discord, and Twitter."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rejoinder.corpora.clocks import HALF, half_of_day
from rejoinder.corpora.limits import MAX_WAY
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.chat import Chat, ChatMessage
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.readers.times import date_seconds, find_order, parse_time
from rejoinder.corpora.source import Sample, Source, json_values, keep_open
from rejoinder.corpora.tables import Choice, fold, open_table
from rejoinder.errors import InputError
from rejoinder.patterns import match_pattern, search_pattern

# WhatsApp: the text file of an exported chat, from Android or an iPhone, in any language.
#
# Android writes `31/12/20, 23:59 - Name: text`, iPhones `[31.12.20, 23:59:59] Name: text` or, long
# ago, `31.12.20 23:59:59: Name: text`. A line that does not begin as the first one does continues
# the message before. An iPhone marks its own lines (attachments, joins) with U+200E after the
# name; Android writes those of a group without a name.

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
_ATTACHED = match_pattern(
    rf"[{_MARKS}]*(?:<[^<>]{{3,60}}>|\S.{{0,120}}\.\w{{2,4}} \([^()]{{3,40}}\)|null)"
)
_EDITED = search_pattern(r"(?<!\s)\s*+\u200e<[^<>]{3,60}+>\s*+$")
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
        text = "\n".join(texts).rstrip()
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
            f"{source}: {word!r} behind the clock is no half of the day that is known; export the "
            "chat again with the phone set to 24 hours or to English"
        )


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


# Telegram: result.json of a chat's export, or of all data of an account.
#
# The agent is the owner of the account where the export says who that is, and in a chat of two the
# one after whom the chat is not named.

_SAVED_MESSAGES = "saved_messages"
_TELEGRAM_PATHS = {"personal_information", "name", "type", "messages.item", "chats.list.item",
          "left_chats.list.item"}  # fmt: skip


def read_telegram(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield the chats of an export."""
    del choice
    owner = ""
    alone: dict[str, Any] = {"messages": []}  # the export of one chat
    for path, value in json_values(sample.source, _TELEGRAM_PATHS, sample.encoding, reading):
        if path == "personal_information" and isinstance(value, dict):
            owner = str(value.get("user_id") or "")
        elif path == "messages.item":
            alone["messages"].append(value)
        elif path in ("name", "type"):
            alone[path] = value
        elif isinstance(value, dict) and value.get("type") != _SAVED_MESSAGES:
            yield _telegram_chat(value, owner, reading)
    yield _telegram_chat(alone, owner, reading)


def _telegram_chat(record: dict[str, Any], owner: str, reading: Reading) -> Chat:
    name = str(record.get("name") or "")
    chat = Chat(name=name, endless=True)
    messages = record.get("messages")
    items = [
        item
        for item in (messages if isinstance(messages, list) else [])
        if _is_telegram_message(item, reading)
    ]
    senders = {_telegram_sender(item) for item in items}
    is_of_two = record.get("type") in ("personal_chat", "bot_chat") and name in senders
    for item in items:
        sender = _telegram_sender(item)
        agent = None
        if owner and item.get("from_id"):
            agent = str(item["from_id"]).removeprefix("user") == owner
        elif is_of_two:
            agent = sender != name
        time = parse_time(item.get("date_unixtime") or item.get("date"))
        chat.messages.append(ChatMessage(sender, _telegram_text(item.get("text")), time, agent))
    return chat


def _is_telegram_message(item: Any, reading: Reading) -> bool:
    """Return whether an item is a message with a text; count what is not."""
    if not isinstance(item, dict) or item.get("type") != "message":
        reading.drop("service messages (joins, calls, pins)")
        return False
    if not _telegram_text(item.get("text")):
        reading.drop("attachments and messages without a text")
        return False
    return True


def _telegram_sender(item: dict[str, Any]) -> str:
    return str(item.get("from") or item.get("from_id") or "deleted account")


def _telegram_text(value: Any) -> str:
    """Return a message's text: a text, or pieces with their formatting."""
    pieces = value if isinstance(value, list) else [value]
    texts = (piece.get("text") if isinstance(piece, dict) else piece for piece in pieces)
    return "".join(text for text in texts if isinstance(text, str)).strip()


TELEGRAM = Form(
    name="telegram",
    title="Telegram export",
    holds="chats",
    export="Telegram Desktop: in the chat the menu, Export chat history, Format: JSON; result.json",
    matches=lambda sample: (
        {"messages.item.from_id", "messages.item.date_unixtime"} <= sample.keys
        or {"messages.item.from_id", "messages.item.text", "messages.item.type"} <= sample.keys
        or any(f"{name}.list.item.messages" in sample.keys for name in ("chats", "left_chats"))
        or ("personal_information.user_id" in sample.keys and "chats" in sample.keys)
    ),
    read=read_telegram,
)


# Slack: the zip file of a workspace's export, its folder, or a day of a channel.
#
# Messages of a thread are a chat of their own; the others of a channel are its chat.

_SLACK_DAY = search_pattern(r"(?:^|/)([^/]+)/\d{4}-\d{2}-\d{2}\.json$")
_SLACK_MARKUP = search_pattern(r"<([@#!]?)([^<>|]+)(?:\|([^<>]*))?>")
_SLACK_MENTION = search_pattern(r"<@([A-Z0-9]+)")
_SLACK_MESSAGES = (None, "bot_message", "thread_broadcast", "me_message", "file_share")


def _slack_channels(sample: Sample, reading: Reading) -> Iterator[Chat]:
    path = sample.source.path
    days = [name for name in sample.members if _SLACK_DAY.search(name)]
    names: dict[str, str] = {}
    for file in (name for name in sample.members if name.rpartition("/")[2] == "users.json"):
        for _, user in json_values(Source(path, file), {"item"}, reading=reading):
            names[str(user.get("id"))] = _slack_user_name(user)
    channels: dict[str, list[Source]] = {}
    for day in days:
        channels.setdefault(day.rpartition("/")[0], []).append(Source(path, day))
    for name, files in (channels or {sample.source.name.stem: [sample.source]}).items():
        yield from _slack_channel(name, files, names, reading)


def read_slack(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield the chats of the channels, one channel after the other."""
    del choice
    with keep_open(sample.source.path):
        yield from _slack_channels(sample, reading)


def _slack_channel(
    name: str, files: list[Source], names: dict[str, str], reading: Reading
) -> Iterator[Chat]:
    stream = Chat(name=name, endless=True)
    threads: dict[str, Chat] = {}
    for file in files:
        # An export has a list of messages, an answer of the API an object with one.
        for _, item in json_values(file, {"item", "messages.item"}, reading=reading):
            if not isinstance(item, dict) or item.get("subtype") not in _SLACK_MESSAGES:
                reading.drop("lines of Slack itself (joins, topics)")
                continue
            text = clean_slack_text(str(item.get("text") or ""), names)
            if not text:
                reading.drop("attachments and messages without a text")
                continue
            author = _slack_author(item, names)
            message = ChatMessage(author, text, parse_time(item.get("ts")))
            mentioned = [
                names.get(user, "") for user in _SLACK_MENTION.findall(str(item.get("text")))
            ]
            thread = item.get("thread_ts")
            if thread and (item.get("reply_count") or thread != item.get("ts")):
                chat = threads.setdefault(str(thread), Chat(name=f"{name} {thread}"))
            else:
                chat = stream
            chat.messages.append(message)
            chat.names += filter(None, mentioned)
    for chat in (stream, *threads.values()):
        chat.messages.sort(key=lambda message: message.time or 0.0)
        yield chat


def _slack_author(item: dict[str, Any], names: dict[str, str]) -> str:
    profile = item.get("user_profile")
    profile = profile if isinstance(profile, dict) else {}
    user = str(item.get("user") or item.get("bot_id") or "")
    own = item.get("username") or profile.get("display_name") or profile.get("real_name")
    return names.get(user) or str(own or user or "unknown")


def _slack_user_name(user: dict[str, Any]) -> str:
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

    return html.unescape(_SLACK_MARKUP.sub(replace, text)).strip()


SLACK = Form(
    name="slack",
    title="Slack export",
    holds="chats",
    export="Slack: workspace settings, Import/Export Data, Export; the .zip as it is",
    matches=lambda sample: (
        any(map(_SLACK_DAY.search, sample.members))
        or any(
            {f"{base}item.ts", f"{base}item.type", f"{base}item.text"} <= sample.keys
            for base in ("", "messages.")
        )
    ),
    read=read_slack,
)


# Discord: a channel as DiscordChatExporter writes it in JSON (its CSV is a table of messages).

_DISCORD_MESSAGES = ("Default", "Reply", "0", "19")


def read_discord(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield the chat of a channel."""
    del choice
    chat = Chat(name=sample.source.name.stem, endless=True)
    for _, item in json_values(sample.source, {"messages.item"}, sample.encoding, reading):
        if not isinstance(item, dict) or str(item.get("type", "Default")) not in _DISCORD_MESSAGES:
            reading.drop("lines of Discord itself (joins, pins, calls)")
            continue
        text = str(item.get("content") or "").strip()
        if not text:
            reading.drop("attachments and messages without a text")
            continue
        author: Any = item.get("author")
        author = author if isinstance(author, dict) else {}
        name = str(author.get("nickname") or author.get("name") or author.get("id") or "unknown")
        chat.messages.append(ChatMessage(name, text, parse_time(item.get("timestamp"))))
    yield chat


DISCORD = Form(
    name="discord",
    title="Discord channel (DiscordChatExporter)",
    holds="chats",
    export="DiscordChatExporter: export the channel, Format: JSON",
    matches=lambda sample: (
        {"messages.item.author", "messages.item.timestamp", "channel"} <= sample.keys
    ),
    read=read_discord,
)


# Customer support on Twitter, as published in twcs.csv: tweets with what they answer.
#
# A chat is the way from a first tweet to one that nobody answers; those that share their beginning
# share a thread, and only what is new in each becomes an example.

_TWITTER_COLUMNS = {
    "tweet_id",
    "author_id",
    "inbound",
    "created_at",
    "text",
    "in_response_to_tweet_id",
}
_TWITTER_MENTIONS = search_pattern(r"^(?:@\w+\s+)+")


class _Tweet(NamedTuple):
    message: ChatMessage
    parent: str


def read_twitter(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield the chats of the published table."""
    tweets: dict[str, _Tweet] = {}
    answers = Counter[str]()
    for _, row in open_table(sample, choice, _TWITTER_COLUMNS, reading).rows:
        fields = {
            fold(name): str(value if value is not None else "") for name, value in row.items()
        }
        text = html.unescape(_TWITTER_MENTIONS.sub("", fields["text"])).strip()
        agent = fields["inbound"].casefold() in ("false", "0")
        parent = fields["in_response_to_tweet_id"].removesuffix(".0")
        time = parse_time(fields["created_at"])
        message = ChatMessage(fields["author_id"], text, time, agent)
        tweets[fields["tweet_id"].removesuffix(".0")] = _Tweet(message, parent)
        answers[parent] += 1
    # Several tweets may be one turn, and one turn more than is kept shows that the context is cut.
    most = MAX_WAY if reading.history is None else 3 * (reading.history + 2)
    roots: dict[str, _Root] = {}
    for name in tweets:
        if not answers[name]:
            new, known = _way_to(name, tweets, roots, most)
            root = _root_of(new, known, answers, roots)
            if tweets[root.name].parent:
                reading.drop("chats whose first tweet is missing")
            thread = f"tweet {root.name}" if root.branches else ""
            messages = [tweets[name].message for name in (*known, *new)]
            yield Chat(messages, root.name, known=len(known), thread=thread)


class _Root(NamedTuple):
    name: str  # of the first tweet of a way
    branches: bool  # whether a tweet on the way has several answers


def _way_to(
    name: str, tweets: dict[str, _Tweet], roots: dict[str, _Root], most: int
) -> tuple[list[str], list[str]]:
    """Return the tweets to this one that no earlier way has, and at most so many before them."""
    way: dict[str, None] = {}
    while name in tweets and name not in way and name not in roots:
        way[name] = None
        name = tweets[name].parent
    before: dict[str, None] = {}
    while name in roots and name not in before and len(before) < most:
        before[name] = None
        name = tweets[name].parent
    return list(reversed(way)), list(reversed(before))


def _root_of(
    new: list[str],
    known: list[str],
    answers: Counter[str],
    roots: dict[str, _Root],
) -> _Root:
    """Return the root of a way, and remember it for the tweets that are new."""
    root = roots[known[-1]] if known else _Root(new[0], branches=False)
    for name in new:
        root = _Root(root.name, root.branches or answers[name] > 1)
        roots[name] = root
    return root


TWITTER = Form(
    name="twitter",
    title="Customer support on Twitter",
    holds="chats",
    export="the published twcs.csv (kaggle.com/datasets/thoughtvector/customer-support-on-twitter)",
    matches=lambda sample: {fold(name) for name in sample.columns} >= _TWITTER_COLUMNS,
    read=read_twitter,
    takes=frozenset(("delimiter",)),
)
