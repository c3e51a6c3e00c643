"""Settings of a server, which every one of its processes gets."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from rejoinder.serving.guard import NO_KEYS, Keys
from rejoinder.serving.worker.sources import Sources


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Settings of a server."""

    sources: Sources
    keys: Keys = NO_KEYS
    local: bool = True  # see `Guard`
    queue: int = 64  # requests that may wait
    seconds: float = 30.0  # for a request
    minimum_confidence: float | None = None  # of requests that do not give it
    log_texts: bool = False
    workers: int = 1
    answers: Path | None = None  # folder that several workers share; see `RecentAnswers`
    answers_key: bytes = dataclasses.field(default=b"", repr=False)  # encrypts what is in it
