"""Outcomes of offered replies, written to the log of an index as entries.

Replies are named by their positions or by the field id of their payloads; a text that was sent
counts as the reply that it is, filled in or mistyped.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from rejoinder.conversations import Conversation, read_contexts
from rejoinder.corpora.keys import text_key
from rejoinder.corpora.sent_replies import ReplyMatcher
from rejoinder.curation.feedback import Entry, FeedbackLog
from rejoinder.curation.matching import newest_messages
from rejoinder.curation.tickets import Ticket
from rejoinder.errors import InputError, NotFoundError
from rejoinder.retrieval.reader import IndexReader
from rejoinder.retrieval.replacement import id_value
from rejoinder.stores.segments import value_texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of the replies that were offered for a conversation.

    Without `chosen` and `text` none of them was taken.
    """

    messages: Conversation
    offered: Sequence[int | str] = ()  # positions, or texts of the field id, in the order shown
    chosen: int | str | None = None  # likewise
    text: str | None = None  # what was sent instead
    source: str | None = None  # whose feedback it is; a digest of it is kept
    texts: Sequence[str] | None = None  # of the replies offered when they were, if known


@dataclass(frozen=True, slots=True)
class Recorded:
    """An entry that is written: its number, and the position of the reply that counts as taken."""

    id: int
    chosen: int | None


class Recorder:
    """Writes the outcomes of an index's replies to its log. Any thread may do so."""

    def __init__(self, index: IndexReader, log: FeedbackLog) -> None:
        self._index = index
        self._log = log
        self._known = _KnownReplies(index.snapshot())

    def feedback(
        self,
        messages: Conversation,
        offered: Sequence[int | str] = (),
        *,
        chosen: int | str | None = None,
        text: str | None = None,
        source: str | None = None,
    ) -> Recorded:
        """Log which of the replies offered for a conversation was taken; see `Outcome`.

        A `text` that is a reply of the index, filled in or mistyped, counts as that reply.

        Raises:
            InputError: the conversation has no message, or the index does not have a reply that is
                named.
        """
        outcome = Outcome(
            messages=messages, offered=offered, chosen=chosen, text=text, source=source
        )
        return self.record([outcome])[0]

    def record(
        self, outcomes: Sequence[Outcome], tickets: Sequence[Ticket | None] = ()
    ) -> list[Recorded]:
        """Write several outcomes, all or none; see `feedback`.

        Each is that of the request of its ticket, if there is one.
        """
        known = self._known
        if known.index.manifest is not self._index.manifest:
            known = _KnownReplies(self._index.snapshot())
            self._known = known
        entries = [known.entry(outcome) for outcome in outcomes]
        ids = self._log.append(
            [entry for entry, _ in entries], tickets, [chosen for _, chosen in entries]
        )
        return [Recorded(at, chosen) for at, (_, chosen) in zip(ids, entries, strict=True)]


class _KnownReplies:
    """The replies of an index as it was: by position, by their field id, by what people send."""

    def __init__(self, index: IndexReader) -> None:
        self.index = index

    def position(self, name: int | str, offered: Sequence[int] = ()) -> int:
        """Return the position of a reply that is named by it or by the field id of its payload.

        Of several with one id it is one that was `offered`, if any, or else the first.
        """
        if not isinstance(name, str):
            return name
        if name not in self._by_id:
            raise NotFoundError(
                f"no reply of {self.index.store} has the id {name[:60]!r}; name a reply by its "
                "position, a number, or by the field id of its payload, a text"
            )
        positions = self._by_id[name]
        shown = set(offered)
        return next((position for position in positions if position in shown), positions[0])

    @functools.cached_property
    def _matcher(self) -> ReplyMatcher:
        return ReplyMatcher(self.index)

    @functools.cached_property
    def _by_id(self) -> dict[str, list[int]]:
        positions: dict[str, list[int]] = {}
        for position, reply in self.index:
            value = id_value(reply.payload)
            for name in [] if value is None else value_texts(value):
                positions.setdefault(name, []).append(position)
        return positions

    def entry(self, outcome: Outcome) -> tuple[Entry, int | None]:
        """Return the entry of an outcome, and the position of the reply that counts as taken."""
        [context] = read_contexts([outcome.messages])
        positions = [self.position(name) for name in outcome.offered]
        offered = outcome.texts or [self._text(position) for position in positions]
        chosen = None if outcome.chosen is None else self.position(outcome.chosen, positions)
        sent = outcome.text if outcome.text and outcome.text.strip() else None
        if chosen is None and sent is not None:
            chosen = self._matcher.find(sent)
            sent = sent if chosen is None else None
        text = None
        if chosen is not None:
            text = dict(zip(positions, offered, strict=True)).get(chosen) or self._text(chosen)
            if sent is not None and text_key(sent) == text_key(text):
                sent = None
        newest = newest_messages(context)
        if not newest:
            raise InputError("the conversation has no message with words, so nothing can answer it")
        return Entry(newest, tuple(offered), text, sent, outcome.source or ""), chosen

    def _text(self, position: int) -> str:
        """Return the text of the reply at a position, which may have been deleted since."""
        return self.index.candidate(position, deleted=True).text
