"""Learning from old chats and from the log of an index: which replies were sent, in answer to what.

An agent's message is a reply of the index if the words are the same (`text_key`), if it is the
reply with its placeholders filled in, or if it is a near-copy: a typo, a word more or less. The
conversation before it becomes an example of the reply, and so does one of the log for which the
reply was chosen.
"""

from __future__ import annotations

import functools
import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rejoinder.arrays import FloatArray
from rejoinder.conversations import Conversation, read_contexts
from rejoinder.corpora import Candidate, Example, text_key, thread_share, words_of
from rejoinder.encoders import DualEncoder
from rejoinder.errors import InputError
from rejoinder.progress import Advance, silent
from rejoinder.retrieval.alignment import align
from rejoinder.retrieval.feedback import Entry
from rejoinder.retrieval.manifest import read_runs
from rejoinder.retrieval.replies import Segment, value_texts
from rejoinder.retrieval.scoring import encode_conversations
from rejoinder.retrieval.templates import PLACEHOLDER
from rejoinder.retrieval.turns import clean_context

MOST_EXAMPLES = 20  # of a reply, its own included
NEWEST = 4  # messages of a conversation that become an example
HELD_OUT = 0.2  # share of the conversations by which what was learned is measured
RANKS = (1, 3, 10)
_RAREST = 8  # words of a message by which replies are looked for
_REMEMBERED = 10_000  # messages whose reply was looked for
_TRIED = 5  # replies that a message is compared with, word by word
_LEAST_ALIKE = 0.8  # of the likeness
_LEAST_ALIKE_WORDS = 0.65  # share of the letters that two words have in common
_ADDED_COST = 0.2  # of as many words beside a reply as it has
_MOST_FILLED = 6  # words that stand for a placeholder
_LONGEST_COMPARED = 60  # letters of a word; the time of a comparison grows with their square


class Match(NamedTuple):
    """A reply that was sent, by its position, in answer to a conversation."""

    position: int
    context: tuple[str, ...]
    thread: str


@dataclass(frozen=True, slots=True)
class Learned:
    """The result of learning from chats."""

    messages: int  # that were looked at
    matched: int  # of them were replies of the index
    chosen: int  # choices in the index's log that count
    examples: int  # that the index has learned now
    unsent: tuple[int, ...]  # positions of replies that nobody sent
    held_out: int  # matched messages by which the index was measured
    before: Mapping[int, float]  # share of these whose reply was among the first k
    after: Mapping[int, float]


class ReplyMatcher:
    """Recognises the replies of an index in messages that people sent."""

    def __init__(self, replies: Iterable[tuple[int, Candidate]]) -> None:
        self._exact: dict[str, int] = {}
        self._texts: list[
            tuple[int, list[str], int]
        ] = []  # position, words, number of placeholders
        postings: defaultdict[str, list[int]] = defaultdict(list)
        for position, reply in replies:
            self._exact.setdefault(text_key(reply.text), position)
            bare, count = PLACEHOLDER.subn(" ", reply.text)
            for word in set(words_of(bare)):
                postings[word].append(len(self._texts))
            self._texts.append((position, words_of(bare), count))
        self._postings = postings
        self._cached = functools.lru_cache(_REMEMBERED)(self._find)

    def find(self, message: str) -> int | None:
        """Return the position of the reply that a message is; None: of none, or of two alike."""
        exact = self._exact.get(text_key(message))
        return self._cached(message) if exact is None else exact

    def _find(self, message: str) -> int | None:
        words = words_of(message)
        known = sorted(
            set(words) & self._postings.keys(), key=lambda word: len(self._postings[word])
        )
        scores: defaultdict[int, float] = defaultdict(float)
        for word in known[:_RAREST]:
            rows = self._postings[word]
            weight = math.log(1 + len(self._texts) / len(rows))
            for row in rows:
                scores[row] += weight
        likely = heapq.nlargest(_TRIED, scores, key=lambda row: scores[row])
        rated = sorted(
            ((self._likeness(words, row), row) for row in likely),
            reverse=True,
        )
        if (
            not rated
            or rated[0][0] < _LEAST_ALIKE
            or (len(rated) > 1 and rated[1][0] == rated[0][0])
        ):
            return None
        return self._texts[rated[0][1]][0]

    def _likeness(self, words: Sequence[str], row: int) -> float:
        """Return the share of a reply's letters that a message has, less what it has beside.

        The letters are in the same order.

        A mistyped word counts as the word. What may have filled placeholders is not beside.

        """
        _, own, placeholders = self._texts[row]
        # With more words beside it than that, none is alike.
        most = 2 * len(own) + placeholders * _MOST_FILLED
        alignment = align(own, words) if len(words) <= most else None
        if alignment is None:
            return 0.0
        total = sum(map(len, own))
        missing = 0.0
        added = 0
        for kind, start, end, first, last in alignment.get_opcodes():
            if (
                kind == "replace"
                and end - start == last - first
                and all(
                    _mistyped(a, b) for a, b in zip(own[start:end], words[first:last], strict=True)
                )
            ):
                continue
            if kind != "equal":
                missing += sum(map(len, own[start:end]))
                added += last - first
        added = max(0, added - placeholders * _MOST_FILLED)
        return (total - missing) / max(1, total) - _ADDED_COST * added / max(1, len(own))


