"""Views of a reply: its text, its title and the conversations that it answers, in one vector.

An index scores a reply by the product of its vector with the context's vector x. Of a reply that is
known by its text alone, that vector is the response encoding y. Where replies have titles or
examples, or are answers (`head.ANSWER_WORDS`), it is

    v = a·y + B (u - u_none)      so that      x·v = a·x·y + (Bᵀx)·u - (Bᵀx)·u_none

B whitens context vectors (it is a root of the inverse of their second moment), u is a linear
classifier's weights for the reply among whitened contexts, and u_none those of the class "none of
these", which a background of everyday messages stands for. Since the score stays one product, a
search, exact or approximate, with filters or without, works as for any other index and costs the
same.

The classifier is fitted in two steps: u starts as the mean of the reply's whitened examples (a
linear discriminant, in closed form), and multinomial logistic regression, which a penalty holds
near that start, goes on from there (`regression`). It begins at multiples of the discriminants, or
where the head went that left examples out (`hold_out`).
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from rejoinder.arrays import FloatArray, unit_rows
from rejoinder.blas import threads_for
from rejoinder.conversations import Context
from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.protocol import DualEncoder
from rejoinder.encoders.vectors import check_vectors
from rejoinder.errors import InputError
from rejoinder.patterns import search_pattern
from rejoinder.progress import Advance, silent
from rejoinder.retrieval.encoding.regression import regress
from rejoinder.stores.manifest import HeadRecord
from rejoinder.stores.scan import Scores
from rejoinder.stores.store import Store
from rejoinder.text.emoji import read_emoji
from rejoinder.text.sentences.frames import without_frame
from rejoinder.text.wording import plain_wording

# Chosen on the questions of two public bots; see docs/choices.md.
TEXT_WEIGHT = 0.25
TEXT_WEIGHT_OF_TITLES = 1.0  # where no reply has an example
SENTENCES_WEIGHT = 0.5
"""Of u where replies have neither titles nor examples, beside a text's weight of 1. More gains on
questions, but loses in conversations; see workshop/pretraining-log.md."""
WHOLE_WEIGHT = 0.25
PARTS_WEIGHT = 0.5
"""Weights of a reply's own text, and of all its sentences together, as examples of its
questions."""
RIDGE = 2.0  # of the second moment, times its mean eigenvalue
NONE_WEIGHT = 0.5  # of the background, as a share of all other examples
MOST_PRODUCTS = 1 << 29
"""Of replies and examples; above, the discriminant is left as it is: a step would take seconds."""
TEXT_WEIGHTS = (TEXT_WEIGHT, 0.5, 0.0, 1.0)
"""The best of them is taken where enough examples can be left out."""
FOLDS = 5
LEAST_HELD_OUT = 50
ENOUGH = 1000
REFUSED_EXAMPLES = 0.05
MINIMUM_SCORE = -0.2  # of a search that names none, where too few examples could be left out
WORD_WEIGHT = 0.6
"""Of the share of a message's words that its reply is known by; see `familiarity` and
docs/choices.md."""
CHANGES_MAY_COST = 0.05
"""Of the share of background messages that are refused; words or densities that cost more do not
count."""
_PRODUCTS_AT_ONCE = 1 << 20  # 4 MB: more are read again from memory, fewer multiply more slowly
_ENCODED_AT_ONCE = 1024
_SENTENCE = search_pattern(r"(?<=[.!?])\s+|\n+")
_LEAST_WORDS = 3  # of a sentence
_MOST_SENTENCES = 200  # of a reply that count by themselves: each is encoded


@dataclass(frozen=True, slots=True)
class Views:
    """Context vectors (n, d) of what replies answer, each with its reply's number and weight."""

    vectors: FloatArray
    owners: npt.NDArray[np.int64]
    weights: FloatArray

    def without(self, rows: npt.NDArray[np.bool_]) -> Views:
        """Return the views that are not among some rows."""
        return Views(self.vectors[~rows], self.owners[~rows], self.weights[~rows])


