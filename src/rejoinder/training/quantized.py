"""What a recipe's [quantization] means for a run."""

from __future__ import annotations

from torch import nn

from rejoinder.models.quantization import Half, QuantizedTraining
from rejoinder.training.recipe import Quantization


def choose_half(config: Quantization, precision: str) -> Half:
    """Resolve "auto": bfloat16 for a run in bf16, whose products round to it anyway, else float16."""
    if config.half != "auto":
        return config.half
    return "bfloat16" if precision == "bf16" else "float16"


def quantized_training(config: Quantization, module: nn.Module, precision: str) -> QuantizedTraining | None:
    """What lets the network compute with rounded parameters; None where the recipe does not ask for it.

    Args:
        config: the recipe's.
        module: the network, on its device, with the weights that it starts from.
        precision: what the run computes in.
    """
    if not config.enabled:
        return None
    return QuantizedTraining(
        module,
        choose_half(config, precision),
        range_every=config.range_every,
    )

