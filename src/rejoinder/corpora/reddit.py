"""Reddit: comments out of monthly dumps, each with the comments that it answers.

Read are the files of newline-delimited JSON that hold all comments of a month, `RC_2018-01.zst` and so on, and for
titles and the over-18 mark those of submissions, `RS_2018-01.zst`; a line's fields say which it is. A thread, the
comments below one submission, can be spread over months. So `reddit_comments.scatter` makes a short record of each
line, and `assemble` builds the trees of whole threads and gives an example for every comment that, like the comment
which it answers, passes the filter. Source: DATA19, section 3.1, and the code published with it.

A comment is a number, its place in the list of all comments of the partition; a tree is the array that gives of each
comment the one above it. So all comments take a step up at the same time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.reddit_comments import KEPT, LOST, OVER_18, SUBMISSION, RedditSettings, scatter, trim
from rejoinder.corpora.tables import BASE_SCHEMA, BATCH_ROWS, GROUP_CHARACTERS

Numbers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

_SUBMISSION, _MISSING, _NOTHING = -1, -2, -3
"""What is above a comment that has no comment above it: the submission; a comment that is not there; and beyond
these nothing."""


def assemble(records: pa.RecordBatch, reading: Reading, settings: RedditSettings) -> Iterator[pa.RecordBatch]:
    """Give the examples of whole threads: thread after thread as they first appear, within one in the order of records.

    The set of examples does not depend on the order. Memory: the records, some times over.

    Args:
        records: `reddit_comments.COLUMNS`.
        reading: gets the counts, and says how much history is kept.
        settings: of the corpus.

    Yields:
        Examples, some thousands at a time.
    """
    if records.num_rows == 0:
        return
    forest = _Forest(records)
    chosen = forest.choose(settings.drop_nsfw)
    for reason, count in forest.lost.items():
        if count:
            reading.drop(reason, count)
    depth = settings.depth if reading.history is None else min(settings.depth, reading.history + 1)
    steps = [forest.above[chosen]]
    for _ in range(depth):
        steps.append(_look_up(forest.above, steps[-1], _NOTHING))
    reading.cut_contexts += int((steps.pop() >= 0).sum())
    texts, places = _contexts(forest, chosen, np.stack(steps, axis=1), settings)
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
        messages = texts.take(pa.array(places[start:end][used[start:end]])).cast(pa.string())
        ends = np.append(0, used[start:end].sum(axis=1).cumsum())
        yield _batch(records.take(pa.array(forest.rows[chosen[start:end]])), ends, messages)
        start = end


def _batch(responses: pa.RecordBatch, ends: Numbers, messages: pa.Array) -> pa.RecordBatch:
    columns = [
        responses["id"],
        responses["thread"],
        pa.array(["reddit"] * responses.num_rows, pa.string()),
        pa.ListArray.from_arrays(pa.array(ends, pa.int32()), messages),
        responses["text"].cast(pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=BASE_SCHEMA)


class _Forest:
    """The comments of a partition, none twice.

    Attributes:
        records: as they came.
        rows: of each comment, its row in the records.
        thread: of each comment, the number of its thread, in the order in which threads appear.
        state: of each comment.
        above: of each comment, the one that it answers, or what is there instead (negative).
        submissions: of each thread, state and title of its submission, if that is there.
        lost: comments that give no example, by reason.
    """

    def __init__(self, records: pa.RecordBatch) -> None:
        self.records = records
        thread = records["thread"].dictionary_encode().indices.to_numpy().astype(np.int64)
        states = records["state"].to_numpy()
        self.submissions: dict[int, tuple[int, str]] = {}
        for row in np.flatnonzero(states >= SUBMISSION).tolist():  # of several records of one the greatest counts
            found = int(states[row]), records["text"][row].as_py()
            self.submissions[int(thread[row])] = max(found, self.submissions.get(int(thread[row]), found))
        rows = np.flatnonzero(states < SUBMISSION)
        names = pa.concat_arrays([records["id"], records["parent"]]).dictionary_encode()
        name, parent = np.split(names.indices.to_numpy().astype(np.int64), [len(thread)])
        self.rows = self._without_copies(rows, thread, name)
        self.lost = Counter({"the same comment again": len(rows) - len(self.rows)})
        self.thread, self.state = thread[self.rows], states[self.rows]
        self.above = _above(self.thread, name[self.rows], parent[self.rows], len(names.dictionary))
        self.above[pc.equal(records["parent"], "").to_numpy(zero_copy_only=False)[self.rows]] = _SUBMISSION

    def _without_copies(self, rows: Numbers, thread: Numbers, name: Numbers) -> Numbers:
        """Return the rows of comments, each where it first appears.

        Of several records of one the greatest counts, by state, then parent, then text, whatever their order.
        """
        copied = rows[np.bincount(name[rows])[name[rows]] > 1]  # perhaps of comments of different threads
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
        return best[rows[kept[rows]]]

    def choose(self, drop_nsfw: bool) -> Numbers:
        """Return the comments that are kept and answer one that is kept; count the others by reason."""
        left = np.ones(len(self.rows), np.bool_)
        if drop_nsfw:
            states = np.zeros(int(self.thread.max(initial=-1)) + 1, np.uint8)
            for number, (state, _) in self.submissions.items():
                if number < len(states):
                    states[number] = state
            left = self._keep(left, states[self.thread] != OVER_18, "in a thread over 18")
            left = self._keep(left, states[self.thread] != 0, "in a thread whose submission is not there")
        left = self._keep_state(left, self.state, "")
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
        counts = np.bincount(state[left], minlength=SUBMISSION)
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


def _contexts(
    forest: _Forest, chosen: Numbers, steps: Numbers, settings: RedditSettings
) -> tuple[pa.LargeStringArray, Numbers]:
    """Return texts, and of each example the places of its messages among them, oldest first; -1: nothing is there.

    The texts are the records' own, then those of ancestors that are cut or not kept, then titles. Of an example's
    messages the first is the title, the last what is answered.

    Args:
        forest: all comments.
        chosen: the examples' responses.
        steps: of each example what the response answers, what that answers, and so on.
        settings: of the corpus.
    """
    records, rows, older = forest.records, forest.rows, steps[:, 1:]
    is_ancestor = np.zeros(len(rows), np.bool_)
    is_ancestor[older[older >= 0]] = True
    length = pc.utf8_length(records["text"].take(pa.array(rows))).to_numpy()
    other = np.flatnonzero(is_ancestor & ((length > settings.cut) | (forest.state != KEPT)))
    ancestors = [trim(text, settings.cut) for text in records["text"].take(pa.array(rows[other])).to_pylist()]
    place = rows.copy()
    place[other] = records.num_rows + np.arange(len(other))
    titles: list[str] = []
    title = np.full(int(forest.thread.max(initial=0)) + 1, -1)
    for thread, (_, text) in forest.submissions.items() if settings.titles else ():
        if text and thread < len(title):
            title[thread] = records.num_rows + len(other) + len(titles)
            titles.append(trim(text, settings.cut))
    reaches = (older == _SUBMISSION).any(axis=1)
    places = np.full((len(chosen), steps.shape[1] + 1), -1)
    places[:, 0] = np.where(reaches, title[forest.thread[chosen]], -1)
    places[:, -2:0:-1] = _look_up(place, older, -1)
    places[:, -1] = rows[steps[:, 0]]
    return pa.concat_arrays([records["text"], pa.array([*ancestors, *titles], pa.large_string())]), places


def _look_up(values: Any, places: Numbers, otherwise: int) -> Any:
    """Return the values at places; at negative ones what is given instead."""
    return np.where(places >= 0, values[np.maximum(places, 0)], otherwise)


CORPUS = Corpus(
    name="reddit",
    title="comments of Reddit and the comments that they answer",
    reads="monthly dumps of comments, RC_*.zst, and of submissions, RS_*.zst: newline-delimited JSON",
    licence="none stated; a comment is its author's, and Reddit's terms of use apply",
    origin="dumps that Pushshift published, which others pass on (Academic Torrents)",
    expected="2015 to 2018: 3.68 billion comments give 727M examples, 654M below 0.9 of the split (DATA19)",
    scatter=scatter,
    assemble=assemble,
    settings=RedditSettings,
)
