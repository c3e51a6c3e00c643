"""A table of systems and data sets: what is measured, what is kept, what is written."""

import dataclasses
import json
import re
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path
from unittest.mock import Mock

import pytest

from rejoinder.cli.models import OpenRankers
from rejoinder.corpora.schema import Example
from rejoinder.corpora.forms.examples import write_examples
from rejoinder.errors import InputError
from rejoinder.evaluation import report
from rejoinder.evaluation.ranking import evaluate
from rejoinder.evaluation.report import Row
from rejoinder.lab.columns import read_column
from rejoinder.lab.folder import save_table
from rejoinder.lab.measurement import Measurement
from rejoinder.lab.plan import DataColumn, SystemRow, TablePlan
from rejoinder.lab.table import table_of_rows
from rejoinder.progress import no_track
from tests.evaluation.fakes import (
    Rule,
    knows_even_ones,
    knows_it_all,
    knows_nothing,
    numbered_examples,
)
from tests.training.transformers import write_checkpoint


class Fitting(Rule):
    def __init__(self):
        super().__init__(knows_nothing)

    def fit(self, examples):
        self.rule = knows_it_all
        return {"examples": len(examples)}


class Shelf:
    """Rankers by name, with versions that can change; remembers what was opened."""

    def __init__(self, **makers):
        self.makers = {
            "good": lambda: Rule(knows_it_all),
            "half": lambda: Rule(knows_even_ones),
            "learns": Fitting,
        }
        self.makers |= makers
        self.versions = {}
        self.opened = []

    def identity(self, name):
        if name not in self.makers:
            raise InputError(f"no model {name}")
        return f"{name} {self.versions.get(name, 1)}"

    def open(self, name, training):
        self.opened.append(name)
        ranker = self.makers[name]()
        return ranker, ranker.fit(training()) if isinstance(ranker, Fitting) else None

    def block_size(self, _):
        return None


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "numbers"
    write_examples(numbered_examples(100, turns_per_thread=4), folder / "test-0.parquet")
    write_examples(numbered_examples(30), folder / "train-0.parquet")
    return folder


def file_of(data, rankers=("good", "half"), **column):
    rows = {
        name: SystemRow(name=name.title(), ranker=name, make="make {column} of {data}")
        for name in rankers
    }
    return TablePlan(
        name="Numbers", row=rows, column={"n": DataColumn(name="N", path=str(data), **column)}
    )


def measure(file, shelf, folder, **options):
    return Measurement(shelf, folder, no_track, **options).table(file)


def test_finished_cells_are_kept_until_model_or_data_or_settings_change(data, tmp_path):
    shelf, cells, plan = Shelf(), tmp_path / "cells", file_of(data, candidates=20, seed=3)
    first = measure(plan, shelf, cells)
    for name, rule in (("good", knows_it_all), ("half", knows_even_ones)):
        examples = numbered_examples(100, turns_per_thread=4)
        expected = evaluate(Rule(rule), examples, candidates=20, copies="wrong", seed=3)
        assert first.cell(name.title(), "N").result == expected
    assert measure(plan, shelf, cells) == first
    assert shelf.opened == ["good", "half"]
    shelf.versions["half"] = 2
    measure(plan, shelf, cells)
    assert shelf.opened[2:] == ["half"]
    measure(file_of(data, candidates=10), shelf, cells)
    assert shelf.opened[3:] == ["good", "half"]
    write_examples(numbered_examples(80), data / "test-0.parquet")
    measure(file_of(data, candidates=10), shelf, cells)
    assert shelf.opened[5:] == ["good", "half"]


