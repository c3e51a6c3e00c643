"""From a dialogue to examples: every turn with what precedes it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from rejoinder.corpora.example import Example
from rejoinder.corpora.splits import content_thread

_REMEMBERED_ROOTS = 1_000


def dialogue_examples(
    turns: Sequence[str], *, name: str, thread: str, source: str, first: int = 1, history: int = 10
) -> Iterator[Example]:
    """Make an example of each turn from `first` on: the turn is the response, those before it are the context.

    Blank turns (nothing but white space) are left out as if nobody had spoken: they are neither responses nor
    messages of a context. Other texts stay as they are.

    Args:
        turns: what was said, in order.
        name: id of the dialogue; an example's is `name:index of its response among the turns`.
        thread: the thread of all of them.
        source: name of the corpus.
        first: index of the first turn that is a new response (`from` in a file).
        history: messages kept before the newest one of a context; 10 as in DATA19, so a context has at most 11.
    """
    spoken = [(index, turn) for index, turn in enumerate(turns) if turn.strip()]
    for place, (index, response) in enumerate(spoken):
        if place > 0 and index >= first:
            context = tuple(turn for _, turn in spoken[max(0, place - 1 - history) : place])
            yield Example(context, response, f"{name}:{index}", thread, source)


class Threads:
    """Threads for the dialogues of one file that name none: the hash of a dialogue's whole text.

    A line whose first new response comes later than at index 1 shows that the file holds reply trees, written as
    one line for each branch. From there on, lines that begin with the same turn as one of the last thousand trees
    are of one thread, so that a tree's branches are never split.
    """

    def __init__(self) -> None:
        self._trees = False
        self._roots: OrderedDict[str, str] = OrderedDict()

    def of(self, turns: Sequence[str], first: int) -> str:
        """The thread of a dialogue; ask once for each dialogue, in the order of the file."""
        self._trees = self._trees or first > 1
        root, thread = content_thread(turns[:1]), content_thread(turns)
        if self._trees:
            thread = self._roots.get(root, thread)
        self._roots[root] = thread
        self._roots.move_to_end(root)
        if len(self._roots) > _REMEMBERED_ROOTS:
            self._roots.popitem(last=False)
        return thread
