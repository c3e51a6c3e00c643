"""Inputs of the loop, made once from folders of examples, or taken from a cache."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rejoinder.arrays import Column, FloatArray
from rejoinder.devices import CPU
from rejoinder.digests import content_key, joined_digest
from rejoinder.encoders.families import family, family_of, parse_config
from rejoinder.encoders.open import identity, open_texts
from rejoinder.engine import Engine
from rejoinder.errors import InputError
from rejoinder.files import atomic_file
from rejoinder.text.memory import Remembered
from rejoinder.text.subwords import Subwords
from rejoinder.text.tokenizer import Tokenizer
from rejoinder.training.data.examples import Split, data_digest, read_texts
from rejoinder.training.data.tokenising import Encode, build_store
from rejoinder.training.data.tokens import TokenStore, join_stores, open_store
from rejoinder.training.display import Display
from rejoinder.training.distillation import TextVectors, text_vectors
from rejoinder.training.distributed import Machine
from rejoinder.training.initialisation import (
    initial_tokenizer,
    read_texts_once,
    trunk_digest,
)
from rejoinder.training.metrics import drawn
from rejoinder.training.preparation.cache import InputCache
from rejoinder.training.preparation.folders import (
    check_examples,
    data_folders,
    note_cut_contexts,
    vocabulary_folders,
)
from rejoinder.training.preparation.vocabulary import build_vocabulary, drawn_utterances
from rejoinder.training.preparation.word_vectors import COUNTED, count_ids, word_vectors
from rejoinder.training.recipe.settings import Recipe


@dataclass(frozen=True, slots=True)
class Prepared:
    """Data of the loop."""

    tokenizer: Tokenizer
    train: TokenStore  # the training split, of all sets one after the other
    sizes: tuple[int, ...]  # examples of each set, `data.train` first
    valid: dict[str, TokenStore]
    """Validation splits by name, that of `data.train` first, if the recipe validates."""
    digest: str  # of the examples
    words: FloatArray | None = None  # the embedding to start from (`init.words`)
    teacher_vectors: TextVectors | None = None  # of the training texts (`distillation.encoder`)


def prepare(
    recipe: Recipe,
    folder: Path,
    display: Display | None = None,
    engine: Engine | None = None,
    device: torch.device = CPU,
) -> Prepared:
    """Open what a run needs and make what is missing, in the folder or the recipe's cache.

    It tokenises in parallel if given an engine; an encoder that teaches computes on the device.
    """
    return _Preparation(recipe, folder, display or Display(), engine, device).run()


def examples_digest(recipe: Recipe) -> str:
    """Return what `Prepared.digest` of a recipe's examples is; empty if they are gone."""
    try:
        preparation = _Preparation(recipe, Path(), Display(), None)
    except InputError:
        return ""
    trained, aside = preparation.digests()
    return joined_digest([*trained, *aside])


def with_vectors(
    prepared: Prepared,
    recipe: Recipe,
    folder: Path,
    module: Any,
    machine: Machine,
    display: Display,
) -> Prepared:
    """Return the same, its texts read by a module's trunk before it learns, if ever.

    Made once, like the rest. Where it learns (`init.anchor`) validation reads with the trunk as it
    is by then.
    """
    cache = InputCache.of(recipe, folder)
    learns = recipe.init.anchor > 0
    valid = {} if learns else prepared.valid
    # Too few are refused here: reading all texts may take an hour.
    rows = {name: drawn(store, recipe.validation) for name, store in prepared.valid.items()}
    examples = [(prepared.train, np.arange(len(prepared.train)))]
    examples += [(store, rows[name]) for name, store in valid.items()]
    read = [(store.key, len(store_rows)) for store, store_rows in examples]
    key = content_key(trunk_digest(module), machine.precision, read)
    path = cache.folder / f"vectors-{key}.f16"
    with cache.writing():
        vectors = read_texts_once(path, examples, module, machine, display)
    train = dataclasses.replace(
        prepared.train, vectors=None if learns else vectors, start=vectors if learns else None
    )
    valid = {name: dataclasses.replace(store, vectors=vectors) for name, store in valid.items()}
    return dataclasses.replace(prepared, train=train, valid={**prepared.valid, **valid})


