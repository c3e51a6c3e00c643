"""Reddit: comments of monthly dumps (RC_*.zst) and the comments they answer (DATA19, section 3.1).

`comment_trees` does the work. It needs pyarrow, and is imported with the first block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.lines import Block, Reading
from rejoinder.corpora.reddit.settings import RedditSettings

if TYPE_CHECKING:
    import pyarrow as pa


def scatter(block: Block, reading: Reading, settings: RedditSettings) -> pa.RecordBatch:
    """Return a record of each line that counts; see `comment_trees.scatter`."""
    from rejoinder.corpora.reddit import comment_trees

    return comment_trees.scatter(block, reading, settings)


def assemble(
    records: pa.RecordBatch, reading: Reading, settings: RedditSettings
) -> Iterator[pa.RecordBatch]:
    """Yield the examples of whole threads; see `comment_trees.assemble`."""
    from rejoinder.corpora.reddit import comment_trees

    return comment_trees.assemble(records, reading, settings)


CORPUS = Corpus(
    name="reddit",
    title="comments of Reddit and the comments that they answer",
    reads="monthly dumps of comments, RC_*.zst: newline-delimited JSON",
    licence="none stated; a comment is its author's, and Reddit's terms of use apply",
    origin="dumps that Pushshift published, which others pass on (Academic Torrents)",
    expected="2015 to 2018: 3.68 billion comments give 727M examples, "
    "654M below 0.9 of the split (DATA19)",
    scatter=scatter,
    assemble=assemble,
    settings=RedditSettings,
)
