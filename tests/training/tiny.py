"""A tiny data set and a tiny model, so that whole runs take a second."""

import random

from rejoinder.corpora.schema import Example
from rejoinder.corpora.forms.examples import write_examples
from rejoinder.training.recipe_files import parse_recipe
from rejoinder.training.run.checkpoint import load_checkpoint
from rejoinder.training.run.folder import RunFolder

MODEL = {
    "kind": "convert",
    "embedding_size": 16,
    "blocks": 2,
    "attention_spans": [3, 5],
    "head_size": 4,
    "feed_forward_size": 16,
    "feed_forward_2_size": 16,
    "feed_forward_2_layers": 1,
    "output_size": 16,
    "norm_placement": "before",
    "initialisation": "unit",
    "dropout": 0.1,
}
NGRAM = {
    "kind": "ngram",
    "embedding_size": 16,
    "positions": 16,
    "head_size": 4,
    "hidden_size": 16,
    "hidden_layers": 1,
    "output_size": 16,
    "dropout": 0.1,
}
NGRAM_WORDS = {"kind": "ngrams", "minimum_count": 2, "bigrams": 200, "buckets": 20}


def write_data(folder, train=320, valid=80, topics=20, seed=0):
    """Examples whose newest message and response share a topic's words, so that there is something to learn.

    Every third one has no earlier message.
    """
    generator = random.Random(seed)
    words = ["".join(generator.choices("abcdefghijklmnop", k=4)) for _ in range(topics * 4)]

    def text(topic):
        return " ".join(
            generator.choices(words[4 * topic : 4 * topic + 4], k=generator.randint(1, 6))
        )

    for split, count in (("train", train), ("valid", valid)):
        examples = []
        for number in range(count):
            topic = generator.randrange(topics)
            context = (*(["earlier words"] if number % 3 else []), text(topic))
            examples.append(Example(context, text(topic), id=str(number), thread=str(number)))
        write_examples(examples, folder / f"{split}-00000.parquet")
    return folder


def document(data, /, **sections):
    """A recipe of one short stage; `sections` replace its sections."""
    return {
        "name": "tiny",
        "data": {"train": str(data)},
        "vocabulary": {"minimum_count": 10},
        "model": dict(MODEL),
        "scale": {"steps": 10},
        "validation": {"every_steps": 10, "examples": 80, "candidates": 20},
        "checkpoint": {"every_steps": 5},
        "log": {"every_steps": 1},
        "stage": [stage()],
        "compute": {"device": "cpu", "precision": "fp32", "threads": 1},
    } | sections


def stage(**keys):
    """A stage of 20 steps of AdamW; `keys` replace its keys."""
    budget = {} if {"epochs", "minutes"} & set(keys) else {"steps": 20}
    plain = {
        "name": "only",
        "batch_size": 32,
        "optimizer": "adamw",
        "learning_rate": 0.01,
        "schedule": "cosine",
    }
    return {**plain, **budget, **keys}


def recipe(data, /, **sections):
    """The recipe of `document`."""
    return parse_recipe(
        {name: table for name, table in document(data, **sections).items() if table is not None}
    )


def checkpoint_of(run):
    """The last checkpoint of a run."""
    return load_checkpoint(RunFolder(run).checkpoint)
