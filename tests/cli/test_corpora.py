"""`rejoinder list corpora`: what `rejoinder data` reads."""

from rejoinder.corpora.registry.sources import CORPORA
from tests.corpora.toy import TOY

VERB = ["list", "corpora"]


def test_the_corpora_are_listed_and_each_is_described(command, answer, refused):
    out = command().out
    assert {line.split()[0] for line in out.splitlines() if line} >= {
        "chitchat",
        "jsonl",
        "csv",
        "rejoinder",
    }
    out = command("chitchat").out
    for text in (
        "licence   MIT",
        "origin    pip install chitchat-dataset",
        "expected  7,168",
        "no settings",
    ):
        assert text in out
    for name, title in answer()["sources"].items():
        described = answer(name)
        assert (described["name"], described["title"]) == (name, title)
        assert set(described) == {
            "name",
            "title",
            "reads",
            "licence",
            "origin",
            "expected",
            "settings",
        }
    refused("nope", said="no source 'nope'")


def test_the_settings_of_a_corpus_are_described(command, monkeypatch):
    monkeypatch.setitem(CORPORA, "toy", TOY)
    assert "  shortest=1  (int)\n      Fewest characters of a message." in command("toy").out
