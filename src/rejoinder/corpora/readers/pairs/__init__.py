"""Research corpora of pairs."""

from rejoinder.corpora.readers.pairs.amazon_qa import AMAZON_QA
from rejoinder.corpora.readers.pairs.opensubtitles import OPENSUBTITLES
from rejoinder.corpora.readers.pairs.semeval import SEMEVAL
from rejoinder.corpora.readers.pairs.ubuntu import UBUNTU

__all__ = ["AMAZON_QA", "OPENSUBTITLES", "SEMEVAL", "UBUNTU"]
