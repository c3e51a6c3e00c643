"""Reddit: from records of comments to examples; the trees of many threads at once, as arrays.

A comment is a number, its place in the list of all comments of the partition; a tree is the array that gives of each
comment the one above it. So all comments take a step up at the same time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rejoinder.corpora.lines import Reading
from rejoinder.corpora.reddit_names import carried, spell
from rejoinder.corpora.reddit_rules import KEPT, LOST, OVER_18, SUBMISSION, RedditSettings, trim
from rejoinder.corpora.tables import BASE_SCHEMA, BATCH_ROWS, GROUP_CHARACTERS

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_SUBMISSION, _MISSING, _NOTHING = -1, -2, -3
"""What is above a comment that has no comment above it: the submission; a comment that is not there; and beyond
these nothing."""


def assemble(records: pa.RecordBatch, reading: Reading, settings: RedditSettings) -> Generator[pa.RecordBatch]:
    """Give the examples of whole threads: thread after thread as they first appear, within one in the order of records.

    The set of examples does not depend on the order. Memory: the records, some times over.

    Args:
        records: columns as `reddit_rules.COLUMNS`, texts as large strings.
        reading: gets the counts, and says how much history is kept.
        settings: of the corpus.

    Yields:
        Examples, some thousands at a time.
    """
    if records.num_rows == 0:
        return
    forest = _Forest(records)
    lost: Counter[str] = Counter({"the same comment again": forest.copies})
    keep = np.ones(len(forest.rows), np.bool_)
    if settings.drop_nsfw:
        keep = forest.judge_threads(lost)
    chosen = forest.choose(keep, lost)
    for reason, count in lost.items():
        if count:
            reading.drop(reason, count)
    depth = settings.depth if reading.history is None else min(settings.depth, reading.history + 1)
    contexts = _Contexts(forest, chosen, depth, settings)
    reading.blank_messages += contexts.blank
    reading.cut_contexts += contexts.cut
    yield from contexts.examples()


class _Forest:
    """The comments of a partition, none twice.

    Attributes:
        records: as they came.
        rows: of each comment, its row in the records.
        thread: of each comment, the number of its thread, in the order in which threads appear.
        threads: the threads' own numbers.
        state: of each comment, as a character's number.
        above: of each comment, the one that it answers, or what is there instead (negative).
        submissions: of threads whose submission is there, its state and title.
        copies: records of comments that were there already.
    """

    def __init__(self, records: pa.RecordBatch) -> None:
        self.records = records
        threads = records["thread"].dictionary_encode()
        self.threads, thread = threads.dictionary.to_numpy(), threads.indices.to_numpy().astype(np.int64)
        states = records["state"].to_numpy()
        is_comment = states < ord(SUBMISSION)
        self.submissions = self._submissions(np.flatnonzero(~is_comment), thread)
        rows = np.flatnonzero(is_comment)
        names = pa.concat_arrays([records["id"], records["parent"]]).dictionary_encode()
        codes, count = names.indices.to_numpy(), len(names.dictionary)
        name, parent = codes[: len(thread)], codes[len(thread) :]
        self.rows = self._best(rows, thread, name)
        self.copies = len(rows) - len(self.rows)
        self.thread, self.state = thread[self.rows], states[self.rows]
        self.above = _above(self.thread, name[self.rows], parent[self.rows], count)
        self.above[records["parent"].to_numpy()[self.rows] == 0] = _SUBMISSION

    def _submissions(self, rows: Numbers, thread: Numbers) -> dict[int, tuple[str, str]]:
        """Of several records of one the greatest counts."""
        found: dict[int, tuple[str, str]] = {}
        for row in rows.tolist():
            told = chr(self.records["state"][row].as_py()), self.records["text"][row].as_py()
            number = int(thread[row])
            found[number] = max(told, found.get(number, told))
        return found

    def _best(self, rows: Numbers, thread: Numbers, name: Numbers) -> Numbers:
        """The rows without copies, each comment where it first appears.

        Of several records of one the greatest counts, whatever their order: one that says deleted, if any does.
        """
        copied = rows[np.bincount(name[rows])[name[rows]] > 1]  # perhaps of comments of different threads
        found: dict[tuple[int, int], list[Any]] = {}
        for row in copied.tolist():
            told = (*(self.records[column][row].as_py() for column in ("state", "parent", "text")), row)
            first = found.setdefault((int(thread[row]), int(name[row])), [row, told])
            first[1] = max(told, first[1])
        best = np.arange(self.records.num_rows)
        kept = np.ones(len(best), np.bool_)
        kept[copied] = False
        for row, told in found.values():
            best[row], kept[row] = told[-1], True
        return best[rows[kept[rows]]]

    def judge_threads(self, lost: Counter[str]) -> Flags:
        """Of each comment, whether its thread's submission is there and is not over 18."""
        states = np.zeros(len(self.threads), np.uint8)
        for number, (state, _) in self.submissions.items():
            states[number] = ord(state)
        mine = states[self.thread]
        lost["in a thread over 18"] += int((mine == ord(OVER_18)).sum())
        lost["in a thread whose submission is not there"] += int((mine == 0).sum())
        keep: Flags = mine == ord(SUBMISSION)
        return keep

    def choose(self, left: Flags, lost: Counter[str]) -> Numbers:
        """The comments that are kept and answer one that is kept; the others are counted by reason."""
        state, above = self.state, self.above
        left = _count_states(left, state, "", lost)
        ends = {_SUBMISSION: "answers the submission", _MISSING: "answers a comment that is not there"}
        for value, reason in ends.items():
            here = left & (above == value)
            lost[reason] += int(here.sum())
            left &= ~here
        left = _count_states(left, _look_up(state, above, 0), "answers a comment that is ", lost)
        circle = left & ~_ends(above)
        lost["in a circle of comments"] += int(circle.sum())
        chosen = np.flatnonzero(left & ~circle)
        return chosen[np.argsort(self.thread[chosen], kind="stable")]


