"""`rejoinder corpus`: from a recipe and files to a folder that can be trained and evaluated on."""

from __future__ import annotations

import pytest

from rejoinder.corpora.example import conversation_thread, split_of
from rejoinder.corpora.examples import read_examples
from tests.corpora.pretraining.test_build import dialogues, write

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
    recipe, folder, *output = given
    refused(*given, said="checks for leaks of texts; give their folder with --evaluation DIR")
    refused(*given, "--no-evaluation", "--evaluation", tmp_path, said="exclude each other")
    refused(recipe, folder, *output, "--where", "x.jsonl", said="--where builds nothing")
    refused(recipe, folder, said="or a file of conversations with --where FILE")
    assert not (tmp_path / "out").exists()


def test_where_tells_what_the_corpus_holds_out(command, answer, given, tmp_path):
    recipe, folder, *_ = given
    text = RECIPE.replace('file = "a.jsonl"', 'file = "a.jsonl"\nclean = ["brackets"]')
    (tmp_path / "recipe.toml").write_text(text, "utf-8")
    records = dialogues(1, 100)
    for number, record in enumerate(records):  # words that the cleaning takes out: by them the split would be another
        record["turns"][0] += f" [laughs {number}]"
    shared = "so long a message that whoever shares it with another dialogue also shares the split of that one"
    records += [{"id": f"s{n}", "turns": [shared, f"{shared} today", f"and then {n} more"]} for n in range(40)]
    write(tmp_path / "in", a=records)
    write(tmp_path, asked=[*records, {"id": "elsewhere", "turns": ["who has heard", "of this one?"]}])
    assert command(*given, "--no-evaluation").code == 0
    named = {example.id.partition(":")[0]: "test" for example in read_examples(tmp_path / "out/test/a", "test")}
    for split in ("train", "valid"):
        named |= {example.id.partition(":")[0]: split for example in read_examples(tmp_path / "out", split)}

    words = (recipe, folder, "--where", tmp_path / "asked.jsonl")
    told = {row["id"]: row for row in answer(*words)["conversations"]}
    assert {name: told[name]["split"] for name in named} == named
    assert {told[name]["split"] for name in told.keys() - named.keys()} == {None}
    assert told["elsewhere"] == {"id": "elsewhere", "sources": [], "split": None, "held_out": False}
    left_out = [row for row in told.values() if row["sources"] and row["split"] is None]
    assert left_out, "shared pairs decide for some that are held out by their own words"
    assert all(row["held_out"] == (row["split"] not in ("train", "valid")) for row in told.values() if row["sources"])
    raw = {record["id"]: split_of(conversation_thread(record["turns"])) for record in records}
    assert any(raw[name] == "test" and told[name]["split"] == "train" for name in named)

    lines = command(*words).out.splitlines()
    assert "no source  elsewhere" in lines
    count = sum(row["held_out"] for row in told.values())
    assert lines[-1] == f"held out (test, left out): {count} of 141 conversations"
