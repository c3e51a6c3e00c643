"""Recipe files: reading with overrides, writing with defaults, comparing, checking."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import tomli_w

from rejoinder.checks import list_paths
from rejoinder.encoders.families import FAMILIES, build_module, family
from rejoinder.errors import InputError
from rejoinder.files import atomic_file
from rejoinder.networks.meta_device import on_meta_device
from rejoinder.networks.transformer import TransformerShape
from rejoinder.settings import (
    find_recipe,
    holds_tables,
    override,
    read_toml,
    recipes,
    toml_value,
    validate,
)
from rejoinder.training.distillation import attach_projection
from rejoinder.training.distributed import Processes, check_division
from rejoinder.training.initialisation import resolve_init
from rejoinder.training.recipe.losses import attach_scale
from rejoinder.training.recipe.optimization import build_optimizer, prepare_stage
from rejoinder.training.recipe.settings import History, Recipe
from rejoinder.training.recipe.stages import Stage

SHORTHANDS = ("optimizer", "schedule")  # tables of a stage that may be given by their kind alone

ALTERNATIVES = (
    ("stage", ("steps", "epochs", "minutes")),
    ("scale", ("steps", "share", "learned")),
    ("vocabulary", ("target_size", "minimum_count")),
    ("validation", ("every_steps", "every_seconds")),
    ("validation", ("every_epochs", "every_seconds")),
    ("hard_negatives", ("margin", "share")),
)
"""Tables, and keys of which each has one: setting one on the command line takes the recipe's other
one away."""

PINNED = {"init": ("model", "transformer"), "distillation": ("teacher", "encoder")}
"""Tables with a fingerprint, and the keys of the model that has it."""

# what a recipe file that `save_recipe` wrote says of such a model
OF_MODELS = ("fingerprint", "quantized")

FREE = re.compile(
    r"name|description|init\.model|init\.transformer|distillation\.teacher|"
    r"data\.(mix\.\d+\.)?train|data\.cache|validation\.data|stage\.\d+\.micro_batch"
)
"""Keys in which a run may go on with another value: what lies in those places is compared by its
content."""


def load_recipe(
    path: str | Path,
    overrides: Sequence[str] = (),
    places: Mapping[str, str | Path | None] | None = None,
    *,
    mixed: Sequence[str | Path] = (),
    resolved: bool = False,
) -> Recipe:
    """Read a recipe from a TOML file.

    Overrides "section.key=value" win over the file; values are in TOML's syntax, where a bare word
    may stand for a string, and `stage.0.key` is a key of the first stage. `places` are paths and
    names by key, such as "data.train", that win over both; None and "" change nothing. A file
    that `save_recipe` wrote is `resolved`: it holds what came from `init.model`, which may be gone.

    `mixed` are sets of examples for data.mix. If it has fewer entries, entries like the first are
    added, and the sum of the shares is divided evenly among all.
    """
    document = read_toml(
        path, "no such recipe; give a TOML file, or a name that `rejoinder list recipes` lists"
    )
    assignments = [
        f"{key}={toml_value(str(location))}" for key, location in (places or {}).items() if location
    ]
    return parse_recipe(
        document, [*overrides, *assignments], origin=str(path), mixed=mixed, resolved=resolved
    )


def parse_recipe(
    document: Mapping[str, Any],
    overrides: Sequence[str] = (),
    origin: str = "recipe",
    *,
    mixed: Sequence[str | Path] = (),
    resolved: bool = False,
) -> Recipe:
    """Validate a recipe that has been read already, as `load_recipe` does.

    Errors call it `origin`.
    """
    copy: dict[str, Any] = deepcopy(dict(document))
    _override(copy, overrides)
    if mixed:
        _mix(copy, mixed)
    _write_out_kinds(copy)
    try:
        if not resolved:
            resolve_init(copy, _resolve_model)
    except InputError as error:
        raise InputError(f"{origin}: {error}") from None
    if isinstance(copy.get("model"), dict):
        copy["model"] = _resolve_model(copy["model"], origin)
    recipe = validate(Recipe, copy, origin)
    kind = recipe.model["kind"]
    vocabulary = recipe.vocabulary
    if vocabulary is not None and vocabulary.kind != (wanted := family(kind).vocabulary):
        raise InputError(
            f"{origin}: a model of model.kind = '{kind}' reads vocabulary.kind = '{wanted}',"
            f" not '{vocabulary.kind}'"
        )
    return recipe


def _override(document: dict[str, Any], overrides: Sequence[str]) -> None:
    """Apply overrides, in place.

    One that names another model drops what the document says of its own, such as the fingerprint.
    """
    before = {name: document[name] for name in PINNED if isinstance(document.get(name), dict)}
    for name, section in before.items():
        document[name] = {key: value for key, value in section.items() if key not in OF_MODELS}
    for setting in overrides:
        override(document, setting, SHORTHANDS, ALTERNATIVES)
    for name, section in before.items():
        after = document.get(name)
        if isinstance(after, dict) and all(
            after.get(key) == section.get(key) for key in PINNED[name]
        ):
            document[name] = {key: section[key] for key in OF_MODELS if key in section} | after


def _mix(document: dict[str, Any], sets: Sequence[str | Path]) -> None:
    """Give the entries of data.mix sets of examples, and add entries where there are too few."""
    data = document.get("data")
    entries = data.get("mix") if isinstance(data, dict) else None
    if not entries:
        raise InputError(
            f"{sets[0]}: the recipe lists nothing in 'data.mix', so it mixes no general data;"
            f" leave --general out, or take a recipe that does: {', '.join(_mixing_recipes())}"
        )
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        return  # validation names the wrong type
    shares = [entry.get("share") for entry in entries]
    if len(sets) > len(entries) and all(isinstance(share, int | float) for share in shares):
        entries += [dict(entries[0]) for _ in sets[len(entries) :]]
        for entry in entries:
            entry["share"] = sum(shares) / len(sets)
    for entry, path in zip(entries, sets, strict=False):
        entry["train"] = str(path)


def _mixing_recipes() -> list[str]:
    """Return the names of the bundled recipes that mix sets of examples."""
    documents = {name: read_toml(path, "no such recipe") for name, path in recipes().items()}
    return [name for name, document in documents.items() if document.get("data", {}).get("mix")]


def _write_out_kinds(document: dict[str, Any]) -> None:
    """Write shorthands as tables, and the vocabulary's kind.

    Anything of a wrong type is left to validation.
    """
    stages = document.get("stage")
    vocabulary = document.get("vocabulary")
    for stage in stages if isinstance(stages, list) else ():
        for key in SHORTHANDS:
            if isinstance(stage, dict) and isinstance(stage.get(key), str):
                stage[key] = {"kind": stage[key]}
    if isinstance(vocabulary, dict):
        vocabulary.setdefault("kind", "subwords")


def _resolve_model(section: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """Check [model] against the configuration of its kind, and write out all its defaults."""
    kind = section.get("kind")
    allowed = ", ".join(map(repr, FAMILIES))
    if kind is None:
        raise InputError(f"{origin}: model.kind is missing; allowed: {allowed}")
    if kind not in FAMILIES:
        raise InputError(f"{origin}: model.kind = {kind!r} is not allowed; allowed: {allowed}")
    config = validate(family(kind).config, section, origin, "model")
    return {"kind": kind, **dataclasses.asdict(config)}


def resolve_recipe(
    recipe: Recipe | str | Path,
    data: str | Path | Sequence[str | Path] = (),
    settings: Mapping[str, Any] | None = None,
) -> Recipe:
    """Read a recipe, with places of examples and other settings that override its own.

    See `loop.train`.
    """
    need = (
        "name data by a folder or file of examples, or several;"
        " rejoinder.corpora.forms.examples.write_examples makes a file"
    )
    places = list_paths(data, need)
    values: dict[str, Any] = {"data.train": places[0]} if places else {}
    values |= settings or {}
    overrides = [
        f"{key}={toml_value(str(v) if isinstance(v, Path) else v)}" for key, v in values.items()
    ]
    if not isinstance(recipe, Recipe):
        return load_recipe(find_recipe(recipe), overrides, mixed=places[1:])
    if not overrides:
        return recipe
    return parse_recipe(recipe_document(recipe), overrides, mixed=places[1:])


def recipe_document(recipe: Recipe) -> dict[str, Any]:
    """Return the recipe as nested dictionaries with every default, without absent values."""
    return {
        key: _without_none(value)
        for key, value in dataclasses.asdict(recipe).items()
        if value is not None
    }


def save_recipe(recipe: Recipe, path: str | Path) -> None:
    """Write a recipe with every default."""
    with atomic_file(path) as part:
        part.write_text(tomli_w.dumps(recipe_document(recipe)), encoding="utf-8")


def first_difference(old: Recipe, new: Recipe) -> str | None:
    """Name the first key, none of `FREE`, in which two recipes differ, with both values."""
    before = dict(_leaves(recipe_document(old)))
    after = dict(_leaves(recipe_document(new)))
    for key in dict.fromkeys([*after, *before]):
        if not FREE.fullmatch(key) and before.get(key) != after.get(key):
            was = toml_value(before[key]) if key in before else "not given"
            now = toml_value(after[key]) if key in after else "not given"
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
    """Refuse stages that do not fit the model or the processes, before long work begins."""
    with on_meta_device():
        probe = build_module(recipe.model, rows=2)
        attach_scale(probe, recipe.scale)
        attach_projection(probe, recipe.distillation, size=1)
    if (
        isinstance(probe.config, TransformerShape)
        and recipe.text.max_length > probe.config.positions
    ):
        raise InputError(
            f"text.max_length = {recipe.text.max_length},"
            f" but the transformer has {probe.config.positions} positions"
        )
    masked = family(recipe.model["kind"]).packing == "masked"
    for stage in recipe.stage:
        # masked: batches of any size
        check_division(stage.name, stage.batch_size, 1 if masked else processes.count)
        if fault := _pretraining_fault(recipe, stage) if masked else _ranking_fault(recipe, stage):
            raise InputError(f"stage '{stage.name}': {fault}")
        prepare_stage(probe, stage)
        build_optimizer(probe, stage)


def _ranking_fault(recipe: Recipe, stage: Stage) -> str | None:
    """Return what a stage that ranks cannot have; None: nothing."""
    kind = recipe.model["kind"]
    joined = family(kind).packing == "joined"
    whole = family(kind).dialogue is not None
    by_cosine = recipe.model.get("similarity", "dot" if whole else "cosine") == "cosine"
    own_negatives = stage.negatives or stage.given_negatives
    mined = stage.hard_negatives is not None
    changed = recipe.history != History() and not recipe.model.get("history")
    faults = {
        f"batch_tokens is for pretraining, not a {kind}; leave it out": stage.batch_tokens,
        (
            f"a {kind} has no negatives but those of each pair;"
            " give negatives = 15, or given_negatives = true where the data has candidates"
        ): joined and not own_negatives,
        "given_negatives come with data.train alone; leave data.mix out": stage.given_negatives
        and recipe.data.mix,
        f"distillation: a {kind} encodes no responses to compare; teach another kind": joined
        and recipe.distillation,
        (
            f"hard_negatives are mined by cosine, which this {kind} does not score by;"
            " leave them out, or draw random ones with negatives = 1"
        ): mined and not by_cosine,
        f"input_negatives: a {kind} reads whole contexts; leave it out": stage.input_negatives
        and whole,
        (
            "[history] changes earlier messages, which this model does not read apart; leave it out"
        ): changed,
        (
            f"text.cut = 'middle': a {kind} reads whole contexts,"
            " or pairs of words; set text.cut=end"
        ): recipe.text.cut == "middle" and (whole or kind == "ngram"),
    }
    return next((fault for fault, is_faulty in faults.items() if is_faulty), None)


def _pretraining_fault(recipe: Recipe, stage: Stage) -> str | None:
    """Return what a stage of masked language modelling cannot have; None: nothing."""
    wanted: dict[str, tuple[Any, Any]] = {
        "validation.examples": (recipe.validation.examples, 0),
        "loss.smoothing": (recipe.loss.smoothing, 0.0),
        "scale.last": (recipe.scale.last, 1.0),
        "scale.steps": (recipe.scale.steps, 0),
        "data.mix": (recipe.data.mix, ()),
        "distillation": (recipe.distillation, None),
        "negatives": (stage.negatives, 0),
        "hard_negatives": (stage.hard_negatives, None),
        "given_negatives": (stage.given_negatives, False),
        "input_negatives": (stage.input_negatives, False),
        "history": (recipe.history, History()),
    }
    for key, (value, allowed) in wanted.items():
        if value != allowed:
            right = "left out" if allowed in ((), None) else toml_value(allowed)
            return (
                f"{key} = {value}: a {recipe.model['kind']} ranks nothing, so this must be {right}"
            )
    return (
        None
        if stage.batch_tokens
        else "give batch_tokens, the most tokens of a batch (paper: 32000)"
    )
