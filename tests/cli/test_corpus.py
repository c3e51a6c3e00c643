"""`rejoinder corpus`: from a recipe and files to a folder that can be trained and evaluated on."""

import pytest

from rejoinder.corpora.examples import read_examples
from tests.workshop.corpus.test_build import dialogues, write

VERB = ["corpus"]

RECIPE = """
kind = "corpus"
[[source]]
name = "a"
licence = "MIT"
file = "a.jsonl"
[[evaluation]]
name = "texts"
reader = "texts"
files = ["texts.txt"]
"""


@pytest.fixture
def given(tmp_path):
    (tmp_path / "recipe.toml").write_text(RECIPE, "utf-8")
    (tmp_path / "texts.txt").write_text("nothing of the kind\n", "utf-8")
    write(tmp_path / "in", a=dialogues(1, 100))
    return [str(tmp_path / "recipe.toml"), str(tmp_path / "in"), "-o", str(tmp_path / "out")]


def test_a_corpus_is_built(answer, given, tmp_path):
    counts = answer(*given, "--evaluation", tmp_path)
    assert counts["total"]["train"]["kept"] == len(list(read_examples(tmp_path / "out", "train")))
    assert counts["sources"]["a"]["test"]["kept"] == len(list(read_examples(tmp_path / "out/test/a", "test")))
    assert counts["evaluation"] == {"texts": {"pairs": 0, "texts": 1}}


def test_options_that_do_not_fit(refused, given, tmp_path):
    refused(*given, said="checks for leaks of texts; give their folder with --evaluation DIR")
    refused(*given, "--no-evaluation", "--evaluation", tmp_path, said="exclude each other")
    assert not (tmp_path / "out").exists()
