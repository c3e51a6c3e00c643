"""The rules by which Reddit's comments become examples, a pure function each; and what is kept of a comment meanwhile.

Rules of DATA19: section 3.1 of the paper and the code published with it (`reddit/create_data.py`), which uses the texts
as the dump has them: markdown, links and HTML entities (`&gt;`) stay.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rejoinder.errors import InputError

GONE = frozenset({"[deleted]", "[removed]", "[ Removed by Reddit ]"})
"""What stands for the text of a comment that its author or a moderator took away."""
_LONGEST_GONE = max(map(len, GONE))
_ASCII = 127
_LENGTHS_GONE = sorted(set(map(len, GONE)))

KEPT = "0"
"""State of a comment that can be a response, or the message that one answers. Other comments are only history."""
LOST = {
    "1": "too short",
    "2": "too long",
    "3": "nothing but white space",
    "4": "by a bot",
    "9": "deleted or removed",  # the greatest, so that of two copies of a comment the deleted one counts
}
"""The other states of a comment, each with its reason in words."""
_SHORT, _LONG, _BLANK, _BOT, _DELETED = LOST
SUBMISSION, OVER_18 = "s", "x"
"""States of a submission."""
COLUMNS = pa.schema(
    [
        ("thread", pa.uint64()),
        ("state", pa.uint8()),
        ("id", pa.uint64()),
        ("parent", pa.uint64()),
        ("text", pa.string()),
        ("names", pa.binary()),
    ]
)
"""What is kept of a comment: id of the submission without `t3_`, state (the number of its character), id, id of the
comment that it answers without `t1_` (empty if it answers the submission), body; and these names, if one of them is too
long for a number (see `reddit_names`). And of a submission: its id, state, its id, nothing, title, name."""


@dataclass(frozen=True)
class RedditSettings:
    """Which comments count and what becomes of them. Source of the defaults: DATA19, section 3.1."""

    unit: Literal["characters", "words"] = "characters"
    """What lengths are counted in: `characters` (DATA19) or `words`, runs without white space (ACL19)."""
    min_length: int = 9
    """Least length of a response and of the message that it answers, in units."""
    max_length: int = 127
    """Greatest length of both, in units."""
    depth: int = 10
    """Most messages of a context: the one answered and earlier ancestors. `--history` can only make it less."""
    cut: int = 127
    """Characters to which earlier ancestors are cut, at the end of a word."""
    subreddits: tuple[str, ...] = ()
    """Names of the subreddits to read; empty: all. Capital letters do not matter."""
    titles: bool = False
    """Put the title of the submission, cut as an ancestor, before a context that reaches back to it; needs RS files."""
    drop_bots: bool = False
    """Leave out responses by bots, and to bots (see `is_bot`)."""
    drop_nsfw: bool = False
    """Leave out threads whose submission is marked as over 18, or is not there to tell; needs RS files."""

    def __post_init__(self) -> None:
        if self.unit not in ("characters", "words"):
            raise InputError(f"unit is {self.unit!r}; lengths are counted in characters or words")
        if not 1 <= self.min_length <= self.max_length:
            given = f"min_length is {self.min_length} and max_length {self.max_length}"
            raise InputError(f"{given}; lengths go from 1 up, and the first is not above the second")
        if not all(re.fullmatch(r"\w+", name) for name in self.subreddits):
            raise InputError(f"subreddits are {list(self.subreddits)}; give names without r/, [\"AskReddit\"] say")
        for name, value in (("depth", self.depth), ("cut", self.cut)):
            if value < 1:
                raise InputError(f"{name} is {value}; it is at least 1")


def trim(text: str, limit: int) -> str:
    """At most `limit` characters of the text, cut where a letter or digit meets another character, or the reverse.

    A single word longer than the limit leaves nothing.

    >>> trim("Where did you go?", 10)
    'Where did '
    """
    if len(text) <= limit:
        return text
    end, in_word = limit, text[limit].isalnum()
    while end and text[end - 1].isalnum() == in_word:
        end -= 1
    return text[:end]


def is_bot(author: str) -> bool:
    """Whether a name is AutoModerator's or ends in `bot`, in whatever case.

    >>> is_bot("RemindMeBot"), is_bot("botanist")
    (True, False)
    """
    return author == "AutoModerator" or author[-3:].lower() == "bot"


def judge(body: str, author: str | None, settings: RedditSettings) -> str:
    """The state of a comment: `KEPT`, or the reason of `LOST` that holds (deleted first, then its length).

    Args:
        body: its text.
        author: who wrote it, if that is known.
        settings: lengths, and whether bots count.
    """
    length = len(body)
    if length <= _LONGEST_GONE and body in GONE:  # a look-up hashes the text, so only of short ones
        return _DELETED
    if settings.unit == "words":
        length = len(body.split())
    if length < settings.min_length:
        return _SHORT
    if length > settings.max_length:
        return _LONG
    if body.isspace():
        return _BLANK
    if settings.drop_bots and author is not None and is_bot(author):
        return _BOT
    return KEPT


def judge_all(
    bodies: pa.StringArray, authors: Sequence[str | None] | None, settings: RedditSettings
) -> npt.NDArray[np.uint8]:
    """The states of many comments, each the number of the character that `judge` gives.

    Only those that are short or begin oddly are looked at one by one.

    Args:
        bodies: their texts, without nulls.
        authors: who wrote them, where that matters.
        settings: as for `judge`.
    """
    if settings.unit != "characters" or settings.drop_bots:
        texts = bodies.to_pylist()
        both = zip(texts, authors or [None] * len(texts), strict=True)
        return np.array([ord(judge(body, author, settings)) for body, author in both], np.uint8)
    length = pc.utf8_length(bodies).to_numpy()
    states = np.full(len(bodies), ord(KEPT), np.uint8)
    states[length < settings.min_length] = ord(_SHORT)
    states[length > settings.max_length] = ord(_LONG)
    gone = np.flatnonzero(np.logical_or.reduce([length == each for each in _LENGTHS_GONE]))
    is_gone = [body in GONE for body in bodies.take(pa.array(gone)).to_pylist()]
    states[gone[is_gone]] = ord(_DELETED)
    first = _first_bytes(bodies)
    odd = (first <= ord(" ")) | (first > _ASCII)  # all white space of ASCII, and what is not ASCII
    for row in np.flatnonzero(odd & (states == ord(KEPT))).tolist():
        states[row] = ord(judge(bodies[row].as_py(), None, settings))
    return states


def _first_bytes(texts: pa.StringArray) -> npt.NDArray[np.uint8]:
    """Of each text its first byte; of an empty one any."""
    _, places, data = texts.buffers()
    letters = np.frombuffer(data or b"", np.uint8)
    if not len(letters):
        return np.zeros(len(texts), np.uint8)
    begins = np.frombuffer(places, np.int32)[texts.offset : texts.offset + len(texts)]
    return letters[np.minimum(begins, len(letters) - 1)]
