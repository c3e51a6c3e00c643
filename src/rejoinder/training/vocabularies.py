"""Vocabularies as recipes describe them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from rejoinder.text.tokenizer import Tokenizer
from rejoinder.text.vocabulary import build_subwords
from rejoinder.training.recipe import Vocabulary


def build_vocabulary(config: Vocabulary, utterances: Iterable[str]) -> Tokenizer:
    """Build the tokenizer that a recipe's [vocabulary] describes.

    Args:
        config: the section.
        utterances: inputs and responses of the training data, at most `config.sample` or about so many.
    """
    settings = {name: value for name, value in dataclasses.asdict(config).items() if value is not None}
    del settings["kind"], settings["sample"]
    return build_subwords(utterances, **settings)
