"""Fast encoding on a CPU: the same model with its linear layers packed once for the processor.

oneDNN's layers store weights in the processor's order (three times as fast on a single sentence)
and compute the activation in the same pass; where asked for, products have 8 bits. Where oneDNN is
absent, plain layers stay.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, TypeAlias, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from rejoinder import environment
from rejoinder.errors import InputError
from rejoinder.networks import Segment, TokenBatch
from rejoinder.networks.convert import FeedForward, SelfAttention, TokenEmbedding
from rejoinder.networks.layers import GATE, GatedLinear
from rejoinder.networks.transformer import GeluLinear

Precision: TypeAlias = Literal["fp32", "bf16", "int8"]
FIXED_LENGTH = 64  # positions that are prepared for; longer texts are computed all the same
FEW_ROWS = 256  # rows below which what a layer costs is mostly the number of its operations

POSTS = {"none": "", "swish": "", "gelu": "none", "relu": ""}
"""Activations that oneDNN computes with a product (swish is x·sigmoid(x)), each with its variant
("none": exact)."""
ACTIVATIONS: dict[str, Callable[..., Tensor]] = {
    "swish": partial(F.silu, inplace=True),
    "gelu": F.gelu,
    "relu": F.relu,
}
"""The same on what a product gave."""

PRECISIONS = ("auto", "fp32", "bf16", "int8")


def choose_precision(wanted: str) -> Precision:
    """Resolve "auto": bfloat16 where the processor multiplies it in hardware, else float32.

    8-bit products change the vectors a little, also by what is encoded beside them: only where
    asked for.
    """
    if wanted not in PRECISIONS:
        raise InputError(f"precision {wanted!r} is unknown; allowed are {', '.join(PRECISIONS)}")
    if wanted != "auto":
        return cast("Precision", wanted)
    return "bf16" if environment.has_fast_bfloat16() else "fp32"


def find_device(name: str) -> str:
    """Return the name of a device as PyTorch writes it; InputError: it has no such device."""
    try:
        return str(torch.device(name))
    except (RuntimeError, TypeError):
        raise InputError(
            f"device {name!r} cannot be used:"
            " it is none of PyTorch's, such as 'cpu', 'cuda', 'cuda:1', 'mps'"
        ) from None


def move(module: nn.Module, precision: str, device: str) -> nn.Module:
    """Move a network to a device other than the CPU; InputError: PyTorch cannot use that."""
    if precision == "int8":
        raise InputError(f"precision 'int8' is for processors; on {device} take 'fp32' or 'bf16'")
    module.eval().requires_grad_(False)
    try:
        return module.to(device, torch.bfloat16 if precision == "bf16" else None)
    except (RuntimeError, AssertionError) as error:
        # PyTorch's, built without it or where there is none
        reason = str(error).splitlines()[0]
        raise InputError(f"device {device!r} cannot be used: {reason}; 'cpu' always can") from error


def pack_linears(module: nn.Module, precision: Precision) -> nn.Module:
    """Prepare `module` for encoding on a CPU, in place.

    It can be neither trained nor saved afterwards.
    """
    module.eval().requires_grad_(False)
    if precision == "bf16":
        module.to(torch.bfloat16)
    _fix_positions(module)
    if not environment.has_onednn():
        if precision == "int8":
            raise InputError(
                "precision 'int8' needs a PyTorch with oneDNN on an x86 processor; use 'auto'"
            )
        return module
    if precision != "bf16" or environment.packs_bfloat16():
        _replace(module, _Int8Linear if precision == "int8" else _PackedLinear)
    return module


def _fix_positions(module: nn.Module) -> None:
    for child in module.modules():
        if isinstance(child, TokenEmbedding):
            child.fixed_positions = child.position_table(FIXED_LENGTH)
        elif isinstance(child, SelfAttention):
            child.fixed_score_bias = child.score_bias(FIXED_LENGTH, child.qkv.weight)


def _replace(module: nn.Module, packed: type[_PackedLinear | _Int8Linear]) -> None:
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
        self.weight = environment.pack_weight(weight)
        self.bias = None if bias is None else bias.detach()
        self.post = post

    def forward(self, x: Tensor) -> Tensor:
        return environment.packed_linear(x, self.weight, self.bias, self.post, POSTS[self.post])


class _Int8Linear(nn.Module):
    """A linear layer with 8-bit products: weights signed with a scale per output, inputs unsigned.

    Without VNNI the processor adds two products in 16 bits: weights have 7 bits there, so that 2 ·
    255 · 63 still fits. Inputs share one range: one for each row would cost 13 to 33 % of the
    speed. oneDNN's product is the faster one for many rows; few go through FBGEMM's single
    operation where PyTorch has it.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, post: str = "none") -> None:
        super().__init__()
        weight = weight.detach().float()
        self.scales = weight.abs().amax(dim=1).clamp(min=1e-12) / (
            127 if environment.has_exact_int8() else 63
        )
        rounded = (weight / self.scales[:, None]).round().to(torch.int8)
        self.weight = environment.pack_int8_weight(rounded)
        self.zeros = torch.zeros(len(rounded), dtype=torch.int64)
        self.bias = None if bias is None else bias.detach().float()
        self.post = post
        self.single = _fbgemm_weight(weight, self.scales, self.bias)

    def forward(self, x: Tensor) -> Tensor:
        if self.single is not None and len(x) < FEW_ROWS:
            y = torch.ops.quantized.linear_dynamic.default(x, self.single, False)
            return y if self.post == "none" else ACTIVATIONS[self.post](y)
        bounds = torch.aminmax(x)
        low = min(float(bounds.min), 0.0)
        high = max(float(bounds.max), 0.0)
        scale = max((high - low) / 254, 1e-12)
        zero_point = round(-low / scale)
        # One pass for scaling, one for the cast; the half makes the cast's truncation a rounding.
        quantised = torch.add(torch.tensor(zero_point + 0.5), x, alpha=1 / scale).to(torch.uint8)
        return environment.packed_int8_linear(
            quantised,
            scale,
            zero_point,
            self.weight,
            self.scales,
            self.zeros,
            self.bias,
            self.post,
            POSTS[self.post],
        )


