"""Replies in YAML: text expanders, ticket systems and small bots."""

from rejoinder.corpora.readers.snippets.chatterbot import CHATTERBOT
from rejoinder.corpora.readers.snippets.espanso import ESPANSO
from rejoinder.corpora.readers.snippets.osticket import OSTICKET

__all__ = ["CHATTERBOT", "ESPANSO", "OSTICKET"]
