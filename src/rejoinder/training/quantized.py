"""What a recipe's [quantization] means for a run."""

from __future__ import annotations

from typing import Any

import torch
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
        room_share=config.room_share,
        room_least=config.room_least,
    )


def fix_loss_scale(fabric: Any, config: Quantization) -> None:
    """Replace the loss scaling of a run in fp16, which looks for the largest factor, by the recipe's constant one.

    CONVERT multiplies the loss by 128 and divides the updates by it. PyTorch's scaler does both, leaves a step out
    when a gradient is no finite number, and halves the factor then; here it never raises it.

    Args:
        fabric: the run's; left as it is in other precisions, where no gradient is float16.
        config: the recipe's.
    """
    precision = fabric.strategy.precision
    if config.enabled and getattr(precision, "scaler", None) is not None:
        precision.scaler = torch.amp.GradScaler(
            fabric.device.type, init_scale=config.loss_scale, growth_interval=2**31 - 1
        )
