"""The n-gram dual encoder as a kind of model: "ngram"."""

from __future__ import annotations

from rejoinder.models.encoder import Encoder
from rejoinder.models.families import Family
from rejoinder.models.inference import pack_linears
from rejoinder.models.ngram_dual import NGramConfig, NGramDual
from rejoinder.text.ngrams import NGrams

FAMILY = Family(
    config=NGramConfig,
    build=NGramDual,
    vocabulary="ngrams",
    load_tokenizer=NGrams.load,
    prepare=pack_linears,
    open=Encoder,
)
