"""Starting from the pretrained weights of a transformer: what a recipe takes over from it, and the weights.

The weights are those of a checkpoint in the common layout (see `models.checkpoints`). A model that is made of several
transformers starts with the same ones in each.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from torch import nn

from rejoinder.errors import InputError
from rejoinder.models.checkpoints import (
    checkpoint_fingerprint,
    fill,
    find_checkpoint,
    load_tokenizer,
    read_shape,
)
from rejoinder.models.families import FAMILIES, family
from rejoinder.models.transformer import TransformerShape
from rejoinder.text.pretrained import Pretrained
from rejoinder.training.recipe import Init

CHANGEABLE = ("dropout", "output_scale")
"""Fields of the structure that a recipe may change: no weight depends on them, and a checkpoint has no scale."""


def take_over_transformer(document: dict[str, Any], init: dict[str, Any], origin: str) -> None:
    """Fill in what a recipe with `init.transformer` takes from it, in place: fingerprint and structure.

    Args:
        document: the recipe, before it is validated.
        init: its section of that name.
        origin: what an error calls the recipe.

    Raises:
        InputError: there is no such checkpoint, it is not the one whose fingerprint is given, the model is not made of
            transformers, or the recipe contradicts the structure.
    """
    name = init["transformer"]
    try:
        folder = find_checkpoint(name)
        shape = dataclasses.asdict(read_shape(folder))
    except InputError as error:
        raise InputError(f"{origin}: init.transformer: {error}") from None
    found = checkpoint_fingerprint(folder)
    if init.get("fingerprint") not in (None, "", found):
        raise InputError(f"{origin}: init.fingerprint = '{init['fingerprint']}', but {name} has '{found}'")
    if "vocabulary" in document:
        raise InputError(f"{origin}: the vocabulary is that of init.transformer, {name}; leave [vocabulary] out")
    model = document.get("model")
    if not isinstance(model, dict) or not _made_of_transformers(model.get("kind")):
        kinds = ", ".join(kind for kind in FAMILIES if _made_of_transformers(kind))
        raise InputError(f"{origin}: init.transformer needs a model.kind that is made of transformers: {kinds}")
    for key, value in shape.items():
        if key not in CHANGEABLE and model.get(key, value) != value:
            raise InputError(f"{origin}: model.{key} = {model[key]!r}, but {name} has {value!r}; leave it out")
    init["fingerprint"] = found
    document["model"] = {**shape, **model}


def _made_of_transformers(kind: object) -> bool:
    return isinstance(kind, str) and kind in FAMILIES and issubclass(family(kind).config, TransformerShape)


def transformer_tokenizer(init: Init) -> Pretrained:
    """The tokenizer of the checkpoint."""
    return load_tokenizer(_unchanged(init))


def copy_transformer(module: nn.Module, init: Init) -> None:
    """Give each transformer of a new network the weights of the checkpoint.

    Raises:
        InputError: the checkpoint is damaged, or another one than when the recipe was read.
    """
    folder = _unchanged(init)
    transformers: Any = module.transformers
    for transformer in transformers:
        fill(transformer, folder)


def _unchanged(init: Init) -> Path:
    folder = find_checkpoint(init.transformer)
    if checkpoint_fingerprint(folder) != init.fingerprint:
        raise InputError(f"init.transformer: {init.transformer} was replaced since the recipe was read; run again")
    return folder
