"""Exports of bots and assistants whose replies belong to intents."""

from rejoinder.corpora.readers.bots.dialogflow_cx import DIALOGFLOW_CX
from rejoinder.corpora.readers.bots.dialogflow_es import DIALOGFLOW
from rejoinder.corpora.readers.bots.intents_json import INTENTS_JSON
from rejoinder.corpora.readers.bots.rasa import RASA
from rejoinder.corpora.readers.bots.rasa_trackers import RASA_TRACKERS
from rejoinder.corpora.readers.bots.watson import WATSON

__all__ = [
    "DIALOGFLOW",
    "DIALOGFLOW_CX",
    "INTENTS_JSON",
    "RASA",
    "RASA_TRACKERS",
    "WATSON",
]
