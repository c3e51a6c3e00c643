"""`rejoinder lab ablate`: tables of small trainings, from the words of the command to its exit code."""

import json
import signal
import statistics
from pathlib import Path

import pytest
import tomli_w

from rejoinder.corpora.forms.examples import read_examples, write_examples
from rejoinder.encoders import persistence
from rejoinder.errors import RejoinderError
from rejoinder.training.display import TerminalDisplay
from rejoinder.training import loop
from rejoinder.training.recipe_files import save_recipe
from tests.training.tiny import recipe, stage, write_data

ROWS = {"heads-2": ["model.heads=2"], "no-skip": ["model.skip_connections=false"]}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = write_data(tmp_path_factory.mktemp("examples"))
    write_examples(read_examples(folder, "valid"), folder / "test-00000.parquet")
    return folder


@pytest.fixture
def file(tmp_path):
    return write_file(tmp_path, ROWS)


def write_file(folder, rows):  # of 6 steps a row
    quick = recipe("", stage=[stage(steps=6)], validation={"examples": 40, "candidates": 20})
    save_recipe(quick, folder / "tiny.toml")
    listed = [
        {"name": name, "settings": settings, "published": 50.5} for name, settings in rows.items()
    ]
    path = folder / "rows.toml"
    path.write_text(
        tomli_w.dumps(
            {"name": "Tiny table", "recipe": "tiny.toml", "published": 52.0, "row": listed}
        )
    )
    return path


@pytest.fixture
def trained(monkeypatch):
    """Names of the rows whose training begins or goes on, as it happens."""
    begun: list[str] = []
    run = loop.Trainer.run

    def count(self):
        begun.append(self.folder.path.name)
        return run(self)

    monkeypatch.setattr(loop.Trainer, "run", count)
    return begun


def test_the_table_has_the_numbers_of_evaluate(command, file, data, tmp_path):
    """In JSON and Markdown; a second call that prints the Markdown trains nothing."""
    words = (
        "lab",
        "ablate",
        file,
        "--data",
        data,
        "-o",
        tmp_path / "out",
        "--candidates",
        20,
        "--row",
        "heads-2",
    )
    table = command(*words, "--json").json
    base, row = table["rows"]
    assert (base["row"], row["row"]) == ("base", "heads-2")
    assert json.loads((tmp_path / "out" / "table.json").read_text()) == {
        k: table[k] for k in table if k != "folder"
    }
    measured = ("evaluate", base["model"], row["model"], "--data", data, "--candidates", 20)
    evaluated = command(*measured, "--copies", "wrong", "--json").json
    for line, expected in zip(table["rows"], evaluated["results"], strict=True):
        found = line["result"]
        assert {k: v for k, v in found.items() if k != "seconds"} == {
            k: expected[k] for k in found if k != "seconds"
        }
        assert (line["steps"], line["examples"], line["failure"]) == (6, 6 * 32, None)
        assert line["steps_per_second"] > 0
        module, *_ = persistence.load_module(Path(line["model"]))
        assert line["parameters"] == sum(parameter.numel() for parameter in module.parameters())
    assert row["parameters"] > base["parameters"]
    assert base["minus_base"] is None
    for first, second, difference in (
        (
            row["result"]["recall"]["1"],
            base["result"]["recall"]["1"],
            row["minus_base"]["recall"]["1"],
        ),
        (row["result"]["mrr"], base["result"]["mrr"], row["minus_base"]["mrr"]),
    ):
        assert difference["value"] == pytest.approx(first["value"] - second["value"])
        assert difference["low"] <= difference["value"] <= difference["high"]
    text = (tmp_path / "out" / "table.md").read_text()
    assert command(*words).out.startswith(text)
    cells = [
        [cell.strip() for cell in line.strip("|\n").split("|")]
        for line in text.splitlines()
        if line[:1] == "|"
    ]
    assert (
        "|".join(cells[0])
        == "row|R@1|minus base|MRR|published R@1|minus base|parameters|steps|steps/s|examples"
    )
    for found, shown in zip(table["rows"], cells[2:], strict=True):
        estimate = found["result"]["recall"]["1"]
        assert shown[1] == "{} [{}, {}]".format(
            *(f"{100 * estimate[end]:.1f}" for end in ("value", "low", "high"))
        )
    assert cells[3][2].startswith(f"{100 * row['minus_base']['recall']['1']['value']:+.1f} [")
    assert (cells[2][2], cells[2][4:6], cells[3][4:6]) == ("", ["52.0", ""], ["50.5", "-1.5"])


