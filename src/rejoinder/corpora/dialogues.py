"""From a dialogue to examples: every turn with what precedes it."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterator, Sequence

from rejoinder.corpora.example import Example
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.splits import content_thread

_REMEMBERED_ROOTS = 1_000
_REMEMBERED_NEIGHBOURS = 100_000


def dialogue_examples(
    turns: Sequence[str], *, name: str, thread: str, source: str, first: int = 1, reading: Reading | None = None
) -> Iterator[Example]:
    """Make an example of each turn from `first` on: the turn is the response, those before it are the context.

    Blank turns are left out as if nobody had spoken: they are neither responses nor messages of a context.

    Args:
        turns: what was said, in order.
        name: id of the dialogue; an example's is `name:index of its response among the turns`.
        thread: the thread of all of them.
        source: name of the corpus.
        first: index of the first turn that is a new response (`from` in a file).
        reading: how much history to keep; 10 messages before the newest one as in DATA19 if not given.
    """
    reading = reading or Reading()
    places = [index for index, turn in enumerate(turns) if turn.strip()]
    spoken = [turns[index] for index in places]
    for count, index in enumerate(places):
        if count > 0 and index >= first:
            yield Example(reading.newest(spoken[:count]), turns[index], f"{name}:{index}", thread, source)


class Threads:
    """Threads for the dialogues of one file that name none: the hash of a dialogue's whole text.

    A line whose first new response comes later than at index 1 shows that the file holds reply trees, written as
    one line for each branch (the first turns of which may be cut off). Such a line belongs to the thread of an earlier
    line that has the two turns before its first new response one after the other, or that begins with the same turn.
    From there on the last also holds for lines that are new from index 1, so that a tree's branches are not split.
    Remembered are the last 1,000 first turns and 100,000 neighbouring turns, by their hashes: some 20 MB.
    """

    def __init__(self) -> None:
        self._trees = False
        self._roots: OrderedDict[int, str] = OrderedDict()
        self._neighbours: OrderedDict[int, str] = OrderedDict()

    def find(self, turns: Sequence[str], first: int) -> str:
        """Return the thread of a dialogue; ask once for each dialogue, in the order of the file."""
        root, neighbours = hash(tuple(turns[:1])), [hash(pair) for pair in itertools.pairwise(turns)]
        found = self._neighbours.get(neighbours[first - 2]) if first > 1 else None
        self._trees = self._trees or first > 1
        if self._trees and found is None:
            found = self._roots.get(root)
        thread = content_thread(turns) if found is None else found
        remembered = ((self._roots, [root], _REMEMBERED_ROOTS), (self._neighbours, neighbours, _REMEMBERED_NEIGHBOURS))
        for recent, keys, most in remembered:
            for key in keys:
                recent[key] = thread
                recent.move_to_end(key)
                if len(recent) > most:
                    recent.popitem(last=False)
        return thread
