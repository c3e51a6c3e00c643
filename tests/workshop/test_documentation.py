"""Questions and titles with what stands below them."""

import gzip
import json
import random

import pytest
import zstandard

from rejoinder.errors import InputError
from workshop import documentation

LONG = "The order leaves our house on the day after it was placed, and takes three days."


def pairs(folder):
    """Return the turns of each file of a folder, by its name."""
    found = {}
    for path in folder.iterdir():
        with zstandard.open(path, "rt", encoding="utf-8") as file:
            found[path.name] = [json.loads(line)["turns"] for line in file]
    return found


def page(tmp_path, body):
    path = tmp_path / "page.html"
    path.write_text(f"<html><body>{body}</body></html>", encoding="utf-8")
    return list(documentation.html_sections(path))


def test_a_heading_goes_with_the_paragraphs_below_it(tmp_path):
    orders = "<h1>Orders</h1><p>All about them.</p>"
    body = f"{orders}<h2>3.1. Where is my order?¶</h2><p>It is on its way.</p>"
    expected = [
        ("Orders", "Orders", "All about them."),
        ("Orders", "Where is my order?", "It is on its way. You get a mail."),
    ]
    assert page(tmp_path, f"{body}<li>You get a mail.</li>") == expected


def test_code_tables_and_menus_are_left_out(tmp_path):
    menu = "<div class='toctree-wrapper'><p>See also that page.</p></div>"
    assert page(tmp_path, f"<h1>A</h1><pre>x = 1 or so</pre>{menu}<p>It is three words.</p>") == [
        ("A", "A", "It is three words.")
    ]


def test_a_help_page_says_what_it_is_about(tmp_path):
    path = tmp_path / "a.page"
    path.write_text(
        "<page xmlns='http://projectmallard.org/1.0/'><info><desc>Find a lost file.</desc></info>"
        "<title>Lost files</title>"
        "<p>Press <key>F3</key>.</p>"
        "<section><title>Older ones</title><p>Look in the bin.</p></section></page>",
        encoding="utf-8",
    )
    assert list(documentation.mallard_sections(path)) == [
        ("Lost files", "Lost files", "Press F3."),
        ("Lost files", "Find a lost file.", "Press F3."),
        ("Lost files", "Older ones", "Look in the bin."),
    ]


def test_a_gloss_answers_a_question_for_one_of_its_words(tmp_path):
    lines = {
        "noun": "  1 licence\n"
        "1 06 n 02 ice_cream 0 gelato 0 000 | a dish of frozen cream that is sold in summer",
        "verb": "1 29 v 01 eat 0 000 | take in",
        "adj": "",
    }
    for kind, text in lines.items():
        (tmp_path / f"data.{kind}").write_text(text, encoding="latin-1")
    ((question, answer),) = documentation.glosses(tmp_path, random.Random(0))
    assert "ice cream" in question or "gelato" in question
    assert answer.endswith("a dish of frozen cream that is sold in summer")


def test_an_entry_of_a_dictionary_is_found_by_its_index(tmp_path):
    entries = b"header\nbug\n n. [from insects] An {error} in a program.\n"
    (tmp_path / "jargon.dict.dz").write_bytes(gzip.compress(entries))
    (tmp_path / "jargon.index").write_text("00-info\tA\tH\nbug\tH\tv\n", encoding="utf-8")
    ((question, answer),) = documentation.terms(tmp_path / "jargon", random.Random(0))
    assert ("bug" in question, answer) == (True, "An error in a program.")


def test_a_sentence_asks_for_its_passage(tmp_path):
    sentence = "We will build schools in {} of the states that have asked for them this year."
    text = " ".join(
        sentence.format(number)
        for number in ("ten", "nine", "eight", "seven", "six", "five", "four", "three")
    )
    (tmp_path / "1999_n.txt").write_text(text, encoding="utf-8")
    (tmp_path / "1801_n.txt").write_text(text, encoding="utf-8")
    question, answer = next(documentation.addresses(tmp_path, random.Random(0)))
    assert sorted(documentation.SENTENCE_END.split(f"{answer} {question}")) == sorted(
        documentation.SENTENCE_END.split(text)[: answer.count(".") + 1]
    )
    assert len(list(documentation.addresses(tmp_path, random.Random(0)))) == 1


def test_long_answers_end_with_a_sentence():
    text = " ".join([LONG] * 20)
    assert documentation.shorten(LONG) == LONG
    assert documentation.shorten(text) == " ".join([LONG] * 6)


@pytest.mark.parametrize(
    ("question", "answer", "wanted"),
    [
        ("Where is my order?", LONG, True),
        ("", LONG, False),
        ("Where is my order?", "On its way.", False),
        ("Where is my order?", "x=1; y=2; z=3; 4, 5, 6, 7, 8, 9, 10, 11, 12, 13", False),
        ("order " * 41, LONG, False),
    ],
)
def test_what_teaches_something_is_kept(question, answer, wanted):
    assert documentation.fits(question, answer) is wanted


def test_each_package_that_is_there_becomes_a_file(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "packages" / "apache2-doc" / "usr/share/doc/apache2-doc/manual/en"
    folder.mkdir(parents=True)
    (folder / "a.html").write_text(f"<h1>Where is my order?</h1><p>{LONG}</p>", encoding="utf-8")
    (folder / "b.html").write_text(f"<h1>Where is my order?</h1><p>{LONG}</p>", encoding="utf-8")
    arguments = ["documentation", str(tmp_path / "packages"), "-o", str(tmp_path / "out")]
    monkeypatch.setattr("sys.argv", arguments)
    documentation.main()
    assert capsys.readouterr().out == "apache2-doc 1\n"
    assert pairs(tmp_path / "out") == {"apache2-doc.jsonl.zst": [["Where is my order?", LONG]]}


def test_a_folder_without_packages_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["documentation", str(tmp_path), "-o", str(tmp_path / "out")])
    with pytest.raises(InputError, match="has none of the folders gnome-user-docs, "):
        documentation.main()