def test_an_interrupted_table_goes_on_and_a_damaged_cell_is_measured_again(data, tmp_path):
    class Interrupted(Rule):
        def score(self, *_):
            raise KeyboardInterrupt

    plan, cells = file_of(data, candidates=20), tmp_path / "cells"
    with pytest.raises(KeyboardInterrupt):
        measure(plan, Shelf(half=lambda: Interrupted(knows_nothing)), cells)
    (file,) = cells.iterdir()
    shelf = Shelf()
    first = measure(plan, shelf, cells)
    assert shelf.opened == ["half"]
    for damage in ("{", "[]", "{}"):
        file.write_text(damage)
        assert measure(plan, shelf, cells) == first
    assert shelf.opened[1:] == ["good"] * 3


def test_a_fitted_ranker_learns_from_the_training_part_and_is_measured_again_when_that_changes(
    data, tmp_path
):
    shelf, cells = Shelf(), tmp_path / "cells"
    file = file_of(data, ("good", "learns"), candidates=20)
    assert measure(file, shelf, cells).cell("Learns", "N").result.recall[1].value == 1.0
    assert measure(file, shelf, cells).cell("Learns", "N").learned == {"examples": 30}
    assert shelf.opened == ["good", "learns"]
    write_examples(numbered_examples(31), data / "train-0.parquet")
    measure(file, shelf, cells)
    assert shelf.opened[2:] == ["learns"]
    (data / "train-0.parquet").unlink()
    assert "no training examples" in measure(file, shelf, cells).cell("Learns", "N").missing
    other = tmp_path / "other"
    write_examples(numbered_examples(31), other / "train-0.parquet")
    assert (
        measure(file_of(data, ("learns",), candidates=20, train=str(other)), shelf, cells)
        .cell("Learns", "N")
        .result
    )


def test_what_is_missing_leaves_a_dash_and_the_command_that_makes_it(data, tmp_path):
    file = file_of(data, ("good", "gone"), candidates=20)
    absent = DataColumn(name="Other", path=str(tmp_path / "none"), make="build none")
    file = TablePlan(name="T", row=file.row, column={**file.column, "other": absent})
    table = measure(file, Shelf(), tmp_path / "cells")
    assert table.cell("Gone", "N").missing == f"no gone; `make n of {data}`"
    assert table.cell("Good", "Other").missing == f"no {tmp_path / 'none'}; `build none`"
    text = table.markdown()
    assert "| Good | **100.0** [100.0, 100.0] | - (2) |" in text
    assert "| Gone | - (1) | - (2) |" in text
    assert f"1. no gone; `make n of {data}` (for Gone on N)\n" in text
    assert "(for Good on Other, Gone on Other)" in text
    shelf = Shelf()
    with pytest.raises(InputError, match="no gone; `make n of"):
        measure(file, shelf, tmp_path / "cells2", strict=True)
    assert not shelf.opened


def fine_tuned(tmp_path, general="general", **row):
    """Return a table of two targets and the general data, on whose models' `left_on` the rest depends."""
    columns = {}
    for key, size in (("a", 100), ("b", 60), ("general", 80)):
        path = tmp_path / key
        if key != general:
            write_examples(numbered_examples(size), path / "test-0.parquet")
            write_examples(numbered_examples(30), path / "train-0.parquet")
        columns[key] = DataColumn(
            name=key.title(), path=str(path), candidates=20, make=f"make {key}"
        )
    rows = {
        "tuned": SystemRow(
            **{"name": "Tuned", "ranker": "half", "skip": ("general",), "left_on": "general"} | row
        )
    }
    rows["direct"] = SystemRow(name="Direct", ranker="good")
    return TablePlan(name="T", row=rows, column=columns)


