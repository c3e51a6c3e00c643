"""Choices of a log that become examples: which ones count where people disagree."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from rejoinder.corpora.keys import context_key, text_key
from rejoinder.corpora.schema import Candidate
from rejoinder.curation.feedback import Entry, has_words
from rejoinder.curation.matching import Match
from rejoinder.retrieval.turns import clean_context

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

    Where equal conversations, as they are cleaned, were answered with different replies, the one
    that most sources have chosen counts, of these the one that was chosen most often, of these the
    newest. Of a source, the first `MOST_OF_SOURCE` conversations with a reply count, so that
    nobody's mistakes outweigh what others choose.
    """
    by_context: defaultdict[str, list[tuple[int, Entry]]] = defaultdict(list)
    for entry in entries:
        if entry.chosen is None or not has_words(entry.context):
            continue
        at = positions.get(text_key(entry.chosen))
        if at is not None:
            by_context[context_key(clean_context(entry.context))].append((at, entry))
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
