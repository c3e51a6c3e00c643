"""Replies as a search returns them: without repeats and near-duplicates, diverse, and explained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from rejoinder.arrays import FloatArray, unit_rows
from rejoinder.corpora.keys import text_key
from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.retrieval.encoding import templates
from rejoinder.retrieval.encoding.views import encode_conversations
from rejoinder.retrieval.options import SearchOptions
from rejoinder.retrieval.queries import Queries
from rejoinder.retrieval.state import FilteredRows
from rejoinder.stores.runs import Positions
from rejoinder.stores.scan import Scores, exact_scores


@dataclass(frozen=True, slots=True)
class Why:
    """The reason for a reply: its part with most weight, and its text most like the context."""

    view: Literal["text", "title", "example"]
    like: tuple[str, ...]  # the reply's text, its title, or the nearest of its examples
    similarity: float  # cosine of its encoding and the conversation's
    learned: bool = False  # whether it is an example that was learned: a customer wrote it
    sentence: str = ""  # of a message of several: the one that the reply answers
    opposes: str = ""  # the title or example that says the opposite of the message


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of an index."""

    text: str
    score: float  # cosine of its encoding and the context's, or what `scoring` or the model says
    position: int  # its number in the input, from 0; the same whatever was added or deleted since
    payload: Mapping[str, Any]  # whatever other fields its input had
    title: str = ""
    examples: tuple[tuple[str, ...], ...] = ()  # conversations that it is known to answer
    learned: tuple[tuple[str, ...], ...] = ()  # those of them that were learned
    why: Why | None = None  # if it was asked for
    part: int = 0  # of the newest message that it fits; see `parts`
    also: bool = False  # whether it answers another question of the message than the first reply
    opposes: str = ""  # what it answers that says the opposite of the message; see `opposites`

    @classmethod
    def of(cls, candidate: Candidate, score: float, position: int) -> Reply:
        """Return a candidate with its score."""
        examples = (*candidate.examples, *candidate.learned)
        return cls(
            candidate.text,
            score,
            position,
            candidate.payload,
            candidate.title,
            examples,
            candidate.learned,
        )

    @property
    def known(self) -> tuple[str, ...]:
        """Return what it is known to answer: its title, and the newest messages of its examples."""
        titles = (self.title,) if self.title else ()
        return (*titles, *(example[-1] for example in self.examples))

    def to_json(self) -> dict[str, Any]:
        """Return the reply as JSON types; its title and why it was found only where it has them."""
        values: dict[str, Any] = {
            "text": self.text,
            "score": self.score,
            "position": self.position,
            "payload": dict(self.payload),
        }
        if self.title:
            values["title"] = self.title
        if self.also:
            values["also"] = True
        if self.why is not None:
            values["why"] = asdict(self.why)
            for name in ("sentence", "opposes"):
                if not values["why"][name]:
                    del values["why"][name]
        return values


NEAR_COPY = 0.95  # cosine from which two replies count as the same suggestion
BLOCK = 256  # candidates that are compared with all better replies at once


def read_reply(filtered: FilteredRows, number: int, score: float = 0.0) -> Reply:
    """Return the reply of a row with its score."""
    position, candidate = filtered.read(number)
    return Reply.of(candidate, score, position)


def postprocess(
    numbers: Positions,
    scores: Scores,
    filtered: FilteredRows,
    forbidden: frozenset[str],
    options: SearchOptions,
    *,
    pool: int,
    is_last: bool,
    opposes: Callable[[int], bool],
) -> list[tuple[int, Reply]] | None:
    """Return the best k of the candidates of a context, which come best first: numbers and replies.

    k is chosen among the `pool` best that may be given. None if there are fewer, unless `is_last`
    says that there are no more candidates. `opposes` tells of a candidate whether it answers the
    opposite of the message.
    """
    best = remove_near_duplicates(
        numbers, scores, filtered, forbidden, pool, opposes, distinct=options.distinct
    )
    if len(best) < pool and not is_last:
        return None
    if not options.diversity or not best:
        return best
    vectors = filtered.responses(np.array([number for number, _ in best], dtype=np.int64))
    return [best[i] for i in diversify(vectors, [reply.score for _, reply in best], options)]


def remove_near_duplicates(
    numbers: Positions,
    scores: Scores,
    filtered: FilteredRows,
    forbidden: frozenset[str],
    count: int,
    opposes: Callable[[int], bool],
    *,
    distinct: bool,
) -> list[tuple[int, Reply]]:
    """Return the best `count` candidates without forbidden ones: their numbers and replies.

    With `distinct` also without near-duplicates of better ones, most of which are not even read. No
    reply is a duplicate of one that answers the opposite of the message, unless it does so, too.
    """
    copies = NearDuplicates(unit_rows(filtered.responses(numbers))) if distinct else None
    best: list[tuple[int, Reply]] = []
    keys = set(forbidden)
    for row, (number, score) in enumerate(zip(numbers.tolist(), scores.tolist(), strict=True)):
        if len(best) == count:
            break
        original = -1 if copies is None else copies.original(row)
        if original >= 0 and (not opposes(int(numbers[original])) or opposes(number)):
            continue
        reply = read_reply(filtered, number, score)
        key = text_key(reply.text) if forbidden or distinct else ""
        if key in keys:
            continue
        best.append((number, reply))
        if copies is not None:
            keys.add(key)
            copies.keep(row)
    return best


