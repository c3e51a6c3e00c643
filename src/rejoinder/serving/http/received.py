"""Bounds of the bytes of all bodies together."""

from __future__ import annotations

LATE = "the body did not come in time"
CROWDED = "the server receives as much at once as it allows; try again"


class TooLargeError(Exception):
    """A body is larger than its address takes."""


class CrowdedError(Exception):
    """The bodies of all requests are larger than the server takes together."""


class ReceivedBytes:
    """Bytes of the bodies that are not answered yet, up to a bound."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes = 0

    def add(self, count: int) -> None:
        """Count bytes that have come; raise CrowdedError if they are too many."""
        self._bytes += count
        if self._bytes > self._most:
            raise CrowdedError

    def remove(self, count: int) -> None:
        """Forget bytes that were counted."""
        self._bytes -= count
