"""Research corpora of dialogues."""

from rejoinder.corpora.readers.dialogues.chitchat import CHITCHAT
from rejoinder.corpora.readers.dialogues.convai2 import CONVAI2
from rejoinder.corpora.readers.dialogues.dstc7 import DSTC7

__all__ = ["CHITCHAT", "CONVAI2", "DSTC7"]
