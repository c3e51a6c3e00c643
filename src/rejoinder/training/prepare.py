"""From a folder of examples to what the loop needs: vocabulary and token stores, each made once."""

from __future__ import annotations

import contextlib
import hashlib
import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rejoinder.corpora.account import SUMMARY, kept_messages, limits_of_history
from rejoinder.corpora.engine import Engine
from rejoinder.errors import InputError
from rejoinder.files import atomic_file, file_digest
from rejoinder.models.families import family, family_of, parse_config
from rejoinder.ranker import FloatArray
from rejoinder.text.subwords import Subwords
from rejoinder.text.tokenizer import Tokenizer
from rejoinder.training.display import Advance, Display, Silent
from rejoinder.training.init import initial_tokenizer
from rejoinder.training.mixing import join
from rejoinder.training.recipe import Recipe
from rejoinder.training.similarity import TextVectors, text_vectors
from rejoinder.training.tokenising import read_texts
from rejoinder.training.tokens import Split, TokenStore, build_store, content_key, open_store
from rejoinder.training.vocabularies import build_vocabulary
from rejoinder.training.words import count_ids, open_sentence_encoder, word_vectors


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the loop trains on.

    Attributes:
        tokenizer: the vocabulary.
        train: tokens of the training split, of all sets one after the other.
        sizes: examples of each set, `data.train` first.
        valid: tokens of the validation split of `data.train`; None where the recipe has no validation.
        digest: of the examples.
        words: the embedding to start from; None where the recipe has no `init.words`.
        taught: vectors of the training split's texts; None where the recipe has no `distillation.encoder`.
    """

    tokenizer: Tokenizer
    train: TokenStore
    sizes: tuple[int, ...]
    valid: TokenStore | None
    digest: str
    words: FloatArray | None = None
    taught: TextVectors | None = None


def prepare(
    recipe: Recipe, folder: Path, display: Display | None = None, engine: Engine | None = None
) -> Prepared:
    """Open the vocabulary and the token stores, making those that are not there.

    Args:
        recipe: the run's.
        folder: where they are kept if the recipe names no other place.
        display: shows progress; None shows nothing.
        engine: its workers tokenise; None does it here.

    Raises:
        InputError: the data is missing or has nothing to train on.
    """
    sets = _sets(recipe)
    folder = Path(recipe.data.cache) if recipe.data.cache else folder
    splits: list[Split] = ["train", "valid"] if recipe.validation.examples else ["train"]
    for data, split in [(sets[0], split) for split in splits] + [(data, "train") for data in sets[1:]]:
        next(iter(read_texts(data, split)), None)  # what is missing is better said now than after a vocabulary
    display = display or Silent()
    for data in sets:
        _note_cut_contexts(recipe, data, display)
    digests = [data_digest(sets[0], splits), *(data_digest(data, ["train"]) for data in sets[1:])]
    tokenizer = _vocabulary(recipe, folder, sets, digests, display)
    stores = []
    for data, digest in zip(sets, digests, strict=True):
        stores.append(_store(recipe, folder, data, digest, "train", tokenizer, display, engine))
        if len(stores[-1]) == 0:
            raise InputError(f"{data}: no training examples in it")
    valid = None
    if recipe.validation.examples:
        valid = _store(recipe, folder, sets[0], digests[0], "valid", tokenizer, display, engine)
    train = join(stores)
    words = _words(recipe, folder, train, digests, tokenizer, display) if recipe.init.words else None
    taught = _taught(recipe, folder, train, digests[0], display)
    return Prepared(tokenizer, train, tuple(map(len, stores)), valid, _joined(digests), words, taught)


def _sets(recipe: Recipe) -> list[Path]:
    """Where the sets of examples are, `data.train` first."""
    options = [("train on", "--data DIR", "data.train", recipe.data.train)]
    for number, mixed in enumerate(recipe.data.mix):
        option = "another --general DIR" if number else "--general DIR"
        options.append(("mix in", option, f"data.mix.{number}.train", mixed.train))
    for purpose, option, key, place in options:
        if not place:
            raise InputError(f"no data to {purpose}: give {option}, or {key} in the recipe")
        if not Path(place).exists():
            raise InputError(f"{place}: no such file or folder; `rejoinder data` makes a folder of examples")
    return [Path(place) for *_, place in options]


def _note_cut_contexts(recipe: Recipe, data: Path, display: Display) -> None:
    """Say so in one line where `rejoinder data` cut contexts to less than the model reads."""
    try:
        account = json.loads((data / SUMMARY).read_text(encoding="utf-8"))
        cut, kept = account["cut_contexts"], kept_messages(account)
    except (OSError, ValueError, LookupError, TypeError):
        return  # a file, or a folder that something else made
    config = parse_config(recipe.model)
    whole = family_of(config).dialogue is not None
    if cut and (whole or getattr(config, "history", 0) > kept):
        reads = "whole conversations" if whole else f"up to {config.history} earlier messages"
        display.note(
            f"{data}: {cut:,} contexts lost their oldest messages ({limits_of_history(account)}) and the model reads "
            f"{reads}; build the data again with a higher limit"
        )


def _joined(digests: Sequence[str]) -> str:
    """One digest of several; of one, that one."""
    return digests[0] if len(digests) == 1 else hashlib.sha256(" ".join(digests).encode()).hexdigest()


def data_digest(data: Path, splits: Sequence[Split]) -> str:
    """SHA-256 of a file, or of names and contents of the files of a folder's splits."""
    if data.is_file():
        return file_digest(data)
    files = sorted(file for split in splits for file in data.glob(f"{split}-*.parquet"))
    whole = hashlib.sha256()
    for file in files:
        whole.update(f"{file.name} {file_digest(file)}\n".encode())
    return whole.hexdigest()


