"""Trees of Reddit's comments, in columns of pyarrow (DATA19, section 3.1).

A thread may be spread over months: `scatter` makes a short record of each line, `assemble` trees of
whole threads. A tree is an array of parents' numbers; all comments take a step up at the same time.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rejoinder.corpora.limits import MAX_LINE_BYTES
from rejoinder.corpora.lines import Block, Reading, too_long
from rejoinder.corpora.parquet import BASE_SCHEMA, BATCH_ROWS, GROUP_CHARACTERS
from rejoinder.corpora.reddit.settings import RedditSettings

Numbers: TypeAlias = npt.NDArray[np.int64]
States: TypeAlias = npt.NDArray[np.uint8]
Flags: TypeAlias = npt.NDArray[np.bool_]

GONE = ("[deleted]", "[removed]", "[ Removed by Reddit ]")  # instead of a text that was removed
# State of a comment that can be a response or answered by one; others are only history.
KEPT = 0
# The other states, with their reasons. Of two copies of a comment the greatest state counts.
LOST = {1: "too short", 2: "too long", 3: "nothing but white space", 9: "deleted or removed"}
_TEXT = pa.string()
_LONG_TEXT = pa.large_string()
COLUMNS = pa.schema(
    [
        ("thread", _TEXT),  # id of the submission without `t3_`
        ("state", pa.uint8()),
        ("id", _TEXT),
        ("parent", _TEXT),  # id of the parent comment without `t1_`, or empty
        ("text", _LONG_TEXT),
    ]
)
_READ = "a comment of Reddit (id, link_id, parent_id, body) is read, one a line"
# In place of the number of a parent or ancestor.
_SUBMISSION = -1  # the comment answers the submission
_MISSING = -2  # the parent is not in the dumps
_NOTHING = -3  # there is no ancestor so far up


def trim(text: str, limit: int) -> str:
    """Truncate a text to `limit` characters at the edge of a word; a longer word leaves nothing."""
    if len(text) <= limit:
        return text
    end = limit
    in_word = text[limit].isalnum()
    while end and text[end - 1].isalnum() == in_word:
        end -= 1
    return text[:end]


def judge(bodies: pa.Array, settings: RedditSettings) -> States:
    """Return the state of each comment: `KEPT`, or the reason of `LOST` that holds.

    A comment that is both deleted and short is deleted; lengths come before white space.
    """
    if settings.unit == "words":
        lengths = np.array([len(body.split()) for body in bodies.to_pylist()], np.int64)
    else:
        lengths = pc.utf8_length(bodies).to_numpy()
    conditions = {
        9: _flags(pc.is_in(bodies, pa.array(GONE, bodies.type))),
        1: lengths < settings.min_length,
        2: lengths > settings.max_length,
        3: _flags(pc.utf8_is_space(bodies)),
    }
    return np.select(
        list(conditions.values()), [np.uint8(state) for state in conditions], np.uint8(KEPT)
    )


class _Line(msgspec.Struct, gc=False):  # other fields are skipped
    id: str
    link_id: str
    body: str | None
    parent_id: str | None = None
    subreddit: str | None = None


_DECODER = msgspec.json.Decoder(_Line)


def scatter(block: Block, reading: Reading, settings: RedditSettings) -> pa.RecordBatch:
    """Return a record, `COLUMNS`, of each line that counts; other lines are bad or dropped."""
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
    """Return the records of consecutive lines, the first of which has this number in the file.

    If any line is bad, both halves of the lines are read alone, down to the bad line itself.
    """
    try:
        comments = [*map(_DECODER.decode, lines)]
        if settings.subreddits:
            wanted = {name.lower() for name in settings.subreddits}
            comments = [line for line in comments if (line.subreddit or "").lower() in wanted]
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


def _comments(lines: Sequence[_Line], settings: RedditSettings) -> pa.RecordBatch:
    """Return comments as columns, each with its state: kept, or why it is not."""
    names = pa.array([line.id for line in lines], _TEXT)
    links = pa.array([line.link_id for line in lines], _TEXT)
    # Null in some dumps for an answer to the submission.
    parents = pc.fill_null(pa.array([line.parent_id for line in lines], _TEXT), "")
    is_answer = pc.starts_with(parents, "t1_")
    is_link = pc.and_(pc.starts_with(links, "t3_"), pc.not_equal(links, "t3_"))
    answers_submission = pc.or_(pc.equal(parents, ""), pc.starts_with(parents, "t3_"))
    _check(pc.not_equal(names, ""), "id is empty", names)
    _check(is_link, "link_id is {!r}", links)
    _check(pc.or_(is_answer, answers_submission), "parent_id is {!r}", parents)
    limit = sys.maxsize
    if settings.unit == "characters":
        limit = max(settings.cut, settings.max_length) + 1
    texts = ["[deleted]" if line.body is None else line.body[:limit] for line in lines]
    bodies = pa.array(texts, _LONG_TEXT)
    states = judge(bodies, settings)
    if settings.unit == "words" or settings.max_length > settings.cut:
        # To truncate an ancestor, one character more is enough.
        short = pc.utf8_slice_codeunits(bodies, 0, settings.cut + 1)
        bodies = pc.if_else(states == KEPT, bodies, short)
    return pa.RecordBatch.from_arrays(
        [
            pc.utf8_slice_codeunits(links, 3),
            pa.array(states),
            names,
            pc.if_else(is_answer, pc.utf8_slice_codeunits(parents, 3), ""),
            bodies,
        ],
        schema=COLUMNS,
    )


def _check(sound: pa.Array, fault: str, values: pa.Array) -> None:
    """Raise the fault of the first value that is not sound."""
    flags = _flags(sound)
    if not flags.all():
        raise ValueError(fault.format((values[int(np.argmin(flags))].as_py() or "")[:20]))


def _flags(values: pa.Array) -> Flags:
    flags: Flags = values.to_numpy(zero_copy_only=False)
    return flags


def assemble(
    records: pa.RecordBatch, reading: Reading, settings: RedditSettings
) -> Iterator[pa.RecordBatch]:
    """Yield the examples of whole threads: by first appearance, within one as the records are."""
    if records.num_rows == 0:
        return
    forest = _Forest(records)
    chosen = forest.choose()
    for reason, count in (+forest.lost).items():
        reading.drop(reason, count)
    depth = settings.depth
    if reading.history is not None:
        depth = min(depth, reading.history + 1)
    steps = [forest.above[chosen]]
    for _ in range(depth):
        steps.append(_look_up(forest.above, steps[-1], _NOTHING))
    reading.cut_contexts += int((steps.pop() >= 0).sum())
    texts, messages = _contexts(forest, np.stack(steps, axis=1), settings.cut)
    is_blank = np.zeros(len(texts), np.bool_)
    truncated = texts[records.num_rows :].to_pylist()
    is_blank[records.num_rows :] = [not text.strip() for text in truncated]
    exists = messages >= 0
    used = exists & ~is_blank[messages]
    reading.blank_messages += int(exists.sum() - used.sum())
    sizes = np.where(used, pc.binary_length(texts).to_numpy()[messages], 0).sum(axis=1).cumsum()
    start = 0
    while start < len(chosen):
        size = sizes[start - 1] if start else 0
        end = min(start + BATCH_ROWS, int(np.searchsorted(sizes, size + GROUP_CHARACTERS)) + 1)
        rows = forest.rows[chosen[start:end]]
        yield _examples(records, rows, texts, messages[start:end], used[start:end])
        start = end


def _examples(
    records: pa.RecordBatch,
    rows: Numbers,
    texts: pa.LargeStringArray,
    messages: Numbers,
    used: Flags,
) -> pa.RecordBatch:
    """Return the examples whose responses are these rows; `used` flags the messages of contexts."""
    responses = records.take(pa.array(rows))
    ends = pa.array(np.append(0, used.sum(axis=1).cumsum()), pa.int32())
    context = texts.take(pa.array(messages[used])).cast(_TEXT)
    return pa.RecordBatch.from_arrays(
        [
            responses["id"],
            responses["thread"],
            pa.array(["reddit"] * len(rows), _TEXT),
            pa.ListArray.from_arrays(ends, context),
            responses["text"].cast(_TEXT),
        ],
        schema=BASE_SCHEMA,
    )


class _Forest:
    """The comments of a partition, each once.

    `rows` are their rows in the records, `thread` the numbers of their threads by first appearance,
    `above` the numbers of their parents, negative if there is none. `lost` counts comments that
    give no example, by reason.
    """

    def __init__(self, records: pa.RecordBatch) -> None:
        self.records = records
        thread = records["thread"].dictionary_encode().indices.to_numpy().astype(np.int64)
        names = pa.concat_arrays([records["id"], records["parent"]]).dictionary_encode()
        name, parent = np.split(names.indices.to_numpy().astype(np.int64), [len(thread)])
        self.rows = self._drop_duplicates(thread, name)
        self.lost = Counter({"the same comment again": len(thread) - len(self.rows)})
        self.thread = thread[self.rows]
        self.state = records["state"].to_numpy()[self.rows]
        self.above = _above(self.thread, name[self.rows], parent[self.rows], len(names.dictionary))
        self.above[_flags(pc.equal(records["parent"], ""))[self.rows]] = _SUBMISSION

    def _drop_duplicates(self, thread: Numbers, name: Numbers) -> Numbers:
        """Return a row for each comment: of copies the greatest, at the place of the first.

        Copies are compared by state, parent and text.
        """
        repeated = np.flatnonzero(np.bincount(name)[name] > 1)  # perhaps in different threads
        copies: dict[tuple[int, int], list[int]] = {}
        for row in repeated.tolist():
            copies.setdefault((int(thread[row]), int(name[row])), []).append(row)
        best = np.arange(self.records.num_rows)
        kept = np.ones(len(best), np.bool_)
        kept[repeated] = False
        for rows in copies.values():
            best[rows[0]] = max(rows, key=self._rank)
            kept[rows[0]] = True
        return best[kept]

    def _rank(self, row: int) -> tuple[Any, ...]:
        columns = ("state", "parent", "text")
        return (*(self.records[column][row].as_py() for column in columns), row)

    def choose(self) -> Numbers:
        """Return the kept comments that answer a kept one; count the others by reason."""
        left = self._keep_state(np.ones(len(self.rows), np.bool_), self.state, "")
        left = self._keep(left, self.above != _SUBMISSION, "answers the submission")
        left = self._keep(left, self.above != _MISSING, "answers a comment that is not there")
        left = self._keep_state(
            left, _look_up(self.state, self.above, KEPT), "answers a comment that is "
        )
        left = self._keep(left, _ends(self.above), "in a circle of comments")
        chosen = np.flatnonzero(left)
        return chosen[np.argsort(self.thread[chosen], kind="stable")]

    def _keep(self, left: Flags, keep: Flags, reason: str) -> Flags:
        self.lost[reason] += int((left & ~keep).sum())
        return left & keep

    def _keep_state(self, left: Flags, state: States, prefix: str) -> Flags:
        counts = np.bincount(state[left], minlength=max(LOST) + 1)
        for number, reason in LOST.items():
            self.lost[prefix + reason] += int(counts[number])
        return left & (state == KEPT)


def _above(thread: Numbers, name: Numbers, parent: Numbers, names: int) -> Numbers:
    """Return the number of each comment's parent in its own thread, or `_MISSING`."""
    numbers = np.arange(len(name))
    number_of = np.full(names, _MISSING)
    number_of[name] = numbers
    if (number_of[name] != numbers).any():  # a name in several threads; Reddit has no such names
        keys = pa.array(thread * names + name)
        matches = pc.index_in(pa.array(thread * names + parent), value_set=keys)
        parents: Numbers = matches.fill_null(_MISSING).to_numpy()
        return parents.astype(np.int64)
    above = number_of[parent]
    return np.where(_look_up(thread, above, -1) == thread, above, _MISSING)


