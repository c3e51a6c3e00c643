"""Reddit: comments out of monthly dumps, each with the comments that it answers.

Read are the files of newline-delimited JSON that hold all comments of a month, `RC_2018-01.zst` and so on, and for
titles and the over-18 mark those of submissions, `RS_2018-01.zst`; a line is told by its fields. A thread, the
comments below one submission, can be spread over months. So `scatter` makes a short record of each line, and
`reddit_trees.assemble` builds the trees of whole threads and gives an example for every comment that, like the comment
which it answers, passes the filter of `reddit_rules`. Source: DATA19, section 3.1, and the code published with it.

There are hundreds of millions of lines, so a block is decoded at once and checked as columns; only where one of its
lines is not as it should be are they looked at one by one.
"""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rejoinder.corpora.corpus import Block, Corpus
from rejoinder.corpora.lines import Reading, line_ends
from rejoinder.corpora.reddit_names import Names, carry, is_hash
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
_WHOLE = sys.maxsize
"""Characters of a text that is kept whole."""
_READ = "a comment (id, link_id, parent_id, body) or submission (id, title) of Reddit is read, one a line"


class _NotRedditError(ValueError):
    """A line that is JSON and neither a comment nor a submission."""


def scatter(block: Block, reading: Reading, settings: RedditSettings) -> pa.RecordBatch:
    """Read lines of a dump; give a record of each that counts (columns: `reddit_rules.COLUMNS`).

    Raises:
        BadLineError: a line that is no comment or submission, unless bad lines are skipped.
    """
    marked = block.number == 1 and bytes(block.data[:3]) == b"\xef\xbb\xbf"
    data = block.data[3:] if marked else block.data
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


def _needs_more(settings: RedditSettings) -> bool:
    """Whether a setting asks for fields of a comment that are not always read."""
    return bool(settings.subreddits or settings.drop_bots or settings.drop_nsfw)


def _kept_characters(settings: RedditSettings) -> int:
    """So many characters of a body can matter."""
    return max(settings.cut, settings.max_length) + 1 if settings.unit == "characters" else _WHOLE


def _decoder(settings: RedditSettings) -> msgspec.json.Decoder[_Line] | msgspec.json.Decoder[_LongLine]:
    return _LONG_DECODER if _needs_more(settings) else _DECODER


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


def _one_by_one(block: Block, data: bytes | memoryview, reading: Reading, settings: RedditSettings) -> Iterator[_Line]:
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
    if None not in [line.link_id for line in lines]:
        return _comments(lines, settings)
    comments = [line for line in lines if line.link_id is not None]
    submissions = [line for line in lines if line.link_id is None]
    for line in submissions:
        _check(line)
    if not settings.titles and not settings.drop_nsfw:
        reasons["a submission (only used for titles and drop_nsfw)"] += len(submissions)
        submissions = []
    return pa.concat_batches([_comments(comments, settings), _submissions(submissions, settings)])


def _comments(lines: Sequence[_Line], settings: RedditSettings) -> pa.RecordBatch:
    """Records of comments. All that `_check` wants of a line is looked for here too, of all at once.

    Raises:
        ValueError, TypeError: one of the lines is not as it should be.
    """
    names = Names(_texts([line.id for line in lines]))
    links = Names(_texts([line.link_id for line in lines]))
    parents = Names(_texts([line.parent_id for line in lines]))  # null in some dumps for an answer to the submission
    is_answer = parents.begins_with(b"t1_")
    sound = is_answer | parents.begins_with(b"t3_") | (parents.length == 0)
    if not (sound & links.begins_with(b"t3_") & (links.length > 3) & (names.length > 0)).all():
        raise _NotRedditError("an id, link_id or parent_id")
    texts = _bodies(lines, settings)
    authors = [getattr(line, "author", None) for line in lines] if settings.drop_bots else None
    states = judge_all(texts, authors, settings)
    above = np.where(is_answer, parents.codes(3), np.uint64(0))
    columns: list[Any] = [links.codes(3), states, names.codes(), above]
    hashed = np.flatnonzero(is_hash(columns[0]) | is_hash(columns[2]) | is_hash(above))
    all_names = (links.texts(hashed, 3), names.texts(hashed), parents.texts(hashed, 3))
    carried = dict(zip(hashed.tolist(), map(carry, zip(*all_names, strict=True)), strict=True))
    if settings.unit != "characters" or settings.max_length > settings.cut:
        # One character more than the cut is all that the cut of an ancestor can need.
        texts = _cut(texts, states != ord(KEPT), settings.cut + 1)
    return _batch([*columns, texts], carried)


def _bodies(lines: Sequence[_Line], settings: RedditSettings) -> pa.StringArray:
    """Texts of comments, so much of each as can matter.

    Raises:
        TypeError: a comment has none.
    """
    bodies: list[Any] = [line.body for line in lines]
    most = _kept_characters(settings)
    try:
        return _texts([body if len(body) <= most else body[:most] for body in bodies])
    except TypeError:
        return _texts(["[deleted]" if body is None else body[:most] for body in bodies])


def _submissions(lines: Sequence[_Line], settings: RedditSettings) -> pa.RecordBatch:
    names = Names(_texts([line.id for line in lines]))
    states = np.array([ord(OVER_18 if getattr(line, "over_18", None) else SUBMISSION) for line in lines], np.uint8)
    titles = _texts([(line.title or "")[: settings.cut + 1] for line in lines])
    codes = names.codes()
    hashed = np.flatnonzero(is_hash(codes))
    carried = dict(zip(hashed.tolist(), names.texts(hashed), strict=True))
    return _batch([codes, states, codes, np.zeros(len(lines), np.uint64), titles], carried)


def _batch(columns: Sequence[Any], carried: dict[int, bytes]) -> pa.RecordBatch:
    """Columns and the names of some rows as records."""
    count = len(columns[0])
    names = pa.array([carried.get(row, b"") for row in range(count)], pa.binary()) if carried else pa.repeat(b"", count)
    arrays = [each if isinstance(each, pa.Array) else pa.array(each) for each in (*columns, names)]
    return pa.RecordBatch.from_arrays(arrays, schema=COLUMNS)


def _cut(texts: pa.StringArray, chosen: Any, most: int) -> pa.StringArray:
    """The texts, the chosen ones cut to so many characters."""
    long = np.flatnonzero(chosen & (pc.binary_length(texts).to_numpy() > most))
    if not len(long):
        return texts
    cut = pc.utf8_slice_codeunits(texts.take(pa.array(long)), 0, most)
    place = np.arange(len(texts))
    place[long] = len(texts) + np.arange(len(long))
    return pa.concat_arrays([texts, cut]).take(pa.array(place))


def _texts(values: Sequence[Any]) -> pa.StringArray:
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