class _Preparation:
    def __init__(
        self,
        recipe: Recipe,
        folder: Path,
        display: Display,
        engine: Engine | None,
        device: torch.device = CPU,
    ) -> None:
        self.recipe = recipe
        self.display = display
        self.engine = engine
        self.device = device
        self.cache = InputCache.of(recipe, folder)
        self.sets, self.valid = data_folders(recipe)
        self.splits: list[Split] = ["train", "valid"] if recipe.validation.examples else ["train"]

    def run(self) -> Prepared:
        """Prepare vocabulary, ids and candidates of all data, or take what is there."""
        # fail early: building the vocabulary takes minutes
        for data in [*self.sets, *vocabulary_folders(self.recipe)]:
            check_examples(data)
        for data in self.valid:
            next(read_texts(data, "valid"), None)
        for data in self.sets:
            note_cut_contexts(self.recipe, data, self.display)
        digests, aside = self.digests()
        tokenizer = self.vocabulary(joined_digest(digests))
        stores = [
            self.store(data, digest, "train", tokenizer)
            for data, digest in zip(self.sets, digests, strict=True)
        ]
        for data, store in zip(self.sets, stores, strict=True):
            if len(store) == 0:
                raise InputError(f"{data}: no training examples in it")
            self.note_long(data, store, tokenizer)
        validation_sets = zip(self.valid, [digests[0], *aside], strict=False)
        valid = {
            data.name: self.store(data, digest, "valid", tokenizer)
            for data, digest in validation_sets
        }
        train = join_stores(stores)
        digest = joined_digest([*digests, *aside])
        words = self.words(train, tokenizer) if self.recipe.init.words else None
        teacher_vectors = self.teacher_vectors(train)
        sizes = tuple(map(len, stores))
        return Prepared(tokenizer, train, sizes, valid, digest, words, teacher_vectors)

    def digests(self) -> tuple[list[str], list[str]]:
        """Return the digests of the examples that are trained on, and of others to validate on."""
        first, *others = self.sets
        trained = [data_digest(first, self.splits)]
        trained += [data_digest(data, ["train"]) for data in others]
        return trained, [data_digest(data, ["valid"]) for data in self.valid[1:]]

    def vocabulary(self, digest: str) -> Tokenizer:
        config = self.recipe.vocabulary
        init = self.recipe.init
        if elsewhere := vocabulary_folders(self.recipe):
            digest = joined_digest([data_digest(data, ["train"]) for data in elsewhere])
        parts = (init.fingerprint,) if config is None else (digest, config, self.recipe.seed)
        path = self.cache.folder / f"vocabulary-{content_key(*parts)}.json"
        build = (
            functools.partial(initial_tokenizer, init) if config is None else self.build_vocabulary
        )
        self.cache.make_once(path, lambda: build().save(path))
        tokenizer = family(self.recipe.model["kind"]).load_tokenizer(path)
        if self.recipe.text.cut is not None:
            tokenizer.cut = self.recipe.text.cut
        return tokenizer

    def build_vocabulary(self) -> Tokenizer:
        """Build the vocabulary; what its building warns of becomes a note."""
        config = self.recipe.vocabulary
        doing = self.display.track("Building the vocabulary", None, "utterances")
        assert config is not None
        with doing as advance, warnings.catch_warnings(record=True) as warned:
            sets = vocabulary_folders(self.recipe) or self.sets
            tokenizer = build_vocabulary(
                config, drawn_utterances(sets, config, self.recipe.seed, advance)
            )
        for warning in warned:
            self.display.note(str(warning.message))
        return tokenizer

    def store(self, data: Path, digest: str, split: Split, tokenizer: Tokenizer) -> TokenStore:
        """Return the ids of a split, tokenised or as they were written before."""
        recipe = self.recipe
        config = parse_config(self.recipe.model)
        length = recipe.text.max_length
        reading = family_of(config).dialogue
        history = config.history_text
        remembered = Remembered(tokenizer)
        dialogue = None if reading is None else reading(config, tokenizer, length)
        if dialogue is not None:
            dialogue = dataclasses.replace(dialogue, tokenizer=remembered)
        texts = recipe.distillation is not None and split == "train"
        keeps_candidates = split == "train" and any(stage.given_negatives for stage in recipe.stage)
        parts = [digest, tokenizer.fingerprint, length]
        if history is not None:
            # no token depends on the weight of a persona, so models that differ in it share a store
            parts.append(dataclasses.replace(history, persona_weight=0.0))
        if dialogue is not None:
            parts += dialogue.key
        if texts:
            parts.append("texts")
        if keeps_candidates:
            parts.append("given")
        path = self.cache.folder / f"{split}-{content_key(*parts)}"
        encode = Encode(remembered, length, history, dialogue, keeps_candidates)

        def make() -> None:
            with self.display.track(f"Tokenising {data} ({split})", None, "examples") as advance:
                build_store(path, data, split, encode, advance, self.engine, texts)

        self.cache.make_once(path, make)
        return open_store(path)

    def note_long(self, data: Path, store: TokenStore, tokenizer: Tokenizer) -> None:
        """Report how many messages are as long as the model reads, or longer.

        The store lacks the end of the longer ones.
        """
        length = self.recipe.text.max_length
        whole = family_of(parse_config(self.recipe.model)).dialogue is not None
        most = tokenizer.encode_ragged(["a " * 2 * length], length)[1][0]
        sides = [store.response] if whole else [store.input, store.response]
        read = [np.diff(side.offsets[: COUNTED + 1]) for side in sides if isinstance(side, Column)]
        long = sum(int((lengths >= most).sum()) for lengths in read)
        total = sum(len(lengths) for lengths in read)
        if long:
            share = f"{long:,} of {total:,} {'replies' if whole else 'messages and replies'}"
            cut = (
                f"the {length} {tokenizer.unit} that the model reads;"
                f" of longer ones the {tokenizer.cut} is cut"
            )
            self.display.note(f"{data}: {share} fill {cut}")

    def words(self, train: TokenStore, tokenizer: Tokenizer) -> FloatArray:
        """Return vectors of the vocabulary's subwords by pretrained ones of words."""
        name = self.recipe.init.words
        seed = self.recipe.seed
        if not isinstance(tokenizer, Subwords):
            raise InputError(
                "init.words: this kind of model has no subwords,"
                " so it cannot start from their vectors"
            )
        size = parse_config(self.recipe.model).embedding_size
        parts = identity(name), tokenizer.fingerprint, train.key, size, seed
        path = self.cache.folder / f"words-{content_key(*parts)}.npy"

        def make() -> None:
            with self.display.track(
                "Encoding the vocabulary", tokenizer.size, "subwords"
            ) as advance:
                encode = functools.partial(open_texts(name).encode, advance=advance)
                table = word_vectors(
                    encode, tokenizer, count_ids(train, tokenizer.rows, seed), size, seed
                )
            with atomic_file(path) as part, part.open("wb") as file:
                np.save(file, table)

        self.cache.make_once(path, make)
        words: FloatArray = np.load(path)
        return words

    def teacher_vectors(self, train: TokenStore) -> TextVectors | None:
        config = self.recipe.distillation
        seed = self.recipe.seed
        if config is None or not config.encoder or train.texts is None:
            return None
        teacher = config.fingerprint or identity(config.encoder)
        parts = teacher, train.key, config.sample, seed
        path = self.cache.folder / f"vectors-{content_key(*parts)}.f16"
        read = np.arange(len(train))
        if config.sample is not None and config.sample < len(train):
            read = np.sort(
                np.random.default_rng([seed, 2]).choice(len(train), config.sample, replace=False)
            )
        with self.cache.writing():
            return text_vectors(path, train.texts, read, config, self.display, self.device)