def _above(thread: Numbers, name: Numbers, parent: Numbers, names: int) -> Numbers:
    """Of each comment the place of the one with its parent's name in its own thread, or `_MISSING`."""
    place = np.full(names, _MISSING)
    place[name] = np.arange(len(name))
    if (place[name] != np.arange(len(name))).any():  # a name in several threads: Reddit gives none twice
        codes = pa.array(thread * names + name)
        found: Numbers = pc.index_in(pa.array(thread * names + parent), value_set=codes).fill_null(_MISSING).to_numpy()
        return found.astype(np.int64)
    above = place[parent]
    return np.where(_look_up(thread, above, -1) == thread, above, _MISSING)


def _count_states(left: Flags, state: npt.NDArray[np.uint8], words: str, lost: Counter[str]) -> Flags:
    """Count by reason what is left and not `KEPT`; what is left then."""
    counts = np.bincount(state[left], minlength=128)
    for each, reason in LOST.items():
        lost[words + reason] += int(counts[ord(each)])
    return left & (state == ord(KEPT))


def _ends(above: Numbers) -> Flags:
    """Of each comment, whether the way up comes to an end. Steps are doubled, so deep threads take few."""
    count = len(above)
    up = np.append(np.where(above < 0, count, above), count)
    for _ in range(count.bit_length()):
        if (up == count).all():
            break
        up = up[up]
    ends: Flags = up[:-1] == count
    return ends


