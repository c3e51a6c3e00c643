"""The forms of prepared replies that are of no one tool."""

from __future__ import annotations

from rejoinder.corpora.readers.answers.json_categories import JSON_CATEGORIES
from rejoinder.corpora.readers.answers.lines import TEXT
from rejoinder.corpora.readers.answers.mapping import MAPPING
from rejoinder.corpora.readers.answers.objects import JSON
from rejoinder.corpora.readers.answers.pages.faq_page import FAQ_PAGE
from rejoinder.corpora.readers.answers.table import TABLE
from rejoinder.corpora.readers.answers.texts.written import WRITTEN
from rejoinder.corpora.readers.answers.yaml_records import YAML

FORMS = (WRITTEN, YAML, FAQ_PAGE, TABLE, MAPPING, JSON_CATEGORIES, JSON, TEXT)
"""In the order in which they are tried."""
