"""Deleting feedback, and what was made of it: learned examples, and their traces in the log."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rejoinder.corpora.keys import context_key
from rejoinder.curation.feedback import FeedbackLog, unlearn
from rejoinder.retrieval.index import Index


@dataclass(frozen=True, slots=True)
class Erased:
    """The result of an erasure: what was deleted, and where the same words are left."""

    entries: int
    examples: int  # learned ones that were taken from replies
    changes: int  # of the log in which such examples stood
    left: tuple[int, ...]  # positions of replies with the same examples, which somebody wrote


def erase(
    index: Index,
    log: FeedbackLog,
    *,
    ids: Sequence[int] | None = None,
    before: float | None = None,
    source: str | None = None,
) -> Erased:
    """Delete the entries of an index's log to which all conditions apply; see `FeedbackLog.delete`.

    Examples that were learned from them, and whose words no other entry has, go from the replies,
    from the log of changes and from what undoing brings back. Examples that somebody wrote stay.

    Raises:
        BusyError: another process has been changing the index, or reading the log, for so long that
            the same has to be done again.
    """
    contexts = log.contexts_of(ids=ids, before=before, source=source)
    examples = _unlearn(index, contexts)
    deleted = log.delete(ids=ids, before=before, source=source)
    # a server may have learned, meanwhile, from entries that were still there
    examples += _unlearn(index, contexts)
    left = tuple(
        at
        for at, reply in index
        if any(context_key(example) in contexts for example in reply.examples)
    )
    return Erased(deleted.entries, examples, deleted.changes, left)


def _unlearn(index: Index, contexts: Collection[str]) -> int:
    """Take learned examples of these keys from replies; return how many.

    Those of deleted replies, and of earlier editions, go from the files.
    """
    with index.store.lock():
        index.refresh()
        old = dict(index)
        new = {at: unlearn(reply, contexts) for at, reply in old.items()}
        changed = {at: reply for at, reply in new.items() if reply is not old[at]}
        if changed:
            index.edit(changed)
        if any(
            unlearn(reply, contexts) is not reply for _, reply in index.candidates(deleted=True)
        ):
            index.compact()
    return sum(len(old[at].learned) - len(reply.learned) for at, reply in changed.items())
