"""Wikipedia: a sentence of an article as the query, the article without it as the answer; and neighbouring sentences.

Article search is POLY's, section 4.1: that of Wu et al. 2018 ("StarSpace", section 4.4), where the candidates are
the right article and 10,000 others: `rejoinder evaluate MODEL DATA --candidates 10001`. Neither paper says how
sentences are cut or chosen; how it is done here is listed in docs/choices.md. Neighbouring sentences are what BERT is
pretrained on, and POLY on books and Wikipedia: the input is a sentence, the label the one after it (section 4.1, after
Devlin et al. 2019).

Read is MediaWiki's XML export (https://www.mediawiki.org/wiki/Help:Export), page by page; memory holds one page.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.example import Example
from rejoinder.corpora.lines import Reading, open_lines, strip_compression
from rejoinder.corpora.readers.parsing import xml_elements
from rejoinder.corpora.readers.wikitext import NestingError, paragraphs
from rejoinder.errors import InputError

MAX_TEXT = 1 << 22
"""Most characters of a page; MediaWiki's own limit is 2 MiB."""
THREAD_LINES = 10_000
"""Lines of a text that are one thread; a sentence and the one after it in the next thread are no pair."""

_MEDIA_KEYS = ("6", "14")
"""Keys of the namespaces whose links show nothing in place: files and categories."""
_MEDIA_NAMES = frozenset({"file", "image", "category"})
"""Their names in every wiki, beside those in its own language."""
_REDIRECT = re.compile(r"\s*#\s*redirect", re.IGNORECASE)
_NO_ARTICLE = re.compile(r"(?:Lists? of|Index of|Outline of) |.*\(disambiguation\)$")
"""Titles of English pages that are no articles, as in Chen et al. 2017 ("DrQA"), whose dump the papers use."""

_STOP = re.compile(r"""(?<![.!?…])[.!?…]++["'”’»)\]]*+\s++|[。！？]++[」』”’）]*+""")  # noqa: RUF001
_OPENING = "\"'“‘«([¿¡"  # noqa: RUF001
_LONGEST = 12
_ABBREVIATIONS = frozenset(
    (
        *("mr", "mrs", "ms", "dr", "prof", "st", "jr", "sr", "rev", "hon", "gen", "col", "lt", "sgt", "capt", "cmdr"),
        *("b", "d", "r", "c", "ca", "fl", "approx", "vs", "cf", "etc", "al", "no", "nos", "vol", "p", "pp", "fig"),
        *("ed", "eds", "inc", "ltd", "co", "corp", "bros", "mt", "ft", "dept", "univ"),
        *("jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec"),
    )
)
"""What stands before a full stop within a sentence; initials and words with a full stop in them need no list."""


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


@dataclass(frozen=True)
class NeighbourSettings:
    """How plain text is read."""

    wrapped: bool = False
    """Whether a paragraph goes on over lines up to a blank one, as in Project Gutenberg's books. Else sentences end
    with their line; BookCorpus has one sentence a line."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page in its newest revision.

    Attributes:
        line: number of the line on which it begins.
        media: lower-cased names of this wiki's namespaces of files and categories.
        model: what the text is: `wikitext`, or empty in exports from before 2012.
    """

    line: int
    media: frozenset[str]
    title: str = ""
    id: str = ""
    namespace: int = 0
    redirect: bool = False
    model: str = ""
    text: str = ""


def read_wikipedia(
    path: str | Path, reading: Reading | None = None, settings: WikipediaSettings | None = None
) -> Iterator[Example]:
    """Read one example of each article of a dump, compressed or not.

    Raises:
        InputError: a fault of the file; or of a page, with its line, unless bad ones are skipped.
        MissingExtraError: lxml is not installed.
    """
    reading, settings = reading or Reading(), settings or WikipediaSettings()
    for name, texts in articles(Path(path), reading, settings):
        example = article_example(name, texts, settings)
        if example is not None:
            yield example
        else:
            reading.drop("articles without a sentence that can be the query, or with nothing else")


def read_neighbours(
    path: str | Path, reading: Reading | None = None, settings: NeighbourSettings | None = None
) -> Iterator[Example]:
    """Read the pairs of neighbouring sentences of a text, or of an export (a name with `.xml` in it).

    Raises:
        InputError: a fault of the file; or of a line or page, with its number, unless bad ones are skipped.
        MissingExtraError: lxml is not installed and the file is an export.
    """
    path, reading, settings = Path(path), reading or Reading(), settings or NeighbourSettings()
    texts: Iterator[tuple[str, Iterable[str]]] = (
        articles(path, reading, WikipediaSettings()) if ".xml" in path.name else _books(path, reading, settings.wrapped)
    )
    for thread, text in texts:
        said = (sentence for paragraph in text for sentence in sentences(paragraph))
        for number, (before, after) in enumerate(itertools.pairwise(said)):
            yield Example((before,), after, f"{thread}:{number}", thread, "sentences")


def articles(path: Path, reading: Reading, settings: WikipediaSettings) -> Iterator[tuple[str, list[str]]]:
    """Read the paragraphs of each article of an export, with the page's id; count which pages are no articles."""
    for page in pages(path, reading):
        reason = fault_of_page(page, settings)
        if not reason:
            try:
                yield page.id, paragraphs(page.text, page.media)
                continue
            except NestingError as error:
                reason = f"articles with {error}"
        reading.drop(reason)


