"""Wikipedia's XML exports: article search, and pairs of neighbouring sentences.

Article search is POLY's (section 4.1, after Wu et al. 2018, "StarSpace"): a sentence is the query,
its article without it the answer; docs/choices.md says how sentences are cut and chosen. BERT is
pretrained on neighbouring sentences, and so is POLY, on books and Wikipedia (section 4.1).
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rejoinder.corpora.corpus import Corpus, Shares, split_by_shares
from rejoinder.corpora.forms.xml import xml_elements
from rejoinder.corpora.lines import Reading, open_lines
from rejoinder.corpora.readers.wikitext import NestingError, paragraphs
from rejoinder.corpora.schema import Example
from rejoinder.patterns import match_pattern, search_pattern

WORDS = range(5, 61)  # numbers of words of the sentence that is the query
THREAD_LINES = 10_000  # of a text that are one thread; sentences of two threads are not a pair
# Namespaces whose links show no text, files and categories: their keys, and their names in every
# wiki, beside those in its own language.
_MEDIA_KEYS = ("6", "14")
_MEDIA_NAMES = frozenset({"file", "image", "category"})
_NUMBER = match_pattern(r"(-?[0-9]{1,9})?")
_REDIRECT = match_pattern(r"\s*#\s*redirect", re.IGNORECASE)
# Titles of English pages that are not articles, as in Chen et al. 2017 ("DrQA"); the papers use
# their dump.
_NO_ARTICLE = match_pattern(r"(?:Lists? of|Index of|Outline of) |.*\(disambiguation\)$")
_STOP = search_pattern(r"""(?<![.!?…])[.!?…]++["'”’»)\]]*+\s++|[。！？]++[」』”’）]*+""")  # noqa: RUF001
_OPENING = "\"'“‘«([¿¡"  # noqa: RUF001
_LONGEST = 12
# Words before a full stop within a sentence; initials and words with a full stop in them need no
# list.
_ABBREVIATIONS = frozenset(
    """mr mrs ms dr prof st jr sr rev hon gen col lt sgt capt cmdr b d r c ca fl approx vs cf etc al
    no nos vol p pp fig ed eds inc ltd co corp bros mt ft dept univ jan feb mar apr jun jul aug sep
    sept oct nov dec""".split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class Page:
    """A page in its newest revision."""

    media: frozenset[str]  # lower-cased names of this wiki's namespaces of files and categories
    title: str = ""
    id: str = ""
    namespace: int = 0
    redirect: bool = False
    model: str = ""  # what the text is: `wikitext`, or empty in exports from before 2012
    text: str = ""


def read_wikipedia(path: Path, reading: Reading, _: object = None) -> Iterator[Example]:
    """Read one example of each article of a dump, compressed or not."""
    for name, texts in _articles(path, reading):
        if example := article_example(name, texts):
            yield example
        else:
            reading.drop("articles without a sentence that can be the query, or with nothing else")


def read_neighbours(path: Path, reading: Reading, _: object = None) -> Iterator[Example]:
    """Yield pairs of neighbouring sentences of a text, or of an export (`.xml` in its name)."""
    for thread, text in (_articles if ".xml" in path.name else _books)(path, reading):
        all_sentences = (sentence for paragraph in text for sentence in sentences(paragraph))
        for number, (before, after) in enumerate(itertools.pairwise(all_sentences)):
            yield Example((before,), after, f"{thread}:{number}", thread, "sentences")


def _articles(path: Path, reading: Reading) -> Iterator[tuple[str, list[str]]]:
    """Yield id and paragraphs of each article of an export; count why other pages are none."""
    for page in pages(path, reading):
        reason = fault_of_page(page)
        if not reason:
            try:
                yield page.id, paragraphs(page.text, page.media)
                continue
            except NestingError as error:
                reason = f"articles with {error}"
        reading.drop(reason)


def pages(path: Path, reading: Reading) -> Iterator[Page]:
    """Read the pages of an export; one without an id or with too long a text is a bad line."""
    media = _MEDIA_NAMES
    for element in xml_elements(path, reading, ("namespace", "page"), root="mediawiki"):
        if element.tag.endswith("namespace"):
            if element.get("key") in _MEDIA_KEYS:
                media |= {(element.text or "").strip().lower()}
            continue
        reading.lines += 1
        model = ""
        text = ""
        for revision in element.iterfind("{*}revision"):  # the newest comes last
            model, text = (revision.findtext(f"{{*}}{name}") or "" for name in ("model", "text"))
        title, name, number = (
            (element.findtext(f"{{*}}{name}") or "").strip() for name in ("title", "id", "ns")
        )
        if not _NUMBER.fullmatch(number):
            fault = f"{number[:20]!r} instead of a number in <ns>"
            reading.bad_line(path, element.sourceline, fault)
        elif not name:
            reading.bad_line(path, element.sourceline, "a page without <id>")
        else:
            redirect = element.find("{*}redirect") is not None
            yield Page(media, title, name, int(number or 0), redirect, model.strip(), text)


def fault_of_page(page: Page) -> str:
    """Return why a page is not an article, or nothing."""
    if page.namespace != 0:
        return "pages of other namespaces"
    if page.redirect or _REDIRECT.match(page.text):
        return "redirects"
    if page.model not in ("", "wikitext"):
        return "pages that are not wikitext"
    if _NO_ARTICLE.match(page.title):
        return "lists, indices, outlines and disambiguations"
    return ""


def article_example(name: str, texts: Iterable[str]) -> Example | None:
    """Return an article's example; None: it has no sentence of the right length, or nothing else.

    The query is one of those that occur once, drawn by the hash of the page's id: the same on every
    machine.
    """
    text = [sentences(paragraph) for paragraph in texts]
    counts = Counter(sentence for paragraph in text for sentence in paragraph)
    fit = [
        sentence
        for sentence, count in counts.items()
        if count == 1 and len(sentence.split()) in WORDS
    ]
    if not fit or len(counts) < 2:
        return None
    digest = hashlib.md5(name.encode("utf-8"), usedforsecurity=False).digest()
    query = fit[int.from_bytes(digest, "big") % len(fit)]
    rest = ([sentence for sentence in paragraph if sentence != query] for paragraph in text)
    return Example(
        (query,),
        "\n".join(" ".join(paragraph) for paragraph in rest if paragraph),
        name,
        name,
        "wikipedia",
    )


def sentences(paragraph: str) -> list[str]:
    """Split a paragraph after each mark that ends a sentence; only white space is lost.

    A mark does not end a sentence before a small letter, nor a full stop after an initial, a word
    with a full stop in it (U.S.) or a common English abbreviation.
    """
    pieces = []
    start = 0
    for mark in _STOP.finditer(paragraph):
        if _ends(paragraph, mark):
            pieces.append(paragraph[start : mark.end()].strip())
            start = mark.end()
    return [sentence for sentence in (*pieces, paragraph[start:].strip()) if sentence]


def _ends(paragraph: str, mark: re.Match[str]) -> bool:
    following = paragraph[mark.end() : mark.end() + 4].lstrip(_OPENING)
    if following[:1].islower():
        return False
    if mark[0].rstrip() != ".":
        return True
    start = max(0, mark.start() - _LONGEST)
    before = paragraph[start : mark.start()].rpartition(" ")[2].strip(_OPENING)
    initial = len(before) == 1 and before.isupper()
    return not (initial or "." in before or before.lower() in _ABBREVIATIONS)


def _books(path: Path, reading: Reading) -> Iterator[tuple[str, list[str]]]:
    """Yield some thousand lines at a time."""
    name = reading.stem(path)
    numbered = open_lines(path, reading)
    for number, lines in itertools.groupby(numbered, lambda line: (line[0] - 1) // THREAD_LINES):
        texts = [line.strip() for _, line in lines if line.strip()]
        reading.lines += len(texts)
        yield f"{name}:{number}", texts


CORPUS = Corpus(
    name="wikipedia",
    title="Article search: a sentence and the article that it comes from.",
    reads="a dump of articles (*-pages-articles*.xml.bz2, or its numbered parts) of any language",
    licence="CC BY-SA 4.0 (dumps before June 2023: 3.0) and GFDL",
    origin="https://dumps.wikimedia.org/enwiki/",
    expected="English, 2016-12-21, in the preparation of Chen et al. 2017: 5,075,182 articles",
    read=read_wikipedia,
    split=split_by_shares,
    settings=Shares,
)
SENTENCES = Corpus(
    name="sentences",
    title="Pairs of neighbouring sentences, for pretraining: books as plain text, and Wikipedia's "
    "exports.",
    reads="*.txt, whose sentences end with their line; *-pages-articles*.xml",
    licence="each file its own; Wikipedia: CC BY-SA 4.0 and GFDL",
    origin="BookCorpus (Zhu et al. 2015) is not published any more; gutenberg.org; https://dumps.wikimedia.org/enwiki/",
    read=read_neighbours,
)
