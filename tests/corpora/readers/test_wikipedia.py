"""Wikipedia: pages, articles and their queries; where sentences end; prose out of wikitext."""

import bz2
import itertools
import re
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora.schema import Example
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers import wikipedia
from rejoinder.corpora.readers.wikipedia import Page, article_example, fault_of_page, read_neighbours, read_wikipedia, sentences
from rejoinder.corpora.readers.wikitext import MAX_NESTING, NestingError, paragraphs
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
      <model>{model}</model>
      <format>text/x-wiki</format>
      <text bytes="{len(text)}" sha1="x" xml:space="preserve">{escape(text)}</text>
      <sha1>x</sha1>
    </revision>
  </page>
"""


@pytest.fixture
def dump(tmp_path):
    def run(*parts, name="dewiki-pages-articles.xml.bz2", head=HEAD, tail="</mediawiki>\n"):
        path = tmp_path / name
        data = "".join((head, *parts, tail)).encode()
        path.write_bytes(bz2.compress(data) if name.endswith(".bz2") else data)
        return path

    return run


def test_an_example_is_a_sentence_and_its_article_without_it(dump):
    (example,) = read_wikipedia(dump(page()), Reading())
    (query,) = example.context
    kept = ["Ada was a mathematician of note.", "She wrote the first program ever.", "Her father was a poet."]
    assert query in kept
    assert example == Example((query,), example.response, "7", "7", "wikipedia")
    rest = [[each for each in kept[:2] if each != query], [each for each in (kept[2], "Fame.") if each != query]]
    assert example.response == "\n".join(" ".join(paragraph) for paragraph in rest)


def test_the_sentence_follows_from_the_id_alone():
    text = [" ".join(f"This is sentence number {number}." for number in range(20))]
    chosen = [article_example(str(number), text).context for number in range(200)]
    assert len(set(chosen)) == 20
    assert chosen[12] == ("This is sentence number 12.",)  # for ever: an evaluation must not change


def test_which_pages_are_articles(dump):
    reading = Reading()
    path = dump(page(1), page(2, namespace=14), page(3, redirect="Ada"), page(4, text="#WEITERLEITUNG [[Ada]]"),
                page(5, text=" # redirect [[Ada]]"), page(6, model="wikidata-item"), page(7, "List of Adas"),
                page(8, "Ada (disambiguation)"), page(9, text="[[" * 200), page(10, text=""),
                page(11, text="Only one sentence is here."), page(12, text="Too short. No. Never."))  # fmt: skip
    assert [example.id for example in read_wikipedia(path, reading)] == ["1"]
    assert reading.lines == 12
    assert reading.dropped == {
        "pages of other namespaces": 1,
        "redirects": 2,
        "pages that are not wikitext": 1,
        "lists, indices, outlines and disambiguations": 2,
        "articles with links, templates and tables nested deeper than 100": 1,
        "articles without a sentence that can be the query, or with nothing else": 4,
    }
    assert fault_of_page(Page(MEDIA, title="Listening")) == ""


@pytest.mark.parametrize(("parts", "message"), [
    (["<html>\n</html>"], r":1: <html> instead of <mediawiki>"),
    ([HEAD, page(), "<page>\n"], r":29: not XML, or cut off"),
])  # fmt: skip
def test_a_document_that_is_no_export_is_refused(dump, parts, message):
    path = dump(*parts, head="", tail="")
    for reading in (Reading(), Reading(skip_bad=True)):
        with pytest.raises(InputError, match=re.escape(str(path)) + message):
            list(read_wikipedia(path, reading))


@pytest.mark.parametrize(
    ("change", "message"),
    [(("<id>7</id>", ""), "a page without <id>"), (("<ns>0</ns>", "<ns>x</ns>"), "'x' instead of a number in <ns>")],
)
def test_bad_pages_are_named_and_can_be_skipped(dump, change, message):
    path = dump(page(1), page(text="Ada was").replace(*change), page(2))
    with pytest.raises(InputError, match=f":28: {re.escape(message)}"):
        list(read_wikipedia(path, Reading()))
    reading = Reading(skip_bad=True)
    assert [example.id for example in read_wikipedia(path, reading)] == ["1", "2"]
    assert (reading.lines, reading.bad_lines) == (3, 1)


LINES = "It was late. The train had left.\n\nNobody\nwas there.\nDr. Who said: no.\n"


@pytest.fixture
def neighbours(tmp_path):
    def run(text, name="book.txt"):
        data = text.encode()
        (tmp_path / name).write_bytes(bz2.compress(data) if name.endswith(".bz2") else data)
        reading = Reading()
        found = list(read_neighbours(tmp_path / name, reading))
        assert all(len(example.context) == 1 for example in found)
        return [(example.context[0], example.response, example.thread) for example in found], reading

    return run


def test_sentences_end_with_their_line(neighbours):
    found, reading = neighbours(LINES)
    said = ["It was late.", "The train had left.", "Nobody", "was there.", "Dr. Who said: no."]
    assert [pair[:2] for pair in found] == list(itertools.pairwise(said))
    assert reading.lines == 4


def test_a_long_text_is_several_threads_that_share_no_pair(neighbours, monkeypatch):
    monkeypatch.setattr(wikipedia, "THREAD_LINES", 2)
    found, _ = neighbours("One.\nTwo.\nThree.\nFour.\nFive.\n")
    assert found == [("One.", "Two.", "book:0"), ("Three.", "Four.", "book:1")]


def test_articles_of_an_export(neighbours):
    text = "One is here. Two is [[there|not there]].\n\n{{box}}Three is gone."
    pages = page(7, text=text) + page(8, "Talk", text, namespace=1) + page(9, "List of x", text)
    found, reading = neighbours(f"{HEAD}{pages}</mediawiki>\n", "dewiki-pages-articles1.xml-p1p9.bz2")
    said = ["One is here.", "Two is not there.", "Three is gone."]
    assert found == [(*pair, "7") for pair in itertools.pairwise(said)]
    assert sum(reading.dropped.values()) == 2


@pytest.mark.parametrize("expected", [
    ["One."],
    ["One.", "Two!", "Three?", "Four"],
    ["She met Mr. Smith and J. S. Bach in the U.S. in 1833.", "He left."],
    ["It cost 3.50 dollars (approx. 3 euros).", "That was much."],
    ["“Why?” she asked.", "“No!”", "He went on."],
    ["It was ... a day.", "And then…", "Nothing."],
    ["Born c. 1850 (or earlier).", "(He said so.)", "“So what?”"],
    ["今日は。", "元気ですか？", "はい"],  # noqa: RUF001
    [],
])  # fmt: skip
def test_where_sentences_end(expected):
    space = "" if "。" in "".join(expected) else " "
    assert sentences(space.join(expected)) == expected


@given(st.text(alphabet="aB.!? \u3002\"')", max_size=50))
def test_nothing_but_white_space_is_lost(paragraph):
    found = sentences(paragraph)
    assert "".join("".join(found).split()) == "".join(paragraph.split())
    assert all(sentence and sentence == sentence.strip() for sentence in found)


@pytest.mark.parametrize("part", [".", ".'", "a. ", "A. b", "。", '"', "A.B. ", "a"])
def test_a_megabyte_of_anything_is_cut_at_once(part):
    assert "".join(sentences(part * 2**18)).replace(" ", "") == (part * 2**18).replace(" ", "")


ARTICLE = """{{Short description|Mathematician}}
{{Infobox person
| name = [[Ada]]
| known = {{plainlist|
* numbers
}}
}}
[[File:Ada.jpg|thumb|A [[portrait|picture]] of her{{efn|By {{ill|someone|fr}}}}]]
'''Ada Lovelace''' ({{IPAc-en|l}}; born ''Byron'', 1815) was an [[England|English]] mathematician<ref name="a">{{cite
|title=x|url=[http://x.org y]}}</ref> and [[writer]]s.<ref name="a" /> The number <math>x^{y^{z}}</math> is
&lt;5&nbsp;km.<!-- hidden [[x -->
== Life ==
* an item
# another
: indented
{| class="wikitable"
|-
| a || [[b]]
{|
| nested
|}
|}
See [https://x.org her page], <code>f</code> and H<sub>2</sub>O.{{citation needed}} __NOTOC__
<gallery>
Image:x.jpg|text
</gallery>
[[fr:Ada]]
[[Category:Mathematicians|Ada]]
----
"""


def test_an_article():
    assert paragraphs(ARTICLE) == [
        "Ada Lovelace (born Byron, 1815) was an English mathematician and writers. The number is",
        "<5 km.",
        "See her page, f and H2O.",
    ]


@pytest.mark.parametrize(("wikitext", "text"), [
    ("[[Paris|the capital]]", "the capital"),
    ("[[Datei:x.png|mini]] Bild", "Bild"),
    ("[[Star Wars: A New Hope]]", "Star Wars: A New Hope"),
    ("[[zh-yue:巴黎]]a", "a"),
    ("[[de:Paris|Paris]]", "Paris"),
    ("a {{b|{{c}}|[[d}} e]] f", "a e f"),
    ("a [[b {{c]] d}} e", "a b c d e"),
    ("a {{b c", "a b c"),
    ("a }} b ]] c |} d", "a b c |} d"),
    ("{{a\n|b={{c|}}\n|}}text", "text"),
    ("a <ref name=x/>b<REF>c</Ref >d", "a bd"),
    ("a <math>{{</math> b", "a b"),
    ("a<br>b<br />c", "a b c"),
    ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
    ("''''bold italic''''' isn't", "bold italic isn't"),
    ("&amp;lt; &#65; &quot;", '&lt; A "'),
    ("[//x.org] [http://x.org] [mailto://a b] [sic]", "b [sic]"),
    ("(; ) (, see) ok", "(see) ok"),
    ("- - -", ""),
])  # fmt: skip
def test_markup(wikitext, text):
    assert " ".join(paragraphs(wikitext, ("file", "image", "category", "datei"))) == text


PIECES = ["[[", "]]", "{{", "}}", "{|", "|}", "\n", "<ref>", "</ref>", "<b>", "<", ">", "''", "a", "B. ", "|", ":"]
PIECES += ["==", "<!--", "-->", "<math>", "[http://x ", "]", "(", ")", "&amp;", "\u00e9"]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
def test_whatever_it_is_it_gives_clean_lines(wikitext):
    for paragraph in paragraphs(wikitext):
        assert paragraph == " ".join(paragraph.split())
        assert any(map(str.isalpha, paragraph))
        assert "[[" not in paragraph
        assert "{{" not in paragraph


@pytest.mark.parametrize("part", [
    *("[[a]]", "{{a|b}}", "<b><i>", "<a", "<ref>", "<math>", "}}", "'", "[http://a ", "( , ", "<!--", "__A", "&"),
    *("{|a\n|}", "<" + "a" * 64, " ", "[[" * 60 + "]]" * 60),
])  # fmt: skip
def test_a_megabyte_of_anything_takes_no_time(part):
    """A library that builds a tree of it takes hours for some of these."""
    assert isinstance(paragraphs(part * (2**20 // len(part))), list)


@pytest.mark.parametrize("part", ["[[", "{{a|", "[[a|<b>{{c|", "{|\n|-\n| a || [[b]]\n"])
def test_absurd_nesting_is_refused(part):
    paragraphs(part * (MAX_NESTING // 2))
    with pytest.raises(NestingError, match="nested deeper than 100"):
        paragraphs(part * 2**18)
