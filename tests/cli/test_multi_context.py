"""Multi-context ConveRT through the same commands as the single-context model: train, evaluate, index, reply."""

from __future__ import annotations

import pytest

from rejoinder.corpora.example import Example
from rejoinder.corpora.examples import write_examples
from rejoinder.training.recipe_files import save_recipe
from tests.training.tiny import MODEL, recipe, stage


def test_from_examples_to_replies(answer, tmp_path):
    topics = ["tea and milk", "rain and wind", "cats and dogs", "bread and jam"]
    for split, count in (("train", 96), ("valid", 32), ("test", 40)):
        examples = []
        for i in range(count):
            topic, rest = topics[i % 4], " then" * (i % 9)
            examples.append(Example((f"about {topic}", "go on"), f"so {topic}{rest}", thread=f"{split}{i}"))
        write_examples(examples, tmp_path / "data" / f"{split}-0.parquet")
    model = {**MODEL, "history": 10, "numbered_history": True}
    steps = [stage(steps=40, batch_size=16)]
    validation = {"candidates": 8, "examples": 32}
    save_recipe(recipe(tmp_path / "data", model=model, stage=steps, validation=validation), tmp_path / "multi.toml")

    summary = answer("train", tmp_path / "multi.toml", "-o", tmp_path / "run")
    folder = summary["model"]
    results = answer("evaluate", folder, tmp_path / "data", "--candidates", 4, "--context-table")["results"]
    mrr = {row["context"]: row["mrr"]["value"] for row in results}
    assert mrr["full"] == mrr["1"] == mrr["10"] > mrr["0"] + 0.1, "the inputs are all the same"
    assert mrr["history"] > mrr["input"] + 0.1
    (alone,) = answer("evaluate", folder, tmp_path / "data", "--candidates", 4, "--context", "history")["results"]
    assert alone["mrr"]["value"] == pytest.approx(mrr["history"], abs=0.05), "but for rounding in low precision"

    (tmp_path / "replies.txt").write_text("".join(f"so {topic}\n" for topic in topics))
    answer("index", folder, tmp_path / "replies.txt", "-o", tmp_path / "index")
    for topic in topics:
        replies = answer("reply", tmp_path / "index", f"about {topic}", "go on")["replies"]
        assert replies[0]["text"] == f"so {topic}"
