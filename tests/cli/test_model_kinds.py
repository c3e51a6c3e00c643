"""Multi-context ConveRT, bi-, poly- and cross-encoder through the same commands: train, evaluate, index, reply."""

import pytest

from rejoinder.corpora.schema import Example
from rejoinder.corpora.forms.examples import write_examples
from rejoinder.training.recipe_files import save_recipe
from tests.training.tiny import MODEL, recipe, stage
from tests.training.transformers import transformer_recipe, write_checkpoint

TOPICS = ["tea and milk", "rain and wind", "cats and dogs", "bread and jam"]


@pytest.fixture
def data(tmp_path):
    for split, count in (("train", 96), ("valid", 32), ("test", 40)):
        examples = []
        for i in range(count):
            topic, rest = TOPICS[i % 4], " then" * (i % 9)
            examples.append(
                Example((f"about {topic}", "go on"), f"so {topic}{rest}", thread=f"{split}{i}")
            )
        write_examples(examples, tmp_path / "data" / f"{split}-0.parquet")
    (tmp_path / "replies.txt").write_text("".join(f"so {topic}\n" for topic in TOPICS))
    return tmp_path / "data"


def test_multi_context(answer, tmp_path, data):
    model = {**MODEL, "history": 10, "numbered_history": True}
    steps, validation = [stage(steps=40, batch_size=16)], {"candidates": 8, "examples": 32}
    save_recipe(
        recipe(data, model=model, stage=steps, validation=validation), tmp_path / "multi.toml"
    )
    folder = answer("train", tmp_path / "multi.toml", "-o", tmp_path / "run")["model"]
    words = ("evaluate", folder, data, "--candidates", 4)
    mrr = {
        row["context"]: row["mrr"]["value"]
        for row in answer(*words, "--context", "table")["results"]
    }
    assert mrr["full"] == mrr["1"] == mrr["10"] > mrr["0"] + 0.1, "the inputs are all the same"
    assert mrr["history"] > mrr["input"] + 0.1
    (alone,) = answer(*words, "--context", "history")["results"]
    assert alone["mrr"]["value"] == pytest.approx(mrr["history"], abs=0.05), (
        "but for rounding in low precision"
    )
    answer("index", "build", folder, tmp_path / "replies.txt", "-o", tmp_path / "index")
    for topic in TOPICS:
        replies = answer("reply", tmp_path / "index", f"about {topic}", "go on")["replies"]
        assert replies[0]["text"] == f"so {topic}"


@pytest.mark.parametrize(
    "model",
    [
        {"kind": "bi-encoder", "reduction": "mean", "similarity": "cosine"},
        {"kind": "poly-encoder", "m": 4, "codes": "first"},
        {"kind": "cross-encoder"},
    ],
    ids=lambda model: model["kind"],
)
def test_transformers(answer, refused, tmp_path, data, model):
    start = write_checkpoint(tmp_path / "bert")
    steps = [stage(steps=6, batch_size=16, negatives=3 * (model["kind"] == "cross-encoder"))]
    validation = {"candidates": 4, "examples": 16}
    save_recipe(
        transformer_recipe(data, start, model, stage=steps, validation=validation),
        tmp_path / "recipe.toml",
    )
    folder = answer("train", tmp_path / "recipe.toml", "-o", tmp_path / "run")["model"]
    evaluate = ("evaluate", folder, data, "--candidates", 4)
    index = ("index", "build", folder, tmp_path / "replies.txt", "-o")
    (result,) = answer(*evaluate)["results"]
    assert 0 < result["mrr"]["value"] <= 1
    if model["kind"] == "cross-encoder":
        refused(
            *index, tmp_path / "index", said=["cannot encode replies ahead of time", "--ranker"]
        )
    elif model["kind"] == "bi-encoder":
        answer(*index, tmp_path / "index")
        words = ("reply", tmp_path / "index", "about cats", "go on", "-k", 2, "--omit", "nothing")
        assert len(answer(*words)["replies"]) == 2
        refused(*evaluate, "--context", "history", said="only multi-context models")
    no_texts = [
        f"is a {model['kind']}, which gives no vectors h and r of single texts",
        "convert, ngram",
    ]
    for name in (f"sim:{folder}", f"map:{folder}#r"):
        refused("evaluate", name, data, "--candidates", 4, said=no_texts)
    (tmp_path / "intents.csv").write_text("text,label\n" + "tea,a\nmilk,a\nrain,b\nwind,b\n")
    for verb in ("train", "fine-tune"):
        refused(
            "intents", verb, folder, tmp_path / "intents.csv", "-o", tmp_path / verb, said=no_texts
        )
