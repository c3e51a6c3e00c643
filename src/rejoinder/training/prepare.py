"""From a folder of examples to what the loop needs: vocabulary and token stores, each made once."""

from __future__ import annotations

import dataclasses
import hashlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rejoinder.errors import InputError
from rejoinder.files import file_digest
from rejoinder.models.persistence import parse_config
from rejoinder.text.subwords import Subwords
from rejoinder.text.vocabulary import build_subwords
from rejoinder.training.display import Advance, Display, Silent
from rejoinder.training.recipe import Recipe
from rejoinder.training.tokens import (
    Split,
    TokenStore,
    build_store,
    content_key,
    open_store,
    read_texts,
)


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the loop trains on.

    Attributes:
        tokenizer: the vocabulary.
        train: tokens of the training split.
        valid: tokens of the validation split; None where the recipe has no validation.
        digest: of the examples.
    """

    tokenizer: Subwords
    train: TokenStore
    valid: TokenStore | None
    digest: str


def prepare(recipe: Recipe, folder: Path, display: Display | None = None) -> Prepared:
    """Open the vocabulary and the token stores, making those that are not there.

    Args:
        recipe: the run's.
        folder: where they are kept if the recipe names no other place.
        display: shows progress; None shows nothing.

    Raises:
        InputError: the data is missing or has nothing to train on.
    """
    data = Path(recipe.data.train)
    if not recipe.data.train:
        raise InputError("no data to train on: give --data DIR, or data.train in the recipe")
    if not data.exists():
        raise InputError(f"{data}: no such file or folder; `rejoinder data` makes a folder of examples")
    folder = Path(recipe.data.cache) if recipe.data.cache else folder
    splits: list[Split] = ["train", "valid"] if recipe.validation.examples else ["train"]
    for split in splits:
        next(iter(read_texts(data, split)), None)  # what is missing is better said now than after a vocabulary
    digest = data_digest(data, splits)
    display = display or Silent()
    tokenizer = _vocabulary(recipe, folder, digest, display)
    train = _store(recipe, folder, digest, "train", tokenizer, display)
    if len(train) == 0:
        raise InputError(f"{data}: no training examples in it")
    valid = _store(recipe, folder, digest, "valid", tokenizer, display) if recipe.validation.examples else None
    return Prepared(tokenizer, train, valid, digest)


def data_digest(data: Path, splits: Sequence[Split]) -> str:
    """SHA-256 of a file, or of names and contents of the files of a folder's splits."""
    if data.is_file():
        return file_digest(data)
    files = sorted(file for split in splits for file in data.glob(f"{split}-*.parquet"))
    whole = hashlib.sha256()
    for file in files:
        whole.update(f"{file.name} {file_digest(file)}\n".encode())
    return whole.hexdigest()


def _vocabulary(recipe: Recipe, folder: Path, digest: str, display: Display) -> Subwords:
    path = folder / f"vocabulary-{content_key(digest, recipe.vocabulary, recipe.seed)}.json"
    if path.exists():
        return Subwords.load(path)
    settings = dataclasses.asdict(recipe.vocabulary)
    sample = settings.pop("sample")
    settings = {key: value for key, value in settings.items() if value is not None}
    with (
        display.track("Building the vocabulary", None, "utterances") as advance,
        warnings.catch_warnings(record=True) as said,
    ):
        tokenizer = build_subwords(_utterances(Path(recipe.data.train), sample, recipe.seed, advance), **settings)
    for warning in said:
        display.note(str(warning.message))
    tokenizer.save(path)
    return tokenizer


def _utterances(data: Path, sample: int, seed: int, advance: Advance) -> Iterator[str]:
    """Inputs and responses of the training split; where there are more than `sample`, about as many at random."""
    total = sum(len(texts) for sides in read_texts(data, "train") for texts in sides)
    generator = np.random.default_rng([seed, 1])
    for sides in read_texts(data, "train"):
        for texts in sides:
            if total <= sample:
                yield from texts
            else:
                chosen = generator.random(len(texts)) < sample / total
                yield from (text for text, taken in zip(texts, chosen.tolist(), strict=True) if taken)
            advance(len(texts))


def _store(
    recipe: Recipe, folder: Path, digest: str, split: Split, tokenizer: Subwords, display: Display
) -> TokenStore:
    length, history = recipe.text.max_length, parse_config(recipe.model).history_text
    parts = [digest, tokenizer.fingerprint, length, *([] if history is None else [history])]
    path = folder / f"{split}-{content_key(*parts)}"
    if path.exists():
        return open_store(path)
    with display.track(f"Tokenising ({split})", None, "examples") as advance:
        return build_store(path, recipe.data.train, split, tokenizer, length, advance, history)
