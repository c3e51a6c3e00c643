"""Wikipedia: what of an export is a page, which pages are articles, which sentence is the query; bombs."""

from __future__ import annotations

import bz2
import dataclasses
import re
import tracemalloc
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora import wikiexport
from rejoinder.corpora.example import Example
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.wikiexport import Page, pages
from rejoinder.corpora.wikipedia import CORPUS, WikipediaSettings, article_example, fault_of_page, read_wikipedia
from rejoinder.errors import InputError

# The form of a dump of 2024 (schema 0.11).
HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="de">
  <siteinfo>
    <sitename>Wikipedia</sitename>
    <namespaces>
      <namespace key="-2" case="first-letter">Medium</namespace>
      <namespace key="0" case="first-letter" />
      <namespace key="1" case="first-letter">Diskussion</namespace>
      <namespace key="6" case="first-letter">Datei</namespace>
      <namespace key="14" case="first-letter">Kategorie</namespace>
    </namespaces>
  </siteinfo>
"""
TEXT = """'''Ada''' was a [[mathematician]] of note. She wrote the first program ever.

Her father was a [[poet]]. Fame."""
MEDIA = frozenset({"file", "image", "category", "datei", "kategorie"})


def page(number=7, title="Ada", text=TEXT, namespace=0, redirect="", model="wikitext"):
    target = f"    <redirect title={quoteattr(redirect)} />\n" if redirect else ""
    return f"""  <page>
    <title>{escape(title)}</title>
    <ns>{namespace}</ns>
    <id>{number}</id>
{target}    <revision>
      <id>1{number}</id>
      <parentid>2{number}</parentid>
      <timestamp>2024-01-01T00:00:00Z</timestamp>
      <contributor>
        <username>A &amp; B</username>
        <id>3{number}</id>
      </contributor>
      <comment>/* x */</comment>
      <model>{model}</model>
      <format>text/x-wiki</format>
      <text bytes="{len(text)}" sha1="x" xml:space="preserve">{escape(text)}</text>
      <sha1>x</sha1>
    </revision>
  </page>
