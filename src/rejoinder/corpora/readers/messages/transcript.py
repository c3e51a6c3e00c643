"""Chats as text: a line for each message, behind the name or the role of who says it.

`Customer: where is it?`, `[10:02] Anna (Support): On its way.` A line without a speaker continues
the one before. Chats are parted by rules (`-----`), by headings (`Chat 7`), or by blank lines if
nearly all paragraphs have both sides; else the text is one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.chat import Chat, ChatMessage
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.readers.sides import OF_BOTS, WrittenBy, side_of_label
from rejoinder.patterns import match_pattern

_STAMP = r"[\[(]?[\d./:TZ ,+-]{4,30}(?i:[ap]\.?m\.?)?[\])]?[ \t-]{1,3}"
_SPEAKER = match_pattern(
    rf"\s{{0,8}}(?:[-*\u2022] )?(?:{_STAMP})?"
    r"[*_]{0,3}([^\W\d_][^:\n\[]{0,40}?)[*_]{0,3}"
    r"(?: [\[(][\d:. ]{3,12}(?i:[ap]\.?m\.?)?[\])])? ?:[*_]{0,3}(?:\s(.*)|)"
)
_BETWEEN = match_pattern(
    r"\s{0,8}(?:([-=*_#~])\1{2,200}"
    r"|[=*#~-]{0,9} ?(?i:chat|conversation|ticket|case|session) ?#?\d{1,12} ?[=*#~-]{0,9})\s{0,8}"
)
_LEAST_KNOWN = 0.6  # of the lines with a speaker, those of known sides
_LEAST_CHATS = 0.8  # of the paragraphs with a speaker, those with both sides
_LEAST_WORDS = 2  # of half of the lines, or of both in a chat of a question and its answer
_LEAST_TURNS = 3  # of other chats
_ANSWERING = frozenset(("agent", "bot"))
_MOST_NAMES = 3  # words of a name


@dataclass(frozen=True, slots=True)
class _Line:
    """A line, and who says it; "" and None: the one before goes on."""

    whole: str
    text: str
    speaker: str = ""
    side: WrittenBy | None = None


def read_transcript(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield the chats of a text."""
    lines = sample.source.text(choice.encoding, reading).splitlines()
    for number, own in enumerate(_chats(lines), 1):
        yield chat_of_lines(own, str(number), reading)


def chat_of_lines(lines: Iterable[str], name: str, reading: Reading) -> Chat:
    """Return the chat that lines tell; what stands above its first speaker is left out.

    Where both sides are known, "No: not the red one" is no speaker's.
    """
    read = [_line(line) for line in lines]
    sides = {line.side for line in read if line.speaker}
    is_known = "customer" in sides and not sides.isdisjoint(_ANSWERING)
    spoken: list[tuple[_Line, list[str]]] = []
    for line in read:
        if line.side is not None or (line.speaker and not is_known):
            spoken.append((line, [line.text]))
        elif spoken:
            spoken[-1][1].append(line.whole)
        elif line.whole:
            reading.drop("lines above the first speaker")
    chat = Chat(name=name)
    for line, texts in spoken:
        text = "\n".join(texts).strip()
        if line.side == "system" or not text:
            reading.drop("lines of the system and messages without a text")
        elif line.side == "bot" and "agent" in sides:
            reading.drop(OF_BOTS)
        else:
            agent = _is_agent(line.side, sides)
            chat.messages.append(ChatMessage(line.speaker, text, None, agent))
    return chat


def _is_agent(side: WrittenBy | None, sides: AbstractSet[WrittenBy | None]) -> bool | None:
    """Return whether a side answers; one that is not known is not the one that is known."""
    if side is not None:
        return side in _ANSWERING
    if not sides.isdisjoint(_ANSWERING):
        return False
    return True if "customer" in sides else None


def is_transcript(lines: Sequence[str]) -> bool:
    """Return whether lines are those of a chat.

    Most speakers are known by their roles, or there are two, one of whom is. They take turns, or a
    customer asks and is answered.
    """
    spoken = [line for line in map(_line, lines) if line.speaker]
    sides = [line.side for line in spoken if line.side is not None]
    others = {line.speaker for line in spoken if line.side is None}
    is_known = bool(sides) and len(sides) >= _LEAST_KNOWN * len(spoken)
    is_of_two = len(others) == 1 and bool(sides) and len({line.speaker for line in spoken}) == 2
    if not (is_known or is_of_two):
        return False
    is_answered = not _ANSWERING.isdisjoint(sides) or len(others) == 1
    is_asked = "customer" in sides or len(others) == 1
    return is_answered and is_asked and _takes_turns(spoken)


def _takes_turns(spoken: Sequence[_Line]) -> bool:
    """Return whether speakers answer each other, not labels each of which stands once."""
    turns = [side for side, _ in itertools.groupby(line.side or line.speaker for line in spoken)]
    speakers = {line.speaker for line in spoken}
    told = [len(line.text.split()) >= _LEAST_WORDS for line in spoken]
    if len(turns) >= _LEAST_TURNS and len(speakers) < len(spoken):
        return 2 * sum(told) >= len(told)
    is_exchange = len(spoken) == len(turns) == 2 and spoken[0].side not in _ANSWERING
    return is_exchange and all(told)


def _line(text: str) -> _Line:
    match = _SPEAKER.fullmatch(text.rstrip())
    whole = text.strip()
    speaker = match[1].strip() if match else ""
    side = side_of_label(speaker) if speaker else None
    if match is None or (side is None and not _is_name(speaker)):
        return _Line(whole, whole)
    return _Line(whole, (match[2] or "").strip(), speaker, side)


def _is_name(speaker: str) -> bool:
    """Return whether a label may be a name: not "Order number"."""
    words = speaker.split()
    return len(words) <= _MOST_NAMES and all(not word[0].islower() for word in words)


def _chats(lines: Sequence[str]) -> list[list[str]]:
    """Return the lines of each chat."""
    parts = _split(lines, lambda line: _BETWEEN.fullmatch(line) is not None)
    if not all(_line(_first(part)).speaker for part in parts[1:]):
        parts = [list(lines)]
    return [chat for part in parts for chat in _by_paragraphs(part)]


def _by_paragraphs(lines: Sequence[str]) -> list[list[str]]:
    """Return paragraphs if nearly all that have a speaker are chats, else all of the lines."""
    paragraphs = _split(lines, lambda line: not line.strip())
    spoken = [own for own in paragraphs if any(_line(line).speaker for line in own)]
    chats = sum(map(is_transcript, spoken))
    are_chats = chats > 1 and chats >= _LEAST_CHATS * len(spoken)
    begin = all(any(_line(line).speaker for line in own[:2]) for own in spoken)
    return paragraphs if are_chats and begin else [list(lines)]


def _first(lines: Sequence[str]) -> str:
    return next(filter(str.strip, lines), "")


def _split(lines: Sequence[str], parts: Callable[[str], bool]) -> list[list[str]]:
    """Return lines by those that part them, without these."""
    groups: list[list[str]] = [[]]
    for line in lines:
        if parts(line):
            groups.append([])
        else:
            groups[-1].append(line)
    return [group for group in groups if any(map(str.strip, group))]


TRANSCRIPT = Form(
    name="transcript",
    title='chats as text, "Customer: ..." and "Agent: ..." a line',
    holds="chats",
    export="save the transcripts as plain text (.txt), with a blank line between two chats",
    matches=lambda sample: (
        sample.kind in ("text", "markdown") and not sample.columns and is_transcript(sample.lines)
    ),
    read=read_transcript,
)
