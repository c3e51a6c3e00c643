"""The kinds of models, and what each brings: configuration, network, tokenizer, and what its users meet.

To add a kind: write its configuration (a frozen dataclass with a field `kind`) and its network, define a `Family`
beside them, and name its place in `HOMES`. Training, model folders and the command need nothing else.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from rejoinder.errors import InputError
from rejoinder.models.dialogue import Dialogue
from rejoinder.text.tokenizer import Tokenizer

HOMES = {
    "convert": "rejoinder.models.convert_family",
    "ngram": "rejoinder.models.ngram_family",
    "bi-encoder": "rejoinder.models.bi_encoder",
    "multi-context-bi-encoder": "rejoinder.models.multi_context_bi",
    "poly-encoder": "rejoinder.models.poly_encoder",
    "cross-encoder": "rejoinder.models.cross_encoder",
    "masked-lm": "rejoinder.models.masked_lm",
    "poly-convert": "rejoinder.models.poly_convert",
}
"""The module that defines the `FAMILY` of each kind; imported when a model of that kind is met."""


Packing: TypeAlias = Literal["together", "apart", "joined", "masked"]
"""How training packs the texts of pairs; see `Family`."""


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of model.

    Attributes:
        config: its configuration, a frozen dataclass whose defaults are the paper's.
        build: configuration and rows of the token table -> a new network with random weights.
        vocabulary: the kind of tokenizer that it reads, as recipes name it.
        load_tokenizer: reads a model folder's vocabulary.json.
        prepare: makes a loaded network ready for encoding in a precision ("fp32", "bf16", "int8"), in place.
        open: network, tokenizer, and by name max_length, fingerprint and name -> what encodes and scores.
        packing: how training packs the texts of pairs: all "together", each side "apart" (a `SidesBatch`), or each
            context "joined" with each of its candidates (a ranker that encodes neither by itself), or joined pairs
            "masked" (pretraining).
        dialogue: configuration, tokenizer and longest response -> how conversations are read as one text; None: the
            newest message is a text of its own, and so is the history where the configuration has a `history_text`.
    """

    config: type[Any]
    build: Callable[[Any, int], Any]
    vocabulary: str
    load_tokenizer: Callable[[Path], Tokenizer]
    prepare: Callable[[Any, Any], object]
    open: Callable[..., Any]
    packing: Packing = "together"
    dialogue: Callable[[Any, Any, int], Dialogue] | None = None


def family(kind: object) -> Family:
    """The family of a kind.

    Raises:
        InputError: there is no such kind.
    """
    if not isinstance(kind, str) or kind not in HOMES:
        raise InputError(f"model.kind = {kind!r} is unknown; allowed are {', '.join(HOMES)}")
    found: Family = importlib.import_module(HOMES[kind]).FAMILY
    return found


def family_of(config: object) -> Family:
    """The family of a configuration."""
    return family(getattr(config, "kind", None))


def parse_config(values: Mapping[str, Any]) -> Any:
    """A model's configuration from JSON or TOML values; without a `kind` it is ConveRT's.

    Raises:
        InputError: names the first key that is unknown or has a value that is not allowed.
    """
    target = family(values.get("kind", "convert")).config
    checker = TypeAdapter(checked_dataclass(target, config=ConfigDict(extra="forbid"), frozen=True))
    try:
        checked: Any = checker.validate_json(json.dumps(dict(values)), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        known = ", ".join(field.name for field in dataclasses.fields(target))
        hint = f"; known keys: {known}" if "unexpected" in first["type"] else f", given {first['input']!r}"
        raise InputError(f"model.{key}: {first['msg']}{hint}") from None
    return target(**dataclasses.asdict(checked))


def build_module(config: Any, rows: int) -> Any:
    """A new network with random weights.

    Args:
        config: its configuration, or the values of one.
        rows: rows of the token table, `Tokenizer.rows`.
    """
    config = parse_config(config) if isinstance(config, Mapping) else config
    return family_of(config).build(config, rows)
