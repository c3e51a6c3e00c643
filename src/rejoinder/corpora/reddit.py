"""Reddit: comments out of monthly dumps (RC_*.zst), each with the comments that it answers (DATA19, section 3.1).

A thread may be spread over months: `scatter` makes a short record of each line, `assemble` the trees of whole threads.
A tree is an array of the numbers of the comments above: all comments take a step up at the same time.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.examples import BASE_SCHEMA, BATCH_ROWS, GROUP_CHARACTERS
from rejoinder.corpora.lines import MAX_LINE_BYTES, Block, Reading, too_long
from rejoinder.errors import InputError

Numbers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

GONE = ("[deleted]", "[removed]", "[ Removed by Reddit ]")  # in place of a text that was taken away
KEPT = 0  # State of a comment that can be a response, or the message that one answers. Other comments are only history.
# The other states of a comment, with their reasons. Of two copies of a comment the one with the greatest counts.
LOST = {1: "too short", 2: "too long", 3: "nothing but white space", 9: "deleted or removed"}
_TEXT, _LONG_TEXT = pa.string(), pa.large_string()
# Of a comment: id of the submission without `t3_`, state, id, id of the comment above without `t1_` (or empty), body.
COLUMNS = pa.schema([("thread", _TEXT), ("state", pa.uint8()), ("id", _TEXT), ("parent", _TEXT), ("text", _LONG_TEXT)])
_READ = "a comment of Reddit (id, link_id, parent_id, body) is read, one a line"
_SUBMISSION, _MISSING, _NOTHING = -1, -2, -3  # what stands for the comment above: none, one not there, further up


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

    def __post_init__(self) -> None:
        if not 1 <= self.min_length <= self.max_length:
            given = f"min_length is {self.min_length} and max_length {self.max_length}"
            raise InputError(f"{given}; lengths go from 1 up, and the first is not above the second")
        if not all(re.fullmatch(r"\w+", name) for name in self.subreddits):
            raise InputError(f'subreddits are {list(self.subreddits)}; give names without r/, such as ["AskReddit"]')
        for name, value in (("depth", self.depth), ("cut", self.cut)):
            if value < 1:
                raise InputError(f"{name} is {value}; it is at least 1")


def trim(text: str, limit: int) -> str:
    """Cut a text to `limit` characters, at the edge of a word; a single word that is longer leaves nothing."""
    if len(text) <= limit:
        return text
    end, in_word = limit, text[limit].isalnum()
    while end and text[end - 1].isalnum() == in_word:
        end -= 1
    return text[:end]


def judge(bodies: pa.Array, settings: RedditSettings) -> npt.NDArray[np.uint8]:
    """Return the state of each comment: `KEPT`, or the reason of `LOST` that holds (deleted first, then its length)."""
    if settings.unit == "words":
        lengths = np.array([len(body.split()) for body in bodies.to_pylist()], np.int64)
    else:
        lengths = pc.utf8_length(bodies).to_numpy()
    gone = _flags(pc.is_in(bodies, pa.array(GONE, bodies.type)))
    short, long = lengths < settings.min_length, lengths > settings.max_length
    conditions = [gone, short, long, _flags(pc.utf8_is_space(bodies))]
    return np.select(conditions, [np.uint8(state) for state in (9, 1, 2, 3)], np.uint8(KEPT))


class _Line(msgspec.Struct, gc=False):  # other fields are skipped
    id: str
    link_id: str
    body: str | None
    parent_id: str | None = None
    subreddit: str | None = None


_DECODER = msgspec.json.Decoder(_Line)


def scatter(block: Block, reading: Reading, settings: RedditSettings) -> pa.RecordBatch:
    """Give a record, `COLUMNS`, of each line that counts; what is no comment is a bad line."""
    lines = block.data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    if lines and block.number == 1:
        lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
    batches = _read(lines, block, block.number, reading, settings)
    return pa.concat_batches(batches or [pa.RecordBatch.from_pylist([], COLUMNS)])


def _read(
    lines: list[bytes], block: Block, number: int, reading: Reading, settings: RedditSettings
) -> list[pa.RecordBatch]:
    """Give the records of consecutive lines, of which the first has a number in the file; report the bad lines."""
    try:
        comments = decoded = [*map(_DECODER.decode, lines)]
        if settings.subreddits:
            wanted = {name.lower() for name in settings.subreddits}
            comments = [line for line in decoded if (line.subreddit or "").lower() in wanted]
        batch = _comments(comments, settings)
    except (ValueError, TypeError, RecursionError) as error:  # msgspec's errors are ValueErrors
        half = len(lines) // 2
        if half:
            first = _read(lines[:half], block, number, reading, settings)
            return first + _read(lines[half:], block, number + half, reading, settings)
        if lines[0].strip():
            reading.lines += 1
            reason = too_long() if len(lines[0]) >= MAX_LINE_BYTES else f"{error}; {_READ}"
            reading.bad_line(block.path, number, reason)
        return []
    reading.lines += len(lines)
    if len(comments) < len(lines):
        reading.drop("in another subreddit", len(lines) - len(comments))
    return [batch]


def _comments(lines: Sequence[Any], settings: RedditSettings) -> pa.RecordBatch:
    names, links = _strings([line.id for line in lines]), _strings([line.link_id for line in lines])
    # Null in some dumps for an answer to the submission.
    parents = pc.fill_null(_strings([line.parent_id for line in lines]), "")
    is_answer = pc.starts_with(parents, "t1_")
    _check(pc.not_equal(names, ""), "id is empty", names)
    _check(pc.and_(pc.starts_with(links, "t3_"), pc.not_equal(links, "t3_")), "link_id is {!r}", links)
    answers_submission = pc.or_(pc.equal(parents, ""), pc.starts_with(parents, "t3_"))
    _check(pc.or_(is_answer, answers_submission), "parent_id is {!r}", parents)
    most = max(settings.cut, settings.max_length) + 1 if settings.unit == "characters" else sys.maxsize
    bodies = _strings(["[deleted]" if line.body is None else line.body[:most] for line in lines], _LONG_TEXT)
    states = judge(bodies, settings)
    if settings.unit == "words" or settings.max_length > settings.cut:
        # One character more than the cut is all that the cut of an ancestor can need.
        bodies = pc.if_else(states == KEPT, bodies, pc.utf8_slice_codeunits(bodies, 0, settings.cut + 1))
    above = pc.if_else(is_answer, pc.utf8_slice_codeunits(parents, 3), "")
    threads = pc.utf8_slice_codeunits(links, 3)
    return pa.RecordBatch.from_arrays([threads, pa.array(states), names, above, bodies], schema=COLUMNS)


def _check(sound: pa.Array, fault: str, values: pa.Array) -> None:
    """Raise the fault of the first line that is not sound."""
    flags = _flags(sound)
    if not flags.all():
        raise ValueError(fault.format((values[int(np.argmin(flags))].as_py() or "")[:20]))


def _flags(values: pa.Array) -> Flags:
    flags: Flags = values.to_numpy(zero_copy_only=False)
    return flags


def _strings(values: Sequence[Any], kind: pa.DataType = _TEXT) -> pa.Array:
    return pa.array(values, kind)


def assemble(records: pa.RecordBatch, reading: Reading, settings: RedditSettings) -> Iterator[pa.RecordBatch]:
    """Give the examples of whole threads, as these first appear; within one they are in the order of the records."""
    if records.num_rows == 0:
        return
    forest = _Forest(records)
    chosen = forest.choose()
    for reason, count in (+forest.lost).items():
        reading.drop(reason, count)
    depth = settings.depth if reading.history is None else min(settings.depth, reading.history + 1)
    steps = [forest.above[chosen]]
    for _ in range(depth):
        steps.append(_look_up(forest.above, steps[-1], _NOTHING))
    reading.cut_contexts += int((steps.pop() >= 0).sum())
    texts, places = _contexts(forest, np.stack(steps, axis=1), settings.cut)
    is_blank = np.zeros(len(texts), np.bool_)
    is_blank[records.num_rows :] = [not text.strip() for text in texts[records.num_rows :].to_pylist()]
    there = places >= 0
    used = there & ~is_blank[places]
    reading.blank_messages += int(there.sum() - used.sum())
    sizes = np.where(used, pc.binary_length(texts).to_numpy()[places], 0).sum(axis=1).cumsum()
    start = 0
    while start < len(chosen):
        before = sizes[start - 1] if start else 0
        end = min(start + BATCH_ROWS, int(np.searchsorted(sizes, before + GROUP_CHARACTERS)) + 1)
        messages = texts.take(pa.array(places[start:end][used[start:end]])).cast(_TEXT)
        ends = pa.array(np.append(0, used[start:end].sum(axis=1).cumsum()), pa.int32())
        found = records.take(pa.array(forest.rows[chosen[start:end]]))
        source, contexts = _strings(["reddit"] * found.num_rows), pa.ListArray.from_arrays(ends, messages)
        columns = [found["id"], found["thread"], source, contexts, found["text"].cast(_TEXT)]
        yield pa.RecordBatch.from_arrays(columns, schema=BASE_SCHEMA)
        start = end


class _Forest:
    """The comments of a partition, none twice.

    `rows` are their places in the records, `thread` the numbers of their threads, in the order in which these appear,
    `above` the comments that they answer, negative if there is none. `lost` counts what gives no example, by reason.
    """

    def __init__(self, records: pa.RecordBatch) -> None:
        self.records = records
        thread = records["thread"].dictionary_encode().indices.to_numpy().astype(np.int64)
        names = pa.concat_arrays([records["id"], records["parent"]]).dictionary_encode()
        name, parent = np.split(names.indices.to_numpy().astype(np.int64), [len(thread)])
        self.rows = self._without_copies(thread, name)
        self.lost = Counter({"the same comment again": len(thread) - len(self.rows)})
        self.thread, self.state = thread[self.rows], records["state"].to_numpy()[self.rows]
        self.above = _above(self.thread, name[self.rows], parent[self.rows], len(names.dictionary))
        self.above[_flags(pc.equal(records["parent"], ""))[self.rows]] = _SUBMISSION

    def _without_copies(self, thread: Numbers, name: Numbers) -> Numbers:
        """Return the rows of comments, of several of one the greatest (state, parent, text), where the first stands."""
        copied = np.flatnonzero(np.bincount(name)[name] > 1)  # perhaps of comments of different threads
        found: dict[tuple[int, int], list[Any]] = {}
        for row in copied.tolist():
            rank = *(self.records[column][row].as_py() for column in ("state", "parent", "text")), row
            first = found.setdefault((int(thread[row]), int(name[row])), [row, rank])
            first[1] = max(rank, first[1])
        best = np.arange(self.records.num_rows)
        kept = np.ones(len(best), np.bool_)
        kept[copied] = False
        for row, rank in found.values():
            best[row], kept[row] = rank[-1], True
        return best[kept]

    def choose(self) -> Numbers:
        """Return the comments that are kept and answer one that is kept; count the others by reason."""
        left = self._keep_state(np.ones(len(self.rows), np.bool_), self.state, "")
        left = self._keep(left, self.above != _SUBMISSION, "answers the submission")
        left = self._keep(left, self.above != _MISSING, "answers a comment that is not there")
        left = self._keep_state(left, _look_up(self.state, self.above, KEPT), "answers a comment that is ")
        left = self._keep(left, _ends(self.above), "in a circle of comments")
        chosen = np.flatnonzero(left)
        return chosen[np.argsort(self.thread[chosen], kind="stable")]

    def _keep(self, left: Flags, keep: Flags, reason: str) -> Flags:
        self.lost[reason] += int((left & ~keep).sum())
        return left & keep

    def _keep_state(self, left: Flags, state: npt.NDArray[np.uint8], words: str) -> Flags:
        counts = np.bincount(state[left], minlength=max(LOST) + 1)
        for each, reason in LOST.items():
            self.lost[words + reason] += int(counts[each])
        return left & (state == KEPT)


def _above(thread: Numbers, name: Numbers, parent: Numbers, names: int) -> Numbers:
    """Return of each comment the place of the one with its parent's name in its own thread, or `_MISSING`."""
    place = np.full(names, _MISSING)
    place[name] = np.arange(len(name))
    if (place[name] != np.arange(len(name))).any():  # a name in several threads: Reddit gives none twice
        codes = pa.array(thread * names + name)
        found: Numbers = pc.index_in(pa.array(thread * names + parent), value_set=codes).fill_null(_MISSING).to_numpy()
        return found.astype(np.int64)
    above = place[parent]
    return np.where(_look_up(thread, above, -1) == thread, above, _MISSING)


