"""Answers with their questions, as tables, JSON, lists and pages have them."""

from rejoinder.corpora.readers.answers.columns import KNOWN_COLUMNS
from rejoinder.corpora.readers.answers.forms import FORMS

__all__ = ["FORMS", "KNOWN_COLUMNS"]
