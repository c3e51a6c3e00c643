"""An index at a desk: it finds replies, remembers events, and learns from what agents send."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from rejoinder.conversations import Conversation
from rejoinder.curation.feedback import FeedbackLog
from rejoinder.curation.outcomes import Outcome, Recorder
from rejoinder.curation.tickets import Ticket, forget, recall, remember
from rejoinder.errors import InputError
from rejoinder.retrieval.index import Index
from rejoinder.retrieval.replies import Reply
from rejoinder.serving.http.logs import logger
from rejoinder.serving.worker.loading import Follower
from rejoinder.serving.worker.stamps import Stamps

SUGGESTED = 3


@dataclass(frozen=True, slots=True)
class Offer:
    """Replies that were suggested for a conversation."""

    messages: Conversation
    replies: Sequence[Reply]


class IndexSearcher:
    """An index, in which one thread at a time finds replies, and which learns from their use.

    No search waits for the log, which may be in a database that hangs.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self._log = FeedbackLog(index.store)
        self._recorder = Recorder(index, self._log)
        self._stamps = Stamps(index.store)
        self._follower = Follower(index, self._stamps.latest())
        self._searching = threading.Lock()
        self._logging = threading.Lock()

    def find(self, messages: Conversation) -> list[Reply]:
        """Return the replies to suggest."""
        with self._searching:
            stamp = self._stamps.latest()
            if stamp != self._follower.stamp and not self._stamps.is_hanging:
                self._follower.load(stamp)
            return self._index.search([messages], SUGGESTED, no_repeat=True)[0]

    def claim(self, event: str) -> bool:
        """Return whether an event is new, and let the log remember it for a day."""
        own = _ticket(event)
        with self._logging:
            try:
                self._stamps.check()
                if recall(self._log.database, own) is not None:
                    return False
                with self._log.database.writing() as connection:
                    remember(connection, own, {})
            except (InputError, OSError) as error:  # it is remembered in memory
                fields = {"reason": str(error)}
                logger.warning("the log does not remember an event", extra={"fields": fields})
        return True

    def close(self) -> None:
        """Close the log, so that all of it is in its one file."""
        self._stamps.close()
        with self._logging:
            self._log.database.close()

    def release(self, event: str) -> None:
        """Let the log forget an event, which may come again."""
        with self._logging, contextlib.suppress(InputError, OSError):
            self._stamps.check()
            forget(self._log.database, _ticket(event))

    def feedback(self, offer: Offer, text: str, person: str) -> None:
        """Record what an agent has sent after an offer."""
        with self._logging:
            self._stamps.check()
            outcome = Outcome(
                messages=offer.messages,
                offered=[reply.position for reply in offer.replies],
                text=text,
                source=person or None,
                texts=[reply.text for reply in offer.replies],
            )
            self._recorder.record([outcome])


def _ticket(event: str) -> Ticket:
    key = hashlib.blake2b(b"desk " + event.encode(errors="replace"), digest_size=16)
    return Ticket(key.hexdigest(), "")
