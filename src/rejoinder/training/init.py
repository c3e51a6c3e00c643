"""Starting from a trained model: what a recipe takes over from it, and its weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from rejoinder.errors import InputError
from rejoinder.files import file_digest
from rejoinder.models import persistence
from rejoinder.text.tokenizer import Tokenizer
from rejoinder.training.init_transformer import copy_transformer, take_over_transformer, transformer_tokenizer
from rejoinder.training.recipe import NO_START, Init

CHANGEABLE = ("dropout", "numbered_history", "persona_first")
"""Fields of a model's configuration that a recipe may change: those that neither shape nor meaning of a weight depends
on. (The paper numbers the earlier messages of DSTC7 alone, not those of Reddit that its model starts from.)"""

GROWING = ("blocks", "attention_spans")
"""Fields that a recipe may change to add blocks on top of the model's (see `_grows`)."""

Resolve = Callable[[Mapping[str, Any], str], dict[str, Any]]
"""[model] and the name of the recipe -> [model] checked and with all its defaults."""


def take_over(document: dict[str, Any], origin: str, resolve: Resolve) -> None:
    """Fill in what a recipe with `init.model` takes from that model, in place.

    That is: its fingerprint, whether it is quantised, [model], and the longest text.

    Args:
        document: the recipe, before it is validated; one that trains from scratch is left alone.
        origin: what an error calls the recipe.
        resolve: see `Resolve`.

    Raises:
        InputError: there is no such model, it is not the one whose fingerprint is given, or the recipe has settings
            that contradict it; or it says neither where to start nor how to train from scratch.
    """
    init, model = document.get("init"), document.get("model", {})
    if isinstance(init, dict) and isinstance(init.get("transformer"), str) and init["transformer"]:
        take_over_transformer(document, init, origin)
        return
    if not (isinstance(init, dict) and isinstance(init.get("model"), str) and init["model"]):
        if document and "vocabulary" not in document and isinstance(model, dict) and "kind" not in model:
            raise InputError(f"{origin}: {NO_START}")
        return
    name = init["model"]
    try:
        _, config = persistence.read_config(name)
    except InputError as error:
        raise InputError(f"{origin}: init.model: {error}") from None
    found = persistence.fingerprint(config)
    if init.get("fingerprint") not in (None, "", found):
        raise InputError(f"{origin}: init.fingerprint = '{init['fingerprint']}', but {name} has '{found}'")
    quantized = persistence.is_quantized(config)
    if init.get("quantized") not in (None, quantized):
        raise InputError(f"{origin}: init.quantized = {init['quantized']!r}, but of {name} it is {quantized!r}")
    if "vocabulary" in document:
        raise InputError(f"{origin}: the vocabulary is that of init.model, {name}; leave [vocabulary] out")
    init["fingerprint"], init["quantized"] = found, quantized
    document["model"] = _merged(model, resolve(config["model"], name), origin, name)
    text = document.setdefault("text", {})
    if isinstance(text, dict):
        text.setdefault("max_length", config["max_length"])


def fill_in_teacher(document: dict[str, Any], origin: str) -> None:
    """Fill in the fingerprint of a recipe's teacher, in place; anything but a table with a name is left to validation.

    Raises:
        InputError: there is no such model, or it is not the one whose fingerprint is given.
    """
    section = document.get("distillation")
    if not (isinstance(section, dict) and isinstance(section.get("teacher"), str) and section["teacher"]):
        return
    try:
        _, config = persistence.read_config(section["teacher"])
    except InputError as error:
        raise InputError(f"{origin}: distillation.teacher: {error}") from None
    found = persistence.fingerprint(config)
    if section.get("fingerprint") not in (None, "", found):
        given = section["fingerprint"]
        raise InputError(f"{origin}: distillation.fingerprint = '{given}', but {section['teacher']} has '{found}'")
    section["fingerprint"] = found


def _merged(given: Any, base: Mapping[str, Any], origin: str, name: str) -> Any:
    """The model's own configuration with what the recipe may change; anything but a table is left to validation."""
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
    """Whether a recipe adds blocks on top of a model's: new ones that start at zero, so that nothing changes at first.

    A model without blocks has no layer norm at the end of its trunk, which one with blocks and `token_norm` has.
    """
    spans, before = given.get("attention_spans"), _plain(base.get("attention_spans"))
    if not isinstance(spans, list) or not isinstance(before, list) or given.get("blocks") != len(spans):
        return False
    new_norm = not before and base["token_norm"] and base["norm_placement"] == "before"
    return len(spans) > len(before) and spans[: len(before)] == before and base["zero_residual"] and not new_norm


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def initial_tokenizer(init: Init) -> Tokenizer:
    """The vocabulary of the model.

    Raises:
        InputError: it was altered after it was saved.
    """
    if init.transformer:
        return transformer_tokenizer(init)
    folder, config = _unchanged(init)
    path = folder / persistence.VOCABULARY
    if not path.is_file() or file_digest(path) != config["files"][persistence.VOCABULARY]:
        raise InputError(f"{path} is missing or was altered after it was saved; copy the model folder again")
    tokenizer: Tokenizer = persistence.load_tokenizer(folder, config)
    return tokenizer


def copy_initial_weights(module: nn.Module, init: Init) -> float | None:
    """Give a new network the weights of the model; blocks on top of the model's stay as they are.

    Of a quantised folder these are its rounded values in float32, which training then moves off their levels.

    Returns:
        The scale that the model was trained with, if it was learned.

    Raises:
        InputError: the model is damaged, or another one than when the recipe was read.
    """
    if init.transformer:
        copy_transformer(module, init)
        return None
    folder, config = _unchanged(init)
    stored = _named(persistence.load_module(folder)[0])
    with torch.no_grad():
        for name, value in _named(module).items():
            if name in stored or not name.startswith("blocks."):
                value.copy_(stored[name])
    learned: float | None = config.get("scale")
    return learned


def _unchanged(init: Init) -> tuple[Any, dict[str, Any]]:
    folder, config = persistence.read_config(init.model)
    if persistence.fingerprint(config) != init.fingerprint:
        raise InputError(f"init.model: {init.model} was replaced by another model since the recipe was read; run again")
    return folder, config


def _named(module: nn.Module) -> dict[str, Tensor]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}
