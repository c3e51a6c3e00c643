"""What can be refused before anything long is begun: stages that do not fit the model, or the number of processes."""

from __future__ import annotations

import torch

from rejoinder.errors import InputError
from rejoinder.models.families import build_module, family
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
    for stage in recipe.stage:
        check_division(stage.name, stage.batch_size, processes.count)
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
    if family(kind).packing == "joined" and not stage.negatives:
        raise InputError(
            f"stage '{stage.name}': a {kind} has no negatives but those drawn for each pair; give negatives = 15"
        )
    by_cosine = recipe.model.get("similarity", "cosine" if family(kind).dialogue is None else "dot") == "cosine"
    if stage.hard_negatives is not None and not by_cosine:
        raise InputError(
            f"stage '{stage.name}': hard_negatives are mined by cosine, which this {kind} does not score by; leave "
            "them out, or draw random ones with negatives = 1"
        )
