"""The registry: every corpus keeps the contract, and inputs are seen to fit before any work."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.job import Input
from rejoinder.corpora.settings import read_settings, settings_of
from rejoinder.corpora.sources import CORPORA, find_corpus, find_inputs
from rejoinder.errors import InputError
from tests.corpora.toy import TOY


@pytest.mark.parametrize("corpus", [*CORPORA.values(), TOY], ids=lambda corpus: corpus.name)
def test_a_corpus_keeps_the_contract(corpus):
    assert (corpus.read is None) != (corpus.scatter is None)
    assert (corpus.scatter is None) == (corpus.assemble is None)
    assert corpus.packaged is None or corpus.read is not None
    assert dataclasses.is_dataclass(corpus.settings)
    assert read_settings(corpus, []) == corpus.settings()
    assert pickle.loads(pickle.dumps((corpus, corpus.settings()))) == (corpus, corpus.settings())
    for setting in settings_of(corpus):
        assert setting.meaning.endswith((".", ")")), f"{setting.name} has no line of documentation"
        assert dataclasses.asdict(setting)


@pytest.mark.parametrize("name", CORPORA)
def test_a_corpus_says_what_a_user_must_know(name):
    corpus = CORPORA[name]
    assert corpus.name == name
    for text in (corpus.title, corpus.reads, corpus.licence, corpus.origin):
        assert text
        assert "\n" not in text


def test_a_corpus_by_name_or_itself():
    assert find_corpus("jsonl") is CORPORA["jsonl"]
    assert find_corpus(TOY) is TOY
    with pytest.raises(InputError, match=r"no source 'nope'; there are chitchat, jsonl, csv"):
        find_corpus("nope")


def test_inputs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=b.txt").touch()
    (tmp_path / "test=c.txt").touch()
    (tmp_path / "c.txt").touch()
    found = find_inputs(TOY, ["a=b.txt", "train=a=b.txt", "test=c.txt", "valid=c.txt", tmp_path / "c.txt"])
    assert [(str(each.path), each.part) for each in found] == [
        ("a=b.txt", None),
        ("a=b.txt", "train"),
        ("test=c.txt", None),
        ("c.txt", "valid"),
        (str(tmp_path / "c.txt"), None),
    ]
    with pytest.raises(InputError, match=r"^\. is a folder; name the files in it$"):
        find_inputs(TOY, ["test=."])


def test_a_corpus_that_brings_its_data(tmp_path):
    file = tmp_path / "data"
    corpus = Corpus("brought", "", "", "", "", "", read=len, packaged=lambda: file)
    assert find_inputs(corpus, []) == [Input(file)]
    with pytest.raises(InputError, match="brought brings its own data; leave x out"):
        find_inputs(corpus, ["x"])
