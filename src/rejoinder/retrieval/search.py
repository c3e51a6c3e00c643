"""Searching: what an index on the disk and one in a vector database have in common."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np

from rejoinder.arrays import FloatArray, unit_rows
from rejoinder.conversations import Context, Conversation, check_count, check_minimum, check_number
from rejoinder.encoders.keywords import WordIndex
from rejoinder.encoders.open import open_encoder
from rejoinder.encoders.protocol import ContextVectors, DualEncoder, check_vectors, encode_queries
from rejoinder.errors import BusyError, InputError
from rejoinder.files import beside, locked
from rejoinder.retrieval.manifest import Manifest, Positions, read_manifest
from rejoinder.retrieval.opening import check_model
from rejoinder.retrieval.postprocess import (
    Reply,
    diverse,
    drop_stale_history,
    forbidden_keys,
    remove_near_duplicates,
    truncate_history,
)
from rejoinder.retrieval.replies import Candidate
from rejoinder.retrieval.scan import Flags, Found, Scores, exact_scores
from rejoinder.retrieval.segments import check_rows, has_unit_vectors
from rejoinder.views import Described

Where: TypeAlias = Mapping[str, object] | Callable[[Candidate], bool]
"""Which replies may be found: of a payload's field the value, or a list or set of values of which it has one, for each
field named; or what says so of a candidate. Values are compared as JSON writes them, so 3 finds 3 and "3"; a payload's
list has each of its items."""
POOL = 10  # of how many best replies for each one wanted `diversity` chooses
MAX_HYBRID_WEIGHT = 1_000_000  # weight of BM25: scores stay finite
MIN_CANDIDATES = 64  # replies of which words and vectors each name so many, before more are asked for


Find: TypeAlias = Callable[[Sequence[FloatArray], Sequence[int], int, float], Found]
"""Finds the best k for some of the contexts, given by their places."""


class Selection(Protocol):
    """The replies of an index that a search may find, by their numbers."""

    @property
    def most(self) -> int:
        """No search finds more than so many; 0 where there are none."""

    def find(self, contexts: Sequence[FloatArray], k: int, minimum: float) -> Found:
        """Find the best k for the vectors (m, d) of each context; see `search.search`."""

    def vectors(self, numbers: Positions) -> FloatArray:
        """Return the vectors of some that were found: (n, d)."""

    def vector(self, position: int) -> FloatArray:
        """Return the vector of a reply that was found: (d,)."""

    def reply(self, found: tuple[int, float]) -> Reply:
        """Return one that was found, by its number, with its score."""

    def words(self) -> tuple[WordIndex, Flags]:
        """Return the words of all replies, (n,), and which of these may be found."""


class Searcher(Described):
    """What can be searched for replies."""

    folder: Path
    encoder: DualEncoder | None
    manifest: Manifest

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __iter__(self) -> Iterator[tuple[int, Candidate]]: ...

    @abstractmethod
    def _filter(self, where: Where | None) -> Selection:
        """Return the replies that pass."""

    @contextlib.contextmanager
    def _write_lock(self) -> Iterator[None]:
        """Keep other processes from changing the index, of which this one must have the latest state."""
        with locked(beside(self.folder), f"{self.folder} is being written"):
            if read_manifest(self.folder).fingerprint != self.fingerprint:
                raise BusyError(f"{self.folder} was changed by somebody else since it was opened; open it again")
            yield

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the model's fingerprint and of the content of all replies and vectors."""
        return self.manifest.fingerprint

    def search(
        self,
        contexts: Sequence[Conversation],
        k: int = 5,
        minimum_score: float | None = None,
        *,
        history: int | None = None,
        no_repeat: bool = False,
        distinct: bool = False,
        where: Where | None = None,
        diversity: float = 0.0,
        hybrid: float = 0.0,
    ) -> list[list[Reply]]:
        """Find the best `k` replies to each context, best first; equal scores in the order of their positions.

        There are fewer where fewer pass `where` (`count` tells) or the scores of others are below `minimum_score`.

        Args:
            contexts: conversations, each a list of messages, oldest first.
            k: replies to find for each.
            minimum_score: the lowest score that a reply may have.
            history: earlier messages of a context that are read at most; None: all that the model reads, but none where
                the newest message begins a new subject (`postprocess.drop_stale_history`).
            no_repeat: leave out what either side has said in the conversation; a first answer may be a word that the
                other side said. Without roles the sides take turns, and the newest message is the other's.
            distinct: of replies of the same words, or of vectors with a cosine of `NEAR_COPY` or more, give the best.
            where: which replies may be found. The first mapping with a field reads all payloads, once; a callable is
                asked about every reply by every call.
            diversity: D from 0 to 1. Of the `POOL`·k best replies each next one is that of the greatest
                (1 - D)·score - D·(its greatest cosine with one chosen before): maximal marginal relevance, with
                lambda = 1 - D (Carbonell and Goldstein, SIGIR 1998). They come in the order of this choice.
            hybrid: W, from 0 to `MAX_HYBRID_WEIGHT`. To each score W times BM25 of the reply for the newest message is added
                (`keywords`, counted over all replies). The first such search reads all replies, and again after a
                change.

        Raises:
            InputError: a number is out of its range, or no reply has a field of `where`.
            MissingExtraError: `hybrid` needs the extra baselines.
        """
        said = [forbidden_keys(context) for context in contexts] if no_repeat else None
        check_count("k", k)
        model = self._model().with_cache()
        read = self.read(contexts, history, model)
        options: dict[str, Any] = {"said": said, "distinct": distinct, "where": where, "diversity": diversity,
                                   "hybrid": hybrid, "inputs": [context[-1] for context in read]}  # fmt: skip
        return self.search_vectors(encode_queries(model, read), k, minimum_score, **options)

    def read(self, contexts: Sequence[Conversation], history: int | None, model: Any = None) -> list[Context]:
        """Return what `search` reads of conversations; the index's model, if it is given, may be one that remembers."""
        read = truncate_history(contexts, history)
        return drop_stale_history(model or self._model(), read) if history is None else read

    def search_vectors(
        self,
        queries: FloatArray | ContextVectors,
        k: int = 5,
        minimum_score: float | None = None,
        *,
        said: Sequence[frozenset[str]] | None = None,
        distinct: bool = False,
        where: Where | None = None,
        diversity: float = 0.0,
        hybrid: float = 0.0,
        inputs: Sequence[str] = (),
    ) -> list[list[Reply]]:
        """Search as `search` does for contexts that the index's model has encoded already: (n, d), or (n, m, d).

        `said` is, for each context, what `postprocess.forbidden_keys` gives; None: anything may be said again. `inputs`
        are the newest messages, which `hybrid` needs.
        """
        check_number("diversity", diversity, "it goes from 0, the best alone, to 1", 0, 1)
        check_number("hybrid", hybrid, f"the weight of BM25 is a number from 0 to {MAX_HYBRID_WEIGHT:,}", 0, MAX_HYBRID_WEIGHT)
        check_count("k", k)
        check_minimum(minimum_score)
        if not isinstance(queries, ContextVectors):
            queries = check_vectors(queries, "context")
        said = [frozenset[str]()] * len(queries) if said is None else said
        selection = self._filter(where)
        if not selection.most:
            return [[] for _ in range(len(queries))]
        contexts = self._query_vectors(queries)
        sharpness = queries.sharpness if isinstance(queries, ContextVectors) else 1.0
        find: Find = partial(_find_both, selection, inputs, hybrid * sharpness) if hybrid else partial(_find, selection)
        wanted = POOL * k if diversity else k
        found = self._search(selection, find, contexts, wanted, minimum_score, said, distinct, sharpness)
        return [diverse(replies, k, diversity, selection.vector) for replies in found]

    def count(self, where: Where | None = None) -> int:
        """Return how many replies a search can find; see `search`."""
        return self._filter(where).most

    def _search(
        self,
        selection: Selection,
        find: Find,
        contexts: Sequence[FloatArray],
        k: int,
        minimum_score: float | None,
        said: Sequence[frozenset[str]],
        distinct: bool,
        sharpness: float,
    ) -> list[list[Reply]]:
        """Find the best k replies to each query that were not `said`; search for more where too many are left out."""
        minimum = -np.inf if minimum_score is None else minimum_score * sharpness
        found: list[list[Reply]] = [[] for _ in contexts]
        wanted, few = k, list(range(len(contexts)))  # few: contexts that have fewer than k replies so far
        while few:
            best = find(contexts, few, min(wanted, selection.most), minimum)
            short = []
            for i, (numbers, scores) in zip(few, best, strict=True):
                vectors = unit_rows(selection.vectors(numbers)) if distinct else None
                pairs = list(zip(numbers.tolist(), (scores / sharpness).tolist(), strict=True))
                found[i] = remove_near_duplicates(pairs, selection.reply, said[i], vectors, k)
                if len(found[i]) < k and len(pairs) == wanted:
                    short.append(i)
            wanted, few = 4 * wanted, short
        return found

    def encode_contexts(self, contexts: Sequence[Conversation]) -> list[FloatArray]:
        """Return the vectors, (m, d), with which each context is searched for."""
        return self._query_vectors(encode_queries(self._model(), truncate_history(contexts, None)))

    def _query_vectors(self, queries: FloatArray | ContextVectors) -> list[FloatArray]:
        """Return the vectors (m, d) of each context, times its sharpness: what is found scores as much higher."""
        if not isinstance(queries, ContextVectors) and queries.ndim != 3:
            queries = check_rows(queries, "context", unit=has_unit_vectors(self.encoder))[:, None]
        several = queries if isinstance(queries, ContextVectors) else ContextVectors(queries)
        contexts = list(replace(several, vectors=several.vectors * np.float32(several.sharpness)))
        for number, vectors in enumerate(contexts):
            if not len(vectors):
                raise InputError(f"context {number} has no vector; a model gives at least one for each conversation")
            if vectors.shape[1] != (size := self.manifest.size):
                raise InputError(f"queries of size {vectors.shape[1]}; the vectors of {self.folder} have {size}")
            if not np.isfinite(vectors).all():
                raise InputError(f"the model's vectors of context {number} are not finite: did its training diverge?")
        return contexts

    def _model(self) -> DualEncoder:
        if self.encoder is None:
            encoder = open_encoder(self.manifest.model.locate(self.folder))
            check_model(self.folder, self.manifest.model, encoder)
            self.encoder = encoder
        return self.encoder


