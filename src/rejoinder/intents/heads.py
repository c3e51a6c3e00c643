"""From a vector to a number for each intent: networks of a few layers, whatever they were trained by."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from rejoinder.errors import InputError
from rejoinder.ranker import FloatArray


class Head(nn.Module):
    """Linear layers with ReLU and dropout between them: (n, d) -> (n, K).

    Args:
        sizes: d, the hidden sizes, K.
        input_dropout: dropout before the first layer, in training.
        hidden_dropout: dropout before each other layer, in training.
    """

    def __init__(self, sizes: Sequence[int], input_dropout: float = 0.0, hidden_dropout: float = 0.0) -> None:
        super().__init__()
        self.sizes = tuple(sizes)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))
        self.input_dropout, self.hidden_dropout = input_dropout, hidden_dropout

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, K) of vectors (n, d)."""
        x = nn.functional.dropout(x, self.input_dropout, self.training)
        first, *others = self.layers
        x = first(x)
        for layer in others:
            x = layer(nn.functional.dropout(torch.relu(x), self.hidden_dropout, self.training))
        return x

    @torch.inference_mode()
    def logits(self, vectors: FloatArray) -> FloatArray:
        """Logits (n, K) of vectors (n, d), without dropout."""
        was_training, _ = self.training, self.eval()
        result: FloatArray = self(torch.from_numpy(np.ascontiguousarray(vectors))).numpy()
        self.train(was_training)
        return result

    def tensors(self) -> dict[str, Tensor]:
        """What to store."""
        return {name: value.detach().contiguous().clone() for name, value in self.named_parameters()}


def head_from(tensors: Mapping[str, Tensor]) -> Head:
    """A head from what `Head.tensors` gave.

    Raises:
        InputError: the tensors are not those of a head.
    """
    weights = [tensors.get(f"layers.{number}.weight") for number in range(len(tensors) // 2)]
    shapes = [tuple(weight.shape) for weight in weights if weight is not None and weight.dim() == 2]
    fitting = all(a[0] == b[1] for a, b in itertools.pairwise(shapes))
    if not shapes or len(shapes) != len(weights) or not fitting:
        raise InputError("the classifier's weights are not those of a feed-forward net; copy its folder again")
    head = Head([shapes[0][1], *(rows for rows, _ in shapes)])
    try:
        head.load_state_dict(dict(tensors))
    except RuntimeError as error:
        raise InputError(f"the classifier's weights do not fit each other ({str(error).splitlines()[-1]})") from error
    return head.eval()
