"""Reddit: comments out of monthly dumps, each with the comments that it answers.

Read are the files of newline-delimited JSON that hold all comments of a month, `RC_2018-01.zst` and so on, and for
titles and the over-18 mark those of submissions, `RS_2018-01.zst`; a line is told by its fields. A thread, the
comments below one submission, can be spread over months. So `scatter` makes a short record of each line, and
`assemble` builds the trees of whole threads and gives an example for every comment that, like the comment which it
answers, passes the filter of `reddit_rules`. Source: DATA19, section 3.1, and the code published with it.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Generator, Iterable, Iterator

import msgspec

from rejoinder.corpora.corpus import Block, Corpus
from rejoinder.corpora.example import Example
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.reddit_rules import (
    KEPT,
    LOST,
    OVER_18,
    SEPARATORS,
    SUBMISSION,
    RedditSettings,
    judge,
    pack,
    trim,
    unpack,
)

_Tree = dict[str, list[str]]
"""Comments of a thread by id, as `unpack` gives them: [thread, state, id, parent, text]."""


class _Line(msgspec.Struct, gc=False):
    """The fields of a line that are read; the other thirty are only skipped."""

    id: str
    link_id: str | None = None
    parent_id: str | None = None
    body: str | msgspec.UnsetType | None = msgspec.UNSET
    title: str | None = None
    author: str | None = None
    subreddit: str | None = None
    over_18: bool | None = None


_DECODER = msgspec.json.Decoder(_Line)


class _NotRedditError(ValueError):
    """A line that is JSON and neither a comment nor a submission."""


def scatter(block: Block, reading: Reading, settings: RedditSettings) -> Generator[tuple[bytes, bytes]]:
    """Read lines of a dump; give thread and record of each that counts.

    Raises:
        BadLineError: a line that is no comment or submission, unless bad lines are skipped.
    """
    decode, submissions = _DECODER.decode, settings.titles or settings.drop_nsfw
    wanted = {name.lower() for name in settings.subreddits}
    data = block.data.removeprefix(b"\xef\xbb\xbf") if block.number == 1 else block.data
    for number, line in enumerate(io.BytesIO(data), block.number):
        reading.lines += 1
        try:
            item = decode(line)
            link = item.link_id
            if wanted and (item.subreddit or "").lower() not in wanted:
                reading.drop("in another subreddit")
            elif link is not None:
                yield _comment(item, link, settings)
            elif item.title is None:
                raise _NotRedditError("neither link_id nor title")
            elif submissions:
                yield _submission(item, settings)
            else:
                reading.drop("a submission (only used for titles and drop_nsfw)")
        except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
            if line.isspace():
                reading.lines -= 1
                continue
            what = "a comment (id, link_id, parent_id, body) or submission (id, title) of Reddit is read, one a line"
            reading.bad_line(block.path, number, f"{error}; {what}")


def _comment(item: _Line, link: str, settings: RedditSettings) -> tuple[bytes, bytes]:
    """Thread and record of a comment. Hundreds of millions of times: so few calls and copies."""
    name, parent, body = item.id, item.parent_id, item.body
    thread = link.removeprefix("t3_")
    if not name or not thread or len(thread) == len(link):
        raise _NotRedditError(f"link_id is {link[:20]!r} and id {name[:20]!r}")
    if parent == link or not parent or parent[:3] == "t3_":  # some dumps say null for an answer to the submission
        above = ""
    else:
        above = parent.removeprefix("t1_")
        if len(above) == len(parent):
            raise _NotRedditError(f"parent_id is {parent[:20]!r}")
    if body is None:
        body = "[deleted]"
    elif body is msgspec.UNSET:
        raise _NotRedditError("a comment without body")
    state = judge(body, item.author, settings)
    if state != KEPT:
        body = body[: settings.cut + 1]  # all that an ancestor's cut can need
    record = pack(thread, state, name, above, body)
    # Zero bytes separate the fields. One more is rare, and harmless in the body, which stands last.
    if record.count(0) != SEPARATORS and "\0" in thread + name + above:
        raise _NotRedditError(f"a zero character in the id {name[:20]!r}, the link_id or the parent_id")
    return thread.encode(), record


def _submission(item: _Line, settings: RedditSettings) -> tuple[bytes, bytes]:
    name = item.id
    if not name or "\0" in name:
        raise _NotRedditError(f"id is {name[:20]!r}")
    title = (item.title or "")[: settings.cut + 1]
    return name.encode(), pack(name, OVER_18 if item.over_18 else SUBMISSION, name, "", title)


def assemble(records: Iterable[bytes], reading: Reading, settings: RedditSettings) -> Generator[Example]:
    """Give the examples of whole threads: thread after thread as they first appear, within one in the order of records.

    The set of examples does not depend on the order. Memory: the records, once, and the tree of one thread.
    """
    threads: dict[bytes, list[bytes]] = {}
    for record in records:
        name = record[: record.index(0)]
        group = threads.get(name)
        if group is None:
            threads[name] = [record]
        else:
            group.append(record)
    lost: Counter[str] = Counter()
    try:
        for name, group in threads.items():
            tree, submission = _tree(group, lost)
            group.clear()  # so that memory only falls from here on
            if not settings.drop_nsfw or _is_clean(tree, submission, lost):
                title = submission[-1] if submission and settings.titles else ""
                yield from _Thread(name.decode(), tree, title, reading, settings).examples(lost)
    finally:
        for reason, count in lost.items():
            reading.drop(reason, count)


def _tree(records: list[bytes], lost: Counter[str]) -> tuple[_Tree, list[str] | None]:
    """The comments of a thread, and its submission, if that is there.

    Of several records of one comment the greatest counts, whatever their order: one that says deleted, if any does.
    """
    tree: _Tree = {}
    submission: list[str] | None = None
    for record in records:
        comment = unpack(record)
        _, state, name, _, _ = comment
        if state >= SUBMISSION:
            submission = comment if submission is None else max(submission, comment)
        elif name not in tree:
            tree[name] = comment
        else:
            tree[name] = max(tree[name], comment)
            lost["the same comment again"] += 1
    return tree, submission


def _is_clean(tree: _Tree, submission: list[str] | None, lost: Counter[str]) -> bool:
    if submission is not None and submission[1] == SUBMISSION:
        return True
    lost["in a thread over 18" if submission else "in a thread whose submission is not there"] += len(tree)
    return False


class _Thread:
    """A thread on the way to its examples."""

    def __init__(self, name: str, tree: _Tree, title: str, reading: Reading, settings: RedditSettings) -> None:
        self._name, self._tree, self._reading = name, tree, reading
        self._title = trim(title, settings.cut)
        self._depth, self._cut = min(settings.depth, reading.history + 1), settings.cut
        self._ends: dict[str, bool] = {}

    def examples(self, lost: Counter[str]) -> Iterator[Example]:
        """An example for each comment that is kept and answers one that is kept; the others are counted by reason."""
        tree = self._tree
        for name, (_, state, _, parent, text) in tree.items():
            if state != KEPT:
                lost[LOST[state]] += 1
            elif not parent:
                lost["answers the submission"] += 1
            elif parent not in tree:
                lost["answers a comment that is not there"] += 1
            elif tree[parent][1] != KEPT:
                lost["answers a comment that is " + LOST[tree[parent][1]]] += 1
            elif (context := self._context(parent)) is None:
                lost["in a circle of comments"] += 1
            else:
                yield Example(context, text, name, self._name, "reddit")

    def _context(self, parent: str) -> tuple[str, ...] | None:
        """The message answered and its ancestors, oldest first; None if these go round in a circle."""
        tree, cut = self._tree, self._cut
        _, _, _, above, text = tree[parent]
        messages = [text]
        for _ in range(1, self._depth):
            if above not in tree:
                break
            _, _, _, above, text = tree[above]
            messages.append(text if len(text) <= cut else trim(text, cut))
        else:
            # The context is full, and only now may its ancestors go on for ever.
            return None if above in tree and not self._end(above) else self._oldest_first(messages)
        if not above and self._title:
            messages.append(self._title)
        return self._oldest_first(messages)

    def _end(self, name: str) -> bool:
        """Whether the ancestors of a comment come to an end. Each comment is walked over once, however deep they go."""
        path, ends = [], self._ends
        while name not in ends and name in self._tree:
            ends[name] = False  # what is met again before the end is a circle
            path.append(name)
            name = self._tree[name][3]
        result = ends.get(name, True)
        for passed in path:
            ends[passed] = result
        return result

    def _oldest_first(self, messages: list[str]) -> tuple[str, ...]:
        """The messages, newest first, the other way round and without blank ones. The newest is never blank."""
        told = [message for message in messages if message and not message.isspace()]
        self._reading.blank_messages += len(messages) - len(told)
        return tuple(reversed(told))


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
