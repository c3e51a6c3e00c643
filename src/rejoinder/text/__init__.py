"""Text into tokens and ids: what every vocabulary shares, and conversations as models read them.

Tokens are runs of word characters and runs of separators (CONVERT's splitting). A separator is a
character of the Unicode classes P and Z; every other one is a word character, controls included. A
single space between two word runs is no token; any other separator run is, so that the text can be
put together again.
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from rejoinder.arrays import ranges
from rejoinder.conversations import PERSONA, Context, Conversation, read_contexts
from rejoinder.errors import InputError
from rejoinder.files import atomic_file
from rejoinder.patterns import search_pattern

# The classes are frozen (Unicode 17.0): a new version of Unicode, Python or a library must never
# change the ids that a stored model gets. Code points in hexadecimal.
_PUNCTUATION = """
21-23 25-2a 2c-2f 3a-3b 3f-40 5b-5d 5f 7b 7d a1 a7 ab b6-b7 bb bf 37e 387 55a-55f 589-58a 5be 5c0
5c3 5c6 5f3-5f4 609-60a 60c-60d 61b 61d-61f 66a-66d 6d4 700-70d 7f7-7f9 830-83e 85e 964-965 970 9fd
a76 af0 c77 c84 df4 e4f e5a-e5b f04-f12 f14 f3a-f3d f85 fd0-fd4 fd9-fda 104a-104f 10fb 1360-1368
1400 166e 169b-169c 16eb-16ed 1735-1736 17d4-17d6 17d8-17da 1800-180a 1944-1945 1a1e-1a1f 1aa0-1aa6
1aa8-1aad 1b4e-1b4f 1b5a-1b60 1b7d-1b7f 1bfc-1bff 1c3b-1c3f 1c7e-1c7f 1cc0-1cc7 1cd3 2010-2027
2030-2043 2045-2051 2053-205e 207d-207e 208d-208e 2308-230b 2329-232a 2768-2775 27c5-27c6 27e6-27ef
2983-2998 29d8-29db 29fc-29fd 2cf9-2cfc 2cfe-2cff 2d70 2e00-2e2e 2e30-2e4f 2e52-2e5d 2e60-2e63
3001-3003 3008-3011 3014-301f 3030 303d 30a0 30fb a4fe-a4ff a60d-a60f a673 a67e a6f2-a6f7 a874-a877
a8ce-a8cf a8f8-a8fa a8fc a92e-a92f a95f a9c1-a9cd a9de-a9df aa5c-aa5f aade-aadf aaf0-aaf1 abeb
fd3e-fd3f fe10-fe19 fe30-fe52 fe54-fe61 fe63 fe68 fe6a-fe6b ff01-ff03 ff05-ff0a ff0c-ff0f ff1a-ff1b
ff1f-ff20 ff3b-ff3d ff3f ff5b ff5d ff5f-ff65 10100-10102 1039f 103d0 1056f 10857 1091f 1093f
10a50-10a58 10a7f 10af0-10af6 10b39-10b3f 10b99-10b9c 10d6e 10ead 10ed0 10f55-10f59 10f86-10f89
11047-1104d 110bb-110bc 110be-110c1 11140-11143 11174-11175 111c5-111c8 111cd 111db 111dd-111df
11238-1123d 112a9 113d4-113d5 113d7-113d8 1144b-1144f 1145a-1145b 1145d 114c6 115c1-115d7
11641-11643 11660-1166c 116b9 1173c-1173e 1183b 11944-11946 119e2 11a3f-11a46 11a9a-11a9c
11a9e-11aa2 11b00-11b09 11be1 11c41-11c45 11c70-11c71 11ef7-11ef8 11f43-11f4f 11fff 12470-12474
12ff1-12ff2 16a6e-16a6f 16af5 16b37-16b3b 16b44 16d6d-16d6f 16e97-16e9a 16fe2 1bc9f 1da87-1da8b
1e5ff 1e95e-1e95f
"""
_SPACES = "20 a0 1680 2000-200a 2028-2029 202f 205f 3000"
_CONTROLS = "0-1f 7f-9f"


def _class(ranges: str, end: int = 0x110000, *, no: bool = False) -> str:
    """Write ranges of code points below `end` as a class of a regular expression.

    With `no` it is that of all other characters.
    """
    pairs = (item.partition("-") for item in ranges.split())
    spans = sorted(
        (start, int(last or first, 16))
        for first, _, last in pairs
        if (start := int(first, 16)) < end
    )
    if no:  # not "[^...]", which is matched more slowly
        starts = [0, *(last + 1 for _, last in spans)]
        stops = [*(first - 1 for first, _ in spans), end - 1]
        spans = [(start, stop) for start, stop in zip(starts, stops, strict=True) if start <= stop]
    return "[" + "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in spans) + "]"


def _tokens_pattern(end: int) -> re.Pattern[str]:
    separators = f"{_PUNCTUATION} {_SPACES}"
    word = _class(separators, end, no=True)
    separator = _class(separators, end)
    # The space that disappears is the one separator run that no alternative takes.
    return search_pattern(rf"{word}+|{separator}{{2,}}|(?! ){separator}|\A | \Z")


SEPARATOR = _class(f"{_PUNCTUATION} {_SPACES}")
"""Regular expression for one separator character."""
WORD = _class(f"{_PUNCTUATION} {_SPACES}", no=True)
"""Regular expression for one word character."""


def visible_classes(end: int) -> tuple[str, str]:
    """Return expressions for a word character and a punctuation mark below `end`.

    Controls and spaces are neither.
    """
    return _class(f"{_PUNCTUATION} {_SPACES} {_CONTROLS}", end, no=True), _class(_PUNCTUATION, end)


# Most chat is plain ASCII, and its small character class is matched three times as fast.
_ASCII_TOKENS = _tokens_pattern(0x80)
_TOKENS = _tokens_pattern(0x110000)
_find_ascii = _ASCII_TOKENS.findall
_find_all = _TOKENS.findall


def lower(text: str) -> str:
    """Lower-case the letters A to Z and nothing else, so that every character keeps its place."""
    if text.isascii():
        return text.lower()
    # bytes.lower() knows ASCII only; no byte of another character's UTF-8 is an ASCII letter.
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def tokens(text: str) -> list[str]:
    """Return the tokens of a text.

    >>> tokens("well, how are you?")
    ['well', ', ', 'how', 'are', 'you', '?']
    """
    return _find_ascii(text) if text.isascii() else _find_all(text)


def token_starts(text: str) -> Iterator[tuple[int, str]]:
    """Yield each token of a text after the place of its first character."""
    pattern = _ASCII_TOKENS if text.isascii() else _TOKENS
    for match in pattern.finditer(text):
        yield match.start(), match.group()


Ids = npt.NDArray[np.int32]
Cut: TypeAlias = Literal["end", "middle"]
"""Part that a message too long loses: its end (CONVERT), or its middle, since mails say at the end
what they want."""
# characters a token; what is further from both ends of a message is never looked at
LONGEST_TOKEN = 32


class Tokenizer(Protocol):
    """Text to ids of tokens."""

    padding_id: int  # stands where there is no token
    rows: int  # number of ids in all, and so of rows in an embedding table
    cut: Cut  # see `encode_messages`
    unit: str  # what a `max_length` counts: "tokens"

    @property
    def fingerprint(self) -> str:
        """SHA-256: two tokenizers with the same one give the same ids."""

    def encode_ragged(self, texts: Sequence[str], max_length: int | None = None) -> tuple[Ids, Ids]:
        """Return all ids in sequence and the number of ids of each text, int32.

        Texts are cut at `max_length` tokens.
        """

    def save(self, path: str | Path) -> None:
        """Write it as one JSON file, whole or not at all."""


def encode_messages(tokenizer: Tokenizer, texts: Sequence[str], max_length: int) -> tuple[Ids, Ids]:
    """Return the ids of messages as `Tokenizer.encode_ragged` does.

    One too long loses what the tokenizer cuts.
    """
    if tokenizer.cut == "end":
        return tokenizer.encode_ragged(texts, max_length)
    room = LONGEST_TOKEN * max_length
    ids, lengths = tokenizer.encode_ragged(
        [text if len(text) <= 2 * room else f"{text[:room]} {text[-room:]}" for text in texts]
    )
    kept = np.minimum(lengths, max_length)
    tails = np.where(lengths > max_length, max_length // 2, 0)
    ends = np.cumsum(lengths, dtype=np.int64)
    starts = np.stack([ends - lengths, ends - tails], axis=1)
    return ids[ranges(starts.ravel(), np.stack([kept - tails, tails], axis=1).ravel())], kept


def too_long(
    tokenizer: Tokenizer, texts: Sequence[str], lengths: Ids, max_length: int
) -> list[str]:
    """Return those of some texts, encoded to these `lengths`, that were cut at `max_length`."""
    full = np.flatnonzero(lengths >= max_length)
    if not len(full):
        return []
    found = [texts[place] for place in full.tolist()]
    more = tokenizer.encode_ragged(found, max_length + 1)[1] > lengths[full]
    return [text for text, cut in zip(found, more, strict=True) if cut]


class Vocabulary(ABC):
    """A vocabulary that is a JSON object with a `format`, and its way from text to ids."""

    FORMAT: ClassVar[str]
    INDENT: ClassVar[int | None] = None
    cut: Cut = "end"
    unit: str = "words"

    @abstractmethod
    def encode_ragged(self, texts: Sequence[str], max_length: int | None = None) -> tuple[Ids, Ids]:
        """See `Tokenizer.encode_ragged`."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return everything that makes this vocabulary, as plain JSON values."""

    @classmethod
    @abstractmethod
    def from_json(cls, data: Any) -> Self:
        """Make a vocabulary of what `to_json` returned; anything else is an InputError."""

    def encode(self, text: str) -> list[int]:
        """Return the ids of one text."""
        ids: list[int] = self.encode_ragged([text])[0].tolist()
        return ids

    def save(self, path: str | Path) -> None:
        """Write the vocabulary as JSON, whole or not at all."""
        content = json.dumps(self.to_json(), ensure_ascii=False, indent=self.INDENT)
        with atomic_file(path) as part:
            part.write_text(content + "\n", encoding="utf-8", newline="\n")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote; anything else is an InputError."""
        try:
            data = json.loads(Path(path).read_bytes().decode("utf-8"))
            if not isinstance(data, dict) or data.get("format") != cls.FORMAT:
                raise InputError(
                    f"not a vocabulary: an object with format '{cls.FORMAT}' is needed"
                )
            return cls.from_json(data)
        except OSError as error:
            raise InputError(f"{path}: cannot read the vocabulary: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{path}: not a vocabulary, since not JSON in UTF-8: {error}"
            ) from error
        except InputError as error:
            raise InputError(f"{path}: {error}") from error

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all that makes the vocabulary, in hexadecimal."""
        content = json.dumps(
            self.to_json(), ensure_ascii=True, sort_keys=True, separators=(",", ":")
        )
        return hashlib.sha256(content.encode("ascii")).hexdigest()


