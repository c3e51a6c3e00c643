"""Training with the wrong candidates that the data gives with its examples (ConvAI2's 19)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rejoinder.corpora.build import build_data
from rejoinder.corpora.example import Example
from rejoinder.corpora.examples import write_examples
from rejoinder.errors import InputError
from rejoinder.models.persistence import load
from rejoinder.training.batches import WHOLE, make_step
from rejoinder.training.negatives import GivenNegatives
from rejoinder.training.loop import train
from rejoinder.training.prepare import prepare
from rejoinder.training.recipe import Recipe
from tests.training.tiny import recipe, stage
from tests.training.transformers import letters, transformer_recipe, write_checkpoint

WORDS = "abcdefghijklmnopqrst"
CROSS = {"kind": "cross-encoder"}


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("start") / "bert")


def example(number: int, split: str, count: int = 20) -> Example:
    """The answer repeats the question's letter; it stands at another place of each list."""
    right = WORDS[number % 20]
    label = number % count
    others = [word for word in WORDS if word != right][: count - 1]
    candidates = (*others[:label], right, *others[label:])
    return Example((f"say {right}",), right, thread=f"{split}{number}", candidates=candidates, label=label)


def write(folder: Path, counts: tuple[int, ...] = (20,)) -> Path:
    for split, size in (("train", 40), ("valid", 20)):
        examples = [example(i, split, counts[i % len(counts)]) for i in range(size)]
        write_examples(examples, folder / f"{split}-00000.parquet")
    return folder


def given_recipe(data: Path, start: Path, model: dict[str, Any] | None = None, **changes: Any) -> Recipe:
    validation = {"candidates": 20, "examples": 20}
    stages = [stage(batch_size=4, negatives=0, given_negatives=True, **changes)]
    return transformer_recipe(data, start, model or CROSS, stage=stages, validation=validation)



def test_each_example_meets_its_own_list(tmp_path: Path, start: Path) -> None:
    """Of a context's 20 joined texts the first ends in its response, the others in the wrong candidates, in order."""
    store = prepare(given_recipe(write(tmp_path / "data"), start), tmp_path / "tokens").train
    further = GivenNegatives(store)
    rows = np.array([3, 7])
    batch = make_step(further.store, rows, 0, further=further, portion=WHOLE, packing="joined").parts[0].tokens
    starts, lengths = batch.places()
    last = batch.ids[starts + lengths - 2]  # before the mark at the end
    letter = {code: text for text, code in letters().description["model"]["vocab"].items()}
    found = [letter[int(code)] for code in last]
    for number, texts in zip(rows.tolist(), (found[:20], found[20:]), strict=True):
        whole = example(number, "train")
        wrong = [text for text in whole.candidates if text != whole.response]
        assert texts == [whole.response, *wrong]


@pytest.mark.parametrize("kind", ["cross-encoder", "bi-encoder"])
def test_it_trains(tmp_path: Path, start: Path, kind: str) -> None:
    made = given_recipe(write(tmp_path / "data"), start, {"kind": kind}, steps=6)
    assert train(made, tmp_path / "run").steps == 6
    scores = load(tmp_path / "run" / "model").score([["say a"]], [["a", "b", "c"]])
    assert scores.shape == (1, 3)
    assert np.isfinite(scores).all()


def test_equal_candidates_are_masked(tmp_path: Path, start: Path) -> None:
    """A wrong candidate with the response's very text is no negative."""
    data = tmp_path / "data"
    for split in ("train", "valid"):
        rows = [Example(("x",), "a", thread=f"{split}{i}", candidates=("b", "a", "a", "c"), label=1) for i in range(20)]
        write_examples(rows, data / f"{split}-00000.parquet")
    store = prepare(given_recipe(data, start), tmp_path / "tokens").train
    further = GivenNegatives(store)
    step = make_step(further.store, np.array([0, 5]), 0, WHOLE, further, "joined")
    assert step.equal.tolist() == [[0, 1], [2, 2]]


def test_convai2s_file_is_trained_on(tmp_path: Path, start: Path) -> None:
    """From ParlAI's format, with 19 wrong candidates a line, to a trained model."""
    others = "|".join(f"{word} {word}" for word in WORDS[1:])
    files = []
    for split, dialogues in (("train", range(20)), ("valid", range(20, 40))):
        lines = []
        for dialogue in dialogues:
            lines.append(f"1 your persona: i like {WORDS[dialogue % 20]} .")
            for turn in (2, 3):
                answer = f"yes {dialogue} {turn}"
                lines.append(f"{turn} hello {dialogue} {turn}\t{answer}\t\t{others}|{answer}")
        source = tmp_path / f"{split}_self_original.txt"
        source.write_text("\n".join(lines) + "\n", encoding="utf-8")
        files.append(f"{split}={source}")
    build_data("convai2", files, tmp_path / "data")
    made = given_recipe(tmp_path / "data", start, steps=2)
    store = prepare(made, tmp_path / "tokens").train
    assert store.given is not None
    assert store.given.count == 19
    assert train(made, tmp_path / "run").steps == 2


def test_data_without_lists_or_with_unequal_ones_is_refused(tmp_path: Path, start: Path, data: Path) -> None:
    with pytest.raises(InputError, match="no candidates"):
        train(given_recipe(data, start), tmp_path / "one")
    with pytest.raises(InputError, match="one length"):
        train(given_recipe(write(tmp_path / "data", (20, 4)), start), tmp_path / "two")


def test_one_kind_of_negatives_at_a_time(data: Path) -> None:
    with pytest.raises(InputError, match="at most one of"):
        recipe(data, stage=[stage(negatives=3, given_negatives=True)])
