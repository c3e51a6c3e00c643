"""`rejoinder corpus`: from a recipe and files to a folder that can be trained and evaluated on."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from rejoinder.cli.app import app
from rejoinder.corpora.example import read_examples
from tests.corpora.pretraining.test_build import dialogues, write

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


def run(*arguments):
    return CliRunner().invoke(app, ["corpus", *arguments])


def test_a_corpus_is_built(given, tmp_path):
    result = run(*given, "--evaluation", str(tmp_path), "--json")
    assert result.exit_code == 0, result.output
    counts = json.loads(result.stdout)
    assert counts["total"]["train"]["kept"] == len(list(read_examples(tmp_path / "out", "train")))
    assert counts["sources"]["a"]["test"]["kept"] == len(list(read_examples(tmp_path / "out/test/a", "test")))
    assert counts["evaluation"] == {"texts": {"pairs": 0, "texts": 1}}


def test_the_table_is_for_people(given):
    result = run(*given, "--no-evaluation")
    assert result.exit_code == 0, result.output
    assert "| a | MIT | 100 |" in result.stdout
    assert "Not compared with the evaluation sets" in result.stdout


def test_evaluation_sets_are_not_forgotten(given, tmp_path):
    result = run(*given)
    assert result.exit_code == 2
    assert "checks for leaks of texts; give their folder with --evaluation DIR" in result.stderr
    assert run(*given, "--no-evaluation", "--evaluation", str(tmp_path)).exit_code == 2
    assert not (tmp_path / "out").exists()