def test_ctrl_c_keeps_the_table_and_the_row_goes_on(
    command, file, data, tmp_path, monkeypatch, trained
):
    def show(self, progress):  # noqa: ARG001
        if trained[-1] == "heads-2" and progress.step == 3:
            signal.raise_signal(signal.SIGINT)

    words = ("lab", "ablate", file, "--data", data, "-o", tmp_path / "out", "--candidates", 20, "--json")
    with monkeypatch.context() as patched:
        patched.setattr(TerminalDisplay, "show", show)
        code, out, err = command(*words)
    assert (code, out) == (130, "")
    assert "stopped at step 3, checkpoint written; the same command continues from there" in err
    assert [
        row["row"] for row in json.loads((tmp_path / "out" / "table.json").read_text())["rows"]
    ] == ["base"]
    again = command(*words)
    assert "at step 3" in again.err
    assert trained == ["base", "heads-2", "heads-2", "no-skip"]
    whole = command(*words[:6], tmp_path / "whole", *words[7:])
    figures = [[row["result"]["recall"] for row in ended.json["rows"]] for ended in (again, whole)]
    assert figures[0] == figures[1], "as if never interrupted"


def test_a_row_that_diverges_fails_alone(command, data, tmp_path):
    wild = ["stage.0.optimizer=sgd", "stage.0.learning_rate=1e30"]
    file = write_file(tmp_path, {"wild": wild, **ROWS})
    words = ("lab", "ablate", file, "--data", data, "-o", tmp_path / "out", "--candidates", 20)
    code, out, err = command(*words, "--row", "wild", "--row", "no-skip", "--json")
    assert code == 1
    assert "1 of 3 rows failed, the others are done: wild: stage 'only': loss or weights" in err
    rows = {row["row"]: row for row in json.loads(out)["rows"]}
    assert "no longer finite" in rows["wild"]["failure"]
    assert rows["no-skip"]["minus_base"]
    assert "failed" in (tmp_path / "out" / "table.md").read_text()


def test_rows_of_several_seeds_have_mean_and_sample_deviation(
    command, file, data, tmp_path, trained
):
    """One seed first, in today's form; then three in the same folder, which train only what is missing."""
    words = (
        "lab",
        "ablate",
        file,
        "--data",
        data,
        "-o",
        tmp_path / "out",
        "--candidates",
        20,
        "--row",
        "heads-2",
    )
    one = command(*words, "--json").json
    for values in (one, *one["rows"]):
        assert not {"seeds", "over_seeds"} & set(values)
    head = (tmp_path / "out" / "table.md").read_text().split("| row")[1].splitlines()[0]
    assert "seeds" not in head
    three = command(*words, "--seeds", 3, "--json").json
    assert three["seeds"] == 3
    assert trained == [
        "base",
        "heads-2",
        *(f"{row}.seed-{seed}" for row in ("base", "heads-2") for seed in (1, 2)),
    ]
    figures = {}
    for before, row in zip(one["rows"], three["rows"], strict=True):
        figures[row["row"]] = [each["result"]["recall"]["1"]["value"] for each in row["seeds"]]
        mrr = [each["result"]["mrr"]["value"] for each in row["seeds"]]
        assert [each["seed"] for each in row["seeds"]] == [0, 1, 2]
        assert len(set(mrr)) == 3, "each seed trains another model"
        over = row["over_seeds"]
        for found, expected in ((over["recall"]["1"], figures[row["row"]]), (over["mrr"], mrr)):
            assert found["mean"] == pytest.approx(statistics.fmean(expected))
            assert found["deviation"] == pytest.approx(statistics.stdev(expected))
            assert found["runs"] == 3
        same = ("minus_base", "model", "steps", "settings", "published")
        assert {key: row[key] for key in same} == {key: before[key] for key in same}, (
            "of the recipe's own seed"
        )
    text = (tmp_path / "out" / "table.md").read_text()
    assert "mean ± sample standard deviation" in text
    lines = [line for line in text.splitlines() if line.startswith("|")]
    place = [cell.strip() for cell in lines[0].split("|")].index("R@1, 3 seeds")
    for line, values in zip(lines[2:], figures.values(), strict=True):
        shown = f"{100 * statistics.fmean(values):.1f} ± {100 * statistics.stdev(values):.1f}"
        assert [cell.strip() for cell in line.split("|")][place] == shown
    assert command(*words, "--seeds", 3).out.startswith(text)
    assert len(trained) == 6, "all are finished"
    assert command(*words, "--json").json["rows"][0].keys() == one["rows"][0].keys()


def test_ctrl_c_keeps_the_seed_that_is_being_trained(
    command, file, data, tmp_path, monkeypatch, trained
):
    def show(self, progress):  # noqa: ARG001
        if trained[-1] == "base.seed-1" and progress.step == 3:
            signal.raise_signal(signal.SIGINT)

    words = (
        "lab",
        "ablate",
        file,
        "--data",
        data,
        "-o",
        tmp_path / "out",
        "--candidates",
        20,
        "--row",
        "base",
        "--seeds",
        2,
    )
    with monkeypatch.context() as patched:
        patched.setattr(TerminalDisplay, "show", show)
        assert command(*words).code == 130
    again = command(*words)
    assert "at step 3" in again.err
    assert trained == ["base", "base.seed-1", "base.seed-1"]


