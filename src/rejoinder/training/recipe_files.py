"""Recipes as files: reading with overrides, writing with every default, comparing two of them, early checks."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch

from rejoinder.errors import InputError
from rejoinder.files import atomic_file
from rejoinder.models.families import FAMILIES, build_module, family
from rejoinder.models.transformer import TransformerShape
from rejoinder.settings import holds_tables, override, read_toml, to_toml, toml_value, validate
from rejoinder.training.distributed import Processes, check_division
from rejoinder.training.initialisation import fill_in_teacher, take_over
from rejoinder.training.losses import attach_scale
from rejoinder.training.optimization import build_optimizer, prepare_stage
from rejoinder.training.recipe import Recipe, Stage

SHORTHANDS = ("optimizer", "schedule")
"""Tables of a stage that may be given by their kind alone."""

ALTERNATIVES = (
    ("stage", ("steps", "epochs", "minutes")),
    ("scale", ("steps", "share", "learned")),
    ("vocabulary", ("target_size", "minimum_count")),
    ("validation", ("every_steps", "every_epochs", "every_seconds")),
    ("hard_negatives", ("margin", "share")),
)
"""Tables, and keys of which each has one: setting one on the command line takes the recipe's other one away."""

FREE = re.compile(
    r"name|description"  # what it is called
    r"|init\.model|init\.transformer|distillation\.teacher"  # where things are
    r"|data\.(mix\.\d+\.)?train|data\.cache|validation\.data"
    r"|stage\.\d+\.micro_batch"  # how much memory is used
)
"""Keys in which a run may go on with another value: what lies in those places is compared by its content."""


def load_recipe(
    path: str | Path,
    overrides: Sequence[str] = (),
    places: Mapping[str, str | Path | None] | None = None,
    *,
    resolved: bool = False,
) -> Recipe:
    """Read a recipe.

    Args:
        path: a TOML file.
        overrides: settings "section.key=value" that win over the file; values in TOML's syntax, where a bare word
            may stand for a string; `stage.0.key` is a key of the first stage.
        places: paths and names by key, such as "data.train", that win over the others; None and "" change nothing.
        resolved: the file was written by `save_recipe`: what came from the model of `init.model` is in it already,
            and that model may be gone.

    Raises:
        InputError: the file is missing or not TOML, a key is unknown, a value of the wrong type or not allowed; or
            the model of `init.model` is missing, or another one than the recipe says.
    """
    document = read_toml(path, "no such recipe; give the path of a TOML file")
    given = [f"{key}={toml_value(str(place))}" for key, place in (places or {}).items() if place]
    return parse_recipe(document, [*overrides, *given], origin=str(path), resolved=resolved)


def parse_recipe(
    document: Mapping[str, Any], overrides: Sequence[str] = (), origin: str = "recipe", *, resolved: bool = False
) -> Recipe:
    """Validate a recipe that has been read already; see `load_recipe`. `origin` is what errors call it."""
    copy: dict[str, Any] = deepcopy(dict(document))
    for setting in overrides:
        override(copy, setting, SHORTHANDS, ALTERNATIVES)
    _write_out_kinds(copy)
    if not resolved:
        take_over(copy, origin, _resolve_model)
        fill_in_teacher(copy, origin)
    if isinstance(copy.get("model"), dict):
        copy["model"] = _resolve_model(copy["model"], origin)
    recipe = validate(Recipe, copy, origin)
    kind, given = recipe.model["kind"], recipe.vocabulary
    if given is not None and given.kind != (wanted := family(kind).vocabulary):
        raise InputError(
            f"{origin}: a model of model.kind = '{kind}' reads vocabulary.kind = '{wanted}', not '{given.kind}'"
        )
    return recipe


def _write_out_kinds(document: dict[str, Any]) -> None:
    """Write shorthands as tables, and the vocabulary's kind; anything of a wrong type is left to validation."""
    stages, vocabulary = document.get("stage"), document.get("vocabulary")
    for stage in stages if isinstance(stages, list) else ():
        for key in SHORTHANDS:
            if isinstance(stage, dict) and isinstance(stage.get(key), str):
                stage[key] = {"kind": stage[key]}
    if isinstance(vocabulary, dict):
        vocabulary.setdefault("kind", "subwords")