def test_a_fine_tuned_model_is_ranked_on_the_general_data_too(tmp_path):
    shelf, plan = Shelf(), fine_tuned(tmp_path, general=None)
    table = measure(plan, shelf, tmp_path / "cells")
    expected = evaluate(Rule(knows_even_ones), numbered_examples(80), candidates=20, copies="wrong")
    for column in ("A", "B"):
        cell = table.cell("Tuned", column)
        assert cell.left.result == expected != cell.result
        assert table.cell("Direct", column).left is None
    text = table.markdown()
    shown = report.percent(expected.recall[1])
    assert f"left {shown} | " in text
    assert "left: R@1 of the same model on General" in text
    assert "| Tuned, of A | General | " in text
    plain = {(cell["system"], cell["data"]): cell["left"] for cell in table.to_json()["cells"]}
    assert plain["Tuned", "A"] == {
        "data": "General",
        "ranker": "half",
        "missing": None,
        "published": None,
        "result": expected.to_json() | {"seconds": plain["Tuned", "A"]["result"]["seconds"]},
    }
    assert plain["Direct", "A"] is None
    opened = list(shelf.opened)
    again = Measurement(shelf, tmp_path / "cells", no_track).table(plan, columns=["b"])
    assert again.cell("Tuned", "B").left.result == expected, (
        "also where the general column is not chosen"
    )
    assert shelf.opened == opened, "a finished cell is kept"


def test_a_score_on_general_data_that_cannot_be_had_says_why(tmp_path):
    plan = fine_tuned(tmp_path)
    table = measure(plan, Shelf(), tmp_path / "cells")
    reason = f"no {tmp_path / 'general'}; `make general`"
    assert table.cell("Tuned", "A").left.missing == reason
    assert "left - (1) | " in table.markdown()
    assert (
        "(for Tuned of A on General, Tuned of B on General, Direct on General)" in table.markdown()
    )
    shelf = Shelf()
    with pytest.raises(InputError, match=r"no .*general; `make general`"):
        Measurement(shelf, tmp_path / "cells2", no_track, strict=True).table(plan, ["tuned"], ["a"])
    assert not shelf.opened
    table = measure(
        fine_tuned(tmp_path, ranker="learns", general=None), Shelf(), tmp_path / "cells"
    )
    assert "learns from the data of each column" in table.cell("Tuned", "A").left.missing
    assert table.cell("Tuned", "A").result
    with pytest.raises(
        ValueError, match=r"row\.tuned names the column 'x'; the columns are a, b, general"
    ):
        fine_tuned(tmp_path, left_on="x")


def test_general_data_that_is_too_small_leaves_the_rest_of_the_table(tmp_path):
    plan = fine_tuned(tmp_path, general=None)
    (tmp_path / "general" / "test-0.parquet").unlink()
    write_examples(numbered_examples(10), tmp_path / "general" / "test-0.parquet")
    table = measure(plan, Shelf(), tmp_path / "cells")
    assert table.cell("Tuned", "A").result
    assert table.cell("Tuned", "B").result
    assert "10 examples cannot fill a group of 20" in table.cell("Tuned", "A").left.missing
    with pytest.raises(InputError, match="10 examples cannot fill"):
        measure(plan, Shelf(), tmp_path / "cells2", strict=True)


def test_the_papers_figure_stands_in_its_cell_measured_or_not(tmp_path):
    published = {"published": {"a": 30.6, "b": 38.7}, "published_left": {"a": 40.0}}
    plan = fine_tuned(tmp_path, general=None, **published)
    shutil.rmtree(tmp_path / "b")
    table = measure(plan, Shelf(), tmp_path / "cells")
    (line,) = [each for each in table.recall_markdown().splitlines() if "Tuned" in each]
    assert re.search(r"\| 50\.0 \[.*?\]; paper 30\.6; left 5.*?\]; paper 40\.0 \|", line), line
    assert "| - (1); paper 38.7 |" in line
    cells = {(cell["system"], cell["data"]): cell for cell in table.to_json()["cells"]}
    assert [cells["Tuned", column]["published"] for column in ("A", "B")] == [30.6, 38.7]
    with pytest.raises(ValueError, match=r"row\.tuned names the column 'x'"):
        fine_tuned(tmp_path, published={"x": 1.0})


