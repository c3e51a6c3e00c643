"""A run that dies at any moment, of any kind, goes on bit for bit; tests/cli/test_kills.py kills real processes."""

import pytest

from rejoinder.training.loop import train
from rejoinder.training.metrics import read_metrics
from rejoinder.training.recipe_files import parse_recipe
from tests.training.test_loop import TWO_STAGES, At, CrashError, crash, same_weights
from tests.training.tiny import MODEL, NGRAM, NGRAM_WORDS, document, stage, write_data
from tests.training.transformers import transformer_recipe, write_checkpoint

ADAM = stage(optimizer="adam", steps=10, clip_norm=1.0, clip_embedding_norm=0.5, micro_batch=12)
NGRAMS = {"model": NGRAM, "vocabulary": NGRAM_WORDS, "scale": {"learned": True}, "stage": [ADAM]}
SHORT = {"stage": [stage(steps=10)]}
OFTEN = {"stage": TWO_STAGES, "checkpoint": {"every_steps": 4}, "log": {"every_steps": 3}}
KINDS = {
    "two stages": ([1, 6, 15, 23, 30], OFTEN),
    "history": (
        [6],
        {"stage": [stage(steps=10, optimizer="adamax")], "model": {**MODEL, "history": 10}},
    ),
    "few bits": ([6, 25], {**OFTEN, "quantization": {"enabled": True, "range_every": 7}}),
    "n-grams": ([8], NGRAMS),
    "mixture": (
        [8],
        {"stage": [stage(steps=10, optimizer="sgd")], "data": {"mix": [{"share": 0.25}]}},
    ),
    "fine-tuning": ([3], {**SHORT, "init": {}}),
    "poly": ([6], {**SHORT, "model": {"kind": "poly-encoder", "m": 4}}),
    "cross": ([6], {"stage": [stage(steps=8, negatives=3)], "model": {"kind": "cross-encoder"}}),
}
"""After which steps a run dies, and what is in its recipe."""


@pytest.fixture(scope="module")
def wholes(tmp_path_factory, data):
    """Of each kind the recipe and a run that nothing interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    found = {}
    for name, (_, sections) in KINDS.items():
        made = {**document(data), **sections}
        if name == "mixture":
            general = write_data(folder / "general", seed=5)
            made["data"] = {"train": str(data), "mix": [{"train": str(general), "share": 0.25}]}
        if name == "fine-tuning":
            made = {key: value for key, value in made.items() if key not in ("vocabulary", "model")}
            made["init"] = {"model": str(folder / "two stages" / "model")}
        if name in ("poly", "cross"):
            settings = transformer_recipe(data, write_checkpoint(folder / "bert"), **sections)
        else:
            settings = parse_recipe(made)
        train(settings, folder / name)
        found[name] = settings, folder / name
    return found


@pytest.mark.parametrize(
    ("kind", "step"), [(kind, step) for kind, (steps, _) in KINDS.items() for step in steps]
)
def test_a_run_that_dies_goes_on_with_the_same_losses(tmp_path, wholes, kind, step):
    """Before the first checkpoint, between two, at the border of stages, at the end."""
    settings, whole = wholes[kind]
    with pytest.raises(CrashError):
        train(settings, tmp_path, display=At(step, crash))
    train(settings, tmp_path)
    assert same_weights(tmp_path, whole)
    config = "model/config.json"
    assert (tmp_path / config).read_bytes() == (whole / config).read_bytes(), "ranges and scale too"
    clocked = ("examples_per_second", "tokens_per_second", "seconds")
    lines = [read_metrics(run / "metrics.jsonl") for run in (tmp_path, whole)]
    figures = [
        [{k: v for k, v in line.items() if k not in clocked} for line in each] for each in lines
    ]
    assert figures[0] == figures[1]
