"""The report on the use of an index, as a server gives it."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any, NamedTuple

from rejoinder.retrieval.index import Index
from rejoinder.retrieval.usage import usage, usage_document

AGE = 60.0  # seconds from which a report is computed anew


class Report(NamedTuple):
    """Statistics of an index's log as JSON types, Markdown and HTML."""

    usage: dict[str, Any]
    markdown: str
    html: str


class Reports:
    """Computes a report at most once a minute; it takes seconds."""

    def __init__(self) -> None:
        self._latest: Report | None = None
        self._until = 0.0

    def get(self, index: Index) -> Report:
        """Return the report on an index, which is always the same one."""
        if self._latest is None or time.monotonic() > self._until:
            told = usage(index)
            document = usage_document(index.folder.name, dict(index), told)
            self._latest = Report(asdict(told), document.markdown(), document.html())
            self._until = time.monotonic() + AGE
        return self._latest