def _vocabulary(
    recipe: Recipe, folder: Path, sets: Sequence[Path], digests: Sequence[str], display: Display
) -> Tokenizer:
    """The vocabulary of the model to start from, or one built from the training splits of all sets."""
    read = family(recipe.model["kind"]).load_tokenizer
    if recipe.vocabulary is None:
        path = folder / f"vocabulary-{content_key(recipe.init.fingerprint)}.json"
        if not path.exists():
            initial_tokenizer(recipe.init).save(path)
        return read(path)
    path = folder / f"vocabulary-{content_key(_joined(digests), recipe.vocabulary, recipe.seed)}.json"
    if path.exists():
        return read(path)
    with (
        display.track("Building the vocabulary", None, "utterances") as advance,
        warnings.catch_warnings(record=True) as said,
    ):
        tokenizer = build_vocabulary(
            recipe.vocabulary, _utterances(sets, recipe.vocabulary.sample, recipe.seed, advance)
        )
    for warning in said:
        display.note(str(warning.message))
    tokenizer.save(path)
    return tokenizer


def _utterances(sets: Sequence[Path], sample: int, seed: int, advance: Advance) -> Iterator[str]:
    """Inputs and responses of the training splits; where there are more than `sample`, about as many at random."""
    total = sum(len(texts) for data in sets for sides in read_texts(data, "train") for texts in sides)
    generator = np.random.default_rng([seed, 1])
    for sides in (sides for data in sets for sides in read_texts(data, "train")):
        for texts in sides:
            if total <= sample:
                yield from texts
            else:
                chosen = generator.random(len(texts)) < sample / total
                yield from (text for text, taken in zip(texts, chosen.tolist(), strict=True) if taken)
            advance(len(texts))


def _store(
    recipe: Recipe,
    folder: Path,
    data: Path,
    digest: str,
    split: Split,
    tokenizer: Tokenizer,
    display: Display,
    engine: Engine | None,
) -> TokenStore:
    length, config = recipe.text.max_length, parse_config(recipe.model)
    reading, history = family_of(config).dialogue, config.history_text
    dialogue = None if reading is None else reading(config, tokenizer, length)
    parts = [digest, tokenizer.fingerprint, length, *([] if history is None else [history])]
    parts += [] if dialogue is None else dialogue.key
    with_texts = recipe.distillation is not None and split == "train"
    with_given = split == "train" and any(stage.given_negatives for stage in recipe.stage)
    parts += ["texts"] if with_texts else []
    parts += ["given"] if with_given else []
    path = folder / f"{split}-{content_key(*parts)}"
    if path.exists():
        return open_store(path)
    with display.track(f"Tokenising {data} ({split})", None, "examples") as advance:
        keep = {"with_texts": with_texts, "with_given": with_given}
        return build_store(path, data, split, tokenizer, length, advance, history, dialogue, engine, **keep)


def _words(
    recipe: Recipe, folder: Path, train: TokenStore, digests: Sequence[str], tokenizer: Tokenizer, display: Display
) -> FloatArray:
    """The embedding to start from, computed once for these examples, this vocabulary and this encoder."""
    if not isinstance(tokenizer, Subwords):
        raise InputError("init.words: this kind of model has no subwords, so it cannot start from vectors of subwords")
    size = parse_config(recipe.model).embedding_size
    key = content_key(recipe.init.words, tokenizer.fingerprint, size, recipe.seed, *digests)
    path = folder / f"words-{key}.npy"
    if not path.exists():
        with display.track("Encoding the vocabulary", tokenizer.size, "subwords") as advance:
            encode = open_sentence_encoder(recipe.init.words, advance)
            counts = count_ids(train, tokenizer.rows, recipe.seed)
            table = word_vectors(encode, tokenizer, counts, size, recipe.seed)
        with atomic_file(path) as part, part.open("wb") as file:
            np.save(file, table)
    words: FloatArray = np.load(path)
    return words


def _taught(recipe: Recipe, folder: Path, train: TokenStore, digest: str, display: Display) -> TextVectors | None:
    """What the recipe's sentence encoder makes of the examples, computed once for these and this encoder."""
    if recipe.distillation is None or not recipe.distillation.encoder or train.texts is None:
        return None
    name, sample = recipe.distillation.encoder, recipe.distillation.sample
    path = folder / f"vectors-{content_key(name, digest, sample, recipe.seed)}.f16"
    read = np.arange(len(train))
    if sample is not None and sample < len(train):
        read = np.sort(np.random.default_rng([recipe.seed, 2]).choice(len(train), sample, replace=False))
    with contextlib.ExitStack() as stack:

        def tell(count: int) -> Advance:
            return stack.enter_context(display.track("Asking the teacher", count, "texts"))

        return text_vectors(path, train.texts, read, open_sentence_encoder(name, lambda _: None), tell)
