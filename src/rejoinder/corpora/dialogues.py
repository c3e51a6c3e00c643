"""Dialogues: the examples of a conversation, and its thread."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rejoinder.corpora.lines import Reading
from rejoinder.corpora.schema import Example
from rejoinder.corpora.splits import content_thread

_REMEMBERED_ROOTS = 1_000
_REMEMBERED_NEIGHBOURS = 100_000


@dataclass(frozen=True, slots=True)
class Dialogue(Sequence[Example]):
    """The examples of a dialogue, made on access: their contexts grow with its length squared."""

    spoken: Sequence[str]
    responses: Sequence[tuple[int, int]]  # index among `spoken`, and in the example's id
    name: str
    thread: str
    source: str
    reading: Reading

    def __len__(self) -> int:
        return len(self.responses)

    def __getitem__(self, number: Any) -> Any:
        index, name = self.responses[number]
        context = self.reading.newest(self.spoken[:index])
        return Example(context, self.spoken[index], f"{self.name}:{name}", self.thread, self.source)


def dialogue_examples(
    turns: Sequence[str],
    *,
    name: str,
    thread: str,
    source: str,
    reading: Reading,
    first: int = 1,
    responses: Container[int] | None = None,
) -> Dialogue:
    """Return an example for each turn from index `first` on, with the turns before it as context.

    With `responses`, only for turns whose index is in it. Blank turns are left out. The id of an
    example is `name:index of its response among the turns`.
    """
    indices = [index for index, turn in enumerate(turns) if turn.strip()]
    chosen = [
        (count, index)
        for count, index in enumerate(indices)
        if count > 0 and index >= first and (responses is None or index in responses)
    ]
    return Dialogue([turns[index] for index in indices], chosen, name, thread, source, reading)


class Threads:
    """Threads for dialogues of a file that name none: the hash of a dialogue's whole text.

    A line whose first new response comes later than at index 1 shows that the file holds reply
    trees, one line a branch (whose first turns may be missing). Such a line belongs to the thread
    of an earlier line that has the two turns before its first new response one after the other, or
    that begins with the same turn. From there on the latter also holds for lines that are new from
    index 1. It remembers some 20 MB.
    """

    def __init__(self) -> None:
        self._trees = False
        self._roots: OrderedDict[int, str] = OrderedDict()
        self._neighbours: OrderedDict[int, str] = OrderedDict()

    def find(self, turns: Sequence[str], first: int) -> str:
        """Return the thread of a dialogue; call it once for each dialogue, in the file's order."""
        root = hash(tuple(turns[:1]))
        neighbours = [hash(pair) for pair in itertools.pairwise(turns)]
        thread = self._neighbours.get(neighbours[first - 2]) if first > 1 else None
        self._trees = self._trees or first > 1
        if self._trees and thread is None:
            thread = self._roots.get(root)
        if thread is None:
            thread = content_thread(turns)
        _remember(self._roots, [root], thread, _REMEMBERED_ROOTS)
        _remember(self._neighbours, neighbours, thread, _REMEMBERED_NEIGHBOURS)
        return thread


def _remember(recent: OrderedDict[int, str], keys: Iterable[int], thread: str, limit: int) -> None:
    for key in keys:
        recent[key] = thread
        recent.move_to_end(key)
        if len(recent) > limit:
            recent.popitem(last=False)
