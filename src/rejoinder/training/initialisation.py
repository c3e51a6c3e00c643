"""Starting from a trained model, or from pretrained transformers: what a recipe takes from it, and its weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rejoinder.errors import InputError
from rejoinder.files import file_digest
from rejoinder.models import checkpoints, persistence
from rejoinder.models.families import FAMILIES, family
from rejoinder.models.transformer import TransformerShape
from rejoinder.text.tokenizer import Tokenizer
from rejoinder.training.recipe import NO_START, Init

CHANGEABLE = ("dropout", "numbered_history", "persona_first")
"""Fields of a model's configuration that a recipe may change: those that neither shape nor meaning of a weight depends
on. (The paper numbers the earlier messages of DSTC7 alone, not those of Reddit that its model starts from.)"""

GROWING = ("blocks", "attention_spans")
"""Fields that a recipe may change to add blocks on top of the model's (see `_grows`)."""

FREE_OF_TRANSFORMERS = ("dropout", "output_scale")
"""The same of a transformer's structure: no weight depends on these, and a checkpoint has no scale."""


def take_over(document: dict[str, Any], origin: str, resolve: Callable[[dict[str, Any], str], dict[str, Any]]) -> None:
    """Fill in what a recipe takes from the model of `init.model` or `init.transformer`, in place.

    That is: its fingerprint, whether it is quantised, [model], and the longest text. Wrong types in the document are
    left to validation. `origin` is what an error calls the recipe, `resolve` checks [model] and adds its defaults.
    """
    init: Any = document.get("init")
    model = document.get("model", {})
    if _named(init, "transformer"):
        _take_over_transformer(document, origin)
        return
    if not _named(init, "model"):
        if document and "vocabulary" not in document and isinstance(model, dict) and "kind" not in model:
            raise InputError(f"{origin}: {NO_START}")
        return
    name = init["model"]
    config = _pin(init, "model", origin, "init")
    quantized = persistence.is_quantized(config)
    if init.get("quantized") not in (None, quantized):
        raise InputError(f"{origin}: init.quantized = {init['quantized']!r}, but of {name} it is {quantized!r}")
    init["quantized"] = quantized
    _refuse_vocabulary(document, origin, "model", name)
    document["model"] = _merged(model, resolve(config["model"], name), origin, name)
    text = document.setdefault("text", {})
    if isinstance(text, dict):
        text.setdefault("max_length", config["max_length"])


def fill_in_teacher(document: dict[str, Any], origin: str) -> None:
    """Fill in the fingerprint of a recipe's teacher, in place, or compare it with the one that is given."""
    if _named(document.get("distillation"), "teacher"):
        _pin(document["distillation"], "teacher", origin, "distillation")


def _named(section: Any, key: str) -> bool:
    return isinstance(section, dict) and isinstance(section.get(key), str) and bool(section[key])


def _pin(section: dict[str, Any], key: str, origin: str, above: str) -> dict[str, Any]:
    """Read the configuration of the model that a section names, and fill in its fingerprint."""
    try:
        _, config = persistence.read_config(section[key])
    except InputError as error:
        raise InputError(f"{origin}: {above}.{key}: {error}") from None
    _compare(section, persistence.fingerprint(config), origin, above, section[key])
    return config


def _compare(section: dict[str, Any], found: str, origin: str, above: str, name: str) -> None:
    if section.get("fingerprint") not in (None, "", found):
        raise InputError(f"{origin}: {above}.fingerprint = '{section['fingerprint']}', but {name} has '{found}'")
    section["fingerprint"] = found


def _refuse_vocabulary(document: Mapping[str, Any], origin: str, key: str, name: str) -> None:
    if "vocabulary" in document:
        raise InputError(f"{origin}: the vocabulary is that of init.{key}, {name}; leave [vocabulary] out")


def _merged(given: Any, base: Mapping[str, Any], origin: str, name: str) -> Any:
    """Return the model's own configuration with what the recipe may change."""
    if not isinstance(given, dict):
        return given
    # An unknown key is no conflict: validation says which ones there are.
    free = (*CHANGEABLE, *GROWING) if _grows(given, base) else CHANGEABLE
    conflicts = [key for key in given if key in base and key not in free and given[key] != _plain(base[key])]
    if conflicts:
        listed = ", ".join(f"model.{key} = {given[key]!r} (there {_plain(base[key])!r})" for key in conflicts)
        raise InputError(
            f"{origin}: not as in init.model, {name}: {listed}; leave out what the model brings (only "
            f"{', '.join(CHANGEABLE)} may differ, and blocks may be added on top of a model with zero_residual = "
            "true), or train from scratch"
        )
    return {**base, **given}