def test_a_seed_that_diverges_is_named_and_left_out_of_the_mean(
    command, file, data, tmp_path, monkeypatch
):
    run = loop.Trainer.run

    def diverge(self):
        if self.folder.path.name == "no-skip.seed-1":
            raise RejoinderError("loss is no longer finite")
        return run(self)

    monkeypatch.setattr(loop.Trainer, "run", diverge)
    words = ("lab", "ablate", file, "--data", data, "-o", tmp_path / "out", "--candidates", 20)
    code, out, err = command(*words, "--row", "no-skip", "--seeds", 2, "--json")
    assert code == 1
    assert (
        "1 of 2 rows failed, the others are done: no-skip: seed 1: loss is no longer finite" in err
    )
    row = json.loads(out)["rows"][1]
    assert row["over_seeds"]["mrr"] == {
        "mean": row["result"]["mrr"]["value"],
        "deviation": None,
        "runs": 1,
    }
    assert "| failed" not in (tmp_path / "out" / "table.md").read_text()
    assert " (1 run) |" in (tmp_path / "out" / "table.md").read_text()


def test_the_file_chooses_the_split(command, refused, file, data, tmp_path):
    named = file.read_text()
    file.write_text(f'split = "valid"\n{named}')
    words = ("lab", "ablate", file, "--data", data, "--candidates", 20, "--row", "no-skip")
    table = command(*words, "-o", tmp_path / "out", "--json").json
    assert table["data"] == f"{data} (valid)"
    file.write_text(f'split = "tset"\n{named}')
    refused(*words, "-o", tmp_path / "out", said="split")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--row", "head-2"],
            "has no row 'head-2'; did you mean 'heads-2'? its rows: base, heads-2, no-skip",
        ),
        (["--row", "no-skip", "--row", "nothing"], "has no row 'nothing'; its rows: base"),
        (["--set", "stage.0.step=3"], "unknown key 'stage.0.step'; did you mean 'steps'?"),
        (["--seeds", "0"], "--seeds 0: give a whole number of 1 or more"),
        (["--candidates", "1000"], "80 examples cannot fill a group of 1000"),
    ],
)
def test_bad_input_is_refused_before_anything_is_trained(
    refused, file, data, tmp_path, words, said
):
    refused("lab", "ablate", file, "--data", data, "-o", tmp_path / "out", *words, said=said)
    assert not (tmp_path / "out").exists()


def test_finished_rows_are_not_trained_again_nor_mixed_with_others(
    command, refused, file, data, tmp_path, trained
):
    words, out = ("lab", "ablate", file, "--data", data, "--candidates", 20, "-o"), tmp_path / "out"
    assert command(*words, out, "--row", "no-skip").code == 0
    refused(
        *words,
        out,
        "--set",
        "stage.0.steps=7",
        said="another recipe: stage.0.steps was 6 and is now 7",
    )
    table = command(*words, out, "--row", "heads-2", "--json").json
    assert [row["row"] for row in table["rows"]] == ["base", "heads-2", "no-skip"], (
        "in the file's order"
    )
    stores = sorted(
        p.name.partition("-")[0] for p in (out / "tokens").iterdir() if p.suffix != ".sha256"
    )
    assert stores == ["train", "valid", "vocabulary"], "shared by all rows"
    write_file(tmp_path, {**ROWS, "no-skip": ["model.skip_connections=false", "model.heads=2"]})
    ended = command(*words, out, "--row", "heads-2", "--json")
    assert "no-skip is left out of the table, it is of another recipe: model.heads was" in ended.err
    assert [row["row"] for row in ended.json["rows"]] == ["base", "heads-2"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "table.md").write_text("notes")
    refused(*words, tmp_path / "mine", said="mine is not a folder of an ablation")
    assert trained == ["base", "no-skip", "heads-2"]


def test_another_part_is_ranked_without_the_figures_of_the_papers(command, file, data, tmp_path):
    words = ("lab", "ablate", file, "--data", data, "--row", "heads-2", "--candidates", "20", "--json")
    test = command(*words, "-o", tmp_path / "test").json
    assert [row["published"] for row in test["rows"]] == [52.0, 50.5]
    valid = command(*words, "-o", tmp_path / "valid", "--split", "valid").json
    assert [row["published"] for row in valid["rows"]] == [None, None]
    assert valid["data"] == f"{data} (valid)"
