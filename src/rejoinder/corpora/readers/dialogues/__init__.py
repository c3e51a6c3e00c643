"""Research corpora of dialogues."""

from rejoinder.corpora.readers.dialogues.chitchat import CHITCHAT
from rejoinder.corpora.readers.dialogues.convai2 import CONVAI2
from rejoinder.corpora.readers.dialogues.daily_dialog import DAILY_DIALOG
from rejoinder.corpora.readers.dialogues.dstc7 import DSTC7
from rejoinder.corpora.readers.dialogues.empathetic import EMPATHETIC
from rejoinder.corpora.readers.dialogues.multiwoz import MULTIWOZ
from rejoinder.corpora.readers.dialogues.open_assistant import OPEN_ASSISTANT

__all__ = [
    "CHITCHAT",
    "CONVAI2",
    "DAILY_DIALOG",
    "DSTC7",
    "EMPATHETIC",
    "MULTIWOZ",
    "OPEN_ASSISTANT",
]
