"""The corpus `chats`: examples of the chats that people export from their tools, of any form.

A silence splits the endless chat of a messenger into conversations. A conversation with an id is a
thread, which is in one part of the split whatever the number of exports. The messages of agents are
responses: the file says who they are, or `agent` does, or it is whoever takes part in most chats.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from rejoinder.conversations import join_turns
from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.dialogues import dialogue_examples
from rejoinder.corpora.forms.choice import parse_choice
from rejoinder.corpora.forms.columns import fold
from rejoinder.corpora.forms.formats import NOBODY, OwnSettings
from rejoinder.corpora.limits import MAX_NAME
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.chat import Chat, ChatMessage
from rejoinder.corpora.readers.form import Markup
from rejoinder.corpora.readers.sides import AGENTS, BOTS, CUSTOMERS, UNCLEAR
from rejoinder.corpora.redaction import redact
from rejoinder.corpora.registry.recognition import find_form
from rejoinder.corpora.schema import Example
from rejoinder.corpora.splits import content_thread
from rejoinder.errors import InputError
from rejoinder.patterns import match_pattern, search_pattern
from rejoinder.progress import counted
from rejoinder.settings import documented

AGENT = "agent"
CUSTOMER = "customer"
_GAP = match_pattern(r"(\d{1,6}) ?([smhd])")
_LETTERS = search_pattern(r"[^\W\d_]+")
_WORD_OR_SIGN = search_pattern(r"\w++|\S")
_MENTIONED_NUMBER = search_pattern(r"@\d{7,15}\b")  # of a messenger
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_USUAL_GAP = 12 * 3_600.0
_SHOWN = 6  # participants in an error or a note
_AGENTS = AGENTS | BOTS  # in names of authors
_NOT_PERSONAL = (
    _AGENTS
    | CUSTOMERS
    | frozenset("team shop store desk sales info the company unknown deleted account".split())  # noqa: SIM905
)


@documented
class ChatsSettings(OwnSettings):
    """Settings of exported chats."""

    agent: str = ""
    """Names whose messages are responses, with commas between them; of e-mails addresses or
    @domains. Default: those that the file marks, or who takes part in most chats."""
    gap: str = ""
    """Silence that splits a chat, such as 30m, 12h or 2d, or none. Default: 12h in messengers, none
    in tickets and e-mails."""
    format: str = ""
    """Form of the files; `rejoinder list formats` lists them. Default: found by content."""
    columns: str = ""
    """Columns of a table of messages:
    conversation=Fall,author=Von,text=Inhalt,time=Zeit,agent=..."""

    def __post_init__(self) -> None:
        if self.gap not in ("", "none") and not _GAP.fullmatch(self.gap):
            raise InputError(f"gap is {self.gap!r}; give a time, such as 30m, 12h or 2d, or none")
        parse_choice(self.format, self.columns)

    def seconds(self, *, endless: bool) -> float:
        """Return the silence that splits a chat, in seconds."""
        if match := _GAP.fullmatch(self.gap):
            return float(match[1]) * _SECONDS[match[2]]
        return _USUAL_GAP if endless and not self.gap else float("inf")


def read_chats(path: Path, reading: Reading, settings: ChatsSettings) -> Iterator[Example]:
    """Yield the examples of a file of chats."""
    choice = parse_choice(settings.format, settings.columns)
    form, sample = find_form(path, choice, "chats")
    filled = (chat for chat in form.read(sample, choice, reading) if chat.messages)
    first = next(filled, None)
    if first is None:
        reading.notes.append(f"{path}: {form.title}, no chat in it")
        return
    is_agent, chats = _agents(path, itertools.chain([first], filled), settings, reading.notes)
    agents: dict[str, None] = {}
    authors = Counter[str]()
    markup = Markup("messages")
    stem = reading.stem(path)
    if settings.redact:  # messengers name files by people
        stem = content_thread([stem])[:12]
    count = 0
    for chat in chats:
        clean = cleaner(chat, reading) if settings.redact else str.strip
        if settings.redact and chat.name:  # an id may hold an address or a number
            chat.name = content_thread([chat.name])
        for piece in _pieces(chat, settings.seconds(endless=chat.endless)):
            count += 1
            reading.lines += 1
            name = f"{stem}:{count}"
            yield from _examples(piece, chat, name, is_agent, reading, clean)
        for message in chat.messages:
            markup.look(message.text)
            authors[message.author] += 1
            if is_agent(message):
                agents[message.author] = None
    names = _names(list(agents)) if agents else "none"
    shown = "redacted" if settings.redact else names
    reading.notes.append(f"{path}: {form.title}, {counted(count, 'chat')}, agent: {shown}")
    if unknown := _unknown_agents(settings.agent, authors):
        shown = "" if settings.redact else f"; there are messages of {_listed(authors)}"
        reading.notes.append(f"{path}: {NOBODY} {' or '.join(unknown)}{shown}")
    reading.notes += markup.notes()


def _agents(
    path: Path, chats: Iterator[Chat], settings: ChatsSettings, notes: Sequence[str]
) -> tuple[Callable[[ChatMessage], bool], Iterator[Chat]]:
    """Return who is an agent, and the chats. InputError: it is unclear."""
    if settings.agent:
        wanted = {fold(name) for name in (settings.agent, *settings.agent.split(","))}

        def is_named(message: ChatMessage) -> bool:
            return not wanted.isdisjoint(_names_of(message.author))

        return is_named, chats
    first = next(chats)
    if all(message.agent is not None for message in first.messages):
        return lambda message: bool(message.agent), itertools.chain([first], chats)
    gathered = [first, *chats]
    if all(message.agent is not None for chat in gathered for message in chat.messages):
        return lambda message: bool(message.agent), iter(gathered)
    unclear = [note for note in notes if UNCLEAR in note]
    names = find_agents(path, gathered, unclear)
    return lambda message: message.author in names, iter(gathered)


def _names_of(author: str) -> tuple[str, str]:
    """Return the names by which settings may mean an author: a name or address, and a domain."""
    return fold(author), fold("@" + author.rpartition("@")[2])


def _unknown_agents(agent: str, authors: Iterable[str]) -> list[str]:
    """Return the names in the setting `agent` that no author has."""
    known = {name for author in authors for name in _names_of(author)}
    if fold(agent) in known:
        return []
    names = map(str.strip, agent.split(","))
    return [name for name in names if name and fold(name) not in known]


def find_agents(path: Path, chats: Sequence[Chat], notes: Sequence[str] = ()) -> set[str]:
    """Return the names of the agents.

    InputError: they are unclear; it lists the participants, and `notes` on a column of sides.
    """
    messages = Counter(message.author for chat in chats for message in chat.messages)
    by_name = {author for author in messages if _words_of_name(author) & _AGENTS}
    if by_name and len(by_name) < len(messages):
        return by_name
    beside = _beside_customers(chats)
    if beside:
        return beside
    present = Counter(
        author for chat in chats for author in {message.author for message in chat.messages}
    )
    most = [author for author, count in present.items() if 2 * count > max(len(chats), 2)]
    if len(most) == 1 and len(messages) > 1:
        return set(most)
    addresses = {author for author in messages if author.casefold().partition("@")[0] in _AGENTS}
    if addresses and len(addresses) < len(messages):
        return addresses
    raise InputError(
        f"{path}: who answers is not clear; there are messages of {_listed(messages)}: "
        f"{'; '.join(['name the agent with --set agent=NAME', *notes])}"
    )


def _words_of_name(author: str) -> set[str]:
    """Return the words of a name, and the role behind it: "Anna (Support)"."""
    _, _, role = author.casefold().rstrip(")").partition("(")
    roles = set(role.split())
    return set(fold(author).split("_")) | (roles if roles <= _AGENTS else set())


def _beside_customers(chats: Sequence[Chat]) -> set[str]:
    """Return the authors who share chats with generically named customers ("Visitor 7")."""
    agents = Counter[str]()
    for chat in chats:
        authors = {message.author for message in chat.messages}
        unnamed = {author for author in authors if CUSTOMERS.issuperset(_words(author))}
        if not unnamed:
            return set()
        agents.update(authors - unnamed)  # none of a chat without an answer
    most = {author for author, count in agents.items() if 2 * count > len(chats)}
    return most or set(agents)


def _words(author: str) -> list[str]:
    """Return the words of a name, without numbers; of a blank or a number itself."""
    return _LETTERS.findall(author.casefold()) or [author]


def _listed(messages: Counter[str]) -> str:
    """Return the authors with most messages, each with their number."""
    return _names([f"{author} ({count:,})" for author, count in messages.most_common()])


def _names(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join([*names[:_SHOWN], *([f"{more:,} more"] if more > 0 else [])])


def _pieces(chat: Chat, gap: float) -> Iterator[list[ChatMessage]]:
    """Yield the conversations of a chat, between which it was silent for longer than `gap`."""
    piece: list[ChatMessage] = []
    last: float | None = None
    for message in chat.messages:
        silent = None not in (last, message.time) and message.time - last > gap  # type: ignore[operator]
        if piece and silent:
            yield piece
            piece = []
        piece.append(message)
        last = message.time if message.time is not None else last
    yield piece


def _examples(
    piece: Sequence[ChatMessage],
    chat: Chat,
    name: str,
    is_agent: Callable[[ChatMessage], bool],
    reading: Reading,
    clean: Callable[[str], str],
) -> Iterable[Example]:
    """Return the examples of a conversation."""
    spoken: list[tuple[str | None, str]] = []
    for message in piece:
        side = AGENT if is_agent(message) else f"{CUSTOMER} {message.author}"
        role = AGENT if side == AGENT else CUSTOMER
        reading.roles[role] = reading.roles.get(role, 0) + 1
        text = clean(message.text)
        reading.blank_messages += not text
        if text:
            spoken.append((side, text))
    turns = join_turns(spoken)
    texts = [text for _, text in turns]
    known = join_turns(spoken[: chat.known])
    examples = dialogue_examples(
        texts,
        name=name,
        thread=("" if chat.endless else chat.name) or content_thread(texts),
        source=CHATS.name,
        reading=reading,
        first=max(1, len(known)),
        responses={index for index, (side, _) in enumerate(turns) if side == AGENT},
    )
    reading.without_reply += not examples
    return examples


def name_cleaner(names: Iterable[str]) -> Callable[[str], str]:
    """Return a function that replaces names by <name>: the longest one that begins at a word.

    No expression of all names: it would try each of them at every word.
    """
    wanted = {name for name in names if 0 < len(name) <= MAX_NAME}
    lengths: dict[str, list[int]] = {}  # of the names that begin with a word, or a sign
    for length in sorted(set(map(len, wanted)), reverse=True):
        for start in {_WORD_OR_SIGN.findall(name)[0] for name in wanted if len(name) == length}:
            lengths.setdefault(start, []).append(length)

    def is_word(text: str, position: int) -> bool:
        return 0 <= position < len(text) and (text[position].isalnum() or text[position] == "_")

    def hide(text: str) -> str:
        pieces = []
        end = 0
        for match in _WORD_OR_SIGN.finditer(text) if lengths else ():
            start = match.start()
            if start < end or match[0] not in lengths or is_word(text, start - 1):
                continue
            stops = (start + length for length in lengths[match[0]])
            name_ends = (stop for stop in stops if text[start:stop] in wanted)
            stop = next((stop for stop in name_ends if not is_word(text, stop)), 0)
            if stop:
                pieces += [text[end:start], "<name>"]
                end = stop
        return "".join([*pieces, text[end:]])

    return hide


def cleaner(chat: Chat, reading: Reading) -> Callable[[str], str]:
    """Return a function that replaces personal data and the names of a chat's participants."""
    names = {message.author for message in chat.messages} | set(chat.names)
    wanted: set[str] = set()
    for name in names:
        parts = [part for part in _LETTERS.findall(name) if len(part) > 2]
        personal = [part for part in parts if part.casefold() not in _NOT_PERSONAL]
        wanted.update(part for part in personal if part[0].isupper() or not part.isascii())
        if personal:
            wanted.add(name.strip())
    hide = name_cleaner(wanted)

    def clean(text: str) -> str:
        cleaned = redact(hide(text))
        cleaned = _MENTIONED_NUMBER.sub("<phone>", cleaned)
        reading.redacted += cleaned != text
        return cleaned.strip()

    return clean


CHATS = Corpus(
    name="chats",
    title="Your own chats as your tool exports them: messengers, help desks, e-mails, tables.",
    reads="exports that `rejoinder list formats` lists; the form is found by content",
    licence="yours",
    origin="your own export; `rejoinder list formats` says how, for each tool",
    read=read_chats,
    settings=ChatsSettings,
)
