"""Links of replies in HTML: where they lead stands behind them, for it is sent as text."""

import json

import pytest

from rejoinder.corpora.registry.candidates import read_candidates
from rejoinder.html_text import text_of_html
from rejoinder.retrieval.encoding.templates import plain

LINKED = 'Start your return <a href="https://shop.example/returns">here</a>.'
READ = "Start your return here (https://shop.example/returns)."


@pytest.mark.parametrize(
    ("html", "text"),
    [
        (LINKED, READ),
        ('See <a href="https://shop.example/">shop.example</a>', "See shop.example"),
        ('Go <a href="/returns">here</a>', "Go here"),
        ('<a href="mailto:a@shop.example?subject=x">Write</a> or <a href="tel:+4930">call</a>', "Write (a@shop.example) or call (+4930)"),
        ('<a href="javascript:run()">Click</a>', "Click"),
        ('<a href="https://shop.example/q">Where is it?</a>', "Where is it?"),
        ('<h2><a href="https://shop.example/q">Returns</a></h2>', "Returns"),
        ('<a href="https://shop.example/logo"><img src="a.png"></a>Hello', "Hello"),
    ],
)
def test_the_address_stands_behind_the_link(html, text):
    assert text_of_html(f"<p>{html}</p>", with_links=True) == text


FILES = {
    "macros.json": json.dumps(
        {"macros": [{"title": "Returns", "actions": [{"field": "comment_value_html", "value": f"<p>{LINKED}</p>"}]}]}
    ),
    "articles.json": json.dumps({"articles": [{"title": "Returns", "body": f"<p>{LINKED}</p>", "draft": False}]}),
    "page.html": f"<h1>FAQ</h1><h2>How do I return it?</h2><p>{LINKED}</p><h2>How do I pay?</h2><p>By card.</p>",
    "details.html": f"<details><summary>How do I return it?</summary><p>{LINKED}</p></details>",
    "page.md": "## How do I return it?\n\nStart your return [here](https://shop.example/returns).\n\n## How do I pay?\n\nBy card.\n",
}


@pytest.mark.parametrize("name", FILES)
def test_replies_of_files_have_it(tmp_path, name):
    (tmp_path / name).write_text(FILES[name])
    assert READ in [reply.text for reply in read_candidates(tmp_path / name)]


def test_an_address_in_brackets_is_not_encoded():
    assert "shop.example" not in plain(READ)
    assert "(" not in plain(READ)