def _grows(given: Mapping[str, Any], base: Mapping[str, Any]) -> bool:
    """Return whether a recipe adds blocks on top of a model's, which start at zero, so that nothing changes at first.

    A model without blocks has no layer norm at the end of its trunk, which one with blocks and `token_norm` has.
    """
    spans, before = given.get("attention_spans"), _plain(base.get("attention_spans"))
    if not isinstance(spans, list) or not isinstance(before, list) or given.get("blocks") != len(spans):
        return False
    new_norm = not before and base["token_norm"] and base["norm_placement"] == "before"
    return len(spans) > len(before) and spans[: len(before)] == before and base["zero_residual"] and not new_norm


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _take_over_transformer(document: dict[str, Any], origin: str) -> None:
    init = document["init"]
    name = init["transformer"]
    try:
        folder = checkpoints.find_checkpoint(name)
        shape = dataclasses.asdict(checkpoints.read_shape(folder))
    except InputError as error:
        raise InputError(f"{origin}: init.transformer: {error}") from None
    _compare(init, checkpoints.checkpoint_fingerprint(folder), origin, "init", name)
    _refuse_vocabulary(document, origin, "transformer", name)
    model = document.get("model")
    if not isinstance(model, dict) or not _made_of_transformers(model.get("kind")):
        kinds = ", ".join(kind for kind in FAMILIES if _made_of_transformers(kind))
        raise InputError(f"{origin}: init.transformer needs a model.kind that is made of transformers: {kinds}")
    for key, value in shape.items():
        if key not in FREE_OF_TRANSFORMERS and model.get(key, value) != value:
            raise InputError(f"{origin}: model.{key} = {model[key]!r}, but {name} has {value!r}; leave it out")
    document["model"] = {**shape, **model}


def _made_of_transformers(kind: object) -> bool:
    return isinstance(kind, str) and kind in FAMILIES and issubclass(family(kind).config, TransformerShape)


def initial_tokenizer(init: Init) -> Tokenizer:
    """Return the vocabulary of the model, unless it was altered after it was saved."""
    if init.transformer:
        return checkpoints.load_tokenizer(_unchanged_checkpoint(init))
    folder, config = _unchanged(init)
    path = folder / persistence.VOCABULARY
    if not path.is_file() or file_digest(path) != config["files"][persistence.VOCABULARY]:
        raise InputError(f"{path} is missing or was altered after it was saved; copy the model folder again")
    tokenizer: Tokenizer = persistence.load_tokenizer(folder, config)
    return tokenizer


def copy_initial_weights(module: nn.Module, init: Init) -> float | None:
    """Give a new network the weights of the model, and return the model's scale if it was learned.

    Blocks on top of the model's stay as they are. Of a quantised folder the weights are its rounded values in float32.
    A model that is made of several transformers starts with the same weights in each.
    """
    if init.transformer:
        checkpoint = _unchanged_checkpoint(init)
        transformers: Any = module.transformers
        for transformer in transformers:
            checkpoints.fill(transformer, checkpoint)
        return None
    folder, config = _unchanged(init)
    stored = persistence.load_module(folder)[0].state_dict(keep_vars=True)
    with torch.no_grad():
        for name, value in module.state_dict().items():
            if name in stored or not name.startswith("blocks."):
                value.copy_(stored[name])
    learned: float | None = config.get("scale")
    return learned


def _unchanged(init: Init) -> tuple[Any, dict[str, Any]]:
    folder, config = persistence.read_config(init.model)
    if persistence.fingerprint(config) != init.fingerprint:
        raise InputError(f"init.model: {init.model} was replaced by another model since the recipe was read; run again")
    return folder, config


def _unchanged_checkpoint(init: Init) -> Path:
    folder = checkpoints.find_checkpoint(init.transformer)
    if checkpoints.checkpoint_fingerprint(folder) != init.fingerprint:
        raise InputError(f"init.transformer: {init.transformer} was replaced since the recipe was read; run again")
    return folder
