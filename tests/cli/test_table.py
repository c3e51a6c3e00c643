"""`rejoinder lab table` and `rejoinder evaluate -o`, from the command line to the exit code."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from rejoinder.lab.plan import load_table
from rejoinder.corpora.forms.examples import read_examples, write_examples
from rejoinder.errors import InputError
from rejoinder.digests import signed
from tests.encoders.small import small_model
from tests.evaluation.fakes import Rule, knows_even_ones, numbered_examples

MAIN = Path(__file__).parents[2] / "recipes" / "tables" / "main.toml"

TABLE = """
name = "Small"
description = "A *small* table."

[row.bm25]
name = "BM25"
ranker = "bm25"
group = "keywords"

[row.ours]
name = "Ours"
ranker = "runs/model"
make = "rejoinder train R -o {column}"

[column.n]
name = "Numbers"
path = "numbers"
candidates = 20

[column.gone]
name = "Gone"
path = "gone"
make = "rejoinder data X -o gone"
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_examples(
        numbered_examples(60, turns_per_thread=5), tmp_path / "numbers" / "test-0.parquet"
    )
    (tmp_path / "table.toml").write_text(TABLE)
    return tmp_path


def test_a_table_is_measured_once_and_again_when_its_model_changes(command, place):
    pytest.importorskip("matplotlib")
    found = command("lab", "table", "table.toml", "-o", "out", "--json").json
    missing = {(cell["system"], cell["data"]): cell["missing"] for cell in found["cells"]}
    assert missing == {
        ("BM25", "Numbers"): None,
        ("Ours", "Numbers"): "no runs/model; `rejoinder train R -o n`",
        ("BM25", "Gone"): "no gone; `rejoinder data X -o gone`",
        ("Ours", "Gone"): "no gone; `rejoinder data X -o gone`",
    }
    files = [f"table.{kind}" for kind in ("md", "json", "png", "svg")]
    assert sorted(path.name for path in (place / "out").iterdir()) == sorted([*files, "cells"])
    assert found["files"] == [f"out/{name}" for name in files]
    small_model(place / "runs" / "model")
    _, out, err = command("lab", "table", "table.toml", "-o", "out", "--column", "n")
    assert "Numbers: runs/model" in err
    assert "Numbers: bm25" not in err
    assert "A *small* table." in out
    assert "| Ours | " in out
    config = json.loads((place / "runs" / "model" / "config.json").read_text())
    (place / "runs" / "model" / "config.json").write_text(
        json.dumps(signed(config | {"max_length": 30}))
    )
    assert "Numbers: runs/model" in command("lab", "table", "table.toml", "-o", "out")[2]
    assert "Numbers: runs/model" not in command("lab", "table", "table.toml", "-o", "out")[2]
    assert (
        "Numbers: " in command("lab", "table", "table.toml", "-o", "out", "--set", "column.n.limit=40")[2]
    )


def test_the_command_of_a_note_has_what_the_column_sets(command, place):
    (place / "table.toml").write_text(
        TABLE.replace(
            'make = "rejoinder train R -o {column}"\n',
            'make = "rejoinder train R -o {column}"\nsettings = { gone = ["model.dropout=0.5", "a=[1, 2]"] }\n',
        )
    )
    plan = load_table(place / "table.toml")
    assert plan.row["ours"].command_for("n", "numbers") == "rejoinder train R -o n"
    with_settings = "rejoinder train R -o gone --set model.dropout=0.5 --set 'a=[1, 2]'"
    assert plan.row["ours"].command_for("gone", "gone") == with_settings
    write_examples(numbered_examples(60, turns_per_thread=5), place / "gone" / "test-0.parquet")
    found = command(
        "lab", "table", "table.toml", "-o", "out", "--set", "column.gone.candidates=20", "--json"
    ).json
    missing = {(cell["system"], cell["data"]): cell["missing"] for cell in found["cells"]}
    assert missing["Ours", "Gone"] == f"no runs/model; `{with_settings}`"
    assert missing["Ours", "Numbers"] == "no runs/model; `rejoinder train R -o n`"


def test_strict_refuses_what_is_missing_before_anything_is_measured(command, refused, place):
    words = ("lab", "table", "table.toml", "-o", "out", "--strict", "--column", "n")
    refused(*words, said="no runs/model; `rejoinder train R -o n`")
    assert not (place / "out").exists()
    assert command(*words, "--row", "bm25").code == 0


def test_a_damaged_model_is_no_missing_one(command, place):
    (place / "runs" / "model").mkdir(parents=True)
    reason = command("lab", "table", "table.toml", "-o", "out", "--column", "n", "--json").json["cells"][
        1
    ]["missing"]
    assert "rejoinder train R" not in reason
    assert "model" in reason


def test_a_wrong_file_says_which_key_and_what_is_allowed(place):
    for change, message in (
        (
            ("candidates = 20", "candidate = 20"),
            "unknown key 'column.n.candidate'; did you mean 'candidates'?",
        ),
        (("candidates = 20", 'candidates = "some"'), "column.n.candidates = 'some' is not allowed"),
        (
            ("candidates = 20", "candidates = 20\ndraw = 19"),
            "column.n: candidates and draw are both set",
        ),
        (('ranker = "bm25"', ""), "'row.bm25.ranker' is missing"),
        (
            ('ranker = "bm25"', 'ranker = { m = "bm25" }'),
            "row.bm25 names the column 'm'; the columns are n, gone",
        ),
        (
            ('ranker = "runs/model"', 'ranker = "runs/model"\nsettings = { m = [] }'),
            "row.ours names the column 'm'",
        ),
        (
            ('ranker = "bm25"', 'ranker = "bm25"\nsettings = { n = ["a=1"] }'),
            "row.bm25 has settings, but no command",
        ),
    ):
        assert change[0] in TABLE
        (place / "table.toml").write_text(TABLE.replace(*change))
        with pytest.raises(InputError, match=rf"^{place}/table\.toml.*{re.escape(message)}"):
            load_table(place / "table.toml")


