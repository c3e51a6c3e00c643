"""What can be refused before anything long is begun: stages that do not fit the model, or the number of processes."""

from __future__ import annotations

import torch

from rejoinder.errors import InputError
from rejoinder.models.families import build_module, family
from rejoinder.models.transformer import TransformerShape
from rejoinder.training.distributed import Processes, check_division
from rejoinder.training.learned_scale import attach_scale
from rejoinder.training.optimization import build_optimizer, prepare_stage
from rejoinder.training.recipe import Recipe, Stage


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
    check_pretraining(recipe)
    masked = family(recipe.model["kind"]).packing == "masked"  # its batches are of any size
    for stage in recipe.stage:
        check_division(stage.name, stage.batch_size, 1 if masked else processes.count)
        check_negatives(recipe, stage)
        prepare_stage(probe, stage)
        build_optimizer(probe, stage)


def check_negatives(recipe: Recipe, stage: Stage) -> None:
    """Refuse a stage whose negatives do not fit the model.

    Raises:
        InputError: a model that reads context and response together has none, or hard ones are asked for that
            nothing can be mined with.
    """
    kind = recipe.model["kind"]
    if family(kind).packing == "joined" and not (stage.negatives or stage.given_negatives):
        raise InputError(
            f"stage '{stage.name}': a {kind} has no negatives but those of each pair; give negatives = 15, or "
            "given_negatives = true where the data has candidates"
        )
    if stage.given_negatives and recipe.data.mix:
        raise InputError(f"stage '{stage.name}': given_negatives are those of data.train alone; leave data.mix out")
    if family(kind).packing == "joined" and recipe.distillation is not None:
        raise InputError(f"distillation: a {kind} encodes no responses to compare; teach another kind of model")
    by_cosine = recipe.model.get("similarity", "cosine" if family(kind).dialogue is None else "dot") == "cosine"
    if stage.hard_negatives is not None and not by_cosine:
        raise InputError(
            f"stage '{stage.name}': hard_negatives are mined by cosine, which this {kind} does not score by; leave "
            "them out, or draw random ones with negatives = 1"
        )


def check_pretraining(recipe: Recipe) -> None:
    """Refuse what pretraining has no use for, and what is of pretraining alone.

    Raises:
        InputError: names the setting.
    """
    kind = recipe.model["kind"]
    if family(kind).packing != "masked":
        for stage in recipe.stage:
            if stage.batch_tokens:
                raise InputError(f"stage '{stage.name}': batch_tokens is for pretraining, not a {kind}; leave it out")
        return
    wanted = {
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
            raise InputError(f"{key} = {given}: a {kind} ranks nothing, so this must be {right}")
    for stage in recipe.stage:
        unused = [name for name in ("negatives", "hard_negatives", "given_negatives") if getattr(stage, name)]
        if unused:
            raise InputError(f"stage '{stage.name}': a {kind} has no {unused[0]}; leave them out")
        if not stage.batch_tokens:
            raise InputError(f"stage '{stage.name}': give batch_tokens, the most tokens of a batch (paper: 32000)")
