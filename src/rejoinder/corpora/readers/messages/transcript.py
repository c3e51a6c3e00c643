"""Chats as text: a line for each message, behind the name or the role of who says it.

`Customer: where is it?`, `[10:02] Anna (Support): On its way.` A line without a speaker continues
the one before. Chats are parted by rules (`-----`), by headings (`Chat 7`), or by blank lines if
nearly all paragraphs have both sides; else the text is one.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Sample
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.chat import Chat, ChatMessage
from rejoinder.corpora.readers.form import Form
from rejoinder.corpora.readers.sides import OF_BOTS, WrittenBy, roles_of_label, side_of_label
from rejoinder.patterns import match_pattern

_STAMP = r"[\[(]?[\d./:TZ ,+-]{4,30}(?i:[ap]\.?m\.?)?[\])]?[ \t-]{1,3}"
_SPEAKER = match_pattern(
    rf"\s{{0,8}}(?:[-*\u2022] )?(?P<before>{_STAMP})?"
    r"[*_]{0,3}(?P<speaker>[^\W\d_][^:\n\[]{0,40}?)[*_]{0,3}"
    r"(?P<behind> [\[(][\d:. ]{3,12}(?i:[ap]\.?m\.?)?[\])])? ?:[*_]{0,3}(?:\s(?P<text>.*)|)"
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
_NEAR_HEADING = 3  # lines below a heading, one of which has a speaker
_MOST_NAMES = 3  # words of a name


@dataclass(frozen=True, slots=True)
class _Line:
    """A line, and who says it; "" and None: the one before goes on."""

    whole: str
    text: str
    speaker: str = ""
    side: WrittenBy | None = None
    is_stamped: bool = False


def read_transcript(sample: Sample, choice: Choice, reading: Reading) -> Iterator[Chat]:
    """Yield the chats of a text."""
    lines = sample.source.text(choice.encoding, reading).splitlines()
    for number, own in enumerate(_chats(lines), 1):
        yield chat_of_lines(own, str(number), reading)


def chat_of_lines(lines: Iterable[str], name: str, reading: Reading) -> Chat:
    """Return the chat that lines tell; what stands above its first speaker is left out.

    Where both sides are known, "No: not the red one" and "Hotline: 555" are lines of a message.
    """
    read = [_line(line) for line in lines]
    sides = {line.side for line in read if line.speaker}
    is_known = "customer" in sides and not sides.isdisjoint(_ANSWERING)
    if is_known:
        speakers = _speakers(read)
        read = [
            line if line.speaker in speakers or line.is_stamped else _Line(line.whole, line.whole)
            for line in read
        ]
        sides = {line.side for line in read if line.speaker}
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


def _speakers(lines: Sequence[_Line]) -> set[str]:
    """Return the labels of lines that are speakers, not fields in a message ("User: bob99").

    A speaker has a side and several lines, or is the first of a side, or shares the role of one
    who is ("Agent Lisa" beside "Agent Tom").
    """
    counts = Counter(line.speaker for line in lines if line.side is not None)
    speakers = {label for label, count in counts.items() if count > 1 or label.endswith(")")}
    speakers |= {label for label in counts if label.casefold() == "system"}
    sides = [(line.side, line.speaker) for line in lines if line.side not in (None, "system")]
    speakers |= set(dict(reversed(sides)).values())  # the first of each side
    roles = {role for label in speakers for role in roles_of_label(label)}
    return speakers | {label for label in counts if roles_of_label(label) & roles}


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
    speaker = match["speaker"].strip() if match else ""
    side = side_of_label(speaker) if speaker else None
    if match is None or (side is None and not _is_name(speaker)):
        return _Line(whole, whole)
    is_stamped = bool(match["before"] or match["behind"])
    return _Line(whole, (match["text"] or "").strip(), speaker, side, is_stamped)


def _is_name(speaker: str) -> bool:
    """Return whether a label may be a name: not "Order number"."""
    words = speaker.split()
    return len(words) <= _MOST_NAMES and all(not word[0].islower() for word in words)


def _chats(lines: Sequence[str]) -> list[list[str]]:
    """Return the lines of each chat; rules and headings part chats if one begins below them."""
    parts: list[list[str]] = [[]]
    for mark, own in _marked(lines):
        if not any(map(str.strip, own)):
            continue
        if mark is None or _begins_chat(mark, own):
            parts.append(own)
        else:
            parts[-1] += own if _is_rule(mark) else [mark, *own]
    return [chat for part in parts if part for chat in _by_paragraphs(part)]


def _marked(lines: Sequence[str]) -> Iterator[tuple[str | None, list[str]]]:
    """Yield the lines below each rule and heading, with these; None: those above the first."""
    mark: str | None = None
    own: list[str] = []
    for line in lines:
        if _BETWEEN.fullmatch(line):
            yield mark, own
            mark = line
            own = []
        else:
            own.append(line)
    yield mark, own


def _is_rule(mark: str) -> bool:
    return not any(map(str.isalnum, mark))


def _begins_chat(mark: str, lines: Sequence[str]) -> bool:
    """Return whether a chat begins: a speaker right below a rule, or soon below a heading."""
    read = [_line(line) for line in lines if line.strip()]
    is_begun = any(line.speaker for line in read[: 1 if _is_rule(mark) else _NEAR_HEADING])
    return is_begun and any(line.side is not None for line in read)


def _by_paragraphs(lines: Sequence[str]) -> list[list[str]]:
    """Return paragraphs if nearly all that have a speaker are chats, else all of the lines.

    A paragraph without a speaker belongs to the chat before it. If one stands above the first chat,
    such paragraphs are headings, and belong to none.
    """
    groups = itertools.groupby(lines, key=lambda line: bool(line.strip()))
    paragraphs = [[*own] for is_text, own in groups if is_text]
    are_spoken = [any(_line(line).speaker for line in own) for own in paragraphs]
    spoken = list(itertools.compress(paragraphs, are_spoken))
    chats = sum(map(is_transcript, spoken))
    are_chats = chats > 1 and chats >= _LEAST_CHATS * len(spoken)
    begin = all(any(_line(line).speaker for line in own[:2]) for own in spoken)
    if not (are_chats and begin):
        return [list(lines)]
    if not are_spoken[0]:
        return paragraphs
    joined: list[list[str]] = []
    for own, is_spoken in zip(paragraphs, are_spoken, strict=True):
        if is_spoken:
            joined.append(own)
        else:
            joined[-1] += ["", *own]
    return joined


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
