"""`rejoinder intents`, from the command line to the exit code."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rejoinder.cli.app import app
from rejoinder.cli.intents import COMMANDS
from rejoinder.intents import fitting
from rejoinder.intents.data import IntentData
from tests.cli.conftest import Command
from tests.intents.toy import several_data, toy_data
from tests.models.small import small_model

VERB = ["intents"]



def write(data: IntentData, path: Path) -> Path:
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["text", "label"])
        rows.writerows((text, "|".join(names)) for text, names in zip(data.texts, data.labels, strict=True))
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, training and test texts."""
    folder = tmp_path_factory.mktemp("intents")
    small_model(folder / "model")
    outside = ("play some loud jazz", "who won the match")
    write(toy_data(10), folder / "train.csv")
    write(toy_data(10, seed=1), folder / "test.csv")
    for name, seed in (("train", 0), ("test", 1)):
        data = toy_data(10, seed=seed)
        write(IntentData(data.texts + outside, data.labels + (("oos",),) * 2), folder / f"{name}-oos.csv")
    write(several_data(), folder / "several.csv")
    return folder


def test_train_evaluate_predict(command: Command, place: Path, tmp_path: Path) -> None:
    code, out, _ = command("train", place / "model", place / "train.csv", "-o", tmp_path / "made", "--json")
    assert code == 0
    result = json.loads(out)
    assert (result["texts"], result["intents"], result["rejection"]) == (40, 4, None)
    assert min(result["encoding_seconds"], result["training_seconds"]) > 0
    code, out, _ = command("evaluate", tmp_path / "made", place / "test.csv", "--train", place / "train.csv",
                           "--report", tmp_path / "report", "--no-pictures", "--json")
    assert code == 0
    assert out.count("\n") == 1
    result = json.loads(out)
    assert result["evaluation"]["accuracy"]["value"] > 0.35  # the model has random weights; chance is 0.25
    assert (tmp_path / "report" / "report.md").is_file()
    code, out, _ = command("predict", tmp_path / "made", "is it sunny and cold", "lost my card", "--top", 2, "--json")
    assert code == 0
    first, second = json.loads(out)["predictions"]
    assert first["ranking"][0]["label"] == first["labels"][0]
    assert len(second["ranking"]) == 2


def test_people_read_the_same(command: Command, place: Path, tmp_path: Path) -> None:
    _, out, _ = command("train", place / "model", place / "train-oos.csv", "-o", tmp_path / "made", "--vectors", "both")
    assert "40 texts of 4 intents" in out
    assert "out of scope: " in out
    _, out, _ = command("evaluate", tmp_path / "made", place / "test-oos.csv")
    assert "Accuracy " in out
    assert "AUROC" in out
    _, out, _ = command("predict", tmp_path / "made", "lost card")
    assert out.startswith("lost card\n    ")


def test_texts_come_from_standard_input_too(
    command: Command, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command("train", place / "model", place / "train.csv", "-o", tmp_path / "made")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"lost card\n\nrain today\n")))
    _, out, _ = command("predict", tmp_path / "made", "--json")
    assert [row["text"] for row in json.loads(out)["predictions"]] == ["lost card", "rain today"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert command("predict", tmp_path / "made")[0] == 2


def test_several_intents(command: Command, place: Path, tmp_path: Path) -> None:
    code, _, err = command("train", place / "model", place / "several.csv", "-o", tmp_path / "made", "--several")
    assert code == 0, err
    code, out, _ = command("evaluate", tmp_path / "made", place / "several.csv", "--json")
    assert code == 0
    assert json.loads(out)["evaluation"]["micro_f1"] > 0.6


def test_few_shot(command: Command, place: Path) -> None:
    arguments = ("few-shot", place / "model", place / "train.csv", "--test", place / "test.csv", "--seeds", 2)
    code, out, _ = command(*arguments, "--shots", 2, "--shots", "all", "--json")
    assert code == 0
    assert [(row["shots"], row["trainings"]) for row in json.loads(out)["rows"]] == [(2, 2), (None, 1)]
    assert command(*arguments, "--shots", 2)[1].startswith("| shots")
    code, _, err = command(*arguments, "--shots", "some")
    assert (code, "--shots must be a number" in err) == (2, True)


def test_the_grid(command: Command, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = [fitting.FeedForward(epochs=2, hidden_size=8), fitting.FeedForward(epochs=2, hidden_layers=0)]
    monkeypatch.setattr(fitting, "paper_grid", lambda: iter(small))
    code, out, err = command("grid", place / "model", place / "train.csv", "-o", tmp_path / "grid", "--json")
    assert code == 0, err
    assert len(json.loads(out)["rows"]) == 2
    assert {path.name for path in (tmp_path / "grid").iterdir()} == {"grid.jsonl", "grid.md", "classifier"}
    assert command("predict", tmp_path / "grid" / "classifier", "lost card")[0] == 0


def test_fine_tuning(command: Command, place: Path, tmp_path: Path) -> None:
    code, out, err = command("fine-tune", place / "model", place / "train.csv", "-o", tmp_path / "tuned",
                             "--set", "steps=2", "--shots", 3)
    assert code == 0, err
    assert f"model: {tmp_path / 'tuned'}" in out
    assert command("train", tmp_path / "tuned", place / "train.csv", "-o", tmp_path / "made")[0] == 0


def test_bad_input_is_one_line_and_leaves_nothing(command: Command, place: Path, tmp_path: Path) -> None:
    train = ("train", place / "model", place / "train.csv", "-o", tmp_path / "made")
    for arguments, said in (
        ((*train, "--preset", "best"), "no preset 'best'"),
        ((*train, "--set", "strength=-1"), "strength = -1 is not allowed"),
        ((*train, "--vectors", "x"), "allowed are r, h, both"),
        ((*train, "--with", "nothing"), "no encoder 'nothing'"),
        ((*train, "--valid", place / "none.csv"), "does not exist"),
        (("train", "nothing", place / "train.csv", "-o", tmp_path / "made"), "no encoder"),
        (("train", place / "model", place / "train.csv", "-o", place / "model"), "not ours to replace"),
        (("evaluate", place / "model", place / "test.csv"), "is no classifier"),
        (("evaluate", tmp_path, place / "test.csv"), "is no classifier"),
        (("predict", tmp_path, "x"), "is no classifier"),
    ):
        code, out, err = command(*arguments)
        assert (code, out) == (2, ""), arguments
        assert err.count("\n") == 1
        assert said in err
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_verb_has_an_example_and_json(name: str) -> None:
    result = CliRunner().invoke(app, ["intents", name, "--help"], terminal_width=200)
    assert result.exit_code == 0
    assert f"rejoinder intents {name} " in result.output.partition("Example")[2]
    assert "--json" in result.output
