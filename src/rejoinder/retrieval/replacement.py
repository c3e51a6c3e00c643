"""Replies that are added under ids that an index has already: replaced, or named."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rejoinder.corpora.schema import Candidate

SHOWN = 5


def id_of(candidate: Candidate) -> str:
    """Return the id of a reply, as `index delete --id` takes it; nothing if it has none."""
    value = candidate.payload.get("id")
    return "" if value is None or isinstance(value, list | dict) else str(value)


def positions_by_id(replies: Iterable[tuple[int, Candidate]]) -> dict[str, list[int]]:
    """Return the positions of the replies of each id."""
    positions: dict[str, list[int]] = defaultdict(list)
    for position, candidate in replies:
        if name := id_of(candidate):
            positions[name].append(position)
    return dict(positions)


@dataclass(slots=True)
class KnownIds:
    """The ids of an index that replies which are added have too."""

    known: Mapping[str, object]
    met: dict[str, None]

    def watch(self, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
        """Yield the replies; remember the ids that are known."""
        for candidate in candidates:
            name = id_of(candidate)
            if name in self.known:
                self.met[name] = None
            yield candidate

    def note(self) -> str:
        """Return a line that names the ids; nothing if there are none."""
        if not self.met:
            return ""
        names = ", ".join(itertools.islice(self.met, SHOWN))
        more = f" and {len(self.met) - SHOWN:,} more" if len(self.met) > SHOWN else ""
        return (
            f"{len(self.met):,} ids were there already and now have two editions, both of which "
            f"are suggested: {names}{more}; `index delete --id` takes both away, `index add "
            "--replace` puts the new one in the old one's place"
        )


@dataclass(frozen=True, slots=True)
class Replacement:
    """What becomes of an index when replies replace those of their ids."""

    changes: Mapping[int, Candidate]  # by position
    deleted: Sequence[int]  # of ids that have fewer replies now
    added: Sequence[Candidate]
    unchanged: int


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
    deleted: list[int] = []
    unchanged = 0
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
    return Replacement(changes, deleted, added, unchanged)


def replace_replies(index: Any, candidates: Iterable[Candidate], **options: Any) -> Replacement:
    """Replace the replies of an index by those with their ids, and add the others.

    A reply keeps its position. In a store, whose replies cannot change, the new one is added before
    the old one goes.
    """
    plan = plan_replacement(index, candidates)
    if hasattr(index, "edit"):
        if plan.changes or plan.deleted:
            index.edit(plan.changes, plan.deleted)
        if plan.added:
            index.add(plan.added, **options)
        return plan
    new = [*plan.changes.values(), *plan.added]
    if new:
        index.add(new, **options)
    if plan.changes or plan.deleted:
        index.delete({*plan.changes, *plan.deleted})
    return plan
