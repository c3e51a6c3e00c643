"""The time after which a refused request should come again.

Clients that are refused at once and come again at once are refused again, so that each is told a
time of its own, within a span that grows with the number of those who were refused of late.
"""

from __future__ import annotations

import math
import random
import time
from collections import deque

_WINDOW = 10.0  # seconds in which refusals count
_LONGEST = 30  # seconds
_SHARE = 4  # spans of a second for as many refusals as requests may wait


class Pace:
    """Counts the refusals of a server, of whose requests `queue` may wait."""

    def __init__(self, queue: int = 64) -> None:
        self.queue = queue
        self._refused: deque[float] = deque(maxlen=100_000)
        self._draw = random.Random()

    def span(self) -> int:
        """Return the seconds over which those who were refused of late are spread."""
        now = time.monotonic()
        while self._refused and now - self._refused[0] > _WINDOW:
            self._refused.popleft()
        spans = math.ceil(_SHARE * len(self._refused) / max(self.queue, 1))
        return min(_LONGEST, 1 + spans)

    def after(self) -> float:
        """Return the seconds after which a request that is refused now should come again."""
        self._refused.append(time.monotonic())
        return self._draw.uniform(0.5, self.span())


PACE = Pace()
"""That of requests to a server without a queue."""


def retry_headers(status: int, pace: Pace = PACE) -> dict[str, str]:
    """Return the headers of a refusal: whole seconds, and milliseconds."""
    if status not in (429, 503):
        return {}
    seconds = pace.after() if status == 429 else pace.span() * 0.5
    return {"retry-after": str(math.ceil(seconds)), "retry-after-ms": str(round(1000 * seconds))}