def _mistyped(one: str, other: str) -> bool:
    """Return whether two words may be the same one, mistyped; numbers never are."""
    short = max(len(one), len(other)) <= _LONGEST_COMPARED
    letters = short and one.isalpha() and other.isalpha()
    return (
        letters and SequenceMatcher(None, one, other, autojunk=False).ratio() >= _LEAST_ALIKE_WORDS
    )


def match(
    replies: Iterable[tuple[int, Candidate]],
    examples: Sequence[Example],
    progress: Advance = silent,
) -> list[Match]:
    """Return which responses of examples are replies of the index. `progress` counts examples."""
    matcher = ReplyMatcher(replies)
    matches = []
    for example in examples:
        position = matcher.find(example.response)
        context = tuple(text for text in example.context[-NEWEST:] if text.strip())
        if position is not None and context:
            matches.append(
                Match(position, context, example.thread or " ".join(example.context[:1]))
            )
        progress(1)
    return matches


def unsent(replies: Mapping[int, Candidate], matches: Sequence[Match]) -> tuple[int, ...]:
    """Return the positions of replies that nobody sent, nor a copy of them."""
    sent = {text_key(replies[each.position].text) for each in matches}
    return tuple(at for at, reply in replies.items() if text_key(reply.text) not in sent)


def held_out(matches: Sequence[Match]) -> npt.NDArray[np.bool_]:
    """Return which matches are of the conversations by which what was learned is measured."""
    return np.array([thread_share(each.thread) > 1 - HELD_OUT for each in matches], dtype=np.bool_)


def with_examples(
    encoder: DualEncoder, replies: Mapping[int, Candidate], matches: Sequence[Match]
) -> dict[int, Candidate]:
    """Return the replies, by position, that learn examples.

    Of the examples those that differ most are taken, up to `MOST_EXAMPLES`.
    """
    contexts: defaultdict[int, dict[str, tuple[str, ...]]] = defaultdict(dict)
    for position, written, _ in matches:
        context = clean_context(written)
        contexts[position].setdefault(text_key(" ".join(context)), context)
    changed = {}
    for position, by_key in contexts.items():
        reply = replies[position]
        known = (*reply.examples, *reply.learned)
        for each in known:
            by_key.pop(text_key(" ".join(each)), None)
        room = MOST_EXAMPLES - len(known)
        if by_key and room > 0:
            own = [*known, *by_key.values()]
            chosen = most_different(encode_conversations(encoder, own), len(known), room)
            changed[position] = replace(
                reply, learned=(*reply.learned, *(own[row] for row in chosen))
            )
    return changed


