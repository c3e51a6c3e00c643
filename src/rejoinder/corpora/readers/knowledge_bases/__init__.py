"""Knowledge bases of questions with answers."""

from rejoinder.corpora.readers.knowledge_bases.botpress import BOTPRESS
from rejoinder.corpora.readers.knowledge_bases.qna_file import QNA_FILE
from rejoinder.corpora.readers.knowledge_bases.qna_maker import QNA_MAKER
from rejoinder.corpora.readers.knowledge_bases.qnabot import QNABOT

__all__ = ["BOTPRESS", "QNABOT", "QNA_FILE", "QNA_MAKER"]
