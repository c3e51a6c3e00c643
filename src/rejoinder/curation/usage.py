"""Statistics of an index's log: how often its replies were taken, and which it lacks."""

from __future__ import annotations

import datetime
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rejoinder.arrays import FloatArray, unit_rows
from rejoinder.corpora.keys import text_key, words_of
from rejoinder.corpora.schema import Candidate
from rejoinder.curation.changes import renamed
from rejoinder.curation.choices import positions_by_text
from rejoinder.curation.feedback import Entry, FeedbackLog, Taken
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.errors import import_extra
from rejoinder.retrieval.encoding.background import encode_background
from rejoinder.retrieval.encoding.head import takes_examples
from rejoinder.retrieval.encoding.scoring import whitening_matrix
from rejoinder.retrieval.encoding.views import encode_conversations
from rejoinder.retrieval.reader import IndexReader

SHOWN = 20  # rows of each list
MOST_MESSAGES = 2000  # that are encoded, the newest
DAYS = 31  # above, periods are weeks
DISTANCE = 0.65  # mean distance, 1 - cosine of whitened vectors, below which groups are one
UNLIKE = 0.05  # share of the examples that are less like the others than an unlike message is
WORDS = 5  # of a group
MESSAGES = 3  # of a group, and texts that were sent in answer to it
TAKEN: tuple[Taken, ...] = ("first", "offered", "unoffered", "text", "none")


@dataclass(frozen=True, slots=True)
class Period:
    """A day or a week, in the server's time."""

    start: str  # date in ISO's form
    entries: int
    taken: Mapping[Taken, int]
    unlike: float | None  # share of messages that are unlike all examples; None: not measured


@dataclass(frozen=True, slots=True)
class Confusion:
    """A reply that was taken where another one was offered first."""

    taken: int  # position
    first: int  # position
    entries: int
    message: str  # one of them


@dataclass(frozen=True, slots=True)
class UnusedReply:
    """A reply that nobody took."""

    position: int
    offered: int  # how often


@dataclass(frozen=True, slots=True)
class MessageGroup:
    """Messages alike for which no reply was taken."""

    entries: int
    words: tuple[str, ...]  # that tell them from the others
    messages: tuple[str, ...]  # the most frequent ones
    sent: tuple[str, ...]  # what was sent instead, most frequent first


@dataclass(frozen=True, slots=True)
class Usage:
    """The use of an index, as far as its log goes back."""

    entries: int
    replies: int
    taken: Mapping[Taken, int]
    periods: tuple[Period, ...]
    period: str  # "day" or "week"
    unused: tuple[UnusedReply, ...]  # those offered most often first
    unused_count: int
    confusions: tuple[Confusion, ...]
    unanswered: int  # messages for which no reply was taken
    groups: tuple[MessageGroup, ...]
    unlike: float | None  # share of the newest messages that are unlike all examples


def usage(index: IndexReader, log: FeedbackLog) -> Usage:
    """Return what the log of an index tells of it.

    Messages are compared by the index's model, the newest `MOST_MESSAGES` of them.

    Raises:
        MissingExtraError: scikit-learn is missing.
    """
    replies = dict(index)
    entries = list(log)
    unlike = _unlike(index.model, replies, entries)
    periods, name = _periods(entries, unlike)
    positions = positions_by_text(replies, renamed(log.database))
    unused = _unused(replies, positions, entries)
    missed = [entry for entry in entries if entry.taken in ("text", "none") and entry.context]
    known = [value for value in unlike if value is not None]
    return Usage(
        entries=len(entries),
        replies=len(replies),
        taken=_counts(entries),
        periods=periods,
        period=name,
        unused=tuple(unused[:SHOWN]),
        unused_count=len(unused),
        confusions=_confusions(positions, entries),
        unanswered=len(missed),
        groups=_groups(index.model, missed[-MOST_MESSAGES:]),
        unlike=float(np.mean(known)) if known else None,
    )


def _counts(entries: Iterable[Entry]) -> dict[Taken, int]:
    counts = Counter(entry.taken for entry in entries)
    return {name: counts[name] for name in TAKEN}


def _periods(
    entries: Sequence[Entry], unlike: Sequence[bool | None]
) -> tuple[tuple[Period, ...], str]:
    """Return the days, or of a longer time the weeks, from Monday, in which there are entries."""
    days = [datetime.datetime.fromtimestamp(entry.time).astimezone().date() for entry in entries]
    by_week = bool(days) and (max(days) - min(days)).days >= DAYS
    rows: defaultdict[datetime.date, list[int]] = defaultdict(list)
    for row, day in enumerate(days):
        rows[day - datetime.timedelta(days=day.weekday() if by_week else 0)].append(row)
    periods = []
    for start in sorted(rows):
        known = [value for row in rows[start] if (value := unlike[row]) is not None]
        periods.append(
            Period(
                start.isoformat(),
                len(rows[start]),
                _counts(entries[row] for row in rows[start]),
                float(np.mean(known)) if known else None,
            )
        )
    return tuple(periods), "week" if by_week else "day"


def _unused(
    replies: Mapping[int, Candidate], positions: Mapping[str, int], entries: Sequence[Entry]
) -> list[UnusedReply]:
    taken = {positions.get(text_key(entry.chosen)) for entry in entries if entry.chosen is not None}
    offered = Counter(positions.get(text_key(text)) for entry in entries for text in entry.offered)
    first = {at: positions[text_key(reply.text)] for at, reply in replies.items()}  # of equal ones
    unused = [UnusedReply(at, offered[own]) for at, own in first.items() if own not in taken]
    return sorted(unused, key=lambda reply: (-reply.offered, reply.position))