def most_different(vectors: FloatArray, known: int, count: int) -> list[int]:
    """Return at most `count` rows after the first `known`.

    Each is the farthest from those before it.
    """
    chosen: list[int] = []
    nearest = (
        (vectors[:known] @ vectors.T).max(axis=0) if known else vectors @ -vectors.mean(axis=0)
    )
    nearest[:known] = np.inf
    while len(chosen) < min(count, len(vectors) - known):
        row = int(nearest.argmin())
        if not known and not chosen:
            nearest = np.full(len(vectors), -np.inf, np.float32)
        chosen.append(row)
        nearest = np.maximum(nearest, vectors @ vectors[row])
        nearest[row] = np.inf
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of the replies that were offered for a conversation.

    Without `chosen` and `text` none of them was taken.
    """

    messages: Conversation
    offered: Sequence[int | str] = ()  # positions, or texts of the field id, in the order shown
    chosen: int | str | None = None  # likewise
    text: str | None = None  # what was sent instead
    source: str | None = None  # whose feedback it is; a digest of it is kept
    texts: Sequence[str] | None = None  # of the replies offered when they were, if known


@dataclass(frozen=True, slots=True)
class Recorded:
    """An entry that is written: its number, and the position of the reply that counts as taken."""

    id: int
    chosen: int | None


class KnownReplies:
    """The replies of some segments by position, by their field id, and by what people send."""

    def __init__(self, folder: Path, segments: Sequence[Segment], deleted: str) -> None:
        self.segments = segments
        self.deleted = deleted  # positions, as runs
        self._folder = folder

    def position(self, name: int | str) -> int:
        """Return the position of a reply that is named by it or by the field id of its payload."""
        if not isinstance(name, str):
            return name
        if name not in self._by_id:
            raise InputError(
                f"no reply of {self._folder} has the id {name[:60]!r}; name a reply by its "
                "position, a number, or by the field id of its payload, a text"
            )
        return self._by_id[name]

    def text(self, position: int) -> str:
        """Return the text of the reply at a position, which may have been deleted since."""
        for segment in self.segments:
            if segment.record.first <= position < segment.record.end:
                row = int(segment.rows(np.array([position]))[0])
                if 0 <= row < segment.record.count and segment.position(row) == position:
                    return segment.candidate(row).text
        raise InputError(f"{self._folder} has no reply {position}")

    def find(self, text: str) -> int | None:
        """Return the position of the reply that a text is, filled in or mistyped; None: of none."""
        return self._matcher.find(text)

    @functools.cached_property
    def _matcher(self) -> ReplyMatcher:
        return ReplyMatcher(self._present())

    @functools.cached_property
    def _by_id(self) -> dict[str, int]:
        positions: dict[str, int] = {}
        for position, reply in self._present():
            if "id" in reply.payload:
                for name in value_texts(reply.payload["id"]):
                    positions.setdefault(name, position)
        return positions

    def _present(self) -> Iterator[tuple[int, Candidate]]:
        gone = set(read_runs(self.deleted).tolist())
        for segment in self.segments:
            for row, line in enumerate(segment.lines()):
                if segment.position(row) not in gone:
                    yield segment.position(row), line.candidate()

    def entry(self, outcome: Outcome) -> tuple[Entry, int | None]:
        """Return the entry of an outcome, and the position of the reply that counts as taken.

        Raises:
            InputError: the conversation has no message, or a reply is none of the index.
        """
        [context] = read_contexts([outcome.messages])
        positions = [self.position(name) for name in outcome.offered]
        offered = outcome.texts or [self.text(position) for position in positions]
        chosen = None if outcome.chosen is None else self.position(outcome.chosen)
        sent = outcome.text if outcome.text and outcome.text.strip() else None
        if chosen is None and sent is not None:
            chosen = self.find(sent)
            sent = sent if chosen is None else None
        text = None
        if chosen is not None:
            text = dict(zip(positions, offered, strict=True)).get(chosen) or self.text(chosen)
            if sent is not None and text_key(sent) == text_key(text):
                sent = None
        newest = tuple(message for message in context if message.strip())[-NEWEST:]
        return Entry(newest, tuple(offered), text, sent, outcome.source or ""), chosen


MOST_OF_SOURCE = 5  # conversations with one reply that a source may make examples


def positions_by_text(
    replies: Mapping[int, Candidate], renamed: Mapping[str, str]
) -> dict[str, int]:
    """Return the positions of replies by the keys of their texts, of now and of before."""
    positions: dict[str, int] = {}
    for position, reply in replies.items():
        positions.setdefault(text_key(reply.text), position)
    for old, new in renamed.items():
        if new in positions:
            positions.setdefault(old, positions[new])
    return positions


def chosen_matches(positions: Mapping[str, int], entries: Iterable[Entry]) -> list[Match]:
    """Return the choices that become examples, oldest first.

    `positions` are those of replies by text.

    Where equal conversations were answered with different replies, the one that most sources have
    chosen counts, of these the one that was chosen most often, of these the newest. Of a source,
    the first `MOST_OF_SOURCE` conversations with a reply count, so that nobody's mistakes outweigh
    what others choose.
    """
    by_context: defaultdict[str, list[tuple[int, Entry]]] = defaultdict(list)
    for entry in entries:
        if entry.chosen is None:
            continue
        at = positions.get(text_key(entry.chosen))
        if at is not None:
            by_context[text_key(" ".join(entry.context))].append((at, entry))
    chosen = sorted(map(_winner, by_context.values()), key=lambda pair: pair[1].id)
    counts: Counter[tuple[int, str]] = Counter()
    matches = []
    for position, entry in chosen:
        counts[position, entry.source] += 1
        if counts[position, entry.source] <= MOST_OF_SOURCE:
            matches.append(Match(position, entry.context, str(entry.id)))
    return matches


def _winner(choices: list[tuple[int, Entry]]) -> tuple[int, Entry]:
    """Return the reply of equal conversations, with the first entry that chose it."""
    entries: defaultdict[int, list[Entry]] = defaultdict(list)
    for position, entry in choices:
        entries[position].append(entry)

    def weight(position: int) -> tuple[int, int, int]:
        own = entries[position]
        return len({entry.source for entry in own}), len(own), own[-1].id

    best = max(entries, key=weight)
    return best, entries[best][0]