def _resolve_model(section: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """Check [model] against the configuration of its kind, and write out all its defaults."""
    kind = section.get("kind")
    if kind not in FAMILIES:
        given = "is missing" if kind is None else f"= {kind!r} is not allowed"
        raise InputError(f"{origin}: model.kind {given}; allowed: {', '.join(map(repr, FAMILIES))}")
    config = validate(family(kind).config, section, origin, "model")
    return {"kind": kind, **dataclasses.asdict(config)}


def recipe_document(recipe: Recipe) -> dict[str, Any]:
    """Return the recipe as nested dictionaries, every default written out, absent values left out."""
    return {key: _without_none(value) for key, value in dataclasses.asdict(recipe).items() if value is not None}


def save_recipe(recipe: Recipe, path: str | Path) -> None:
    """Write the resolved recipe; `load_recipe` gives an equal one back."""
    with atomic_file(path) as part:
        part.write_text(to_toml(recipe_document(recipe)), encoding="utf-8")


def first_difference(old: Recipe, new: Recipe) -> str | None:
    """Name the first key in which two recipes differ, with both values; None if they are equal but for `FREE` keys."""
    olds, news = (dict(_leaves(recipe_document(recipe))) for recipe in (old, new))
    for key in dict.fromkeys([*news, *olds]):
        if not FREE.fullmatch(key) and olds.get(key) != news.get(key):
            was, now = (toml_value(values[key]) if key in values else "not given" for values in (olds, news))
            return f"{key} was {was} and is now {now}"
    return None


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list | tuple) else value


def _leaves(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted key and value of everything that is not a table."""
    if not holds_tables(value):
        yield prefix, value
        return
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _leaves(item, f"{prefix}.{key}" if prefix else str(key))


def check_stages(recipe: Recipe, processes: Processes) -> None:
    """Refuse stages that do not fit the model, or the number of processes, before anything long is begun.

    Raises:
        InputError: names the stage and what does not fit.
    """
    with torch.device("meta"):  # no memory, no numbers
        probe = build_module(recipe.model, rows=2)
        attach_scale(probe, recipe.scale)
    if isinstance(probe.config, TransformerShape) and recipe.text.max_length > probe.config.positions:
        given, most = recipe.text.max_length, probe.config.positions
        raise InputError(f"text.max_length = {given}, but the transformer has {most} positions")
    masked = family(recipe.model["kind"]).packing == "masked"
    if masked:
        _refuse_ranking(recipe)
    for stage in recipe.stage:
        check_division(stage.name, stage.batch_size, 1 if masked else processes.count)  # masked: batches of any size
        if fault := _pretraining_fault(recipe, stage) if masked else _ranking_fault(recipe, stage):
            raise InputError(f"stage '{stage.name}': {fault}")
        prepare_stage(probe, stage)
        build_optimizer(probe, stage)


def _ranking_fault(recipe: Recipe, stage: Stage) -> str | None:
    kind = recipe.model["kind"]
    joined = family(kind).packing == "joined"
    by_cosine = recipe.model.get("similarity", "cosine" if family(kind).dialogue is None else "dot") == "cosine"
    if stage.batch_tokens:
        return f"batch_tokens is for pretraining, not a {kind}; leave it out"
    if joined and not (stage.negatives or stage.given_negatives):
        return (
            f"a {kind} has no negatives but those of each pair; give negatives = 15, or given_negatives = true where "
            "the data has candidates"
        )
    if stage.given_negatives and recipe.data.mix:
        return "given_negatives come with data.train alone; leave data.mix out"
    if joined and recipe.distillation is not None:
        return f"distillation: a {kind} encodes no responses to compare; teach another kind of model"
    if stage.hard_negatives is not None and not by_cosine:
        return (
            f"hard_negatives are mined by cosine, which this {kind} does not score by; leave them out, or draw random "
            "ones with negatives = 1"
        )
    return None


def _pretraining_fault(recipe: Recipe, stage: Stage) -> str | None:
    unused = [name for name in ("negatives", "hard_negatives", "given_negatives") if getattr(stage, name)]
    if unused:
        return f"a {recipe.model['kind']} has no {unused[0]}; leave them out"
    return None if stage.batch_tokens else "give batch_tokens, the most tokens of a batch (paper: 32000)"


def _refuse_ranking(recipe: Recipe) -> None:
    wanted: dict[str, tuple[Any, Any]] = {
        "validation.examples": (recipe.validation.examples, 0),
        "loss.smoothing": (recipe.loss.smoothing, 0.0),
        "scale.last": (recipe.scale.last, 1.0),
        "scale.steps": (recipe.scale.steps, 0),
        "data.mix": (recipe.data.mix, ()),
        "distillation": (recipe.distillation, None),
    }
    for key, (given, allowed) in wanted.items():
        if given != allowed:
            right = "left out" if allowed in ((), None) else allowed
            raise InputError(f"{key} = {given}: a {recipe.model['kind']} ranks nothing, so this must be {right}")
