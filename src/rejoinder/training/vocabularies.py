"""Vocabularies as recipes describe them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from rejoinder.text.ngrams import build_ngrams
from rejoinder.text.pretrained import build_bpe
from rejoinder.text.tokenizer import Tokenizer
from rejoinder.text.vocabulary import build_subwords
from rejoinder.training.recipe import BpeVocabulary, Vocabulary


def build_vocabulary(config: Vocabulary, utterances: Iterable[str]) -> Tokenizer:
    """Build the tokenizer that a recipe's [vocabulary] describes.

    Args:
        config: the section.
        utterances: inputs and responses of the training data, at most `config.sample` or about so many.
    """
    if isinstance(config, BpeVocabulary):
        return build_bpe(utterances, config.merges, config.minimum_count)
    settings = {name: value for name, value in dataclasses.asdict(config).items() if value is not None}
    del settings["kind"], settings["sample"]
    return (build_ngrams if config.kind == "ngrams" else build_subwords)(utterances, **settings)
