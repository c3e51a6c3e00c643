"""Messages that a file holds more than once, as exports that overlap have them."""

from __future__ import annotations

from collections.abc import Hashable

REPEATED = "duplicate messages"  # a key of `Reading.dropped`


class Repeats:
    """Keys of the messages so far, as hashes."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def has(self, *key: Hashable) -> bool:
        """Return whether a message had this key before, and remember it."""
        known = len(self._seen)
        self._seen.add(hash(key))
        return len(self._seen) == known

    def has_id(self, value: object, scope: object = "") -> bool:
        """Return whether a message had this id before, in this scope; not if it has no id."""
        return value is not None and value != "" and self.has(str(scope), str(value))