def _fbgemm_weight(weight: Tensor, scales: Tensor, bias: Tensor | None) -> Any:
    if "fbgemm" not in torch.backends.quantized.supported_engines or not hasattr(
        torch.ops.quantized, "linear_dynamic"
    ):
        return None
    with warnings.catch_warnings():
        # quantised tensors are going away in PyTorch; then this path does too
        warnings.simplefilter("ignore")
        zeros = torch.zeros(len(weight), dtype=torch.int64)
        quantised = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
        return torch.ops.quantized.linear_prepack(quantised, bias)


class SingleTexts:
    """Encodes batches of one text by TorchScript's recordings of a network, made at the first text.

    Two thirds of a short text's time are Python calling a hundred small operations. oneDNN's packed
    float layers cannot be recorded, 8-bit ones can.
    """

    def __init__(self, module: nn.Module | None) -> None:
        self._module = module
        kinds = nn.Linear | _PackedLinear | _Int8Linear
        layers = (
            []
            if module is None
            else [child for child in module.modules() if isinstance(child, kinds)]
        )
        self._recordable = bool(layers) and all(
            isinstance(layer, _Int8Linear) and layer.single is not None for layer in layers
        )
        self._recordings: dict[str, Any] = {}

    def __call__(self, batch: TokenBatch, side: str) -> Tensor | None:
        """Return the vector (1, d) of a batch of one text.

        None if it has to be computed the ordinary way.
        """
        if not self._recordable or len(batch.restore) != 1 or batch.computed_tokens > FIXED_LENGTH:
            return None
        if side not in self._recordings:
            self._recordings[side] = _record(self._module, side)
        # TorchScript's optimiser would spend a tenth of a second on each new length, and gains
        # nothing here.
        optimized: Any = torch.jit.optimized_execution  # type: ignore[attr-defined]
        with optimized(False):
            return cast("Tensor", self._recordings[side](batch.ids))


class _OneText(nn.Module):
    """ids (L,) -> the vector (1, d).

    L is taken from a tensor, so that it stays a variable of the recording.
    """

    def __init__(self, module: Any, side: str) -> None:
        super().__init__()
        self.module = module
        self.side = side
        self.restore = torch.zeros(1, dtype=torch.int64)

    def forward(self, ids: Tensor) -> Tensor:
        length = ids.size(0)
        batch = TokenBatch(
            ids, torch.arange(length), (Segment(0, 1, length),), self.restore, length
        )
        return cast("Tensor", self.module.encode(batch, self.side))


def _record(module: Any, side: str) -> Any:
    # Tensors made under inference mode cannot be recorded.
    with torch.inference_mode(mode=False), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # comparisons of lengths become constants, as they should
        record: Any = torch.jit.trace
        return record(
            _OneText(module, side), (torch.zeros(2, dtype=torch.int64),), check_trace=False
        )