@pytest.mark.parametrize("name", ["sim:st:{}", "map:st:{}"])
def test_a_bert_of_transformers_gives_rows_by_its_mean_output(name, tmp_path):
    """As ACL19's BERT-SMALL and BERT-LARGE do: the row finds a checkpoint, or names it."""
    pytest.importorskip("sentence_transformers")
    data = tmp_path / "data"
    texts = ["where", "is", "my", "card", "and", "when", "do", "you", "open", "the", "door", "please"]
    examples = [
        Example((f"{a} {b}",), f"{b} {a}", id=f"{a}{b}", thread=f"{a}{b}")
        for a in texts
        for b in texts
        if a != b
    ]
    for part in ("train", "test"):
        write_examples(examples, data / f"{part}-0.parquet")
    start = write_checkpoint(tmp_path / "bert")
    row = SystemRow(name="BERT", ranker=name.format(start), make="hf download bert")
    gone = SystemRow(name="Gone", ranker=name.format(tmp_path / "gone"), make="hf download bert")
    plan = TablePlan(
        name="T",
        row={"bert": row, "gone": gone},
        column={"n": DataColumn(name="N", path=str(data), candidates=20, limit=40)},
    )
    table = Measurement(OpenRankers(), tmp_path / "cells", no_track).table(plan)
    assert table.cell("BERT", "N").result.recall[1].value > 0.3, table.cell("BERT", "N").missing
    assert table.cell("Gone", "N").missing.startswith(f"no {gone.ranker}; `hf download bert`")


def test_a_row_may_have_a_ranker_for_each_column_and_none_for_some(data, tmp_path):
    columns = {key: DataColumn(name=key, path=str(data), candidates=20) for key in ("a", "b", "c")}
    rows = {
        "each": SystemRow(name="Each", ranker={"a": "good", "b": "half"}),
        "path": SystemRow(name="Path", ranker="{column}-{data}", skip=("b", "c")),
    }
    shelf = Shelf(**{f"a-{data}": lambda: Rule(knows_nothing)})
    table = measure(TablePlan(name="T", row=rows, column=columns), shelf, tmp_path / "cells")
    assert {place: cell.ranker for place, cell in table.cells.items()} == {
        ("Each", "a"): "good",
        ("Path", "a"): f"a-{data}",
        ("Each", "b"): "half",
    }
    assert not table.missing()
    assert table.recall_markdown().splitlines()[2].endswith("] |  |")


def test_repeated_inputs_or_responses_are_left_out(tmp_path):
    """SemEval and FAQs: of a question with two answers, or an answer to two questions, one counts."""
    pairs = [("a", "x"), ("a", "y"), ("b", "x"), ("c", "z"), ("c", "z")]
    path = tmp_path / "pairs.parquet"
    write_examples([Example(("before", question), answer) for question, answer in pairs], path)
    kept = {}
    for distinct in ("none", "inputs", "responses", "both"):
        task, repeated = read_column(
            DataColumn(name="P", path=str(path), candidates=2, distinct=distinct)
        )
        kept[distinct] = (len(task) + task.dropped, repeated)
    assert kept == {"none": (5, 0), "inputs": (3, 2), "responses": (3, 2), "both": (2, 3)}


def task_of(path, **settings):
    return read_column(DataColumn(name="D", path=str(path), **settings))[0]


def test_drawn_candidates_come_from_other_threads(tmp_path):
    path, examples = tmp_path / "d.parquet", numbered_examples(60, turns_per_thread=3)
    write_examples(examples, path)
    task = task_of(path, draw=19)
    own = {example.context: example for example in examples}
    threads = {example.response: example.thread for example in examples}
    for context, texts, label in zip(task.contexts, task.candidates, task.labels, strict=True):
        example = own[tuple(context)]
        assert texts[label] == example.response
        assert len(set(texts)) == len(texts) == 20
        assert example.thread not in {threads[text] for text in texts if text != example.response}
    assert (
        task.fingerprint
        == task_of(path, draw=19).fingerprint
        != task_of(path, draw=19, seed=1).fingerprint
    )


