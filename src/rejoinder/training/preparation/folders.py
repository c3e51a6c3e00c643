"""The folders of examples that a recipe names: they must be there, and hold what is trained on."""

from __future__ import annotations

import json
from pathlib import Path

from rejoinder.corpora.pipeline.summary import SUMMARY, kept_messages, limits_of_history
from rejoinder.encoders.families import family_of, parse_config
from rejoinder.errors import InputError
from rejoinder.training.data.examples import read_texts
from rejoinder.training.display import Display
from rejoinder.training.recipe.settings import BpeVocabulary, Recipe


def data_folders(recipe: Recipe) -> tuple[list[Path], list[Path]]:
    """Return the folders that are trained on and those that are validated on."""
    options = [("train on", "--data DIR", "data.train", recipe.data.train)]
    for number, mixed in enumerate(recipe.data.mix):
        option = "another --general DIR" if number else "--general DIR"
        options.append(("mix in", option, f"data.mix.{number}.train", mixed.train))
    options += [
        ("validate on", "a folder", "validation.data", path) for path in recipe.validation.data
    ]
    for purpose, option, key, source in options:
        if not source:
            raise InputError(f"no data to {purpose}: give {option}, or {key} in the recipe")
        if not Path(source).exists():
            raise InputError(
                f"{source}: no such file or folder; `rejoinder data` makes a folder of examples"
            )
    for data in vocabulary_folders(recipe):
        if not data.exists():
            raise InputError(
                f"vocabulary.data: {data}: no such file or folder;"
                " `rejoinder data` makes a folder of examples;"
                " vocabulary.data=[] learns from data.train"
            )
    places = [Path(path) for *_, path in options]
    trained = places[: len(recipe.data.mix) + 1]
    valid = [places[0], *places[len(trained) :]] if recipe.validation.examples else []
    if len({data.name for data in valid}) < len(valid):
        raise InputError(
            f"two folders that are validated on have one name: {', '.join(map(str, valid))}"
        )
    return trained, valid


def check_examples(data: Path) -> None:
    """Refuse data without a training example."""
    if next(read_texts(data, "train"), None) is None:
        raise InputError(
            f"{data} has no training examples to learn from: its train part is empty; name other"
            " data, or build it of more conversations (`rejoinder data`; train=FILE puts a whole"
            " file into the train part)"
        )


def vocabulary_folders(recipe: Recipe) -> list[Path]:
    """Return the folders that only the vocabulary is learned from.

    There are none if it is learned from the training data.
    """
    config = recipe.vocabulary
    return list(map(Path, config.data)) if isinstance(config, BpeVocabulary) else []


def note_cut_contexts(recipe: Recipe, data: Path, display: Display) -> None:
    """Note where `rejoinder data` cut contexts to less than the model reads."""
    try:
        account = json.loads((data / SUMMARY).read_text(encoding="utf-8"))
        cut = account["cut_contexts"]
        kept = kept_messages(account)
    except (OSError, ValueError, LookupError, TypeError):
        # a file, or a folder that something else made
        return
    config = parse_config(recipe.model)
    whole = family_of(config).dialogue is not None
    if cut and (whole or getattr(config, "history", 0) > kept):
        lost = f"{cut:,} contexts lost their oldest messages ({limits_of_history(account)})"
        reads = "whole conversations" if whole else f"up to {config.history} earlier messages"
        display.note(
            f"{data}: {lost} and the model reads {reads}; build the data again with a higher limit"
        )
