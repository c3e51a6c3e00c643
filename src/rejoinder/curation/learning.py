"""Learning from old chats and from the log of an index: which replies were sent, in answer to what.

The conversation before a message that is a reply of the index (see `matching`) becomes an example
of the reply, and so does one of the log for which the reply was chosen (see `choices`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from rejoinder.corpora.keys import text_key
from rejoinder.corpora.schema import Candidate, Example
from rejoinder.corpora.splits import thread_share
from rejoinder.curation.changes import renamed
from rejoinder.curation.choices import chosen_matches, positions_by_text
from rejoinder.curation.examples import with_examples
from rejoinder.curation.feedback import FeedbackLog
from rejoinder.curation.matching import Match, match
from rejoinder.evaluation.bootstrap import estimates
from rejoinder.progress import Advance, silent
from rejoinder.retrieval.encoding.head import check_takes_examples
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.options import ANY_SCORE

HELD_OUT = 0.2  # share of the conversations by which what was learned is measured
RANKS = (1, 3, 10)
LEAST_THREADS = 10  # conversations left out below which a fall says nothing


@dataclass(frozen=True, slots=True)
class Learned:
    """The result of learning from chats."""

    messages: int  # that were looked at
    matched: int  # of them were replies of the index
    chosen: int  # choices in the index's log that count
    examples: int  # that the index has learned now
    unsent: tuple[int, ...]  # positions of replies that nobody sent
    held_out: int  # matched messages by which the index was measured
    before: Mapping[int, float]  # share of these whose reply was among the first k
    after: Mapping[int, float]
    is_worse: bool  # whether the share of the first reply clearly fell; see `has_fallen`
    is_fitted: bool  # whether the index was fitted again


def learn(
    index: Index, log: FeedbackLog, examples: Sequence[Example] = (), progress: Advance = silent
) -> Learned:
    """Make conversations examples of the replies that answered them, and fit the head again.

    These are the conversations of `examples` in which a reply of the index was sent, and those of
    the log for which a reply was chosen. The positions stay. Without any of them the head alone is
    fitted, to replies that were added since, for instance; an index that would be the same stays as
    it is. A fifth of the `examples`' conversations is left out, to measure with. `progress` counts
    examples.

    Raises:
        InputError: the model gives a conversation several vectors, or somebody else has changed the
            index.
    """
    check_takes_examples(index.model)
    replies = dict(index)
    matches = match(replies.items(), examples, progress)
    out = held_out(matches)
    asked = [matched for matched, is_out in zip(matches, out, strict=True) if is_out]
    kept = [matched for matched, is_out in zip(matches, out, strict=True) if not is_out]
    chosen = chosen_matches(positions_by_text(replies, renamed(log.database)), log)
    changes = with_examples(index.model, replies, [*kept, *chosen])
    before = _hits(index, asked)
    fingerprint = index.fingerprint
    if changes or (replies and not examples):
        index.fit(changes)
    after = _hits(index, asked)
    return Learned(
        messages=len(examples),
        matched=len(matches),
        chosen=len(chosen),
        examples=_new_examples(replies, changes),
        unsent=unsent(replies, matches) if examples else (),
        held_out=len(asked),
        before=_shares(before),
        after=_shares(after),
        is_worse=has_fallen(asked, before[:, 0], after[:, 0]),
        is_fitted=index.fingerprint != fingerprint,
    )


def learn_chosen(index: Index, log: FeedbackLog) -> int:
    """Make choices of the log examples, except those from before the last `forget`.

    Return how many are new.
    """
    check_takes_examples(index.model)
    entries = [entry for entry in log.entries(after=log.forgotten) if entry.chosen is not None]
    names = renamed(log.database)
    wanted = {text_key(entry.chosen or "") for entry in entries}
    wanted |= {names[key] for key in wanted & names.keys()}
    if not wanted:
        return 0
    # not all: a million take a gigabyte
    replies = {at: reply for at, reply in index if text_key(reply.text) in wanted}
    matches = chosen_matches(positions_by_text(replies, names), entries)
    changes = with_examples(index.model, replies, matches)
    if changes:
        index.edit(changes)
    return _new_examples(replies, changes)


def forget(index: Index, log: FeedbackLog) -> int:
    """Take all examples away that were learned; return how many.

    Choices that are in the log now come back by `learn` alone, not by themselves.
    """
    changes = {at: replace(reply, learned=()) for at, reply in index if reply.learned}
    count = sum(len(reply.learned) for _, reply in index)
    if changes:
        index.edit(changes)
    if any(reply.learned for _, reply in index.candidates(deleted=True)):
        index.compact()  # the files would keep them
    log.forget()
    return count


def unsent(replies: Mapping[int, Candidate], matches: Sequence[Match]) -> tuple[int, ...]:
    """Return the positions of replies that nobody sent, nor a copy of them."""
    sent = {text_key(replies[matched.position].text) for matched in matches}
    return tuple(at for at, reply in replies.items() if text_key(reply.text) not in sent)


def held_out(matches: Sequence[Match]) -> npt.NDArray[np.bool_]:
    """Return which matches are of the conversations by which what was learned is measured."""
    return np.array(
        [thread_share(matched.thread) > 1 - HELD_OUT for matched in matches], dtype=np.bool_
    )


def _new_examples(replies: Mapping[int, Candidate], changes: Mapping[int, Candidate]) -> int:
    return sum(len(new.learned) - len(replies[at].learned) for at, new in changes.items())


def has_fallen(
    matches: Sequence[Match], before: npt.NDArray[np.bool_], after: npt.NDArray[np.bool_]
) -> bool:
    """Return whether fewer matches are hits (n,) `after` than `before`, beyond chance.

    The 95 % interval of the paired difference excludes 0 (`evaluation.bootstrap.estimates`, over
    conversations). Fewer than `LEAST_THREADS` conversations say nothing.
    """
    threads, units = np.unique([matched.thread for matched in matches], return_inverse=True)
    if len(threads) < LEAST_THREADS:
        return False
    difference = after.astype(np.float64) - before
    [change] = estimates(difference[:, None], units, bounds=(-1.0, 1.0))
    return change.high < 0


def _hits(index: Index, matches: Sequence[Match]) -> npt.NDArray[np.bool_]:
    """Return whether the reply that was sent is among the first k, (n, len(RANKS))."""
    if not matches:
        return np.zeros((0, len(RANKS)), dtype=np.bool_)
    results = index.search(
        [matched.context for matched in matches], RANKS[-1], ANY_SCORE, distinct=False
    )
    at = [[reply.position for reply in replies] for replies in results]
    pairs = list(zip(matches, at, strict=True))
    return np.array([[matched.position in some[:k] for k in RANKS] for matched, some in pairs])


def _shares(hits: npt.NDArray[np.bool_]) -> dict[int, float]:
    """Return the share of hits (n, len(RANKS)) by k; none where there are no messages."""
    if not len(hits):
        return {}
    return dict(zip(RANKS, hits.mean(axis=0).tolist(), strict=True))