def _find(
    selection: Selection, contexts: Sequence[FloatArray], chosen: Sequence[int], k: int, minimum: float
) -> Found:
    return selection.find([contexts[i] for i in chosen], k, minimum)


def _find_both(
    selection: Selection, inputs: Sequence[str], weight: float, contexts: Sequence[FloatArray], chosen: Sequence[int],
    k: int, minimum: float,
) -> Found:  # fmt: skip
    """Find the best k by score + weight·BM25, as exactly as `selection.find` finds those by score.

    The best of each of the two orders are added up, more of them until no other reply can reach the k-th best sum
    (Fagin's threshold algorithm).
    """
    if len(inputs) != len(contexts):
        raise InputError(f"{len(contexts)} contexts but {len(inputs)} inputs, their newest messages; give one for each")
    words, there = selection.words()
    done: dict[int, tuple[Positions, Scores]] = {}
    wanted, few = max(4 * k, MIN_CANDIDATES), list(chosen)
    while few:
        wanted, left = min(wanted, selection.most), []
        for i, (near, scores) in zip(few, selection.find([contexts[i] for i in few], wanted, -np.inf), strict=True):
            matches = np.where(there, weight * words.scores(inputs[i]), -np.inf)
            alike = np.argpartition(matches, -wanted)[-wanted:]
            numbers = np.union1d(near, alike)
            sums = exact_scores(contexts[i], selection.vectors(numbers)) + matches[numbers]
            order = np.lexsort((numbers, -sums))[:k]
            if wanted == selection.most or sums[order[-1]] > scores[-1] + matches[alike].min():
                order = order[sums[order] >= minimum]
                done[i] = numbers[order], sums[order]
            else:
                left.append(i)
        wanted, few = 4 * wanted, left
    return [done[i] for i in chosen]