class NearDuplicates:
    """Tells of candidates, best first, which better one that was kept they repeat.

    Those of a block are compared with all that were kept before by one product: with a product for
    each kept one, a thousand diverse replies took a minute.
    """

    def __init__(self, vectors: FloatArray) -> None:
        self._vectors = vectors  # (n, d), of length 1
        self._kept: list[int] = []  # rows
        self._start = 0  # of the block
        self._block = vectors[:0]
        self._originals = np.zeros(0, np.int64)  # rows that the block's candidates repeat, or -1

    def original(self, row: int) -> int:
        """Return the row of the first kept candidate that one repeats; -1: of none.

        Rows are asked for in ascending order.
        """
        if row >= self._start + len(self._block):
            self._start = row
            self._block = self._vectors[row : row + BLOCK]
            self._originals = np.full(len(self._block), -1)
            self._mark(self._kept)
        return int(self._originals[row - self._start])

    def keep(self, row: int) -> None:
        """Keep a candidate: later ones may repeat it."""
        self._kept.append(row)
        self._mark([row])

    def _mark(self, kept: Sequence[int]) -> None:
        """Mark the block's candidates that repeat some kept ones, and none of before."""
        if not kept:
            return
        is_near = self._block @ self._vectors[kept].T >= NEAR_COPY
        first = np.array(kept)[is_near.argmax(axis=1)]
        is_new = is_near.any(axis=1) & (self._originals < 0)
        self._originals[is_new] = first[is_new]


def best_first(replies: Sequence[Reply], k: int | None = None) -> list[Reply]:
    """Return k replies, or all, by their scores; equal ones stay in their order.

    Answers to other sentences (`Reply.also`) are among them, behind a better one.
    """
    ordered = sorted(replies, key=lambda reply: -reply.score)
    rest = sorted(ordered[1:], key=lambda reply: not reply.also)
    kept = [*ordered[:1], *rest][:k]
    return sorted(kept, key=lambda reply: -reply.score)


def diversify(vectors: FloatArray, scores: Sequence[float], options: SearchOptions) -> list[int]:
    """Return the rows of k of the replies, by maximal marginal relevance; see `SearchOptions`."""
    vectors = unit_rows(vectors)
    relevance = (1 - options.diversity) * np.array(scores)
    nearest = np.full(len(scores), -1.0)
    chosen: list[int] = []
    while len(chosen) < min(options.k, len(scores)):
        gains = relevance - options.diversity * nearest
        gains[chosen] = -np.inf
        chosen.append(int(gains.argmax()))
        nearest = np.maximum(nearest, vectors @ vectors[chosen[-1]])
    return chosen


def explain(
    encoder: DualEncoder, queries: Queries, replies: Sequence[list[Reply]], *, plain: bool
) -> list[list[Reply]]:
    """Return the replies to conversations with why each was found.

    `plain` says whether their texts were encoded without the frame of templates.
    """
    explained = []
    for rows, own in zip(queries.rows, replies, strict=True):
        texts = [templates.plain(reply.text) if plain else reply.text for reply in own]
        responses = encoder.encode_responses(texts)
        with_why = []
        for reply, response in zip(own, responses, strict=True):
            row = rows[reply.part]
            why = _why(encoder, reply, queries.vectors[row] / queries.sharpness, response)
            if len(rows) > 1:
                why = replace(why, sentence=queries.inputs[row])
            with_why.append(replace(reply, why=replace(why, opposes=reply.opposes)))
        explained.append(with_why)
    return explained


def _why(
    encoder: DualEncoder,
    reply: Reply,
    vectors: FloatArray,
    response: FloatArray,
) -> Why:
    by_text = float(exact_scores(vectors, response[None])[0])
    titles: list[tuple[str, ...]] = [(reply.title,)] if reply.title else []
    likes = [*titles, *reply.examples]
    if not likes or len(vectors) > 1:
        return Why("text", (reply.text,), by_text)
    similarities = encode_conversations(encoder, likes) @ vectors[0]
    nearest = int(similarities.argmax())
    if by_text > similarities[nearest]:
        return Why("text", (reply.text,), by_text)
    view: Literal["title", "example"] = "title" if nearest < len(titles) else "example"
    learned = view == "example" and likes[nearest] in reply.learned
    return Why(view, likes[nearest], float(similarities[nearest]), learned)
