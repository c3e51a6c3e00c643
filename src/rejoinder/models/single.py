"""One text at a time, as a chat needs it: the network's operations without Python between them.

Of the time that one short text takes, two thirds are Python calling a hundred small operations. TorchScript records
them once for each length of text and runs them by itself, two to four times as fast. A recording and its first runs
take some tenths of a second, so it is made only for lengths that come up often, as in a server that runs for hours.
"""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn

from rejoinder.models.convert import Convert
from rejoinder.models.inference import FIXED_LENGTH, has_recordable_layers
from rejoinder.models.packing import Segment, TokenBatch

SEEN_BEFORE = 100
"""How often a length is computed the ordinary way before it is recorded: about what a recording costs."""


class SingleTexts:
    """Encodes batches of one text, faster once a length has come up often.

    Only 8-bit layers can be recorded (oneDNN's packed float layers cannot); a network without them is left alone.

    Args:
        module: the network, packed for encoding.
    """

    def __init__(self, module: Convert) -> None:
        self._module = module
        self._recordable = has_recordable_layers(module)
        self._seen: Counter[tuple[str, int]] = Counter()
        self._recordings: dict[tuple[str, int], Any] = {}

    def __call__(self, batch: TokenBatch, side: str) -> Tensor | None:
        """The vector (1, d) of a batch of one text, or None if it has to be computed the ordinary way."""
        length = batch.computed_tokens
        if not self._recordable or len(batch.restore) != 1 or length > FIXED_LENGTH:
            return None
        key = side, length
        if key not in self._recordings:
            self._seen[key] += 1
            if self._seen[key] <= SEEN_BEFORE:
                return None
            self._recordings[key] = _record(self._module, side, length)
        return self._recordings[key](batch.ids)


class _OneText(nn.Module):
    """ids (L,) -> the vector (1, d), for texts of one fixed length."""

    def __init__(self, module: Convert, side: str, length: int) -> None:
        super().__init__()
        self.module, self.side, self.length = module, side, length
        self.positions = torch.arange(length)
        self.restore = torch.zeros(1, dtype=torch.int64)

    def forward(self, ids: Tensor) -> Tensor:
        segments = (Segment(0, 1, self.length),)
        batch = TokenBatch(ids, self.positions, segments, self.restore, self.length)
        return self.module.encode(batch, self.side)


def _record(module: Convert, side: str, length: int) -> Any:
    # Tensors made under inference mode cannot be recorded.
    with torch.inference_mode(mode=False), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # lengths become constants, as they should
        example = torch.zeros(length, dtype=torch.int64)
        record: Any = torch.jit.trace
        return record(_OneText(module, side, length), (example,), check_trace=False)
