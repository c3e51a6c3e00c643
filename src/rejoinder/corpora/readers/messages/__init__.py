"""Messages of any tool."""

from rejoinder.corpora.readers.messages.chat_json import CHAT_JSON
from rejoinder.corpora.readers.messages.mailbox import MAILBOX
from rejoinder.corpora.readers.messages.table import KNOWN, MESSAGES

__all__ = ["CHAT_JSON", "KNOWN", "MAILBOX", "MESSAGES"]
