"""A factor of the cosine that is learned (ACL19, section 3: S = C · cos)."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from rejoinder.models.persistence import TRAINING_PREFIX
from rejoinder.training.recipe import Scale
from rejoinder.training.schedules import last_scale

PLACE = f"{TRAINING_PREFIX}scale"
"""Where it hangs on a network. Checkpoints have it as a weight; model folders have its value in config.json."""

GROUP = "scale"
"""What recipes call it in `rates`."""


class LearnedScale(nn.Module):
    """One number between 0 and a largest one.

    Args:
        first: its value at the start.
        last: the largest.
    """

    def __init__(self, first: float, last: float) -> None:
        super().__init__()
        self.last = last
        self.value = nn.Parameter(torch.tensor(min(first, last)))

    @torch.no_grad()
    def keep_within(self) -> None:
        """To be called after every update."""
        self.value.clamp_(0.0, self.last)


def attach_scale(module: Any, scale: Scale, before: float | None = None) -> LearnedScale | None:
    """Give a network, whatever its kind, the scale that a recipe wants to be learned; None where it is not learned.

    Args:
        module: the network.
        scale: the recipe's.
        before: what the model that training goes on from has learned; None: it starts at the recipe's first.
    """
    if not scale.learned:
        return None
    learned = LearnedScale(scale.first if before is None else before, last_scale(scale, module.output_size))
    setattr(module, PLACE, learned)
    return learned


def scale_of(module: Any) -> float | None:
    """What a network has learned its scale to be; None where it is not learned."""
    learned = getattr(module, PLACE, None)
    return None if learned is None else float(learned.value.detach())


def groups_of(module: Any) -> dict[str, list[nn.Parameter]]:
    """A network's groups of parameters, and the scale as one more where it is learned."""
    groups: dict[str, list[nn.Parameter]] = module.parameter_groups()
    learned = getattr(module, PLACE, None)
    return groups if learned is None else groups | {GROUP: [learned.value]}
