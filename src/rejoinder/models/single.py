"""One text at a time, as a chat needs it: the network's operations without Python between them.

Of the time that one short text takes, two thirds are Python calling a hundred small operations. TorchScript records
them at the first text, which takes about a tenth of a second, and runs them by itself from then on. One recording
serves texts of all lengths.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from rejoinder.models.convert import Convert
from rejoinder.models.inference import FIXED_LENGTH, has_recordable_layers
from rejoinder.models.packing import Segment, TokenBatch


class SingleTexts:
    """Encodes batches of one text.

    Only 8-bit layers can be recorded (oneDNN's packed float layers cannot); a network without them is left alone.

    Args:
        module: the network, packed for encoding.
    """

    def __init__(self, module: Convert) -> None:
        self._module = module
        self._recordable = has_recordable_layers(module)
        self._recordings: dict[str, Any] = {}

    def __call__(self, batch: TokenBatch, side: str) -> Tensor | None:
        """The vector (1, d) of a batch of one text, or None if it has to be computed the ordinary way."""
        if not self._recordable or len(batch.restore) != 1 or batch.computed_tokens > FIXED_LENGTH:
            return None
        if side not in self._recordings:
            self._recordings[side] = _record(self._module, side)
        # TorchScript's optimiser would spend a tenth of a second on each new length, and gains nothing here.
        optimized: Any = torch.jit.optimized_execution  # type: ignore[attr-defined]
        with optimized(False):
            return self._recordings[side](batch.ids)


class _OneText(nn.Module):
    """ids (L,) -> the vector (1, d). L is taken from a tensor, so that it stays a variable of the recording."""

    def __init__(self, module: Convert, side: str) -> None:
        super().__init__()
        self.module, self.side = module, side
        self.restore = torch.zeros(1, dtype=torch.int64)

    def forward(self, ids: Tensor) -> Tensor:
        length = ids.size(0)
        batch = TokenBatch(ids, torch.arange(length), (Segment(0, 1, length),), self.restore, length)
        return self.module.encode(batch, self.side)


def _record(module: Convert, side: str) -> Any:
    # Tensors made under inference mode cannot be recorded.
    with torch.inference_mode(mode=False), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # comparisons of lengths become constants, as they should
        record: Any = torch.jit.trace
        return record(_OneText(module, side), (torch.zeros(2, dtype=torch.int64),), check_trace=False)
