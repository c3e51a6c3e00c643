"""Wikipedia: a sentence of an article as the query, the article without it as the answer.

Source: POLY, section 4.1: the article search of Wu et al. 2018 ("StarSpace", section 4.4), where the candidates are
the right article and 10,000 others: `rejoinder evaluate MODEL DATA --candidates 10001`. Neither paper says how
sentences are cut or chosen; how it is done here is listed in docs/choices.md.

Read is MediaWiki's XML export (https://www.mediawiki.org/wiki/Help:Export), line by line, page by page: memory holds
one page. A document type, without which there are no entities, is refused, and so is nesting that no export has.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.example import Example
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.sentences import sentences
from rejoinder.corpora.wikiexport import Page, pages
from rejoinder.corpora.wikitext import NestingError, paragraphs
from rejoinder.errors import InputError

_REDIRECT = re.compile(r"\s*#\s*redirect", re.IGNORECASE)
_NO_ARTICLE = re.compile(r"(?:Lists? of|Index of|Outline of) |.*\(disambiguation\)$")
"""Titles of English pages that are no articles, as in Chen et al. 2017 ("DrQA"), whose dump the papers use."""


@dataclass(frozen=True)
class WikipediaSettings:
    """Which articles and sentences are used."""

    min_words: int = 5
    """Fewest words of the sentence that is the query."""
    max_words: int = 60
    """Most words of the sentence that is the query."""
    max_characters: int = 0
    """Sentences of an answer beyond this many characters are cut off; 0: none."""
    lists: bool = False
    """Also use pages that are lists, indices, outlines or disambiguations, by their English titles."""

    def __post_init__(self) -> None:
        if not 1 <= self.min_words <= self.max_words:
            raise InputError(
                f"min_words must be 1 or more and max_words not less, not {self.min_words} and {self.max_words}"
            )
        if self.max_characters < 0:
            raise InputError(f"max_characters must be 0 or more, not {self.max_characters}")


def read_wikipedia(
    path: str | Path, reading: Reading | None = None, settings: WikipediaSettings | None = None
) -> Iterator[Example]:
    """Read one example of each article of a dump, compressed or not.

    Raises:
        InputError: a fault of the file; or of a page, with its line, unless bad ones are skipped.
    """
    reading, settings = reading or Reading(), settings or WikipediaSettings()
    for page in pages(Path(path), reading):
        reason = fault_of_page(page, settings)
        if not reason:
            try:
                example = article_example(page, settings)
            except NestingError as error:
                reason = f"articles with {error}"
            else:
                if example is not None:
                    yield example
                    continue
                reason = "articles without a sentence that can be the query, or with nothing else"
        reading.drop(reason)


def fault_of_page(page: Page, settings: WikipediaSettings) -> str:
    """Why a page is no article, or nothing."""
    if page.namespace != 0:
        return "pages of other namespaces"
    if page.redirect or _REDIRECT.match(page.text):
        return "redirects"
    if page.model not in ("", "wikitext"):
        return "pages that are no wikitext"
    if not settings.lists and _NO_ARTICLE.match(page.title):
        return "lists, indices, outlines and disambiguations"
    return ""


def article_example(page: Page, settings: WikipediaSettings) -> Example | None:
    """The example of an article, or None if it has no sentence of the right length or nothing else.

    The query is one of the sentences of the right length that occur once, drawn by the hash of the page's id: the same
    one for the same text on every machine.

    Raises:
        NestingError: see `wikitext.paragraphs`.
    """
    text = [sentences(paragraph) for paragraph in paragraphs(page.text, page.media)]
    counts = Counter(sentence for paragraph in text for sentence in paragraph)
    fit = [sentence for sentence, count in counts.items() if count == 1 and _fits(sentence, settings)]
    if not fit or len(counts) < 2:
        return None
    digest = hashlib.md5(page.id.encode("utf-8"), usedforsecurity=False).digest()
    query = fit[int.from_bytes(digest, "big") % len(fit)]
    answer = _answer(text, query, settings.max_characters)
    return Example((query,), answer, page.id, page.id, "wikipedia")


def _fits(sentence: str, settings: WikipediaSettings) -> bool:
    return settings.min_words <= len(sentence.split()) <= settings.max_words


def _answer(text: list[list[str]], query: str, most: int) -> str:
    """The other sentences, a paragraph a line, as far as they fit into `most` characters (0: all; the first always)."""
    lines: list[str] = []
    length = 0
    for paragraph in text:
        kept: list[str] = []
        for sentence in paragraph:
            if sentence == query:
                continue
            length += len(sentence) + 1
            if most and length > most + 1 and (lines or kept):
                return "\n".join([*lines, " ".join(kept)] if kept else lines)
            kept.append(sentence)
        if kept:
            lines.append(" ".join(kept))
    return "\n".join(lines)


CORPUS = Corpus(
    name="wikipedia",
    title="Article search: a sentence and the article that it comes from.",
    reads="a dump of articles (*-pages-articles*.xml.bz2, or its numbered parts) of any language",
    licence="CC BY-SA 4.0 (dumps before June 2023: 3.0) and GFDL",
    origin="https://dumps.wikimedia.org/enwiki/",
    expected="English, 2016-12-21, in the preparation of Chen et al. 2017: 5,075,182 articles",
    read=read_wikipedia,
    settings=WikipediaSettings,
)
