"""Mails within a text of questions and answers, which would be sent as part of an answer."""

from __future__ import annotations

import re

from rejoinder.corpora.forms.choice import Choice
from rejoinder.corpora.forms.source import Source
from rejoinder.errors import InputError
from rejoinder.patterns import search_pattern

_HEADER = search_pattern(r"^(?:Message-ID|MIME-Version):[ \t]", re.MULTILINE)


def refuse_mails(text: str, source: Source, choice: Choice, form: str) -> None:
    """Raise InputError if lines of a text are headers of mails, and no form is chosen."""
    match = None if choice.form else _HEADER.search(text)
    if match:
        number = text.count("\n", 0, match.start()) + 1
        advice = choice.advice(f", or --set format={form} reads it all the same")
        raise InputError(
            f"{source}:{number}: the header of a mail in a file of questions and answers; save "
            f"mails in a file of their own (.mbox, .eml){advice}"
        )