def _ends(above: Numbers) -> Flags:
    """Return of each comment whether the way up comes to an end. Steps are doubled, so deep threads take few."""
    count = len(above)
    up = np.append(np.where(above < 0, count, above), count)
    for _ in range(count.bit_length()):
        if (up == count).all():
            break
        up = up[up]
    ends: Flags = up[:-1] == count
    return ends


def _contexts(forest: _Forest, steps: Numbers, cut: int) -> tuple[pa.LargeStringArray, Numbers]:
    """Return texts, and of each example the places of its messages among them, oldest first; -1: nothing is there.

    The texts are the records' own, then those of ancestors that are cut or not kept. `steps` lead up from responses.
    """
    records, rows, older = forest.records, forest.rows, steps[:, 1:]
    is_ancestor = np.zeros(len(rows), np.bool_)
    is_ancestor[older[older >= 0]] = True
    length = pc.utf8_length(records["text"].take(pa.array(rows))).to_numpy()
    other = np.flatnonzero(is_ancestor & ((length > cut) | (forest.state != KEPT)))
    ancestors = [trim(text, cut) for text in records["text"].take(pa.array(rows[other])).to_pylist()]
    place = rows.copy()
    place[other] = records.num_rows + np.arange(len(other))
    places = np.concatenate([_look_up(place, older[:, ::-1], -1), rows[steps[:, :1]]], axis=1)
    return pa.concat_arrays([records["text"], _strings(ancestors, _LONG_TEXT)]), places


def _look_up(values: Any, places: Numbers, otherwise: int) -> Any:
    """Return the values at places; at negative ones what is given instead."""
    return np.where(places >= 0, values[np.maximum(places, 0)], otherwise)


CORPUS = Corpus(
    name="reddit",
    title="comments of Reddit and the comments that they answer",
    reads="monthly dumps of comments, RC_*.zst: newline-delimited JSON",
    licence="none stated; a comment is its author's, and Reddit's terms of use apply",
    origin="dumps that Pushshift published, which others pass on (Academic Torrents)",
    expected="2015 to 2018: 3.68 billion comments give 727M examples, 654M below 0.9 of the split (DATA19)",
    scatter=scatter,
    assemble=assemble,
    settings=RedditSettings,
)