def test_drawing_needs_neither_threads_nor_ids_and_leaves_given_lists(tmp_path):
    path = tmp_path / "d.parquet"
    write_examples(
        [Example((f"m {i}",), f"r {i}", candidates=("no", f"r {i}"), label=1) for i in range(30)],
        path,
    )
    task = task_of(path, draw=19)
    assert set(task.lengths) == {20}
    assert not any("no" in texts for texts in task.candidates)
    assert len({tuple(texts) for texts in task.candidates}) == 30
    groups = task_of(path, candidates=10)
    assert (set(groups.lengths), groups.given) == ({10}, False)
    assert [set(task_of(path, candidates=how).lengths) for how in ("given", "all")] == [{2}, {30}]


def test_a_column_that_cannot_be_measured_says_which_and_why(data, tmp_path):
    for settings, message in (
        ({"candidates": "given"}, "no lists of candidates"),
        ({"candidates": 101}, "cannot fill a group of 101"),
        ({"draw": 100}, "draw fewer"),
        ({"split": "valid"}, "no valid part"),
    ):
        plan = file_of(data, ("good",), **settings)
        table = measure(plan, Shelf(), tmp_path / "cells")
        assert [re.search(f"^N: .*{message}", cell.missing) is not None for cell in table.cells.values()] == [True]
        with pytest.raises(InputError, match=f"^N: .*{message}"):
            measure(plan, Shelf(), tmp_path / "cells", strict=True)


def results(*systems):
    examples = numbered_examples(100, turns_per_thread=5)
    rules = {"all": knows_it_all, "half": knows_even_ones}
    return [
        Row(name, "d|ata", evaluate(Rule(rules[name]), examples, candidates=20)) for name in systems
    ]


def test_files_of_a_table(tmp_path):
    pytest.importorskip("matplotlib")
    table = table_of_rows(results("half", "all"), "Two")
    files = save_table(table, tmp_path / "out")
    assert [file.name for file in files] == [
        f"table.{kind}" for kind in ("md", "json", "png", "svg")
    ]
    assert sorted(files) == sorted((tmp_path / "out").iterdir())
    cells = json.loads((tmp_path / "out/table.json").read_text())["cells"]
    assert cells[0]["result"] == table.rows()[0].result.to_json()
    assert (tmp_path / "out/table.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    svg = ET.fromstring((tmp_path / "out/table.svg").read_text())
    written = {"".join(each.itertext()).strip() for each in svg.iter() if each.tag.endswith("text")}
    assert {"half", "100.0"} <= written
    assert "d\\|ata" in (tmp_path / "out/table.md").read_text()
    save_table(table, tmp_path / "again")
    for file in files:
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes(), (
            "the same table, the same bytes"
        )


def test_names_in_a_chart_are_no_formulas(tmp_path):
    pytest.importorskip("matplotlib")
    row = dataclasses.replace(results("half")[0], model="half $_$", data="d $^$ata")
    save_table(table_of_rows([row], r"5 $\a$"), tmp_path)
    svg = ET.fromstring((tmp_path / "table.svg").read_text())
    written = {"".join(each.itertext()).strip() for each in svg.iter() if each.tag.endswith("text")}
    assert {"half $_$", "d $^$ata", r"5 $\a$: R@1 in %, 95 % intervals"} <= written


def test_a_table_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    save_table(table_of_rows(results("half"), "Old"), tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    full = Mock(side_effect=OSError(28, "No space left on device"))
    monkeypatch.setattr("rejoinder.evaluation.plots.save_figure", full)
    with pytest.raises(OSError, match="No space"):
        save_table(table_of_rows(results("all"), "New"), tmp_path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_the_page_lists_every_setting_of_a_column():
    page = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")
    table = page.split("| setting of a column |")[1].split("\n\n")[0]
    listed = {name for row in table.splitlines()[2:] for name in re.findall("`([a-z_]+)`", row.split("|")[1])}
    assert listed == {each.name for each in dataclasses.fields(DataColumn)} - {"name", "path", "make"}
