"""The kinds of models: configuration, network, tokenizer, and user-facing class of each.

To add a kind: write its configuration (a frozen dataclass with a field `kind`) and its network, and
give it a line in `FAMILIES`. Training, model folders and the command need nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from rejoinder.encoders import joined
from rejoinder.encoders.joined import JoinedConfig, JoinedEncoder
from rejoinder.encoders.torch import CrossRanker, DialogueEncoder, Encoder, PolyDialogueEncoder
from rejoinder.errors import InputError
from rejoinder.networks import poly
from rejoinder.networks.convert import Convert, ConvertConfig
from rejoinder.networks.masked_lm import MaskedLm, MaskedLmConfig, refuse_to_rank
from rejoinder.networks.ngram import NGramConfig, NGramDual
from rejoinder.settings import validate
from rejoinder.text.dialogue import Dialogue
from rejoinder.text.ngrams import NGrams
from rejoinder.text.pretrained import MarkedPretrained, Pretrained
from rejoinder.text.subwords import Subwords
from rejoinder.text.tokenizer import Tokenizer

Model: TypeAlias = Encoder | DialogueEncoder | PolyDialogueEncoder | CrossRanker | JoinedEncoder
"""User-facing classes of models, by kind. All score; all but a `CrossRanker` encode contexts and
responses apart."""

Packing: TypeAlias = Literal["together", "apart", "joined", "masked"]
"""Packing of the texts of pairs in training: all "together", each side "apart" (a `SidesBatch`),
each context "joined" with each of its candidates (a ranker that encodes neither by itself), or
joined pairs "masked" (pretraining)."""


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of model."""

    config: type[Any]  # a frozen dataclass whose defaults are the paper's
    build: Callable[[Any, int], Any]  # configuration, rows of the token table -> a new network
    vocabulary: str  # the kind of tokenizer that it reads, as recipes name it
    load_tokenizer: Callable[[Path], Tokenizer]
    open: Callable[..., Model]
    """Network, tokenizer, and what else they take -> what encodes and scores."""
    packing: Packing = "together"
    dialogue: Callable[[Any, Any, int], Dialogue] | None = None
    """Configuration, tokenizer, longest response -> how conversations are read as one text; None:
    history apart."""


def _of_transformers(
    config: Any, build: Any, opened: Callable[..., Model], packing: Packing
) -> Family:
    return Family(config, build, "bpe", Pretrained.load, opened, packing, config.dialogue)


FAMILIES: Mapping[str, Family] = {
    "convert": Family(ConvertConfig, Convert, "subwords", Subwords.load, Encoder),
    "ngram": Family(NGramConfig, NGramDual, "ngrams", NGrams.load, Encoder),
    "bi-encoder": _of_transformers(poly.BiEncoderConfig, poly.BiEncoder, DialogueEncoder, "apart"),
    "multi-context-bi-encoder": Family(
        poly.MultiContextBiEncoderConfig,
        poly.MultiContextBiEncoder,
        "bpe",
        MarkedPretrained.load,
        Encoder,
    ),
    "poly-encoder": _of_transformers(
        poly.PolyEncoderConfig, poly.PolyEncoder, PolyDialogueEncoder, "apart"
    ),
    "cross-encoder": _of_transformers(
        poly.CrossEncoderConfig, poly.CrossEncoder, CrossRanker, "joined"
    ),
    "masked-lm": _of_transformers(MaskedLmConfig, MaskedLm, refuse_to_rank, "masked"),
    "poly-convert": Family(
        poly.PolyConvertConfig,
        poly.PolyConvert,
        "subwords",
        Subwords.load,
        PolyDialogueEncoder,
        dialogue=poly.PolyConvertConfig.dialogue,
    ),
    joined.KIND: Family(JoinedConfig, joined.refuse, "", joined.refuse, joined.refuse),
}


def family(kind: object) -> Family:
    """Return the family of a kind."""
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise InputError(f"model.kind = {kind!r} is unknown; allowed are {', '.join(FAMILIES)}")
    return FAMILIES[kind]


def family_of(config: object) -> Family:
    """Return the family of a configuration."""
    return family(getattr(config, "kind", None))


def parse_config(values: Mapping[str, Any]) -> Any:
    """Make a model's configuration of JSON or TOML values; without a `kind` it is ConveRT's."""
    config: Any = validate(family(values.get("kind", "convert")).config, values, "model")
    return config


def build_module(config: Any, rows: int) -> Any:
    """Return a new network with random weights and a token table of `rows` rows.

    It is built from a configuration or its values.
    """
    config = parse_config(config) if isinstance(config, Mapping) else config
    return family_of(config).build(config, rows)


def check_texts(name: str, kind: str) -> None:
    """Raise InputError for a model of a kind that gives no vectors h and r of single texts."""
    if family(kind).open is not Encoder:
        if kind == joined.KIND:
            joined.refuse()
        able = ", ".join(kind_name for kind_name in FAMILIES if FAMILIES[kind_name].open is Encoder)
        raise InputError(
            f"{name} is a {kind}, which gives no vectors h and r of single texts; these do: {able}"
        )


def text_encoder(model: object) -> Encoder | JoinedEncoder:
    """Return a model that gives vectors h and r of single texts; see `check_texts`."""
    if isinstance(model, DialogueEncoder | PolyDialogueEncoder | CrossRanker):
        check_texts(model.name, model.module.config.kind)
    assert isinstance(model, Encoder | JoinedEncoder)
    return model
