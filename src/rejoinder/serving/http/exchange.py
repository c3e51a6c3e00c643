"""The request that is being answered, and its answer."""

from __future__ import annotations

import contextvars
import itertools
import os
import time
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rejoinder.serving.http.retries import PACE, Pace

# of this process alone
NEW_ID = map("{}-{:x}".format, itertools.repeat(os.urandom(8).hex()), itertools.count())
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Any]
Send: TypeAlias = Callable[[Scope], Any]


@dataclass
class Exchange:
    """A request and its answer, as far as the log and the metrics want to know."""

    request_id: str
    pace: Pace = PACE  # at which refused requests come again
    started: float = field(default_factory=time.perf_counter)
    status: int = 0
    reason: str = ""  # why this server cannot do it, or may not
    is_answered: bool = False  # to the last byte
    texts: Any = None  # what was said, for a log that is asked to hold it
    may_write: bool = True  # whether it has the write key, where there is one
    idempotency_key: bytes | None = None  # under which a change is made once
    notes: list[str] = field(default_factory=list)  # on fields that were ignored


CURRENT: contextvars.ContextVar[Exchange] = contextvars.ContextVar("exchange")
