"""Threads of mails: by the mails that they answer, else by subject and participants.

The order of the mails in a file does not count: ids join mails in any order, and subjects join
them from the oldest to the newest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from rejoinder.corpora.readers.chat import ChatMessage
from rejoinder.patterns import search_pattern

_MAX_THREADS = 200  # of one subject, the newest, that an answer without references may continue
_PREFIX = search_pattern(
    r"^\s*+(?:(?:re|aw|fwd?|wg|sv|antw|res|rv|tr)\s*+(?:\[\d++\]\s*+)?:\s*+)++", re.IGNORECASE
)


class Mail(NamedTuple):
    """A mail as a message, with the headers that tell its thread."""

    message: ChatMessage
    name: str  # of its author
    key: str  # its id, or another text that no other mail has
    root: str  # id of the first mail of its thread as far as its headers tell, or nothing
    depth: int  # mails before it in its references
    subject: str
    people: Sequence[str]  # addresses, its author's first


class _Thread(NamedTuple):
    """A thread of a subject, with the addresses of its mails."""

    key: str
    opener: str
    people: set[str]

    def fit(self, people: Set[str]) -> int:
        """Return how well an answer's addresses fit: 0, another thread's; 3, both sides' are there.

        A mail without a recipient fits. An opener's domain does not count: customers share it.
        """
        if len(people) < 2 or len(self.people) < 2:
            return 1
        if len(people & self.people) > 1:
            return 3
        opener = {self.opener}
        domains = _domains(people - opener) & _domains(self.people - opener)
        return 2 if self.opener in people and domains else 0


def _domains(people: Set[str]) -> set[str]:
    return {address.rpartition("@")[2] for address in people}


@dataclass(slots=True)
class MailThreads:
    """The mails of a mailbox, joined to threads."""

    _mails: list[Mail] = field(default_factory=list)
    _parents: dict[str, str] = field(default_factory=dict)  # a forest, with a tree for each thread

    def join(self, keys: Sequence[str]) -> None:
        """Join the mails with these ids, known or not yet known, to one thread."""
        root = self._find(keys[0])
        for key in keys[1:]:
            self._parents[self._find(key)] = root

    def add(self, mail: Mail) -> None:
        """Add a mail in the order of the file."""
        self._mails.append(mail)

    def all(self) -> Iterator[list[Mail]]:
        """Yield the threads in the order of their oldest mails, the oldest mail of each first."""
        mails = _by_time(self._mails)
        of_subject: dict[str, list[_Thread]] = {}
        for mail in mails:
            subject = _PREFIX.sub("", mail.subject).strip().casefold()
            if subject:
                self._join_by_subject(mail, of_subject.setdefault(subject, []))
        threads: dict[str, list[Mail]] = {}
        for mail in mails:
            threads.setdefault(self._find(mail.key), []).append(mail)
        yield from threads.values()

    def _find(self, key: str) -> str:
        """Return the key that stands for the thread of a mail."""
        way = []
        while (parent := self._parents.get(key, key)) != key:
            way.append(key)
            key = parent
        for passed in way:
            self._parents[passed] = key
        return key

    def _join_by_subject(self, mail: Mail, threads: list[_Thread]) -> None:
        """Join an answer without references to the thread of its subject that fits best.

        The thread of the mail becomes the newest of its subject.
        """
        people = set(mail.people)
        if threads and not mail.depth and _PREFIX.match(mail.subject):
            best = max(reversed(threads), key=lambda thread: thread.fit(people))
            if best.fit(people):
                self.join([best.key, mail.key])
        root = self._find(mail.key)
        own = [thread for thread in threads if self._find(thread.key) == root]
        opener = own[0].opener if own else next(iter(mail.people), "")
        threads[:] = [thread for thread in threads if thread not in own] if own else threads
        threads.append(_Thread(root, opener, people.union(*(thread.people for thread in own))))
        del threads[:-_MAX_THREADS]


def _by_time(mails: Iterable[Mail]) -> list[Mail]:
    """Return mails from the oldest to the newest; one without a time has that of the mail before.

    Of mails of one second, an answer comes later.
    """
    last = float("-inf")
    timed = []
    for mail in mails:
        last = last if mail.message.time is None else mail.message.time
        timed.append((last, mail))
    timed.sort(key=lambda pair: (pair[0], pair[1].depth, pair[1].root and pair[1].key))
    return [mail for _, mail in timed]