def check_cut(cut: Any) -> Cut:
    """Return what is cut; anything unknown is an InputError."""
    if cut not in get_args(Cut):
        raise InputError(f"'cut' must be one of {', '.join(get_args(Cut))}, not {cut!r}")
    return cut


def check_texts(texts: object, max_length: int | None) -> None:
    """Refuse one string for `texts`, and a `max_length` below 1."""
    if isinstance(texts, str):
        raise InputError("texts is one string; give a list of texts, [text] for one")
    if max_length is not None and max_length < 1:
        raise InputError(f"max_length is {max_length}; at least 1 is needed")


class IdCache(dict[str, bytes]):
    """Ids, int32 in memory, of at most `entries` short pieces of text seen lately.

    `encode` makes what is missing.
    """

    LONGEST = 32

    def __init__(self, encode: Callable[[str], bytes], entries: int) -> None:
        super().__init__()
        self._encode = encode
        self._entries = entries

    def __missing__(self, piece: str) -> bytes:
        ids = self._encode(piece)
        if len(piece) <= self.LONGEST:
            if len(self) >= self._entries:
                # the frequent pieces are back soon; ranking them would cost every look-up
                self.clear()
            self[piece] = ids
        return ids


# Conversations: history and newest message are apart (CONVERT 3), or all is one text (POLY 4.2).

