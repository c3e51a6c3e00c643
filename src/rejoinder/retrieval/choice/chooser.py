"""The replies to a message, chosen among the candidates that its parts found."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

from rejoinder.retrieval.choice.closings import Closings, may_be_closing
from rejoinder.retrieval.choice.opposites import PENALTY, SaidParts, push_back
from rejoinder.retrieval.choice.parts import FoundByParts, join_parts, penalties
from rejoinder.retrieval.encoding.familiarity import Familiarity
from rejoinder.retrieval.options import ANY_SCORE, SearchOptions
from rejoinder.retrieval.queries import Queries
from rejoinder.retrieval.replies import Reply, best_first, postprocess, read_reply
from rejoinder.retrieval.state import FilteredRows
from rejoinder.stores.runs import Positions
from rejoinder.stores.scan import Found, Scores
from rejoinder.text.courtesy import asks
from rejoinder.text.polarity import repeats

OPPOSITES = 20  # candidates that are read beside k, for some that do not answer the opposite


@dataclass(frozen=True, slots=True, kw_only=True)
class Chooser:
    """Chooses the replies to queries among the candidates that were found."""

    queries: Queries
    filtered: FilteredRows
    options: SearchOptions
    familiarity: Familiarity | None  # None: scores stay as they were found
    closings: Callable[[], Closings | None]  # None: rules alone tell what is settled
    keeps_opposites: bool = False  # replies to the opposite of a message stay where they are

    def replies(self, conversation: int, found: Found, wanted: int) -> list[Reply] | None:
        """Return the replies to a conversation of what its parts found, `wanted` candidates each.

        None: more are needed.
        """
        parts = read_said(self.queries, conversation, self.closings)
        joined = self._join(conversation, found, wanted, parts)
        minimum = self.options.minimum_score
        lowest = ANY_SCORE if minimum is None else minimum
        order = joined.answers_first(lowest)

        @functools.cache
        def opposes(number: int) -> bool:
            reply = read_reply(self.filtered, number)
            return bool(reply.known and parts.opposite(joined.with_part(number, reply)))

        def choose(pool: int) -> list[Reply] | None:
            best = postprocess(
                joined.numbers[order],
                joined.scores[order],
                self.filtered,
                self.queries.forbidden[conversation],
                self.options,
                pool=pool,
                is_last=joined.complete_from < lowest,
                opposes=opposes,
            )
            return None if best is None else list(itertools.starmap(joined.with_part, best))

        chosen = self._without_opposites(choose, parts, OPPOSITES + len(joined.also))
        return None if chosen is None else _first_answers(chosen)

    def _without_opposites(
        self, choose: Callable[[int], list[Reply] | None], parts: SaidParts, more: int
    ) -> list[Reply] | None:
        """Return what `choose` gives, with replies to the opposite of the message pushed back.

        `more` candidates are judged, so that the first reply does not depend on k.
        """
        replies = choose(self.options.pool)
        if replies is None:
            return None
        opposites = (reply for reply in replies if reply.known and parts.opposite(reply))
        if self.keeps_opposites or next(opposites, None) is None:
            return replies if self.options.diversity else best_first(replies)
        if not self.options.diversity:
            replies = choose(self.options.pool + more)
        return None if replies is None else push_back(replies, parts, self.options)

    def _join(
        self, conversation: int, candidates: Found, wanted: int, parts: SaidParts
    ) -> FoundByParts:
        """Return what the parts of a conversation found as one list, scored by familiarity too."""
        texts = parts.texts
        scored = [
            self._change_by_words(text, numbers, scores / self.queries.sharpness)
            for text, (numbers, scores) in zip(texts, candidates, strict=True)
        ]
        positions_of = self.filtered.positions_of
        joined = join_parts(scored, texts, wanted, positions_of)
        if len(joined.parts):
            fitting = self._fitting_part(joined, scored, parts)
            if fitting is not None:
                best = {int(joined.numbers[0]): fitting}
                joined = join_parts(scored, texts, wanted, positions_of, best)
        if self.familiarity is None or not len(joined.numbers):
            return joined
        change = self._density_change(conversation, candidates, joined)
        if self.queries.foreign:
            is_foreign = self.queries.foreign[conversation]
            change += self.familiarity.of_language(is_foreign=is_foreign)
        return joined.plus(change)

    def _fitting_part(self, joined: FoundByParts, scored: Found, parts: SaidParts) -> int | None:
        """Return the part that the best candidate fits, if it opposes the one that it fits best.

        "I have not lost it. Why this fee?": who asks so may also be one who has lost it. Such a
        part alone finds the candidate first, and nearly as well.
        """
        best = int(joined.numbers[0])
        own = joined.parts[best]
        others = [
            part
            for part, (numbers, _) in enumerate(scored)
            if part != own and len(numbers) and int(numbers[0]) == best
        ]
        if not others:
            return None
        reply = read_reply(self.filtered, best)
        if not reply.known or not parts.opposite(replace(reply, part=own)):
            return None
        texts = parts.texts
        less = penalties(texts)
        least = joined.scores[0] - PENALTY
        fitting = [
            (score, part)
            for part in others
            if (score := scored[part][1][0] - less[part]) >= least
            and (asks(texts[part]) or repeats(texts[part], reply.known, texts[0]))
            and not parts.opposite(replace(reply, part=part))
        ]
        return max(fitting)[1] if fitting else None

    def _change_by_words(
        self, text: str, numbers: Positions, scores: Scores
    ) -> tuple[Positions, Scores]:
        """Return what a part of a message found, with scores that words change."""
        familiarity = self.familiarity
        if familiarity is None or not (familiarity.word_weight and len(numbers)):
            return numbers, scores
        known = read_reply(self.filtered, int(numbers[0])).known
        return numbers, scores + familiarity.of_words(text, known)

    def _density_change(self, conversation: int, candidates: Found, joined: FoundByParts) -> float:
        """Return what density changes all scores by.

        The part was chosen without it: it says whether a message is for the index. Of the parts
        that find the same reply the most usual one counts.
        """
        familiarity = self.familiarity
        if familiarity is None or familiarity.density is None:
            return 0.0
        best = int(joined.numbers[0])
        position, _ = self.filtered.read(best)
        agreeing = {joined.parts.get(best, 0)}.union(
            part for part, (own, _) in enumerate(candidates) if len(own) and int(own[0]) == best
        )
        vectors = self.queries.vectors
        rows = self.queries.rows[conversation]
        return max(familiarity.of_density(vectors[rows[part]], position) for part in agreeing)


def read_said(
    queries: Queries, conversation: int, closings: Callable[[], Closings | None]
) -> SaidParts:
    """Return what the newest message of a conversation says by its parts."""
    texts = _parts(queries, conversation)
    rows = queries.rows[conversation]

    def closing() -> list[bool]:
        may_close = list(map(may_be_closing, texts))
        told = closings() if any(may_close) else None
        if told is None:
            return [False] * len(texts)
        vectors = (queries.vectors[row] / queries.sharpness for row in rows)
        return [
            may and len(own) == 1 and told.is_closing(own[0])
            for may, own in zip(may_close, vectors, strict=True)
        ]

    return SaidParts(texts, closing)


def _parts(queries: Queries, conversation: int) -> list[str]:
    """Return the parts of a conversation's newest message; empty texts where they are unknown."""
    rows = queries.rows[conversation]
    return [queries.inputs[row] for row in rows] if queries.inputs else [""] * len(rows)


def _first_answers(replies: list[Reply]) -> list[Reply]:
    """Return replies of which the first answers the message: it may be what is left to give.

    What was found for another sentence may have been said already, or be the opposite of it.
    """
    if not replies or not replies[0].also:
        return replies
    return [replace(replies[0], also=False), *replies[1:]]