@dataclass(frozen=True, slots=True)
class Head:
    """Map from views to vectors of replies: B (d, d) and B·u_none (d,) of the module docstring."""

    whitening: FloatArray
    none: FloatArray
    text_weight: float = TEXT_WEIGHT
    minimum_score: float | None = MINIMUM_SCORE
    word_weight: float = 0.0  # of the overlap of words; see `familiarity`
    density: FloatArray | None = None  # (d, d); see `density`
    typical: float = 0.0

    def with_density(self, density: FloatArray, typical: float) -> Head:
        """Return the head with what makes the scores of messages unlike its examples fall."""
        return replace(self, density=density, typical=typical)

    def of_sentences(self) -> Head:
        """Return the head of replies whose sentences alone count beside their texts."""
        whitening = SENTENCES_WEIGHT * self.whitening
        none = SENTENCES_WEIGHT * self.none
        return Head(whitening, none, text_weight=1.0, minimum_score=None)

    def whitened(self, vectors: FloatArray) -> FloatArray:
        """Return whitened context vectors, of length 1: (n, d)."""
        return unit_rows(vectors @ self.whitening)

    def discriminants(self, views: Views, count: int) -> FloatArray:
        """Return the u of `count` replies in closed form: (count, d), of length 1 (no view: 0)."""
        return _means(self.whitened(views.vectors), views.owners, views.weights, count)

    def vectors(self, weights: FloatArray, responses: FloatArray) -> FloatArray:
        """Return the vectors (n, d) of replies of some u and y."""
        return np.asarray(
            self.text_weight * responses + weights @ self.whitening.T - self.none, dtype=np.float32
        )


def read_head(store: Store, record: HeadRecord) -> Head:
    """Read the head of an index; a file that is missing or altered is an InputError."""
    from safetensors.numpy import load

    content = store.read_file(record.file)
    if len(content) != record.size or hashlib.sha256(content).hexdigest() != record.digest:
        raise InputError(
            f"{record.file} of {store} was altered after it was written; build the index again or "
            "copy it again"
        )
    tensors = load(content)
    head = Head(tensors["whitening"], tensors["none"], record.text_weight)
    if "density" not in tensors:
        return head
    return head.with_density(tensors["density"], float(tensors["typical"][0]))


def view_texts(candidate: Candidate) -> list[tuple[Context, float]]:
    """Return the conversations that a reply answers, each with its weight.

    Its own text and its sentences are among them.
    """
    pieces = _SENTENCE.split(candidate.text)
    sentences = (part for part in pieces if len(part.split()) >= _LEAST_WORDS)
    parts = list(itertools.islice(sentences, _MOST_SENTENCES))
    views: list[tuple[Context, float]] = [([candidate.text], WHOLE_WEIGHT)]
    if len(parts) > 1:
        views += [([part], PARTS_WEIGHT / len(parts)) for part in parts]
    if candidate.title:
        views.append(([candidate.title], 1.0))
    views += [(example, 1.0) for example in (*candidate.examples, *candidate.learned)]
    return views


def view_contexts(candidate: Candidate) -> list[Context]:
    """Return the conversations of `view_texts`."""
    return [context for context, _ in view_texts(candidate)]


def encode_views(
    encoder: DualEncoder, candidates: Sequence[Candidate], progress: Advance = silent
) -> Views:
    """Encode the views of replies. `progress` gets the number of replies just encoded."""
    texts = [view_texts(candidate) for candidate in candidates]
    contexts = [
        [without_frame(plain_wording(text)) for text in context]
        for views in texts
        for context, _ in views
    ]
    vectors = encode_conversations(encoder, contexts)
    progress(len(candidates))
    return Views(
        vectors,
        np.repeat(np.arange(len(texts)), [len(views) for views in texts]),
        np.array([weight for views in texts for _, weight in views], dtype=np.float32),
    )


def encode_conversations(encoder: DualEncoder, contexts: Sequence[Context]) -> FloatArray:
    """Return the vectors (n, d) of conversations, in which emoji are words."""
    parts = []
    for start in range(0, len(contexts), _ENCODED_AT_ONCE):
        chosen = contexts[start : start + _ENCODED_AT_ONCE]
        read = [[read_emoji(text) for text in context] for context in chosen]
        vectors: Any = encoder.encode_contexts(read)
        parts.append(check_vectors(vectors, "context"))
    return np.concatenate(parts)


class FittedHead(NamedTuple):
    """A head and the u of its replies, and where the regression moved them."""

    head: Head
    weights: FloatArray  # (count, d)
    moves: FloatArray  # (count + 1, d) from the discriminants of all u and, as the last, of u_none


def fit(
    views: Views, background: FloatArray, count: int, moves: FloatArray | None = None
) -> FittedHead:
    """Fit the head of `count` replies.

    `background` (b, d) are context vectors of messages that belong to no reply. The weights of
    replies without titles and examples stay the discriminant's. `moves` are those of an earlier fit
    to most of the same examples, which saves steps.
    """
    rows = len(views.weights) + len(background)
    with threads_for(rows * background.shape[1] * (len(np.unique(views.owners)) + 1)):
        return _fit(views, background, count, moves)


