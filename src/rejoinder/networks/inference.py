"""Fast encoding on a CPU: the same model with its linear layers packed once for the processor.

oneDNN's layers store weights in the processor's order (three times as fast on a single sentence)
and compute the activation in the same pass; its 8-bit products are faster still. Where oneDNN is
absent, plain layers stay.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, TypeAlias, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from rejoinder import processor
from rejoinder.devices import CPU, half_precision
from rejoinder.errors import InputError
from rejoinder.networks.convert import FeedForward, SelfAttention, TokenEmbedding
from rejoinder.networks.layers import GATE, GatedLinear
from rejoinder.networks.poly import MultiContextBiEncoderConfig
from rejoinder.networks.transformer import GeluLinear

Precision: TypeAlias = Literal["fp32", "bf16", "int8"]
FIXED_LENGTH = 64  # positions that are prepared for; longer texts are computed all the same
ZERO_POINT = 128  # of 8-bit inputs

POSTS = {"none": "", "swish": "", "gelu": "none", "relu": ""}
"""Activations that oneDNN computes with a product (swish is x·sigmoid(x)), each with its variant
("none": exact)."""
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda y: y,
    "swish": partial(F.silu, inplace=True),
    "gelu": F.gelu,
    "relu": F.relu,
}
"""The same on what a product gave."""

PRECISIONS = ("auto", "fp32", "bf16", "int8")


def choose_precision(wanted: str, kind: object, device: torch.device = CPU) -> Precision:
    """Resolve "auto" for a model of a kind: bfloat16 where the device multiplies it in hardware.

    Processors without it compute a multi-context bi-encoder in 8 bits, the kind on which speed and
    recall were measured, also without VNNI (docs/choices.md, "Quantisation"). The rest is float32.
    """
    if wanted not in PRECISIONS:
        raise InputError(f"precision {wanted!r} is unknown; allowed are {', '.join(PRECISIONS)}")
    if wanted == "int8" and device.type != "cpu":
        raise InputError(f"precision 'int8' is for processors; on {device} take 'fp32' or 'bf16'")
    if wanted != "auto":
        return cast("Precision", wanted)
    if device.type != "cpu":
        return "bf16" if half_precision(device) == "bf16" else "fp32"
    if processor.has_fast_bfloat16():
        return "bf16"
    eight_bits = processor.has_onednn()
    return "int8" if eight_bits and kind == MultiContextBiEncoderConfig.kind else "fp32"


def prepare(module: nn.Module, precision: Precision, device: torch.device) -> nn.Module:
    """Prepare a network for encoding on a device; it can be neither trained nor saved afterwards.

    A processor's linear layers are packed (`pack_linears`).
    """
    if device.type == "cpu":
        return pack_linears(module, precision)
    module.eval().requires_grad_(False)
    return module.to(device, torch.bfloat16 if precision == "bf16" else None)


def pack_linears(module: nn.Module, precision: Precision) -> nn.Module:
    """Prepare `module` for encoding on a CPU, in place.

    It can be neither trained nor saved afterwards.
    """
    module.eval().requires_grad_(False)
    if precision == "bf16":
        module.to(torch.bfloat16)
    _fix_positions(module)
    if not processor.has_onednn():
        if precision == "int8":
            raise InputError(
                "precision 'int8' needs a PyTorch with oneDNN on an x86 processor; use 'auto'"
            )
        return module
    if precision != "bf16" or processor.packs_bfloat16():
        _replace(module, _Int8Linear if precision == "int8" else _PackedLinear)
    return module


def is_int8(module: nn.Module) -> bool:
    """Return whether `pack_linears` gave a network 8-bit products."""
    return any(isinstance(layer, _Int8Linear) for layer in module.modules())


def _fix_positions(module: nn.Module) -> None:
    for child in module.modules():
        if isinstance(child, TokenEmbedding):
            child.fixed_positions = child.position_table(FIXED_LENGTH)
        elif isinstance(child, SelfAttention):
            child.fixed_score_bias = child.score_bias(FIXED_LENGTH, child.qkv.weight)


def _replace(module: nn.Module, packed: type[_PackedLinear | _Int8Linear]) -> None:
    """Put packed layers in the place of those that compute the same."""

    def gated(layer: GatedLinear) -> nn.Module:
        return packed(
            layer.weight * GATE, None if layer.bias is None else layer.bias * GATE, "swish"
        )

    for name, child in module.named_children():
        if isinstance(child, nn.Dropout):
            setattr(module, name, nn.Identity())
        elif isinstance(child, FeedForward):
            contract = packed(child.contract.weight / GATE, child.contract.bias)
            setattr(module, name, nn.Sequential(gated(child.expand), contract))
        elif isinstance(child, GatedLinear):
            setattr(module, name, gated(child))
        elif isinstance(child, GeluLinear):
            setattr(module, name, packed(child.weight, child.bias, child.activation))
        elif isinstance(child, nn.Linear):
            setattr(module, name, packed(child.weight, child.bias))
        else:
            _replace(child, packed)


class _PackedLinear(nn.Module):
    """A linear layer in oneDNN's own weight order, with the activation fused (one of `POSTS`)."""

    def __init__(self, weight: Tensor, bias: Tensor | None, post: str = "none") -> None:
        super().__init__()
        self.weight = processor.pack_weight(weight)
        self.bias = None if bias is None else bias.detach()
        self.post = post

    def forward(self, x: Tensor) -> Tensor:
        return processor.packed_linear(x, self.weight, self.bias, self.post, POSTS[self.post])


class _Int8Linear(nn.Module):
    """A linear layer with 8-bit products: weights have a scale per output, inputs one per row.

    A row's scale and the exact sums of integers make a row independent of the rows beside it.
    Inputs are unsigned, with zero at 128. Without VNNI the processor adds two products in 16 bits:
    weights have 7 bits there, so that 2 · 255 · 63 still fits.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, post: str = "none") -> None:
        super().__init__()
        weight = weight.detach().float()
        self.scales = weight.abs().amax(dim=1).clamp(min=1e-12) / (
            127 if processor.has_exact_int8() else 63
        )
        rounded = (weight / self.scales[:, None]).round().to(torch.int8)
        self.weight = processor.pack_int8_weight(rounded)
        self.zeros = torch.zeros(len(rounded), dtype=torch.int64)
        self.bias = torch.zeros(len(rounded)) if bias is None else bias.detach().float()
        self.offset = torch.tensor(ZERO_POINT + 0.5)  # the cast truncates: the half rounds
        self.activation = ACTIVATIONS[post]

    def forward(self, x: Tensor) -> Tensor:
        # (n, 1); reduces x twice, since `x.abs()` would write a copy
        largest = torch.maximum(x.amax(dim=-1, keepdim=True), x.amin(dim=-1, keepdim=True).neg_())
        scales = largest.clamp_(min=1e-12).mul_(1 / 127)
        quantised = torch.addcmul(self.offset, x, scales.reciprocal()).to(torch.uint8)
        y = processor.packed_int8_linear(
            quantised, ZERO_POINT, self.weight, self.scales, self.zeros
        )
        return self.activation(torch.addcmul(self.bias, y, scales, out=y))
