"""Prose out of wikitext."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rejoinder.corpora.readers.wikipedia import MAX_NESTING, NestingError, paragraphs

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


@pytest.mark.parametrize(
    ("wikitext", "text"),
    [
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
    ],
)
def test_markup(wikitext, text):
    assert " ".join(paragraphs(wikitext, ("file", "image", "category", "datei"))) == text


PIECES = ["[[", "]]", "{{", "}}", "{|", "|}", "\n", "<ref>", "</ref>", "<b>", "<", ">", "''", "a", "B. ", "|", ":"]
PIECES += ["==", "<!--", "-->", "<math>", "[http://x ", "]", "(", ")", "&amp;", "\u00e9"]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
def test_whatever_it_is_it_gives_clean_lines(wikitext):
    for paragraph in paragraphs(wikitext):
        assert paragraph == " ".join(paragraph.split())
        assert any(map(str.isalpha, paragraph))
        assert "[[" not in paragraph
        assert "{{" not in paragraph


@pytest.mark.parametrize(
    "part",
    [
        *("[[a]]", "{{a|b}}", "<b><i>", "<a", "<ref>", "<math>", "}}", "'", "[http://a ", "( , ", "<!--", "__A", "&"),
        *("{|a\n|}", "<" + "a" * 64, " ", "[[" * 60 + "]]" * 60),
    ],
)
def test_a_megabyte_of_anything_takes_no_time(part):
    """A library that builds a tree of it takes hours for some of these."""
    assert isinstance(paragraphs(part * (2**20 // len(part))), list)


@pytest.mark.parametrize("part", ["[[", "{{a|", "[[a|<b>{{c|", "{|\n|-\n| a || [[b]]\n"])
def test_absurd_nesting_is_refused(part):
    paragraphs(part * (MAX_NESTING // 2))
    with pytest.raises(NestingError, match="nested deeper than 100"):
        paragraphs(part * 2**18)
