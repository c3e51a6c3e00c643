"""Exports of help desks."""

from rejoinder.corpora.readers.help_desks.replies import REPLY_FORMS
from rejoinder.corpora.readers.help_desks.tickets import TICKET_FORMS

__all__ = ["REPLY_FORMS", "TICKET_FORMS"]
