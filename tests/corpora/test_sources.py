"""The registry: every corpus keeps the contract; settings are read strictly; inputs are seen to fit before any work."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path
from typing import Literal

import pytest

from rejoinder.corpora.corpus import Corpus
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.registry.sources import CORPORA, Setting, find_corpus, find_inputs, read_settings, settings_of
from rejoinder.errors import InputError
from rejoinder.settings import documented
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


def test_a_corpus_by_name_or_itself():
    assert find_corpus("jsonl") is CORPORA["jsonl"]
    assert find_corpus(TOY) is TOY
    with pytest.raises(InputError, match=r"no source 'nope'; there are chitchat, chats, jsonl, csv"):
        find_corpus("nope")


def test_inputs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a=b.txt", "test=c.txt", "c.txt"):
        (tmp_path / name).touch()
    found = find_inputs(TOY, ["a=b.txt", "train=a=b.txt", "test=c.txt", "valid=c.txt", tmp_path / "c.txt"])
    assert [str(each.path) for each in found] == ["a=b.txt", "a=b.txt", "test=c.txt", "c.txt", str(tmp_path / "c.txt")]
    assert [each.part for each in found] == [None, "train", None, "valid", None]
    with pytest.raises(InputError, match=r"^\. is a folder; name the files in it$"):
        find_inputs(TOY, ["test=."])


def test_files_that_share_a_name_have_the_end_of_their_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = ["a/1.txt", "b/1.txt.gz", "b/2.txt", "c/b/3.txt", "d/b/3.txt", "e/3.txt", "4.txt", "a/4.txt"]
    for path in paths:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).touch()
    found = find_inputs(TOY, [*paths, "a/1.txt", tmp_path / "b" / "2.txt"])
    names = ["a/1.txt", "b/1.txt", "", "c/b/3.txt", "d/b/3.txt", "e/3.txt", f"{tmp_path.name}/4.txt", "a/4.txt"]
    assert [each.name for each in found] == [*names, "a/1.txt", ""]


@pytest.mark.parametrize(("paths", "stems"), [
    (["c.json", "c.csv", "d.csv"], ["c.json", "c.csv", "d"]),
    (["c.json", "a/c.csv.gz"], ["c.json", "c.csv"]),
    (["a/c.json", "a/c.csv", "b/c.json"], ["a/c", "c", "b/c"]),
    (["a/1.v2.txt", "a/1.v3.txt", "b/1.v3.csv"], ["1.v2", "1.v3.txt", "1.v3.csv"]),
    (["a/1", "b/1", "a/1.txt"], ["a/1", "b/1", "1"]),
])  # fmt: skip
def test_ids_of_files_that_differ_in_their_ending_alone_have_it(tmp_path, monkeypatch, paths, stems):
    monkeypatch.chdir(tmp_path)
    for path in paths:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).touch()
    found = []
    for each in find_inputs(TOY, paths):
        reading = Reading()
        each.prepare(reading)
        found.append(reading.stem(each.path))
    assert found == stems


@documented
class ToySettings:
    shortest: int = 9
    """Fewest characters of a
    message."""
    longest: int = 127
    share: float = 0.5
    kinds: tuple[str, ...] = ("a", "b")
    side: Literal["left", "right"] = "left"
    bots: bool = False

    def __post_init__(self):
        if self.shortest > self.longest:
            raise InputError(f"shortest is {self.shortest}, longest is {self.longest}; it cannot be less")


SET = Corpus("toy", "", "", "", "", "", settings=ToySettings)


def test_values_are_those_of_toml_and_bare_words():
    assert settings_of(SET)[0] == Setting("shortest", "int", 9, "Fewest characters of a message.")
    assert [each.name for each in settings_of(CORPORA["jsonl"])] == ["redact", "respond"]
    assert settings_of(CORPORA["chitchat"]) == []
    assert read_settings(SET, []) == ToySettings()
    given = ["longest=50", " share = 1", "kinds=['x']", "side=right", "bots=true", "longest=60"]
    assert read_settings(SET, given) == ToySettings(longest=60, share=1.0, kinds=("x",), side="right", bots=True)


@pytest.mark.parametrize(("given", "reason"), [
    ("longst=3", r"toy: unknown key 'longst'; did you mean 'longest'\? allowed: shortest, longest, share"),
    ("=3", "write it as name=value"),
    ("longest=many", r"toy: longest = 'many' is not allowed: it should be a valid integer"),
    ("kinds=x", r"""kinds = 'x' is not allowed: it should be a list, as \["x"\]$"""),
    ("side=up", "it should be 'left' or 'right'"),
    ("kinds=[", "the value is not TOML"),
    ("longest=1\nshortest=1", "give one value"),
    ("longest=3", r"settings of toy: shortest is 9, longest is 3; it cannot be less"),
])  # fmt: skip
def test_what_is_not_allowed_is_an_error_that_lists_what_is(given, reason):
    with pytest.raises(InputError, match=reason):
        read_settings(SET, [given])