def _ends(above: Numbers) -> Flags:
    """Flag comments above which there is no circle. Steps double, so deep threads take few."""
    count = len(above)
    up = np.append(np.where(above < 0, count, above), count)
    for _ in range(count.bit_length()):
        if (up == count).all():
            break
        up = up[up]
    ends: Flags = up[:-1] == count
    return ends


def _contexts(forest: _Forest, steps: Numbers, limit: int) -> tuple[pa.LargeStringArray, Numbers]:
    """Return texts, and for each example the numbers of its messages, oldest first; -1: none.

    The texts are those of the records, then those of ancestors that are truncated or not kept.
    `steps` lead up from the responses, one a column.
    """
    records = forest.records
    rows = forest.rows
    older = steps[:, 1:]
    is_ancestor = np.zeros(len(rows), np.bool_)
    is_ancestor[older[older >= 0]] = True
    length = pc.utf8_length(records["text"].take(pa.array(rows))).to_numpy()
    other = np.flatnonzero(is_ancestor & ((length > limit) | (forest.state != KEPT)))
    bodies = records["text"].take(pa.array(rows[other])).to_pylist()
    ancestors = pa.array([trim(body, limit) for body in bodies], _LONG_TEXT)
    numbers = rows.copy()
    numbers[other] = records.num_rows + np.arange(len(other))
    earlier = _look_up(numbers, older[:, ::-1], -1)
    messages = np.concatenate([earlier, rows[steps[:, :1]]], axis=1)
    return pa.concat_arrays([records["text"], ancestors]), messages


def _look_up(values: Any, numbers: Numbers, default: int) -> Any:
    """Return the values with these numbers; the default for negative ones."""
    return np.where(numbers >= 0, values[np.maximum(numbers, 0)], default)
