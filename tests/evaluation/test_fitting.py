"""Where the training examples of a baseline come from, and where they must not come from."""

from __future__ import annotations

import pytest

from rejoinder.corpora.example import write_examples
from rejoinder.corpora.splits import split_of
from rejoinder.errors import InputError
from rejoinder.evaluation.fitting import training_examples
from tests.evaluation.fakes import numbered_examples


@pytest.fixture
def folder(tmp_path):
    examples = numbered_examples(60)
    write_examples(examples[:40], tmp_path / "data" / "train-0.parquet")
    write_examples(examples[40:50], tmp_path / "data" / "valid-0.parquet")
    write_examples(examples[50:], tmp_path / "data" / "test-0.parquet")
    return tmp_path / "data"


@pytest.mark.parametrize("split", [None, "test", "valid"])
def test_a_folder_gives_its_training_split_and_nothing_else(folder, split):
    assert {int(example.id) for example in training_examples(folder, split)} == set(range(40))


def test_a_draw_of_some(folder):
    some = training_examples(folder, limit=10, seed=1)
    assert len({example.id for example in some}) == 10
    assert some == training_examples(folder, limit=10, seed=1) != training_examples(folder, limit=10, seed=2)


def test_what_is_ranked_is_not_learned_from(folder, tmp_path):
    with pytest.raises(InputError, match="--split valid or test"):
        training_examples(folder, "train")
    whole = tmp_path / "all.parquet"
    write_examples(numbered_examples(100, turns_per_thread=1), whole)
    with pytest.raises(InputError, match="ranked whole"):
        training_examples(whole)
    learned = training_examples(whole, "test")
    assert learned
    assert {split_of(example.thread) for example in learned} == {"train"}


def test_data_without_a_training_split(folder, tmp_path):
    (folder / "train-0.parquet").unlink()
    with pytest.raises(InputError, match=r"no training examples.*--fit-on.*has no train part"):
        training_examples(folder)
    tests = [each for each in numbered_examples(200, turns_per_thread=1) if split_of(each.thread) == "test"]
    write_examples(tests, tmp_path / "tests.parquet")
    with pytest.raises(InputError, match=r"tests.parquet has no training example.*--fit-on"):
        training_examples(tmp_path / "tests.parquet", "test")
