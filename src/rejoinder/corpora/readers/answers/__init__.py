"""Answers with their questions, as tables, JSON, lists and pages have them."""

from rejoinder.corpora.readers.answers.columns import KNOWN
from rejoinder.corpora.readers.answers.forms import FORMS

__all__ = ["FORMS", "KNOWN"]
