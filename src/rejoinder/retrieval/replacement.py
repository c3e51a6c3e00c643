"""Replies that are added under ids that an index has already: replaced, or named."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rejoinder.corpora.forms.columns import fold
from rejoinder.corpora.schema import Candidate
from rejoinder.retrieval.index import Index

SHOWN = 5


def id_value(payload: Mapping[str, Any]) -> Any:
    """Return the field `id` of a payload, whatever its case; None if there is none."""
    name = "id" if "id" in payload else next((name for name in payload if fold(name) == "id"), "id")
    return payload.get(name)


def id_of(candidate: Candidate) -> str:
    """Return the id of a reply, as `index delete --id` takes it; nothing if it has none."""
    value = id_value(candidate.payload)
    return "" if value is None or isinstance(value, list | dict) else str(value)


def positions_by_id(replies: Iterable[tuple[int, Candidate]]) -> dict[str, list[int]]:
    """Return the positions of the replies of each id."""
    positions: dict[str, list[int]] = defaultdict(list)
    for position, candidate in replies:
        if name := id_of(candidate):
            positions[name].append(position)
    return dict(positions)


def _names(ids: Collection[str]) -> str:
    """Return the first ids of some, and how many more there are."""
    names = ", ".join(itertools.islice(ids, SHOWN))
    return f"{names} and {len(ids) - SHOWN:,} more" if len(ids) > SHOWN else names


class KnownReplies:
    """The replies of an index, and which of those that are added have an id or a text of theirs."""

    def __init__(self, replies: Iterable[tuple[int, Candidate]]) -> None:
        self._ids: set[str] = set()
        self._texts: set[str] = set()
        for _, candidate in replies:
            self._ids.add(id_of(candidate))
            self._texts.add(candidate.text)
        self._ids.discard("")
        self._met: dict[str, None] = {}
        self._copies = 0

    def watch(self, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
        """Yield the replies; remember those that are known."""
        for candidate in candidates:
            name = id_of(candidate)
            if name in self._ids:
                self._met[name] = None
            elif candidate.text in self._texts:
                self._copies += 1
            yield candidate

    def notes(self) -> Iterator[str]:
        """Yield lines about the ids, and about the texts of other replies, that were known."""
        if self._met:
            yield (
                f"{len(self._met):,} ids were there already and now have two editions, both of "
                f"which are suggested: {_names(self._met)}; `index delete --id` takes both away, "
                "`index add --replace` puts the new one in the old one's place"
            )
        if self._copies:
            yield (
                f"the index has the texts of {self._copies:,} of these replies already; "
                "--deduplicate leaves such replies out"
            )


@dataclass(frozen=True, slots=True)
class Replacement:
    """A plan to replace the replies of an index by others of the same ids."""

    changes: Mapping[int, Candidate]  # by position
    deleted: Sequence[int]  # of ids that have fewer replies now
    added: Sequence[Candidate]
    unchanged: int
    without_examples: Sequence[str] = ()  # ids of replies whose examples the new ones do not have
    without_id: int = 0  # new replies

    def notes(self) -> Iterator[str]:
        """Yield lines about replies without an id, and about those that lost their examples."""
        if self.without_id:
            yield (
                f"{self.without_id:,} of the new replies have no id, so that they replace none and "
                "were added; give each one in the column id"
            )
        if self.without_examples:
            yield (
                "no examples came with the new replies, so that those of the old ones are gone: "
                f"{_names(self.without_examples)}; add the replies again with their examples"
            )


def plan_replacement(
    replies: Iterable[tuple[int, Candidate]], candidates: Iterable[Candidate]
) -> Replacement:
    """Return which replies change, go and come; what they learned is kept.

    Several replies of one id, such as those of several languages, are replaced in their order.
    """
    old = dict(replies)
    positions = positions_by_id(old.items())
    new: dict[str, list[Candidate]] = defaultdict(list)
    added = []
    for candidate in candidates:
        name = id_of(candidate)
        if name in positions:
            new[name].append(candidate)
        else:
            added.append(candidate)
    changes: dict[int, Candidate] = {}
    without_examples: dict[str, None] = {}
    deleted: list[int] = []
    unchanged = 0
    without_id = sum(not id_of(candidate) for candidate in added)
    for name, listed in new.items():
        places = positions[name]
        deleted += places[len(listed) :]
        added += listed[len(places) :]
        for position, candidate in zip(places, listed, strict=False):
            edition = replace(candidate, learned=old[position].learned)
            if edition == old[position]:
                unchanged += 1
            else:
                changes[position] = edition
                if old[position].examples and not edition.examples:
                    without_examples[name] = None
    return Replacement(changes, deleted, added, unchanged, list(without_examples), without_id)


def replace_replies(index: Index, candidates: Iterable[Candidate], **options: Any) -> Replacement:
    """Replace the replies of an index by those with their ids, and add the others.

    A reply keeps its position. `options` are those of `Index.add`.
    """
    plan = plan_replacement(index, candidates)
    if plan.changes or plan.deleted:
        index.edit(plan.changes, plan.deleted)
    if plan.added:
        index.add(plan.added, **options)
    return plan
