"""Messages of any tool."""

from rejoinder.corpora.readers.messages.chat_json import CHAT_JSON
from rejoinder.corpora.readers.messages.mailbox import MAILBOX
from rejoinder.corpora.readers.messages.table import KNOWN, MESSAGES
from rejoinder.corpora.readers.messages.transcript import TRANSCRIPT
from rejoinder.corpora.readers.messages.transcript_table import TRANSCRIPT_TABLE

__all__ = ["CHAT_JSON", "KNOWN", "MAILBOX", "MESSAGES", "TRANSCRIPT", "TRANSCRIPT_TABLE"]
