"""Answers with their questions, as tables, JSON, lists and pages have them."""

from rejoinder.corpora.readers.answers.pages import FAQ_PAGE
from rejoinder.corpora.readers.answers.table import JSON, KNOWN, TABLE, TEXT

__all__ = [
    "FAQ_PAGE",
    "JSON",
    "KNOWN",
    "TABLE",
    "TEXT",
]