"""


@pytest.fixture
def dump(tmp_path):
    """Write an export and give its path."""

    def run(*parts, name="dewiki-pages-articles.xml.bz2", head=HEAD, tail="</mediawiki>\n"):
        path = tmp_path / name
        data = "".join((head, *parts, tail)).encode()
        path.write_bytes(bz2.compress(data) if name.endswith(".bz2") else data)
        return path

    return run


def test_a_page_has_its_own_id_and_text(dump):
    reading = Reading()
    found = list(pages(dump(page(), page(8, "B & C", "a < b\n&nbsp;c")), reading))
    assert found == [
        Page(12, MEDIA, "Ada", "7", 0, False, "wikitext", TEXT),
        Page(33, MEDIA, "B & C", "8", 0, False, "wikitext", "a < b\n&nbsp;c"),
    ]
    assert reading.lines == 2


def test_the_newest_of_several_revisions_counts(dump):
    twice = page(text="old").replace("  </page>\n", "") + page(text="new").partition("</id>\n")[2]
    assert [each.text for each in pages(dump(twice), Reading())] == ["new"]


def test_texts_that_do_not_count_are_not_kept(dump):
    found = pages(dump(page(namespace=1), page(redirect="X")), Reading())
    assert [(each.namespace, each.redirect, each.text) for each in found] == [(1, False, ""), (0, True, "")]


def test_an_example_is_a_sentence_and_its_article_without_it(dump):
    (example,) = read_wikipedia(dump(page()))
    (query,) = example.context
    kept = [
        "Ada was a mathematician of note.",
        "She wrote the first program ever.",
        "Her father was a poet.",
    ]
    assert query in kept
    assert example == Example((query,), example.response, "7", "7", "wikipedia")
    rest = [[each for each in kept[:2] if each != query], [each for each in (kept[2], "Fame.") if each != query]]
    assert example.response == "\n".join(" ".join(paragraph) for paragraph in rest)


def test_the_sentence_follows_from_the_id_alone():
    texts = Page(1, MEDIA, id="1", text=" ".join(f"This is sentence number {number}." for number in range(20)))
    chosen = {
        number: article_example(dataclasses.replace(texts, id=str(number)), WikipediaSettings()).context
        for number in range(200)
    }
    assert len(set(chosen.values())) == 20
    assert chosen[12] == ("This is sentence number 12.",)  # for ever: an evaluation must not change
    again = article_example(dataclasses.replace(texts, id="12", title="x", line=99), WikipediaSettings())
    assert again.context == chosen[12]


def test_a_sentence_that_stands_twice_is_no_query():
    same = "This one stands here twice. "
    example = article_example(Page(1, MEDIA, id="1", text=f"{same}{same}But this one only once."), WikipediaSettings())
    assert example.context == ("But this one only once.",)
    assert example.response == f"{same}{same}".strip()


def test_which_pages_are_articles(dump):
    reading = Reading()
    path = dump(
        page(1),
        page(2, namespace=14),
        page(3, redirect="Ada"),
        page(4, text="#WEITERLEITUNG [[Ada]]"),
        page(5, text=" # redirect [[Ada]]"),
        page(6, model="wikidata-item"),
        page(7, "List of Adas"),
        page(8, "Ada (disambiguation)"),
        page(9, text="[[" * 200),
        page(10, text=""),
        page(11, text="Only one sentence is here."),
        page(12, text="Too short. No. Never."),
    )
    assert [example.id for example in read_wikipedia(path, reading)] == ["1"]
    assert reading.lines == 12
    assert reading.dropped == {
        "pages of other namespaces": 1,
        "redirects": 2,
        "pages that are no wikitext": 1,
        "lists, indices, outlines and disambiguations": 2,
        "articles with links, templates and tables nested deeper than 100": 1,
        "articles without a sentence that can be the query, or with nothing else": 4,
    }
    assert len(list(read_wikipedia(path, None, WikipediaSettings(lists=True)))) == 3
    assert fault_of_page(Page(1, MEDIA, title="Listening"), WikipediaSettings()) == ""


def test_lengths_are_settings():
    article = Page(1, MEDIA, id="1", text="One two three. Four five six seven.\n\nEight nine. Ten.")
    example = article_example(article, WikipediaSettings(min_words=3, max_words=3))
    assert (example.context, example.response) == (("One two three.",), "Four five six seven.\nEight nine. Ten.")
    first, both = "Four five six seven.", "Four five six seven.\nEight nine."
    for most, answer in [(1, first), (20, first), (31, first), (32, both), (99, example.response)]:
        cut = article_example(article, WikipediaSettings(min_words=3, max_words=3, max_characters=most))
        assert cut.response == answer
    assert article_example(article, WikipediaSettings(min_words=5)) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_words": 0}, "min_words must be 1 or more"),
        ({"min_words": 9, "max_words": 8}, "max_words not less, not 9 and 8"),
        ({"max_characters": -1}, "max_characters must be 0 or more, not -1"),
    ],
)
def test_impossible_settings_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        WikipediaSettings(**options)


LAUGHS = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>\n'


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([LAUGHS, HEAD, page(text="x")], r":1: a document type \(DOCTYPE\)"),
        (['<!DOCTYPE x SYSTEM "file:///etc/passwd">\n', HEAD], r":1: a document type"),
        (["<html>\n"], r":1: <html> instead of <mediawiki>"),
        ([HEAD, "<a>" * 20], r":12: more than 16 elements within each other"),
        ([HEAD, page(), "<page>\n"], r":33: the XML is damaged or not whole \(no element found\)"),
        ([HEAD, page(), "</page>\n"], r":33: the XML is damaged or not whole \(mismatched tag\)"),
        ([HEAD, "<page>&laugh;</page>"], r":12: the XML is damaged or not whole \(undefined entity\)"),
        (["plain text\n"], r":1: the XML is damaged or not whole \(syntax error\)"),
        ([HEAD, '<page x="', "y\n" * 20_000], r":\d+: a tag or comment that goes on for more than 16,384 bytes"),
        ([HEAD, "<!--", "y\n" * 20_000], r":\d+: a tag or comment that goes on"),
    ],
)
def test_a_document_that_is_no_export_is_refused(dump, parts, message):
    path = dump(*parts, head="", tail="")
    for reading in (Reading(), Reading(skip_bad=True)):
        with pytest.raises(InputError, match=re.escape(str(path)) + message):
            list(read_wikipedia(path, reading))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("<id>7</id>", ""), "a page without <id>"),
        (("<ns>0</ns>", "<ns>x</ns>"), "'x' instead of a number in <ns>"),
        (("Ada was", "Ada was" + " very" * 1000), "more than 2,000 characters in <text>"),
    ],
)
def test_bad_pages_are_named_and_can_be_skipped(dump, monkeypatch, change, message):
    monkeypatch.setattr(wikiexport, "MAX_TEXT", 2_000)
    bad = page(text="Ada was").replace(*change)
    path = dump(page(1), bad, page(2))
    with pytest.raises(InputError, match=f":33: {re.escape(message)}"):
        list(read_wikipedia(path))
    reading = Reading(skip_bad=True)
    assert [example.id for example in read_wikipedia(path, reading)] == ["1", "2"]
    assert (reading.lines, reading.bad_lines) == (3, 1)


def test_memory_holds_one_page(dump, monkeypatch):
    """3 MB: 30 articles of 50 kB, and one page that goes on for 2 MB, which is more than a page may have."""
    monkeypatch.setattr(wikiexport, "MAX_TEXT", 2**16)
    article = page(text=TEXT + "\n\nAnd more of it" + " and more of it" * 3_300)
    endless = ["<page><id>9</id><revision><text>", f"{'blah ' * 50}\n" * 8_000, "</text></revision></page>"]
    path = dump(*[article] * 30, *endless, name="x.xml")
    tracemalloc.start()
    count = sum(1 for _ in read_wikipedia(path, Reading(skip_bad=True)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 30
    assert peak < 2**21


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_damaged_exports_give_errors_that_name_the_file(tmp_path_factory, data):
    whole = bytearray((HEAD + page() + page(8) + "</mediawiki>").encode())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(whole) - 1))
        whole[place : place + data.draw(st.integers(0, 9))] = data.draw(
            st.binary(max_size=3) | st.sampled_from([b"<", b">", b"<page>", b"</page>", b"<text>", b"&x;", b"<!--"])
        )
    path = tmp_path_factory.mktemp("fuzz") / "x.xml"
    path.write_bytes(bytes(whole))
    for reading in (Reading(), Reading(skip_bad=True)):
        try:
            for example in read_wikipedia(path, reading):
                assert example.id
                assert example.response
        except InputError as error:
            assert str(error).startswith(str(path))  # noqa: PT017


def test_the_record_names_this_reader():
    assert (CORPUS.name, CORPUS.read, CORPUS.settings) == ("wikipedia", read_wikipedia, WikipediaSettings)
