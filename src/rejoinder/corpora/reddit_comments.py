"""Reddit's dumps: lines to records, and the rules by which comments count.

Rules of DATA19: section 3.1 of the paper and the code published with it (`reddit/create_data.py`), which uses the texts
as the dump has them: markdown, links and HTML entities (`&gt;`) stay. There are hundreds of millions of lines, so a
block of them is decoded at once and checked and judged as columns; a block with a bad line is halved until it is found.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rejoinder.corpora.corpus import Block
from rejoinder.corpora.lines import MAX_LINE_BYTES, Reading, too_long
from rejoinder.errors import InputError

GONE = ("[deleted]", "[removed]", "[ Removed by Reddit ]")
"""What stands for the text of a comment that its author or a moderator took away."""
KEPT = 0
"""State of a comment that can be a response, or the message that one answers. Other comments are only history."""
LOST = {1: "too short", 2: "too long", 3: "nothing but white space", 4: "by a bot", 9: "deleted or removed"}
"""The other states of a comment, with their reasons. Of two copies of a comment the one with the greatest counts."""
SUBMISSION, OVER_18 = 20, 21
"""States of a submission."""
COLUMNS = pa.schema(
    [
        ("thread", pa.string()),
        ("state", pa.uint8()),
        ("id", pa.string()),
        ("parent", pa.string()),
        ("text", pa.large_string()),
    ]
)
"""What is kept of a comment: id of the submission without `t3_`, state, id, id of the comment that it answers without
`t1_` (empty if it answers the submission), body. And of a submission: its id, state, its id, nothing, title."""
_READ = "a comment (id, link_id, parent_id, body) or submission (id, title) of Reddit is read, one a line"


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
    """Leave out responses by bots, and to bots (see `judge`)."""
    drop_nsfw: bool = False
    """Leave out threads whose submission is marked as over 18, or is not there; needs RS files."""

    def __post_init__(self) -> None:
        if self.unit not in ("characters", "words"):
            raise InputError(f"unit is {self.unit!r}; lengths are counted in characters or words")
        if not 1 <= self.min_length <= self.max_length:
            given = f"min_length is {self.min_length} and max_length {self.max_length}"
            raise InputError(f"{given}; lengths go from 1 up, and the first is not above the second")
        if not all(re.fullmatch(r"\w+", name) for name in self.subreddits):
            raise InputError(f"subreddits are {list(self.subreddits)}; give names without r/, such as [\"AskReddit\"]")
        for name, value in (("depth", self.depth), ("cut", self.cut)):
            if value < 1:
                raise InputError(f"{name} is {value}; it is at least 1")


def trim(text: str, limit: int) -> str:
    """Cut a text to at most `limit` characters, where a letter or digit meets another character, or the reverse.

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


def judge(bodies: pa.Array, authors: pa.Array | None, settings: RedditSettings) -> npt.NDArray[np.uint8]:
    """Return the state of each comment: `KEPT`, or the reason of `LOST` that holds (deleted first, then its length).

    Args:
        bodies: their texts, without nulls.
        authors: who wrote them, where bots matter: AutoModerator, and names that end in `bot`, in whatever case.
        settings: lengths, and whether bots count.
    """
    if settings.unit == "words":
        lengths = np.array([len(body.split()) for body in bodies.to_pylist()], np.int64)
    else:
        lengths = pc.utf8_length(bodies).to_numpy()
    gone = _flags(pc.is_in(bodies, pa.array(GONE, bodies.type)))
    short, long = lengths < settings.min_length, lengths > settings.max_length
    reasons = [(9, gone), (1, short), (2, long), (3, _flags(pc.utf8_is_space(bodies)))]
    if settings.drop_bots:
        ending = pc.ends_with(authors, "bot", ignore_case=True)
        reasons.append((4, _flags(pc.or_(ending, pc.equal(authors, "AutoModerator")))))
    states, conditions = zip(*reasons, strict=True)
    return np.select(conditions, [np.uint8(state) for state in states], np.uint8(KEPT))


class _Line(msgspec.Struct, gc=False):
    """The fields of a line that are always read; the others are only skipped."""

    id: str
    link_id: str | None = None
    parent_id: str | None = None
    body: str | msgspec.UnsetType | None = msgspec.UNSET
    title: str | None = None


class _LongLine(_Line, gc=False):
    """Also the fields that some settings need."""

    author: str | None = None
    subreddit: str | None = None
    over_18: bool | None = None


_DECODER, _LONG_DECODER = msgspec.json.Decoder(_Line), msgspec.json.Decoder(_LongLine)


def scatter(block: Block, reading: Reading, settings: RedditSettings) -> pa.RecordBatch:
    """Read lines of a dump; give a record of each that counts.

    Returns:
        `COLUMNS`.

    Raises:
        BadLineError: a line that is no comment or submission, unless bad lines are skipped.
    """
    lines = block.data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    if lines and block.number == 1:
        lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
    reasons: Counter[str] = Counter()
    batches = _read(lines, block, block.number, reading, settings, reasons)
    for reason, count in (+reasons).items():
        reading.drop(reason, count)
    return pa.concat_batches(batches or [pa.RecordBatch.from_pylist([], COLUMNS)])