def _confusions(positions: Mapping[str, int], entries: Sequence[Entry]) -> tuple[Confusion, ...]:
    pairs: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    for entry in entries:
        if entry.chosen is not None and entry.offered and entry.context:
            taken = positions.get(text_key(entry.chosen))
            first = positions.get(text_key(entry.offered[0]))
            if taken is not None and first is not None and taken != first:
                pairs[taken, first].append(entry.context[-1])
    frequent = sorted(pairs, key=lambda pair: (-len(pairs[pair]), pair))[:SHOWN]
    return tuple(
        Confusion(taken, first, len(pairs[taken, first]), pairs[taken, first][-1])
        for taken, first in frequent
    )


def _unlike(
    encoder: DualEncoder, replies: Mapping[int, Candidate], entries: Sequence[Entry]
) -> list[bool | None]:
    """Return of each entry whether its message is unlike all examples; None: not measured.

    A message is unlike them if it is less like the nearest of them than all but `UNLIKE` of the
    examples are like the nearest of the others. Equal messages are not examples of each other.
    """
    results: list[bool | None] = [None] * len(entries)
    examples = {
        text_key(example[-1]): example[-1]
        for reply in replies.values()
        for example in (*reply.examples, *reply.learned)
    }
    rows = [row for row, entry in enumerate(entries) if entry.context][-MOST_MESSAGES:]
    if len(examples) < 2 or not rows or not takes_examples(encoder):
        return results
    vectors = encode_conversations(encoder, [[text] for text in examples.values()])
    messages = [entries[row].context[-1] for row in rows]
    own = encode_conversations(encoder, [[message] for message in messages])
    columns = {key: column for column, key in enumerate(examples)}
    equal = np.array([columns.get(text_key(message), -1) for message in messages])
    among = _nearest(vectors, np.arange(len(vectors)), vectors)
    threshold = np.quantile(among, UNLIKE)
    for row, likeness in zip(rows, _nearest(own, equal, vectors), strict=True):
        results[row] = bool(likeness < threshold)
    return results


def _nearest(
    rows: FloatArray, equal: npt.NDArray[np.int64], vectors: FloatArray
) -> npt.NDArray[np.float64]:
    """Return the greatest product of each row with the vectors but its `equal` one (-1: none)."""
    best = np.empty(len(rows))
    for start in range(0, len(rows), 256):
        products = (rows[start : start + 256] @ vectors.T).astype(np.float64)
        left_out = equal[start : start + 256]
        has_one = np.flatnonzero(left_out >= 0)
        products[has_one, left_out[has_one]] = -np.inf
        best[start : start + 256] = products.max(axis=1)
    return best


def _groups(encoder: DualEncoder, entries: Sequence[Entry]) -> tuple[MessageGroup, ...]:
    """Return groups of messages, near-duplicates first and then by meaning, largest first."""
    by_words: defaultdict[tuple[str, ...], list[Entry]] = defaultdict(list)
    for entry in entries:
        message = entry.context[-1]
        by_words[tuple(sorted(set(words_of(message)))) or (message,)].append(entry)
    copies = list(by_words.values())
    if not copies:
        return ()
    numbers = group_by_meaning(encoder, [own[0].context[-1] for own in copies])
    groups: defaultdict[int, list[Entry]] = defaultdict(list)
    for number, own in zip(numbers, copies, strict=True):
        groups[number] += own
    frequency = Counter(word for words in by_words for word in words)
    largest = sorted(groups.values(), key=len, reverse=True)[:SHOWN]
    return tuple(_group(own, frequency, len(by_words)) for own in largest)


def _group(entries: Sequence[Entry], frequency: Counter[str], total: int) -> MessageGroup:
    messages = Counter(entry.context[-1] for entry in entries)
    counts = Counter(word for entry in entries for word in set(words_of(entry.context[-1])))
    weights = {word: n * math.log(1 + total / frequency[word]) for word, n in counts.items()}
    words = sorted(weights, key=lambda word: (-weights[word], word))
    sent = Counter(entry.text for entry in entries if entry.text is not None)
    return MessageGroup(
        len(entries),
        tuple(words[:WORDS]),
        tuple(text for text, _ in messages.most_common(MESSAGES)),
        tuple(text for text, _ in sent.most_common(MESSAGES)),
    )


def group_by_meaning(encoder: DualEncoder, messages: Sequence[str]) -> list[int]:
    """Return the number of each message's group.

    Vectors are centred and whitened by them and by everyday messages; groups grow as long as the
    mean distance between the members of two is below `DISTANCE`.

    Raises:
        MissingExtraError: scikit-learn is missing.
    """
    if len(messages) < 2 or not takes_examples(encoder):
        return list(range(len(messages)))
    cluster = import_extra("sklearn.cluster", "grouping messages", "intents")
    own = encode_conversations(encoder, [[message] for message in messages])
    everyday = encode_background(encoder)
    together = np.concatenate([own, everyday]) - own.mean(axis=0)
    whitening = whitening_matrix(together, np.ones(len(together), np.float32))
    vectors = unit_rows((own - own.mean(axis=0)) @ whitening)
    distances = np.maximum(1 - vectors @ vectors.T, 0)
    grown = cluster.AgglomerativeClustering(
        n_clusters=None, metric="precomputed", linkage="average", distance_threshold=DISTANCE
    )
    numbers: list[int] = grown.fit_predict(distances).tolist()
    return numbers
