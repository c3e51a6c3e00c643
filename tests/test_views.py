"""Models, indexes, results and recipes say in a line, and in a notebook's table, what they are."""

import numpy as np
import pytest

from rejoinder.corpora.schema import Example
from rejoinder.encoders.words.keywords import BM25
from rejoinder.evaluation.bootstrap import Estimate
from rejoinder.evaluation.ranking import evaluate
from rejoinder.evaluation.result import Comparison
from rejoinder.intents.evaluation.accuracy import Evaluation
from rejoinder.retrieval.index import Index
from rejoinder.settings import find_recipe
from rejoinder.training.recipe_files import load_recipe
from rejoinder.training.run.summary import RunSummary
from tests.encoders.small import small_model
from tests.retrieval.conftest import HashEncoder

HALF = Estimate(0.5, 0.25, 0.75)


def result(_):
    examples = [
        Example((f"about <{word}>",), f"a reply on {word}")
        for word in ("one", "two", "three", "four")
    ]
    return evaluate(BM25(), examples, candidates=4)


SHOWN = {
    "model": (small_model, ["Encoder(name='", "size"], "<th>size</th><td>24</td>"),
    "index": (
        lambda folder: Index.build(HashEncoder(), ["a"], folder),
        ["replies=1", "size=24"],
        "<th>model</th><td>hash-model</td>",
    ),
    "result": (
        result,
        ["R@1='100.0% (100.0% to 100.0%)'", "examples=4"],
        "<th>candidates</th><td>4</td>",
    ),
    "comparison": (
        lambda _: Comparison({1: HALF}, HALF),
        ["R@1='50.0% (25.0% to 75.0%)'"],
        "<th>MRR</th>",
    ),
    "intents": (
        lambda _: Evaluation(HALF, 0.4, 0.5, 9, (), None, (), np.eye(2)),
        ["macro F1='40.0%'"],
        "<th>accuracy</th><td>50.0% (25.0% to 75.0%)</td>",
    ),
    "run": (
        lambda _: RunSummary("a", "r", "r/model", 3, 4, 5, 6.66, 3, {"recall@1": 0.5}, "fp32"),
        ["steps=3", "seconds=6.7", "'recall@1': '50.0%'"],
        "<th>model</th><td>r/model</td>",
    ),
    "recipe": (
        lambda _: load_recipe(find_recipe("convert-quick"), ["stage.0.batch_size=99"]),
        [
            "stage.0.batch_size=99",
            "stage.1.name='blocks'",
            "betas=(0.9, 0.98)",
            "model.kind='convert')",
        ],
        "<th>model.blocks</th><td>4</td>",
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_what_something_is(name, tmp_path):
    make, parts, row = SHOWN[name]
    made = make(tmp_path / "made")
    assert not [part for part in parts if part not in repr(made)], repr(made)
    assert row in made._repr_html_(), made._repr_html_()
    assert len(repr(made)) < 1500
    assert "seed=0" not in repr(made)  # what is as it always is goes without saying
