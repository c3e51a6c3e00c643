"""Pairs of neighbouring sentences, out of plain text (books) and of Wikipedia's exports: what BERT is pretrained on.

POLY pretrains on books and Wikipedia too: the input is a sentence, the label the one after it in the text (section 4.1,
after Devlin et al. 2019). Articles are read as for the article search (`wikipedia`), text line by line.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.example import Example
from rejoinder.corpora.lines import Reading, open_lines, strip_compression
from rejoinder.corpora.sentences import sentences
from rejoinder.corpora.wikiexport import pages
from rejoinder.corpora.wikipedia import WikipediaSettings, fault_of_page
from rejoinder.corpora.wikitext import NestingError, paragraphs

THREAD_LINES = 10_000
"""Lines of a text that are one thread; a sentence and the one after it in the next thread are no pair."""


@dataclass(frozen=True)
class NeighbourSettings:
    """How plain text is read."""

    wrapped: bool = False
    """Whether a paragraph goes on over lines up to a blank one, as in Project Gutenberg's books. Else sentences end with
    their line; BookCorpus has one sentence a line."""


def read_neighbours(
    path: str | Path, reading: Reading | None = None, settings: NeighbourSettings | None = None
) -> Iterator[Example]:
    """Read the pairs of a text, or of an export (a name with `.xml` in it), compressed or not.

    Raises:
        InputError: a fault of the file; or of a line or page, with its number, unless bad ones are skipped.
    """
    path, reading, settings = Path(path), reading or Reading(), settings or NeighbourSettings()
    texts = _articles(path, reading) if ".xml" in path.name else _books(path, reading, settings)
    for thread, text in texts:
        said = (sentence for paragraph in text for sentence in sentences(paragraph))
        for number, (before, after) in enumerate(itertools.pairwise(said)):
            yield Example((before,), after, f"{thread}:{number}", thread, "sentences")


def _articles(path: Path, reading: Reading) -> Iterator[tuple[str, Iterable[str]]]:
    """The paragraphs of each article, with the page's id."""
    settings = WikipediaSettings()
    for page in pages(path, reading):
        reason = fault_of_page(page, settings)
        if not reason:
            try:
                yield page.id, paragraphs(page.text, page.media)
                continue
            except NestingError as error:
                reason = f"articles with {error}"
        reading.drop(reason)


def _books(path: Path, reading: Reading, settings: NeighbourSettings) -> Iterator[tuple[str, Iterable[str]]]:
    """The paragraphs of some thousand lines at a time."""
    name = strip_compression(path).stem
    numbered = itertools.groupby(open_lines(path, reading), key=lambda each: (each[0] - 1) // THREAD_LINES)
    for number, lines in numbered:
        texts = (line.strip() for _, line in lines)
        yield f"{name}:{number}", _paragraphs(texts, reading, settings.wrapped)


def _paragraphs(lines: Iterable[str], reading: Reading, wrapped: bool) -> Iterator[str]:
    """Each line that is not blank; with `wrapped` those between blank ones as one."""
    for filled, block in itertools.groupby(lines, key=bool):
        texts = list(block) if filled else []
        reading.lines += len(texts)
        yield from [" ".join(texts)] if wrapped and texts else texts


CORPUS = Corpus(
    name="sentences",
    title="Pairs of neighbouring sentences, for pretraining: books as plain text, and Wikipedia's exports.",
    reads="*.txt, one sentence or more a line (--set wrapped=true: paragraphs between blank lines); *-pages-articles*.xml",
    licence="each file its own; Wikipedia: CC BY-SA 4.0 and GFDL",
    origin="BookCorpus (Zhu et al. 2015) is not published any more; gutenberg.org; https://dumps.wikimedia.org/enwiki/",
    expected="",
    read=read_neighbours,
    settings=NeighbourSettings,
)