_PERSONA = search_pattern(rf"(?<!\s)\s*+{PERSONA}")


@dataclass(frozen=True, slots=True)
class HistoryText:
    """History as multi-context models read it: the newest `messages`, newest first.

    They are one text, or `apart`. `numbered` puts "0: ", "1: ", ... before them; `persona_first`
    reads messages that begin "your persona: " before all others, without these words and in any
    number. Apart, each message is a text of its own in a slot: 0 for the newest, 1 for the one
    before, ..., and `messages` for those of a persona. A response attends over what a persona
    states besides, by a weight (see `encoders.conversation`).
    """

    messages: int = 10
    numbered: bool = False
    persona_first: bool = False
    apart: bool = False
    persona_weight: float = 0.0

    def texts(self, context: Context) -> list[tuple[int, str]]:
        """Return the texts of a context's history, each with its slot.

        There is none without a history, else one unless apart.
        """
        persona, spoken = self._read(context)
        if self.apart:
            return [*enumerate(spoken), *((self.messages, message) for message in persona)]
        joined = " ".join([*persona, *spoken])
        return [(0, joined)] if joined else []

    def statements(self, context: Context) -> list[str]:
        """Return the statements of a context's persona that responses attend over."""
        if not self.persona_weight:
            return []
        personas = [message for message in context[:-1] if _PERSONA.match(message)]
        texts = (text for message in personas for text in _PERSONA.split(message))
        return [text.strip() for text in texts if text.strip()]

    def encode(
        self, tokenizer: Tokenizer, texts: Sequence[str], max_length: int
    ) -> tuple[Ids, Ids]:
        """Return the ids of such texts and the number of each one's.

        Apart they are cut as any message's, joined at the end.
        """
        if self.apart:
            return encode_messages(tokenizer, texts, max_length)
        return tokenizer.encode_ragged(texts, max_length)

    def join(self, context: Context) -> str:
        """Return the history of a context as one text, empty if there is none.

        Blank messages do not count.
        """
        return " ".join(text for _, text in self.texts(context))

    def _read(self, context: Context) -> tuple[list[str], list[str]]:
        earlier = [message for message in context[:-1] if message.strip()]
        persona: list[str] = []
        if self.persona_first:
            stated = [message for message in earlier if _PERSONA.match(message)]
            persona = [_PERSONA.sub(" ", message).strip() for message in stated]
            earlier = [message for message in earlier if not _PERSONA.match(message)]
        spoken = earlier[::-1][: self.messages]
        if self.numbered:
            spoken = [f"{number}: {message}" for number, message in enumerate(spoken)]
        return [*filter(None, persona)], spoken


