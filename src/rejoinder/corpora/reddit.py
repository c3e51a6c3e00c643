"""Reddit: comments out of monthly dumps, each with the comments that it answers.

Read are the files of newline-delimited JSON that hold all comments of a month, `RC_2018-01.zst` and so on, and for
titles and the over-18 mark those of submissions, `RS_2018-01.zst`; a line is told by its fields. A thread, the
comments below one submission, can be spread over months. So `scatter` makes a short record of each line, and
`reddit_trees.assemble` builds the trees of whole threads and gives an example for every comment that, like the comment
which it answers, passes the filter of `reddit_rules`. Source: DATA19, section 3.1, and the code published with it.

There are hundreds of millions of lines: so whole blocks are decoded, checked and put into columns at once, and only
where one of the lines is not as it should be they are looked at one by one.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rejoinder.corpora.corpus import Block, Corpus
from rejoinder.corpora.lines import Reading, line_ends
from rejoinder.corpora.reddit_rules import COLUMNS, KEPT, OVER_18, SUBMISSION, RedditSettings, judge_all
from rejoinder.corpora.reddit_trees import assemble


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


_DECODER = msgspec.json.Decoder(_Line)
_LONG_DECODER = msgspec.json.Decoder(_LongLine)
_READ = "a comment (id, link_id, parent_id, body) or submission (id, title) of Reddit is read, one a line"


class _NotRedditError(ValueError):
    """A line that is JSON and neither a comment nor a submission."""


def scatter(block: Block, reading: Reading, settings: RedditSettings) -> pa.RecordBatch:
    """Read lines of a dump; give a record of each that counts (columns: `reddit_rules.COLUMNS`).

    Raises:
        BadLineError: a line that is no comment or submission, unless bad lines are skipped.
    """
    data = block.data.removeprefix(b"\xef\xbb\xbf") if block.number == 1 else block.data
    decoder = _decoder(settings)
    try:
        lines = decoder.decode_lines(data)
        if len(lines) != _objects(block):
            raise _NotRedditError("not one object a line")
        reasons: Counter[str] = Counter()
        records = _records(lines, settings, reasons)
    except (ValueError, TypeError, RecursionError):  # msgspec's errors are ValueErrors
        reasons = Counter()
        lines = list(_one_by_one(block, data, reading, settings))
        records = _records(lines, settings, reasons)
    reading.lines += len(lines)
    for reason, count in reasons.items():
        reading.drop(reason, count)
    return records


def _decoder(settings: RedditSettings) -> msgspec.json.Decoder[_Line] | msgspec.json.Decoder[_LongLine]:
    long = settings.subreddits or settings.drop_bots or settings.drop_nsfw
    return _LONG_DECODER if long else _DECODER


def _objects(block: Block) -> int:
    """How many lines there are, if each begins with { and ends with }; otherwise -1.

    A value that goes over several lines has none that does both, since strings hold no line ends.
    """
    letters, ends = np.frombuffer(block.data, np.uint8), line_ends(block)
    if not len(letters):
        return 0
    if not len(ends) or ends[-1] != len(letters) - 1:
        ends = np.append(ends, len(letters))
    begins = np.append(0, ends[:-1] + 1)
    sound = (letters[begins] == ord("{")) & (letters[ends - 1] == ord("}"))
    return len(ends) if sound.all() else -1


def _one_by_one(block: Block, data: bytes, reading: Reading, settings: RedditSettings) -> Iterator[_Line]:
    """The lines that are as they should be; of the others it is told what is wrong."""
    wanted, decoder = _wanted(settings), _decoder(settings)
    for number, text in enumerate(io.BytesIO(data), block.number):
        try:
            line = decoder.decode(text)
            if _is_wanted(line, wanted):
                _check(line)
        except (ValueError, RecursionError) as error:
            if not text.isspace():
                reading.lines += 1
                reading.bad_line(block.path, number, f"{error}; {_READ}")
        else:
            yield line


def _check(line: _Line) -> None:
    """Raise what is wrong with a line."""
    link, parent = line.link_id, line.parent_id
    if not line.id:
        raise _NotRedditError("id is empty")
    if link is None:
        if line.title is None:
            raise _NotRedditError("neither link_id nor title")
    elif link[:3] != "t3_" or len(link) == 3:
        raise _NotRedditError(f"link_id is {link[:20]!r}")
    elif parent and parent[:3] not in ("t1_", "t3_"):
        raise _NotRedditError(f"parent_id is {parent[:20]!r}")
    elif line.body is msgspec.UNSET:
        raise _NotRedditError("a comment without body")


def _wanted(settings: RedditSettings) -> set[str]:
    return {name.lower() for name in settings.subreddits}


def _is_wanted(line: _Line, wanted: set[str]) -> bool:
    return not wanted or (isinstance(line, _LongLine) and (line.subreddit or "").lower() in wanted)


def _records(lines: Sequence[_Line], settings: RedditSettings, reasons: Counter[str]) -> pa.RecordBatch:
    """Records of lines, and the number of those left out by reason.

    Raises:
        ValueError, TypeError: one of the lines is not as it should be.
    """
    read = len(lines)
    if wanted := _wanted(settings):
        lines = [line for line in lines if _is_wanted(line, wanted)]
        reasons["in another subreddit"] += read - len(lines)
    comments = [line for line in lines if line.link_id is not None]
    if len(comments) == len(lines):
        return _comments(comments, settings)
    submissions = [line for line in lines if line.link_id is None]
    for line in submissions:
        _check(line)
    if not settings.titles and not settings.drop_nsfw:
        reasons["a submission (only used for titles and drop_nsfw)"] += len(submissions)
        submissions = []
    both = zip(_comments(comments, settings).columns, _submissions(submissions, settings).columns, strict=True)
    return pa.RecordBatch.from_arrays([pa.concat_arrays(pair) for pair in both], names=COLUMNS)


def _comments(lines: Sequence[_Line], settings: RedditSettings) -> pa.RecordBatch:
    """Records of comments. All that `_check` wants of a line is looked for here too, of all at once."""
    links = _texts([line.link_id for line in lines]).dictionary_encode()
    parents = _texts([line.parent_id or "" for line in lines])  # some dumps say null for an answer to the submission
    names = _texts([line.id for line in lines])
    is_answer = pc.starts_with(parents, "t1_")
    sound = pc.or_(is_answer, pc.or_(pc.equal(parents, ""), pc.starts_with(parents, "t3_")))
    links_sound = pc.and_(pc.starts_with(links.dictionary, "t3_"), pc.greater(pc.binary_length(links.dictionary), 3))
    if not all(pc.all(each, min_count=0).as_py() for each in (sound, links_sound, pc.not_equal(names, ""))):
        raise _NotRedditError("an id, link_id or parent_id")
    # One that is not there has no length, so that judging it is a TypeError.
    bodies: list[Any] = ["[deleted]" if line.body is None else line.body for line in lines]
    authors = [getattr(line, "author", None) for line in lines] if settings.drop_bots else [None] * len(lines)
    states = judge_all(bodies, authors, settings)
    # One character more than the cut is all that the cut of an ancestor can need.
    most = settings.cut + 1
    texts = [body if state == KEPT else body[:most] for body, state in zip(bodies, states, strict=True)]
    threads = pc.utf8_slice_codeunits(links.dictionary, 3).take(links.indices)
    above = pc.if_else(is_answer, pc.utf8_slice_codeunits(parents, 3), "")
    return pa.RecordBatch.from_arrays([threads, _texts(states), names, above, _texts(texts)], names=COLUMNS)


def _submissions(lines: Sequence[_Line], settings: RedditSettings) -> pa.RecordBatch:
    names = _texts([line.id for line in lines])
    states = _texts([OVER_18 if getattr(line, "over_18", None) else SUBMISSION for line in lines])
    titles = _texts([(line.title or "")[: settings.cut + 1] for line in lines])
    return pa.RecordBatch.from_arrays([names, states, names, _texts([""] * len(lines)), titles], names=COLUMNS)


def _texts(values: Sequence[str | None]) -> pa.StringArray:
    return pa.array(values, pa.string())


CORPUS = Corpus(
    name="reddit",
    title="comments of Reddit and the comments that they answer",
    reads="monthly dumps of comments, RC_*.zst, and of submissions, RS_*.zst: newline-delimited JSON",
    licence="none stated; a comment is its author's, and Reddit's terms of use apply",
    origin="dumps that Pushshift published, which others pass on (Academic Torrents)",
    expected="2015 to 2018: 3.68 billion comments give 727M examples, 654M below 0.9 of the split (DATA19)",
    scatter=scatter,
    columns=COLUMNS,
    assemble=assemble,
    settings=RedditSettings,
)
