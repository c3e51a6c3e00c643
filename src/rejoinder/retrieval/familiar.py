"""What a conversation found, scored by how familiar its message is to the index, too."""

from __future__ import annotations

from rejoinder.retrieval.encoding.familiarity import Familiarity
from rejoinder.retrieval.parts import FoundByParts, join_parts
from rejoinder.retrieval.queries import Queries
from rejoinder.retrieval.replies import FilteredIndex
from rejoinder.stores.runs import Positions
from rejoinder.stores.scan import Found, Scores


def part_texts(queries: Queries, conversation: int) -> list[str]:
    """Return the parts of a conversation's newest message; empty texts where they are unknown."""
    rows = queries.rows[conversation]
    return [queries.inputs[row] for row in rows] if queries.inputs else [""] * len(rows)


def join_familiar(
    found: Found,
    filtered: FilteredIndex,
    queries: Queries,
    conversation: int,
    familiarity: Familiarity | None,
) -> FoundByParts:
    """Return what the parts of a conversation found as one list, scored by familiarity too."""
    texts = part_texts(queries, conversation)
    scored = [
        change_by_words((numbers, scores / queries.sharpness), filtered, text, familiarity)
        for text, (numbers, scores) in zip(texts, found, strict=True)
    ]
    joined = join_parts(scored, texts, filtered.positions_of)
    if familiarity is None or not len(joined.numbers):
        return joined
    change = _density_change(found, joined, filtered, queries, conversation, familiarity)
    if queries.foreign:
        change += familiarity.of_language(is_foreign=queries.foreign[conversation])
    return joined._replace(scores=joined.scores + change)


def _density_change(
    found: Found,
    joined: FoundByParts,
    filtered: FilteredIndex,
    queries: Queries,
    conversation: int,
    familiarity: Familiarity,
) -> float:
    """Return what density changes all scores by.

    The part was chosen without it: it says whether a message is for the index. Of the parts that
    find the same reply the most usual one counts.
    """
    if familiarity.density is None:
        return 0.0
    best = int(joined.numbers[0])
    position = filtered.reply(best, 0.0).position
    agreeing = {joined.parts.get(best, 0)}.union(
        part for part, (own, _) in enumerate(found) if len(own) and int(own[0]) == best
    )
    rows = queries.rows[conversation]
    return max(familiarity.of_density(queries.vectors[rows[part]], position) for part in agreeing)


def change_by_words(
    found: tuple[Positions, Scores],
    filtered: FilteredIndex,
    text: str,
    familiarity: Familiarity | None,
) -> tuple[Positions, Scores]:
    """Return what a part of a message found, with scores that words change."""
    numbers, scores = found
    if familiarity is None or not (familiarity.word_weight and len(numbers)):
        return found
    known = filtered.reply(int(numbers[0]), 0.0).known
    return numbers, scores + familiarity.of_words(text, known)