def test_bad_input_gives_one_line_and_exit_code_2(refused, place):
    for arguments, message in (
        (["nowhere.toml", "-o", "out"], "nowhere.toml: no such file"),
        (
            ["tables/main", "-o", "out", "--row", "bm25"],
            "nothing to measure: no data/general; `rejoinder data",
        ),
        (
            ["table.toml", "-o", "out", "--column", "gone"],
            "no gone; `rejoinder data X -o gone`; make one, or choose",
        ),
        (["table.toml", "-o", "table.toml"], "table.toml is a file; name a folder"),
        (["table.toml", "-o", "out", "--row", "bm26"], "no row 'bm26'; it has bm25, ours"),
        (["table.toml", "-o", "out", "--column", "m"], "no column 'm'; it has n, gone"),
        (
            ["table.toml", "-o", "out", "--set", "column.n.limit=0"],
            "column.n.limit = 0 is not allowed",
        ),
        (
            ["table.toml", "-o", "out", "--set", "row.bm25=2"],
            "row.bm25 = 2 is not allowed: it should be a table",
        ),
    ):
        refused("lab", "table", *arguments, said=message)
    assert not (place / "out").exists()


def test_evaluate_writes_its_table(command, place, monkeypatch):
    pytest.importorskip("matplotlib")
    (place / "half").mkdir()
    monkeypatch.setattr("rejoinder.encoders.open.load", lambda _, **__: Rule(knows_even_ones))
    write_examples(numbered_examples(40), place / "other.parquet")
    words = (
        "evaluate",
        "bm25",
        "half",
        "--data",
        "numbers",
        "other.parquet",
        "--candidates",
        20,
        "-o",
        "out",
    )
    printed = {
        (each["model"], each["data"]): each["recall"]
        for each in command(*words, "--json").json["results"]
    }
    written = json.loads((place / "out" / "table.json").read_text())["cells"]
    assert {(each["system"], each["data"]): each["result"]["recall"] for each in written} == printed
    assert {path.suffix for path in (place / "out").iterdir()} == {".md", ".json", ".png", ".svg"}


def test_without_matplotlib_everything_but_the_pictures_is_written(command, place, monkeypatch):
    (place / "out").mkdir()
    (place / "out" / "table.png").write_text("of an earlier table")
    (place / "out" / "table.json").write_text(json.dumps({"kind": "rejoinder table"}))
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    for words in (
        ("evaluate", "bm25", "numbers", "--candidates", 20),
        ("lab", "table", "table.toml", "--column", "n"),
    ):
        ended = command(*words, "-o", "out")
        assert ended.code == 0
        assert re.search("no picture in out: .*'plots': pip install 'matplotlib", ended.err)
        assert {path.name for path in (place / "out").iterdir()} - {"cells"} == {
            "table.json",
            "table.md",
        }


def test_the_banking_faq_ranks_all_77_answers_for_a_tenth_of_the_questions(
    command, tmp_path, monkeypatch
):
    """ACL19's figures are multiples of 1/77; 70/20/10 are its parts for training, validation and test."""
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    rows = [f"how do i {answer} {way}?,to {answer}\n" for answer in range(77) for way in range(10)]
    Path("faq.csv").write_text("question,answer\n" + "".join(rows))
    make = load_table(MAIN).column["faq"].make
    assert command(*shlex.split(make)[1:])[0] == 0
    counts = [
        sum(1 for _ in read_examples("data/faq", part)) for part in ("train", "valid", "test")
    ]
    assert [round(count / 770, 1) for count in counts] == [0.7, 0.2, 0.1]
    (cell,) = command(
        "lab", "table", MAIN, "-o", "out", "--column", "faq", "--row", "bm25", "--json"
    ).json["cells"]
    assert (cell["result"]["candidates"], cell["result"]["examples"]) == (77, counts[2])


def test_the_main_table_names_the_papers_systems():
    table, given = load_table(MAIN), {"convai2", "dstc7", "ubuntu"}
    trained = {
        key for key in table.row if key.endswith(("-target-only", "-ft-direct", "-ft-mixed"))
    }
    assert {key for key, row in table.row.items() if row.left_on == "general"} == trained, (
        "as in ACL19's Table 3"
    )
    others = {"general", "amazon", "semeval", "ubuntu-pairs", "opensubtitles", "wikipedia", "faq"}
    assert set(table.column) == given | others
    assert {table.column[key].candidates for key in given} == {"given"}
    assert {"convert-multi-direct", "convert-multi-ft-direct"} < set(table.row)
    for row in ("bi", "poly", "cross", "bi-own", "poly-own", "cross-own"):
        assert {column for column in table.column if table.row[row].ranker_for(column, "d")} - {
            "wikipedia"
        } == given
    assert (table.column["semeval"].distinct, table.column["faq"].candidates) == ("inputs", "all")
    for model in ("convert", "ngram"):
        rows = [f"{model}-{kind}" for kind in ("direct", "target-only", "ft-direct", "ft-mixed")]
        assert set(rows) <= set(table.row)
        assert table.row[rows[2]].ranker_for("amazon", "d") == f"runs/{model}/amazon/direct/model"
        assert table.row[rows[2]].ranker_for("general", "d") is None
    assert all(column.make for column in table.column.values())