@dataclass(frozen=True, slots=True)
class Dialogue:
    """Contexts and responses as token ids, where all messages are one text.

    A context is [S] oldest message NEWLINE ... NEWLINE newest message [S], a response [S] response
    [S]. Too long a context loses its oldest tokens, a response its last; lengths include the marks.
    `start`, `end` and `turn` are ids.
    """

    tokenizer: Tokenizer
    context_length: int
    response_length: int
    start: tuple[int, ...] = ()
    end: tuple[int, ...] = ()
    turn: tuple[int, ...] = ()

    @property
    def marks(self) -> int:
        """Number of tokens of an empty text."""
        return len(self.start) + len(self.end)

    @property
    def key(self) -> tuple[object, ...]:
        """All that the ids depend on, beside the tokenizer."""
        return (
            "dialogue",
            self.context_length,
            self.response_length,
            self.start,
            self.end,
            self.turn,
        )

    def contexts(self, contexts: Sequence[Conversation]) -> tuple[Ids, Ids]:
        """Return the ids of conversations and the number of each one's.

        Blank messages are left out.
        """
        read = read_contexts(contexts)
        spoken = [[message for message in context if message.strip()] for context in read]
        flat = [message for messages in spoken for message in messages]
        ids, lengths = self.tokenizer.encode_ragged(flat)
        messages = iter(_split_ids(ids, lengths))
        room = self.context_length - self.marks
        turn = np.array(self.turn, np.int32)
        texts = []
        for each in spoken:
            pieces: list[Ids] = []
            for _ in each:
                pieces += [turn, next(messages)] if pieces else [next(messages)]
            joined = _join_ids(pieces)
            texts.append(joined[max(0, len(joined) - room) :])
        return self._marked(texts)

    def responses(self, responses: Sequence[str]) -> tuple[Ids, Ids]:
        """Return the ids of responses, one after the other, and the number of each one's."""
        room = self.response_length - self.marks
        ids, lengths = self.tokenizer.encode_ragged(responses, room)
        return self._marked(_split_ids(ids, lengths))

    def _marked(self, texts: Sequence[Ids]) -> tuple[Ids, Ids]:
        start = np.array(self.start, np.int32)
        end = np.array(self.end, np.int32)
        lengths = np.fromiter((len(text) + self.marks for text in texts), np.int32, len(texts))
        return _join_ids([piece for text in texts for piece in (start, text, end)]), lengths


def _split_ids(ids: Ids, lengths: Ids) -> list[Ids]:
    return np.split(ids, np.cumsum(lengths)[:-1]) if len(lengths) else []


def _join_ids(pieces: Sequence[Ids]) -> Ids:
    return np.concatenate([np.empty(0, np.int32), *pieces])


def join_response(
    context: tuple[Ids, Ids], response: tuple[Ids, Ids], start: int
) -> tuple[Ids, Ids, Ids]:
    """Join each context and its response, less its `start` marks, to [S] context [S] response [S].

    Texts are given as ids and the number of each one's, and come back so, with the segment, 0 or 1,
    of each token.
    """
    context_ids, before = context
    response_ids, behind = response
    kept = behind - start
    lengths = (before + kept).astype(np.int32)
    ends = np.cumsum(lengths, dtype=np.int64)
    types = np.zeros(int(lengths.sum()), np.int32)
    types[ranges(ends - kept, kept)] = 1
    ids = np.empty(len(types), np.int32)
    ids[types == 0] = context_ids
    ids[types == 1] = response_ids[ranges(np.cumsum(behind, dtype=np.int64) - kept, kept)]
    return ids, lengths, types
