"""The pages of stored figures: made of the files alone, and the same as those in docs/ and workshop/."""

import json
import sys
from pathlib import Path

import pytest

from rejoinder.errors import InputError
from workshop.results import (
    SECTIONS,
    WIDTH,
    main,
    pages,
    read_figures,
    section,
    table,
    wrap,
    write_results,
)

ROOT = Path(__file__).parents[2]
STORED = read_figures(ROOT / "benchmarks" / "results")


def test_the_stored_pages_are_those_of_the_stored_figures():
    paths = [*(ROOT / "docs" / "results").glob("*.md"), ROOT / "workshop" / "recorded.md"]
    there = {path.name: path.read_text(encoding="utf-8") for path in paths}
    command = "python -m workshop.results benchmarks/results -o docs/results"
    assert there == pages(ROOT / "benchmarks" / "results"), f"run: {command}"
    pictures = {f"{name}.svg" for name in STORED if name in SECTIONS and SECTIONS[name].panels}
    assert {path.name for path in (ROOT / "docs" / "results").glob("*.svg")} == pictures


def test_a_changed_figure_changes_the_table():
    figures = json.loads(json.dumps(STORED["encoding"]))
    figures["rows"]["convert-small fp32"]["sentences_per_second"] = 1234.5
    assert "| convert-small | 1,234; " in table("encoding", figures)


def test_every_load_of_a_server_has_its_row():
    figures = {
        "threads": 2,
        "rejoinder": {"per_second": 1234.4, "p50_ms": 9.96, "p99_ms": 20, "statuses": {"200": 3}},
    }
    assert "| rejoinder | 1,234 | 10.0 | 20.0 |" in table("serving", figures)


def test_a_file_that_nobody_knows_is_shown_by_its_keys():
    assert table(
        "mine",
        {"date": "2026", "rows": {"a b": {"ms": 1.23456, "turns": [1, 2.0]}, "c": [{"x": None}]}},
    ) == (
        "|  |  |\n| --- | ---: |\n| rows, a b, ms | 1.235 |\n| rows, a b, turns | 1, 2 |\n| rows, c 1, x | None |\n"
    )


def test_what_was_recorded_is_shown_as_it_is():
    recorded = {
        "title": "Mine",
        "about": "Of two.",
        "date": "2026-11-23",
        "cpu": "Z80",
        "cores": 1,
        "command": "a\nb",
    }
    text = section("mine", recorded | {"columns": ["", "ms"], "rows": [["one", "1.50"]]})
    table = "|  | ms |\n| --- | ---: |\n| one | 1.50 |\n"
    assert text == f"## Mine\n\nOf two.\n\n{table}\nZ80, 1 cores, 2026-11-23:\n```\na\nb\n```\n"


def test_a_table_of_a_model_card_is_linked():
    recorded = {
        "title": "Mine",
        "table_in": "weights/README.md",
        "columns": ["ms"],
        "rows": [["1"]],
    }
    text = section("mine", recorded)
    assert "[model card](../weights/README.md)" in text
    assert "| ms |" not in text


def test_the_command_writes_pages_and_pictures(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    results, docs, workshop = (
        ROOT / "benchmarks" / "results",
        tmp_path / "docs",
        tmp_path / "workshop",
    )
    workshop.mkdir()
    words = [str(results), "-o", str(docs), "--workshop", str(workshop)]
    monkeypatch.setattr(sys, "argv", ["workshop.results", *words])
    main()
    told = capsys.readouterr().out.split()
    assert told == [str(path) for path in write_results(results, docs, workshop)]
    assert (docs / "quality.svg").read_text(encoding="utf-8").startswith("<?xml")
    assert {path.name for path in workshop.iterdir()} == {"recorded.md"}
    assert not (docs / "recorded.md").exists()


@pytest.mark.parametrize(
    ("text", "told"), [(None, "holds no .json"), ("{", "is not JSON"), ("{}", "has not the form")]
)
def test_what_cannot_be_shown_is_said(tmp_path, text, told):
    if text is not None:
        (tmp_path / "encoding.json").write_text(text)
    with pytest.raises(InputError, match=told):
        write_results(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_prose_is_wrapped_and_inline_code_stays_whole():
    code = "`rejoinder index build convert-small`"
    lines = wrap(f"{'word ' * 20}{code} {'word ' * 20}").splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= WIDTH
    assert any(code in line for line in lines)