def _fit(views: Views, background: FloatArray, count: int, moves: FloatArray | None) -> FittedHead:
    """Fit whitening, discriminants and regression; see the module."""
    share = NONE_WEIGHT * float(views.weights.sum()) / len(background)
    whitening = whitening_matrix(
        np.concatenate([views.vectors, background]),
        np.concatenate([views.weights, np.full(len(background), share, np.float32)]),
    )
    length = np.linalg.norm(views.vectors @ whitening, axis=1)
    whitening /= np.sqrt(
        np.average(length**2, weights=views.weights)
    )  # scores are about as great as cosines
    head = Head(whitening, np.zeros(whitening.shape[1], np.float32))
    weights = head.discriminants(views, count)
    rows = head.whitened(background)
    none = unit_rows(rows.mean(axis=0, keepdims=True))
    moved = np.zeros((count + 1, whitening.shape[1]), np.float32)
    taught = np.unique(views.owners[views.weights >= 1])
    if len(taught) * len(views.weights) <= MOST_PRODUCTS:
        fitted_rows = np.append(taught, count)
        own = np.isin(views.owners, taught)
        classes = np.searchsorted(taught, views.owners[own])
        start = np.concatenate([weights[taught], none])
        fitted = regress(
            np.concatenate([head.whitened(views.vectors[own]), rows]),
            np.concatenate([classes, np.full(len(rows), len(taught))]),
            np.concatenate([views.weights[own], np.full(len(rows), share, np.float32)]),
            start,
            None if moves is None else start + moves[fitted_rows],
        )
        moved[fitted_rows] = fitted - start
        weights[taught] = fitted[:-1]
        none = fitted[-1:]
    return FittedHead(Head(whitening, (none @ whitening.T)[0]), weights, moved)


def whitening_matrix(vectors: FloatArray, weights: FloatArray) -> FloatArray:
    """Return a root of the inverse of the second moment, to which a ridge is added: (d, d)."""
    # The ridge is far above what float32 loses in the sums; float64 takes three times as long.
    sums = vectors.T @ (vectors * weights[:, None].astype(np.float32))
    moment = sums.astype(np.float64) / weights.sum()
    size = len(moment)
    moment += RIDGE * np.trace(moment) / size * np.eye(size)
    return np.linalg.cholesky(np.linalg.inv(moment)).astype(np.float32)


def _means(
    rows: FloatArray, owners: npt.NDArray[np.int64], weights: FloatArray, count: int
) -> FloatArray:
    """Return the weighted means of each owner's rows, of length 1: (count, d)."""
    sums = np.zeros((count, rows.shape[1]), np.float32)
    np.add.at(sums, owners, rows * weights[:, None])
    return unit_rows(sums)


class HeldOutScores(NamedTuple):
    """Scores of a head on examples and background messages that it was not fitted to."""

    text_weight: float  # with which most examples found their reply
    best: Scores  # (n,) greatest score of each message, the examples' first
    gap: Scores  # (n,) to the second
    right: npt.NDArray[np.bool_]  # (n,) whether the first is the example's reply
    is_own: npt.NDArray[np.bool_]  # (n,) whether the message is an example
    found: npt.NDArray[np.int64]  # (n,) the reply of the greatest score
    rows: npt.NDArray[np.int64]  # (n,) the message's row among the views; -1 for the background
    owners: npt.NDArray[np.int64]  # (n,) the reply that it is an example of; -1 for the background
    moves: FloatArray  # of the last fit, see `FittedHead`
    word_weight: float = 0.0  # of the overlap of words in `best`; see `familiarity`
    has_density: bool = False  # whether the density counts in `best`; see `density`

    @property
    def minimum_score(self) -> float:
        """The score that all but a twentieth of the examples reach, at most 0.

        Each reply counts alike.
        """
        order = np.argsort(self.best[self.is_own])
        owners = self.owners[self.is_own][order]
        shares = 1 / np.bincount(owners)[owners]
        below = int(np.searchsorted(np.cumsum(shares), REFUSED_EXAMPLES * shares.sum()))
        return min(float(self.best[self.is_own][order][below]), 0.0)

    @property
    def refused(self) -> float:
        """The share of background messages below the minimum score."""
        return float((self.best[~self.is_own] < self.minimum_score).mean())

    def better(self, changed: HeldOutScores) -> HeldOutScores:
        """Return changed scores, unless they refuse clearly fewer background messages."""
        return changed if changed.refused >= self.refused - CHANGES_MAY_COST else self


class DensityChanges(Protocol):
    """Changes of scores by densities; see `density.FittedDensity`."""

    @property
    def views(self) -> Scores:
        """The changes (n,) of the scores of views."""

    @property
    def background(self) -> Scores:
        """The changes (b,) of the scores of background messages."""


class WordChanges(Protocol):
    """Changes of scores by the words of messages; see `familiarity.ViewWords`."""

    def changes(
        self,
        rows: npt.NDArray[np.int64],
        apart: npt.NDArray[np.int64],
        found: npt.NDArray[np.int64],
        out: npt.NDArray[np.bool_],
    ) -> Scores:
        """Return the changes of the scores of some views, and of some background messages."""


