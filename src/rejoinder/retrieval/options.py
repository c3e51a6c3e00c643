"""The options of a search: one class, with one default each, for every door."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from rejoinder.checks import check_count, check_minimum, check_number, is_whole
from rejoinder.corpora.schema import Candidate
from rejoinder.errors import InputError

Where: TypeAlias = Mapping[str, object] | Callable[[Candidate], bool]
"""A filter: for each field of a payload that is named, a value, or a list or set of values of which
the reply has one; or a function that returns whether a candidate passes. Values are compared as
JSON writes them, so 3 finds 3 and "3"; a payload's list has each of its items."""
POOL = 10  # times k: the number of best replies among which `diversity` chooses
LARGEST_POOL = 2000  # of them, unless k is more
ANY_SCORE = -1e30  # a minimum that every score passes
Silence: TypeAlias = Literal["language", "denied"]  # why there is no reply; see `Searcher.silence`
RERANKED = 50  # best replies that a slow ranker orders again; `reply -k` may raise it
MAX_HYBRID_WEIGHT = 1_000_000  # of BM25: scores stay finite


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Options of a search and their defaults, in Python, the command, HTTP, MCP and at desks.

    A number out of its range, or an impossible combination, is an InputError.
    """

    k: int = 5
    """Number of replies at most; there are fewer where fewer pass `where` or `minimum_score`."""
    minimum_score: float | None = None
    """Lowest score that a reply may have. None: any; of an index with examples the one that was
    measured when it was built, below which messages are nobody's."""
    minimum_confidence: float | None = None
    """Lowest probability that the best reply is right; see `CalibratedIndex`."""
    history: int | None = None
    """Number of earlier messages of a context that are read. None: all that the model reads, but
    none where the newest message begins a new subject (`queries.drop_stale_history`)."""
    no_repeat: bool = False
    """Leave out what either side has said in the conversation; a first answer may be a word that
    the other side said. Without roles the sides take turns, and the newest message is the
    other's."""
    distinct: bool = True
    """Of replies of the same words, or of vectors with a cosine of `replies.NEAR_COPY` or more,
    give the best."""
    where: Where | None = None
    """Filter of the replies. The first mapping with a field reads all payloads, once; a function is
    called for every reply by every search."""
    diversity: float = 0.0
    """D from 0 to 1. Of the `POOL`·k best replies (`LARGEST_POOL` at most) each next one is that of
    the greatest (1 - D)·score - D·(its greatest cosine with one chosen before): maximal marginal
    relevance, with lambda = 1 - D (Carbonell and Goldstein, SIGIR 1998). They come in the order of
    choice."""
    hybrid: float = 0.0
    """W, from 0 to `MAX_HYBRID_WEIGHT`. To each score W times BM25 of the reply for the newest
    message is added (`words.keywords`, counted over all replies). The first such search reads
    all replies, and again after a change."""
    why: bool = False
    """Say which part of each reply was found, and what was most like the conversation
    (`Reply.why`)."""
    rerank: int = 0
    """Number of best replies that a slow ranker orders again, 0: none; see `Cascade`."""

    def __post_init__(self) -> None:
        check_count("rerank", self.rerank, 0)
        if not self.rerank:
            check_count("k", self.k)
        elif not (is_whole(self.k) and 1 <= self.k <= self.rerank):
            raise InputError(
                f"k is {self.k}; {self.rerank} replies are ranked again, so 1 to {self.rerank} is "
                "allowed; lower k"
            )
        check_minimum(self.minimum_score)
        if self.history is not None:
            check_count("history", self.history, 0)
        check_number("diversity", self.diversity, "it goes from 0, the best alone, to 1", 0, 1)
        weights = f"the weight of BM25 is a number from 0 to {MAX_HYBRID_WEIGHT:,}"
        check_number("hybrid", self.hybrid, weights, 0, MAX_HYBRID_WEIGHT)
        if self.rerank and self.diversity:
            raise InputError("diversity weighs the index's own scores; leave it or rerank out")
        if self.minimum_confidence is not None:
            self._check_confidence()

    def _check_confidence(self) -> None:
        """Refuse what a calibration, of the best among all distinct replies, does not cover."""
        need = "a probability goes from 0 to 1"
        check_number("minimum_confidence", self.minimum_confidence, need, 0, 1)
        others = {
            "rerank": self.rerank,
            "copies (distinct=False)": not self.distinct,
            "where": self.where,
            "diversity": self.diversity,
            "hybrid": self.hybrid,
        }
        for name, is_used in others.items():
            if is_used:
                raise InputError(
                    "a minimum confidence is calibrated for the best of all distinct replies; "
                    f"leave {name} out"
                )

    @property
    def pool(self) -> int:
        """Number of replies among which the best k are chosen."""
        return max(self.k, min(POOL * self.k, LARGEST_POOL)) if self.diversity else self.k

    @property
    def first_search(self) -> SearchOptions:
        """Options of the index's own search, before a slow ranker or a calibration."""
        if self.minimum_confidence is not None:
            k = max(self.k, 2)  # a calibration reads the gap to the second
        elif self.rerank:
            k = self.rerank
        else:
            return self
        return replace(self, k=k, minimum_score=ANY_SCORE, minimum_confidence=None, rerank=0)
