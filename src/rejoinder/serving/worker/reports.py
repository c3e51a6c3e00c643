"""Reports on the use of an index, computed at most once a minute."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any, NamedTuple

from rejoinder.curation.feedback import FeedbackLog
from rejoinder.curation.usage import usage
from rejoinder.curation.usage_report import usage_document
from rejoinder.retrieval.reader import IndexReader

AGE = 60.0  # seconds from which a report is computed anew


class UsageReport(NamedTuple):
    """Statistics of an index's log as JSON types, Markdown and HTML."""

    usage: dict[str, Any]
    markdown: str
    html: str


class Reports:
    """Computes the report on an index at most once a minute; it takes seconds."""

    def __init__(self) -> None:
        self._report: UsageReport | None = None
        self._report_until = 0.0

    def report(self, index: IndexReader, log: FeedbackLog) -> UsageReport:
        """Return the report on an index, always the same one, as it was: nobody changes it."""
        if self._report is None or time.monotonic() > self._report_until:
            told = usage(index, log)
            document = usage_document(index.store.name, dict(index), told)
            self._report = UsageReport(asdict(told), document.markdown(), document.html())
            self._report_until = time.monotonic() + AGE
        return self._report