def _read(
    lines: list[bytes], block: Block, number: int, reading: Reading, settings: RedditSettings, reasons: Counter[str]
) -> list[pa.RecordBatch]:
    """Give the records of consecutive lines, of which the first has a number in the file; report the bad lines."""
    needs_more = settings.subreddits or settings.drop_bots or settings.drop_nsfw
    decoder: msgspec.json.Decoder[Any] = _LONG_DECODER if needs_more else _DECODER
    try:
        batches = _records([*map(decoder.decode, lines)], settings, reasons)
    except (ValueError, TypeError, RecursionError) as error:  # msgspec's errors are ValueErrors
        half = len(lines) // 2
        if half:
            first = _read(lines[:half], block, number, reading, settings, reasons)
            return first + _read(lines[half:], block, number + half, reading, settings, reasons)
        if lines[0].strip():
            reading.lines += 1
            reason = too_long() if len(lines[0]) >= MAX_LINE_BYTES else f"{error}; {_READ}"
            reading.bad_line(block.path, number, reason)
        return []
    reading.lines += len(lines)
    return batches


def _records(lines: Sequence[Any], settings: RedditSettings, reasons: Counter[str]) -> list[pa.RecordBatch]:
    """Give the records of decoded lines, and the number of those left out by reason.

    Raises:
        ValueError, TypeError: one of the lines is neither a comment nor a submission.
    """
    left_out: Counter[str] = Counter()
    if settings.subreddits:
        wanted = {name.lower() for name in settings.subreddits}
        read, lines = len(lines), [line for line in lines if (line.subreddit or "").lower() in wanted]
        left_out["in another subreddit"] = read - len(lines)
    comments, submissions = lines, []
    if None in [line.link_id for line in lines]:
        comments = [line for line in lines if line.link_id is not None]
        submissions = [line for line in lines if line.link_id is None]
    batches = [_comments(comments, settings), _submissions(submissions)]
    if not settings.titles and not settings.drop_nsfw:
        left_out["a submission (only used for titles and drop_nsfw)"] = len(submissions)
        del batches[1]
    reasons.update(left_out)
    return batches


def _comments(lines: Sequence[Any], settings: RedditSettings) -> pa.RecordBatch:
    names, links = pa.array([line.id for line in lines], pa.string()), _strings([line.link_id for line in lines])
    # Null in some dumps for an answer to the submission.
    parents = pc.fill_null(_strings([line.parent_id for line in lines]), "")
    is_answer = pc.starts_with(parents, "t1_")
    _check(pc.not_equal(names, ""), "id is empty", names)
    _check(pc.and_(pc.starts_with(links, "t3_"), pc.not_equal(links, "t3_")), "link_id is {!r}", links)
    answers_submission = pc.or_(pc.equal(parents, ""), pc.starts_with(parents, "t3_"))
    _check(pc.or_(is_answer, answers_submission), "parent_id is {!r}", parents)
    most = max(settings.cut, settings.max_length) + 1 if settings.unit == "characters" else sys.maxsize
    try:
        bodies = _texts(["[deleted]" if line.body is None else line.body[:most] for line in lines])
    except TypeError:
        raise TypeError("a comment without body") from None
    authors = _strings([line.author or "" for line in lines]) if settings.drop_bots else None
    states = judge(bodies, authors, settings)
    if settings.unit == "words" or settings.max_length > settings.cut:
        # One character more than the cut is all that the cut of an ancestor can need.
        bodies = pc.if_else(states == KEPT, bodies, pc.utf8_slice_codeunits(bodies, 0, settings.cut + 1))
    above = pc.if_else(is_answer, _without_kind(parents), "")
    return pa.RecordBatch.from_arrays([_without_kind(links), pa.array(states), names, above, bodies], schema=COLUMNS)


def _submissions(lines: Sequence[Any]) -> pa.RecordBatch:
    names, titles = _strings([line.id for line in lines]), _texts([line.title for line in lines])
    _check(titles.is_valid(), "neither link_id nor title", names)
    _check(pc.not_equal(names, ""), "id is empty", names)
    states = [OVER_18 if getattr(line, "over_18", None) else SUBMISSION for line in lines]
    columns = [names, pa.array(states, pa.uint8()), names, pa.array([""] * len(lines), pa.string()), titles]
    return pa.RecordBatch.from_arrays(columns, schema=COLUMNS)


def _check(sound: pa.Array, fault: str, values: pa.Array) -> None:
    """Raise the fault of the first line that is not sound."""
    flags = _flags(sound)
    if not flags.all():
        raise ValueError(fault.format((values[int(np.argmin(flags))].as_py() or "")[:20]))


def _without_kind(names: pa.Array) -> pa.Array:
    """Remove `t1_` or `t3_`."""
    return pc.utf8_slice_codeunits(names, 3)


def _flags(values: pa.Array) -> npt.NDArray[np.bool_]:
    flags: npt.NDArray[np.bool_] = values.to_numpy(zero_copy_only=False)
    return flags


def _strings(values: Sequence[Any]) -> pa.Array:
    return pa.array(values, pa.string())


def _texts(values: Sequence[Any]) -> pa.Array:
    return pa.array(values, pa.large_string())