def hold_out(
    views: Views,
    background: FloatArray,
    responses: FloatArray,
    words: WordChanges | None = None,
    density: DensityChanges | None = None,
    *,
    lone: bool = False,
) -> HeldOutScores | None:
    """Leave out a fifth of the examples at a time, of replies that have others.

    None where these are too few. After `ENOUGH` examples the other fifths are not tried. With
    `lone` the only examples of replies are left out as well: none of these can be right, but their
    scores are much like those of other messages for the replies. `density` and `words` count
    unless clearly fewer background messages are refused with them.
    """
    folds = _folds(views, lone=lone)
    if (folds >= 0).sum() < LEAST_HELD_OUT:
        return None
    text_weights = TEXT_WEIGHTS[:1] if lone else TEXT_WEIGHTS
    parts: list[list[tuple[Scores, Scores, npt.NDArray[np.int64]]]] = [[] for _ in text_weights]
    rows: list[npt.NDArray[np.int64]] = []
    tried: list[tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]] = []
    for fold in range(FOLDS):
        out = folds == fold
        apart = np.arange(len(background)) % FOLDS == fold
        fitted = fit(views.without(out), background[~apart], len(responses))
        queries = np.concatenate([views.vectors[out], background[apart]])
        rows.append(np.concatenate([np.flatnonzero(out), np.full(apart.sum(), -1)]))
        tried.append((out, np.flatnonzero(apart)))
        with threads_for(len(queries) * responses.size):
            taught = replace(fitted.head, text_weight=0.0).vectors(fitted.weights, responses)
            for text_weight, scored in zip(text_weights, parts, strict=True):
                vectors = taught + np.float32(text_weight) * responses
                scored.append(_best_two(queries, vectors))
        if sum((numbers >= 0).sum() for numbers in rows) >= ENOUGH:
            break
    views_rows = np.concatenate(rows)
    is_own = views_rows >= 0
    targets = np.where(is_own, views.owners[views_rows], -1)
    joined = [[np.concatenate(part) for part in zip(*scored, strict=True)] for scored in parts]
    right = [replies == targets for _, _, replies in joined]
    chosen = int(np.argmax([flags.sum() for flags in right]))  # the first of equal ones
    best, gap, nearest = joined[chosen]
    plain = HeldOutScores(
        text_weights[chosen],
        best,
        gap,
        right[chosen],
        is_own,
        nearest,
        views_rows,
        targets,
        fitted.moves,
    )
    chosen_scores = plain
    if density is not None:
        changes = [np.append(density.views[out], density.background[apart]) for out, apart in tried]
        dense = plain._replace(best=best + np.concatenate(changes), has_density=True)
        chosen_scores = dense if lone else plain.better(dense)
    if words is not None:
        changes = [
            words.changes(np.flatnonzero(out), apart, replies, out)
            for (out, apart), (_, _, replies) in zip(tried, parts[chosen], strict=True)
        ]
        worded = chosen_scores.best + np.concatenate(changes)
        chosen_scores = chosen_scores.better(
            chosen_scores._replace(best=worded, word_weight=WORD_WEIGHT)
        )
    return chosen_scores


def _folds(views: Views, *, lone: bool) -> npt.NDArray[np.int64]:
    """Return the fifth with which each view is left out; negative: with none.

    Equal examples of a reply are left out together.
    """
    is_example = views.weights >= 1
    owners = views.owners[is_example]
    different: dict[int, dict[bytes, int]] = {}  # examples of each reply, with their numbers
    ranks = np.empty(len(owners), np.int64)
    for row, (owner, vector) in enumerate(
        zip(owners.tolist(), views.vectors[is_example], strict=True)
    ):
        own = different.setdefault(owner, {})
        ranks[row] = own.setdefault(vector.tobytes(), len(own))
    folds = np.full(len(views.owners), -1)
    folds[is_example] = (ranks + owners) % FOLDS
    if not lone:
        has_one = [len(different[owner]) < 2 for owner in owners.tolist()]
        folds[is_example] -= np.where(has_one, FOLDS, 0)
    return folds


def _best_two(
    queries: FloatArray, vectors: FloatArray
) -> tuple[Scores, Scores, npt.NDArray[np.int64]]:
    """Return the greatest score of each query, its gap to the second, and whose it is."""
    best = np.empty(len(queries))
    gap = np.empty(len(queries))
    nearest = np.empty(len(queries), np.int64)
    step = max(1, _PRODUCTS_AT_ONCE // len(vectors))
    for start in range(0, len(queries), step):
        part = slice(start, start + step)
        scores = queries[part] @ vectors.T
        nearest[part] = scores.argmax(axis=1)
        best[part] = scores.max(axis=1)
        gap[part] = best[part] - np.partition(scores, -2, axis=1)[:, -2] if len(vectors) > 1 else 0
    return best, gap, nearest
