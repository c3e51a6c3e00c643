"""`rejoinder lab grid` and `few-shot`, from the command line to the exit code."""

import pytest

from rejoinder.intents import heads
from rejoinder.lab import grid
from tests.cli.test_intents import write
from tests.encoders.small import small_model
from tests.intents.toy import toy_data


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("intents")
    small_model(folder / "model")
    write(toy_data(10), folder / "train.csv")
    write(toy_data(10, seed=1), folder / "test.csv")
    return folder


def test_few_shot(command, place):
    arguments = (
        "lab",
        "few-shot",
        place / "model",
        place / "train.csv",
        "--test",
        place / "test.csv",
        "--seeds",
        2,
    )
    rows = command(*arguments, "--shots", 2, "--shots", "all", "--json").json["rows"]
    assert [(row["shots"], row["trainings"]) for row in rows] == [(2, 2), (None, 1)]
    assert command(*arguments, "--shots", 2).out.startswith("| shots")


def test_the_grid(command, place, tmp_path, monkeypatch):
    small = [
        heads.FeedForward(epochs=2, hidden_size=8),
        heads.FeedForward(epochs=2, hidden_layers=0),
    ]
    monkeypatch.setattr(grid, "paper_grid", lambda: iter(small))
    found = command(
        "lab", "grid", place / "model", place / "train.csv", "-o", tmp_path / "grid", "--json"
    ).json
    assert len(found["rows"]) == 2
    assert {path.name for path in (tmp_path / "grid").iterdir()} == {
        "grid.jsonl",
        "grid.md",
        "classifier",
    }
    assert command("intents", "predict", tmp_path / "grid" / "classifier", "lost card")[0] == 0


def test_a_size_that_is_no_number_is_refused(refused, place):
    words = ("lab", "few-shot", place / "model", place / "train.csv", "--shots", "some")
    refused(*words, said="a number of 1 or more, or all")
