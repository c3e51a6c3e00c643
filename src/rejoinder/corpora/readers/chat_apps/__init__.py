"""Exports of chat apps."""

from rejoinder.corpora.readers.chat_apps.discord import DISCORD
from rejoinder.corpora.readers.chat_apps.messenger import MESSENGER
from rejoinder.corpora.readers.chat_apps.slack import SLACK
from rejoinder.corpora.readers.chat_apps.telegram import TELEGRAM
from rejoinder.corpora.readers.chat_apps.telegram_html import TELEGRAM_HTML
from rejoinder.corpora.readers.chat_apps.twitter import TWITTER
from rejoinder.corpora.readers.chat_apps.whatsapp import WHATSAPP

__all__ = ["DISCORD", "MESSENGER", "SLACK", "TELEGRAM", "TELEGRAM_HTML", "TWITTER", "WHATSAPP"]