def pages(path: Path, reading: Reading) -> Iterator[Page]:
    """Read the pages of an export, compressed or not.

    Raises:
        InputError: the file cannot be read, is no export, or is not whole; or, unless bad ones are skipped, a page
            without an id or with too long a text.
    """
    media = _MEDIA_NAMES
    for element in xml_elements(path, reading, ("namespace", "page"), root="mediawiki"):
        if element.tag.endswith("namespace"):
            if element.get("key") in _MEDIA_KEYS:
                media |= {(element.text or "").strip().lower()}
            continue
        reading.lines += 1
        model, text = "", ""
        for revision in element.iterfind("{*}revision"):  # the newest comes last
            model, text = (revision.findtext(f"{{*}}{name}") or "" for name in ("model", "text"))
        title, name, number = ((element.findtext(f"{{*}}{name}") or "").strip() for name in ("title", "id", "ns"))
        fault = ""
        if len(text) > MAX_TEXT:
            fault = f"more than {MAX_TEXT:,} characters in <text>"
        elif not (number or "0").lstrip("-").isdecimal() or len(number) > 20:
            fault = f"{number[:20]!r} instead of a number in <ns>"
        elif not name:
            fault = "a page without <id>"
        if fault:
            reading.bad_line(path, element.sourceline, fault)
            continue
        redirect = element.find("{*}redirect") is not None
        yield Page(element.sourceline, media, title, name, int(number or 0), redirect, model.strip(), text)


def fault_of_page(page: Page, settings: WikipediaSettings) -> str:
    """Return why a page is no article, or nothing."""
    if page.namespace != 0:
        return "pages of other namespaces"
    if page.redirect or _REDIRECT.match(page.text):
        return "redirects"
    if page.model not in ("", "wikitext"):
        return "pages that are no wikitext"
    if not settings.lists and _NO_ARTICLE.match(page.title):
        return "lists, indices, outlines and disambiguations"
    return ""


def article_example(name: str, texts: Iterable[str], settings: WikipediaSettings) -> Example | None:
    """Make the example of an article's paragraphs, or None without a sentence of the right length or anything else.

    The query is one of the sentences of the right length that occur once, drawn by the hash of the page's id: the same
    one for the same text on every machine.
    """
    text = [sentences(paragraph) for paragraph in texts]
    counts = Counter(sentence for paragraph in text for sentence in paragraph)
    words = range(settings.min_words, settings.max_words + 1)
    fit = [sentence for sentence, count in counts.items() if count == 1 and len(sentence.split()) in words]
    if not fit or len(counts) < 2:
        return None
    digest = hashlib.md5(name.encode("utf-8"), usedforsecurity=False).digest()
    query = fit[int.from_bytes(digest, "big") % len(fit)]
    return Example((query,), _answer(text, query, settings.max_characters), name, name, "wikipedia")


def _answer(text: list[list[str]], query: str, most: int) -> str:
    """The other sentences, a paragraph a line, as far as they fit into `most` characters (0: all; the first always)."""
    kept: list[tuple[int, str]] = []
    length = 0
    for number, paragraph in enumerate(text):
        for sentence in paragraph:
            length += len(sentence) + 1 if sentence != query else 0
            if most and length > most + 1 and kept:
                break
            if sentence != query:
                kept.append((number, sentence))
    lines = itertools.groupby(kept, key=lambda each: each[0])
    return "\n".join(" ".join(sentence for _, sentence in line) for _, line in lines)


def sentences(paragraph: str) -> list[str]:
    """Cut a paragraph after each mark that ends a sentence; nothing but white space between them is lost.

    A mark does not end a sentence before a small letter, nor a full stop after an initial, a word with a full stop in
    it (U.S.) or a common English abbreviation. The rule needs no model and gives the same on every machine.
    """
    found, start = [], 0
    for mark in _STOP.finditer(paragraph):
        if _ends(paragraph, mark):
            found.append(paragraph[start : mark.end()].strip())
            start = mark.end()
    return [sentence for sentence in (*found, paragraph[start:].strip()) if sentence]


def _ends(paragraph: str, mark: re.Match[str]) -> bool:
    following = paragraph[mark.end() : mark.end() + 4].lstrip(_OPENING)
    if following[:1].islower():
        return False
    if mark[0].rstrip() != ".":
        return True
    before = paragraph[max(0, mark.start() - _LONGEST) : mark.start()].rpartition(" ")[2].strip(_OPENING)
    initial = len(before) == 1 and before.isupper()
    return not (initial or "." in before or before.lower() in _ABBREVIATIONS)


def _books(path: Path, reading: Reading, wrapped: bool) -> Iterator[tuple[str, Iterable[str]]]:
    """The paragraphs of some thousand lines at a time: each line, or with `wrapped` the lines between blank ones."""
    name = strip_compression(path).stem
    numbered = itertools.groupby(open_lines(path, reading), key=lambda each: (each[0] - 1) // THREAD_LINES)
    for number, lines in numbered:
        yield f"{name}:{number}", _paragraphs((line.strip() for _, line in lines), reading, wrapped)


def _paragraphs(lines: Iterable[str], reading: Reading, wrapped: bool) -> Iterator[str]:
    for filled, block in itertools.groupby(lines, key=bool):
        texts = list(block) if filled else []
        reading.lines += len(texts)
        yield from [" ".join(texts)] if wrapped and texts else texts


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
SENTENCES = Corpus(
    name="sentences",
    title="Pairs of neighbouring sentences, for pretraining: books as plain text, and Wikipedia's exports.",
    reads="*.txt, sentences a line (--set wrapped=true: paragraphs between blank lines); *-pages-articles*.xml",
    licence="each file its own; Wikipedia: CC BY-SA 4.0 and GFDL",
    origin="BookCorpus (Zhu et al. 2015) is not published any more; gutenberg.org; https://dumps.wikimedia.org/enwiki/",
    expected="",
    read=read_neighbours,
    settings=NeighbourSettings,
)
