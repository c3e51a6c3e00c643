"""`python -m workshop.corpus`: from a recipe and files to a folder to train and evaluate on."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rejoinder.corpora.forms.examples import read_examples
from rejoinder.errors import InputError
from tests.workshop.corpus.test_build import dialogues, write
from workshop.corpus.__main__ import main

ROOT = Path(__file__).parents[3]
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
def words(tmp_path):
    (tmp_path / "recipe.toml").write_text(RECIPE, "utf-8")
    (tmp_path / "texts.txt").write_text("nothing of the kind\n", "utf-8")
    write(tmp_path / "in", a=dialogues(1, 100))
    return [str(tmp_path / "recipe.toml"), str(tmp_path / "in"), "-o", str(tmp_path / "out")]


@pytest.fixture
def run(words, monkeypatch):
    def run(*more):
        monkeypatch.setattr(sys, "argv", ["workshop.corpus", *words, *map(str, more)])
        main()

    return run


def test_a_corpus_is_built(run, tmp_path, capsys):
    run("--evaluation", tmp_path)
    counts = json.loads((tmp_path / "out" / "counts.json").read_text("utf-8"))
    train = list(read_examples(tmp_path / "out", "train"))
    test = list(read_examples(tmp_path / "out" / "test" / "a", "test"))
    assert counts["total"]["train"]["kept"] == len(train)
    assert counts["sources"]["a"]["test"]["kept"] == len(test)
    assert counts["evaluation"] == {"texts": {"pairs": 0, "texts": 1}}
    table = (tmp_path / "out" / "counts.md").read_text("utf-8")
    assert capsys.readouterr().out == f"{table}\ncorpus: {tmp_path / 'out'}\n"


def test_an_earlier_corpus_is_replaced_with_overwrite_alone(run, tmp_path):
    run("--no-evaluation")
    with pytest.raises(InputError, match="--overwrite"):
        run("--no-evaluation")
    run("--no-evaluation", "--overwrite")
    (tmp_path / "out" / "notes.txt").write_text("mine", "utf-8")
    with pytest.raises(InputError, match=r"holds notes\.txt"):
        run("--no-evaluation", "--overwrite")
    assert (tmp_path / "out" / "notes.txt").read_text("utf-8") == "mine"


def test_a_folder_of_others_is_never_touched(run, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "counts.json").write_text('{"format": 1}', "utf-8")
    with pytest.raises(InputError, match="out"):
        run("--no-evaluation", "--overwrite")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["counts.json"]


def test_an_error_is_one_line_and_code_2(words, tmp_path):
    command = [sys.executable, "-m", "workshop.corpus", *words]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    said = "checks for leaks of texts; give their folder with --evaluation DIR, or --no-evaluation"
    line = f"rejoinder: error: {tmp_path / 'recipe.toml'} {said}\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", line)
    assert not (tmp_path / "out").exists()