class _Contexts:
    """The texts of examples, as places in one long column: the records' texts, then those that are cut, then titles.

    Attributes:
        blank: messages of nothing but white space, which are left out.
        cut: contexts with an ancestor beyond the depth.
    """

    def __init__(self, forest: _Forest, chosen: Numbers, depth: int, settings: RedditSettings) -> None:
        self._forest, self._chosen = forest, chosen
        names = forest.records["names"]
        self._known = carried(names.filter(pc.not_equal(names, b"")).to_pylist())
        steps = [forest.above[chosen]]
        for _ in range(1, depth):
            steps.append(_look_up(forest.above, steps[-1], _NOTHING))
        self.cut = int((_look_up(forest.above, steps[-1], _NOTHING) >= 0).sum())
        older = np.stack(steps[1:], axis=1) if depth > 1 else np.empty((len(chosen), 0), np.int64)
        cut, texts = self._cut(older, settings.cut)
        titles, with_title = self._titles(older, settings)
        self._texts = pa.concat_arrays([forest.records["text"], pa.array([*texts, *titles], pa.large_string())])
        first = forest.records.num_rows
        # Oldest first: the title, ancestors, what is answered. -1: nothing is there.
        places = np.full((len(chosen), depth + 1), -1)
        places[:, depth] = forest.rows[steps[0]]
        places[:, depth - 1 : 0 : -1] = _look_up(cut, older, -1)
        places[:, 0] = np.where(with_title >= 0, with_title + first + len(texts), -1)
        is_blank = np.zeros(len(self._texts), np.bool_)
        is_blank[first:] = [not text or text.isspace() for text in (*texts, *titles)]
        there = places >= 0
        told = there & ~is_blank[places]
        self.blank = int(there.sum() - told.sum())
        self._places, self._told = places, told

    def _cut(self, older: Numbers, limit: int) -> tuple[Numbers, list[str]]:
        """Where the text of each comment is when it is an ancestor, and those texts that are not the records' own."""
        forest = self._forest
        used = np.zeros(len(forest.rows), np.bool_)
        used[older[older >= 0]] = True
        rows = forest.rows[used]
        long = pc.utf8_length(forest.records["text"].take(pa.array(rows))).to_numpy() > limit
        special = np.flatnonzero(used)[long | (forest.state[used] != ord(KEPT))]  # only what is not kept may be blank
        texts = forest.records["text"].take(pa.array(forest.rows[special])).to_pylist()
        places = forest.rows.copy()
        places[special] = forest.records.num_rows + np.arange(len(special))
        return places, [trim(text, limit) for text in texts]

    def _titles(self, older: Numbers, settings: RedditSettings) -> tuple[list[str], Numbers]:
        """Titles, and of each example the number of its own if its context reaches back to the submission, or -1."""
        known = self._forest.submissions if settings.titles else {}
        titles = [trim(title, settings.cut) for _, title in known.values()]
        number = np.full(len(self._forest.threads), -1)
        for place, (thread, title) in enumerate(zip(known, titles, strict=True)):
            number[thread] = place if title else -1
        reaches = (older == _SUBMISSION).any(axis=1)
        return titles, np.where(reaches, number[self._forest.thread[self._chosen]], -1)

    def examples(self) -> Iterator[pa.RecordBatch]:
        """Them, some thousands at a time, fewer where the texts are long."""
        lengths = _lengths(self._texts)
        size = np.where(self._told, lengths[self._places], 0).sum(axis=1).cumsum()
        start = 0
        while start < len(self._chosen):
            before = size[start - 1] if start else 0
            end = min(start + BATCH_ROWS, int(np.searchsorted(size, before + GROUP_CHARACTERS)) + 1)
            yield self._batch(slice(start, end))
            start = end

    def _batch(self, part: slice) -> pa.RecordBatch:
        forest, told = self._forest, self._told[part]
        rows = forest.rows[self._chosen[part]]
        ends = np.concatenate([np.zeros(1, np.int32), told.sum(axis=1).cumsum(dtype=np.int32)])
        messages = self._texts.take(pa.array(self._places[part][told])).cast(pa.string())
        columns = {
            "id": spell(forest.records["id"].to_numpy()[rows], self._known),
            "thread": spell(forest.threads[forest.thread[self._chosen[part]]], self._known),
            "source": pa.repeat("reddit", len(rows)),
            "context": pa.ListArray.from_arrays(pa.array(ends), messages),
            "response": forest.records["text"].take(pa.array(rows)),
        }
        arrays: Sequence[pa.Array] = [columns[field.name].cast(field.type) for field in BASE_SCHEMA]
        return pa.RecordBatch.from_arrays(arrays, schema=BASE_SCHEMA)


def _look_up(values: Any, places: Numbers, otherwise: int) -> Any:
    """The values at places; at negative ones what is given instead."""
    return np.where(places >= 0, values[np.maximum(places, 0)], otherwise)


def _lengths(texts: pa.LargeStringArray) -> Numbers:
    """Bytes of each text."""
    lengths: Numbers = pc.binary_length(texts).to_numpy()
    return lengths
