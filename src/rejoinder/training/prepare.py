"""Inputs of the loop, made once from a folder of examples.

They are vocabulary, token stores and vectors to start from.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rejoinder.arrays import Column, FloatArray
from rejoinder.corpora.pipeline.summary import SUMMARY, kept_messages, limits_of_history
from rejoinder.devices import CPU
from rejoinder.digests import content_key, joined_digest
from rejoinder.encoders.families import family, family_of, parse_config
from rejoinder.encoders.open import open_texts
from rejoinder.engine import Engine
from rejoinder.errors import InputError
from rejoinder.files import atomic_file, remove_leftovers
from rejoinder.locks import locked
from rejoinder.progress import Advance
from rejoinder.text.memory import Remembered
from rejoinder.text.ngrams import build_ngrams
from rejoinder.text.pretrained import build_bpe
from rejoinder.text.subwords import MARK, Subwords
from rejoinder.text.tokenizer import Tokenizer
from rejoinder.text.vocabulary_building import build_subwords
from rejoinder.training.data.tokens import (
    Encode,
    Split,
    TokenRows,
    TokenStore,
    build_store,
    data_digest,
    join_stores,
    open_store,
    read_texts,
)
from rejoinder.training.display import Display
from rejoinder.training.distillation import TextVectors, text_vectors
from rejoinder.training.distributed import Machine
from rejoinder.training.initialisation import initial_tokenizer, read_texts_once
from rejoinder.training.metrics import drawn
from rejoinder.training.recipe.settings import BpeVocabulary, Recipe, Vocabulary

# what is made once and kept
CACHED = (".lock", "vocabulary-*", "train-*", "valid-*", "words-*", "vectors-*")
COMMON = 1e-3
"""a of the weight a / (a + p) of a word with the share p of all words (Arora et al. 2017: smooth
inverse frequency)."""
COUNTED = 500_000  # examples whose tokens are counted, at most


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
    preparation = _Preparation(recipe, folder, display, None)
    start = recipe.init.fingerprint or (recipe.model, recipe.seed)
    learns = recipe.init.anchor > 0
    valid = {} if recipe.init.anchor else prepared.valid
    key = content_key(
        "trunk",
        start,
        prepared.tokenizer.fingerprint,
        recipe.text.max_length,
        module.history,
        prepared.digest,
        recipe.validation.examples,
        learns,
        machine.precision,
    )
    path = preparation.folder / f"vectors-{key}.f16"
    # Too few are refused here: reading all texts may take an hour.
    rows = {name: drawn(store, recipe.validation) for name, store in prepared.valid.items()}
    with preparation.writing():
        examples = [(prepared.train, np.arange(len(prepared.train)))]
        examples += [(store, rows[name]) for name, store in valid.items()]
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
        self.folder = Path(recipe.data.cache) if recipe.data.cache else folder
        self.sets, self.valid = _sets(recipe)
        self.splits: list[Split] = ["train", "valid"] if recipe.validation.examples else ["train"]

    def run(self) -> Prepared:
        """Prepare vocabulary, ids and candidates of all data, or take what is there."""
        # fail early: building the vocabulary takes minutes
        for data in [*self.sets, *_vocabulary_data(self.recipe)]:
            _check_examples(data)
        for data in self.valid:
            next(read_texts(data, "valid"), None)
        for data in self.sets:
            _note_cut_contexts(self.recipe, data, self.display)
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
        words = self.words(train, digests, tokenizer) if self.recipe.init.words else None
        teacher_vectors = self.teacher_vectors(train, digests[0])
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
        if elsewhere := _vocabulary_data(self.recipe):
            digest = joined_digest([data_digest(data, ["train"]) for data in elsewhere])
        parts = (init.fingerprint,) if config is None else (digest, config, self.recipe.seed)
        path = self.folder / f"vocabulary-{content_key(*parts)}.json"
        build = (
            functools.partial(initial_tokenizer, init) if config is None else self.build_vocabulary
        )
        self.make_once(path, lambda: build().save(path))
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
            sets = _vocabulary_data(self.recipe) or self.sets
            tokenizer = build_vocabulary(
                config, _utterances(sets, config, self.recipe.seed, advance)
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
        path = self.folder / f"{split}-{content_key(*parts)}"
        encode = Encode(remembered, length, history, dialogue, keeps_candidates)

        def make() -> None:
            with self.display.track(f"Tokenising {data} ({split})", None, "examples") as advance:
                build_store(path, data, split, encode, advance, self.engine, texts)

        self.make_once(path, make)
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

    def words(self, train: TokenStore, digests: Sequence[str], tokenizer: Tokenizer) -> FloatArray:
        """Return vectors of the vocabulary's subwords by pretrained ones of words."""
        name = self.recipe.init.words
        seed = self.recipe.seed
        if not isinstance(tokenizer, Subwords):
            raise InputError(
                "init.words: this kind of model has no subwords,"
                " so it cannot start from their vectors"
            )
        size = parse_config(self.recipe.model).embedding_size
        path = (
            self.folder
            / f"words-{content_key(name, tokenizer.fingerprint, size, seed, *digests)}.npy"
        )

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

        self.make_once(path, make)
        words: FloatArray = np.load(path)
        return words

    def teacher_vectors(self, train: TokenStore, digest: str) -> TextVectors | None:
        config = self.recipe.distillation
        seed = self.recipe.seed
        if config is None or not config.encoder or train.texts is None:
            return None
        parts = config.fingerprint or config.encoder, digest, config.sample, seed
        path = self.folder / f"vectors-{content_key(*parts)}.f16"
        read = np.arange(len(train))
        if config.sample is not None and config.sample < len(train):
            read = np.sort(
                np.random.default_rng([seed, 2]).choice(len(train), config.sample, replace=False)
            )
        with self.writing():
            return text_vectors(path, train.texts, read, config, self.display, self.device)

    def make_once(self, path: Path, make: Callable[[], object]) -> None:
        """Let `make` write what is not there yet."""
        if not path.exists():
            with self.writing():
                if not path.exists():  # else the process that was waited for has made it
                    make()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Let one process at a time write to the folder, which several may share.

        Remove what killed ones left.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder / ".lock", f"{self.folder} is being written", seconds=None):
            remove_leftovers(self.folder)
            yield


