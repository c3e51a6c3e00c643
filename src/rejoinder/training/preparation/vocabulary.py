"""The vocabulary of a recipe, built from texts of its training data."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from rejoinder.progress import Advance
from rejoinder.text.ngrams import build_ngrams
from rejoinder.text.pretrained import build_bpe
from rejoinder.text.tokenizer import Tokenizer
from rejoinder.text.vocabulary_building import build_subwords
from rejoinder.training.data.examples import read_texts
from rejoinder.training.recipe.settings import BpeVocabulary, Vocabulary


def build_vocabulary(config: Vocabulary, utterances: Iterable[str]) -> Tokenizer:
    """Build the tokenizer that a recipe's [vocabulary] describes."""
    if isinstance(config, BpeVocabulary):
        return build_bpe(utterances, config.merges, config.minimum_count)
    settings = {
        name: value for name, value in dataclasses.asdict(config).items() if value is not None
    }
    del settings["kind"], settings["sample"]
    return (build_ngrams if config.kind == "ngrams" else build_subwords)(utterances, **settings)


def drawn_utterances(
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