def _sets(recipe: Recipe) -> tuple[list[Path], list[Path]]:
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
    for data in _vocabulary_data(recipe):
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


def _check_examples(data: Path) -> None:
    """Refuse data without a training example."""
    if next(read_texts(data, "train"), None) is None:
        raise InputError(
            f"{data} has no training examples to learn from: its train part is empty; name other"
            " data, or build it of more conversations (`rejoinder data`; train=FILE puts a whole"
            " file into the train part)"
        )


def _vocabulary_data(recipe: Recipe) -> list[Path]:
    """Return the folders that only the vocabulary is learned from.

    There are none if it is learned from the training data.
    """
    config = recipe.vocabulary
    return list(map(Path, config.data)) if isinstance(config, BpeVocabulary) else []


def _note_cut_contexts(recipe: Recipe, data: Path, display: Display) -> None:
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


def build_vocabulary(config: Vocabulary, utterances: Iterable[str]) -> Tokenizer:
    """Build the tokenizer that a recipe's [vocabulary] describes."""
    if isinstance(config, BpeVocabulary):
        return build_bpe(utterances, config.merges, config.minimum_count)
    settings = {
        name: value for name, value in dataclasses.asdict(config).items() if value is not None
    }
    del settings["kind"], settings["sample"]
    return (build_ngrams if config.kind == "ngrams" else build_subwords)(utterances, **settings)


def _utterances(
    sets: Sequence[Path], config: Vocabulary, seed: int, advance: Advance
) -> Iterator[str]:
    """Yield inputs and responses of the training splits.

    About `sample` of them at random where there are more. The n-gram vocabulary's are drawn as
    whole pairs (ACL19), those of others as texts (CONVERT: sentences).
    """
    total = sum(
        len(texts) for data in sets for sides in read_texts(data, "train") for texts in sides
    )
    share = config.sample / max(total, 1)
    generator = np.random.default_rng([seed, 1])
    for sides in (sides for data in sets for sides in read_texts(data, "train")):
        drawn_texts = [generator.random(len(texts)) < share for texts in sides]
        if config.kind == "ngrams":
            drawn_texts = drawn_texts[:1] * len(sides)
        for texts, chosen in zip(sides, drawn_texts, strict=True):
            yield from itertools.compress(texts, chosen)
            advance(len(texts))


def word_vectors(
    encode: Callable[[Sequence[str]], FloatArray],
    tokenizer: Subwords,
    counts: TokenRows,
    size: int,
    seed: int = 0,
) -> FloatArray:
    """Return an embedding to start from, (rows, size).

    It is a sentence encoder's vector of each subword by itself. A text's vector is then about the
    mean of its words' vectors, which ranks replies like BM25 before anything is learned. The
    vectors, less their mean, are reduced to their first principal components, where a word counts
    as often as it is used (`counts`) times its squared weight, and multiplied by the weight a / (a
    + p). The subwords' values have unit variance on average; buckets get random values a tenth as
    large, padding 0.
    """
    texts = [subword.replace(MARK, "") or " " for subword in tokenizer.subwords]
    vectors = encode(texts).astype(np.float64)
    shares = (counts[: len(vectors)] + 0.5) / (counts[: len(vectors)] + 0.5).sum()
    weights = COMMON / (COMMON + shares)
    vectors -= shares @ vectors
    _, components = np.linalg.eigh((vectors * (shares * weights**2)[:, None]).T @ vectors)
    rows = (vectors @ components[:, ::-1][:, :size]) * weights[:, None]
    rows /= np.sqrt((rows**2).mean())
    table = np.zeros((tokenizer.rows, size), dtype=np.float32)
    table[: len(rows), : rows.shape[1]] = rows
    buckets = slice(tokenizer.size, tokenizer.size + tokenizer.buckets)
    table[buckets] = np.random.default_rng(seed).normal(0, 0.1, (tokenizer.buckets, size))
    return table


def count_ids(store: TokenStore, rows: int, seed: int = 0) -> TokenRows:
    """Return how often each id is used in a sample of the store's texts, (rows,).

    These are inputs and responses.
    """
    examples = np.arange(len(store))
    if len(store) > COUNTED:
        examples = np.random.default_rng(seed).choice(len(store), COUNTED, replace=False)
    sides = (side.gather(examples)[0] for side in (store.input, store.response))
    return sum((np.bincount(ids, minlength=rows) for ids in sides), np.zeros(rows, dtype=np.int64))
