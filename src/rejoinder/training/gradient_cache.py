"""Gradients of a batch that is larger than memory (GradCache: Gao et al. 2021, section 3).

Each response is a negative of every other context, so adding up the gradients of smaller batches is another loss. But
the pairs are coupled through their encodings alone, and these are small. So:

1. encode all parts, without keeping what a gradient needs;
2. compute the loss of all encodings together, and its gradient with respect to each encoding;
3. encode part after part again, this time keeping what a gradient needs, and pass on the gradient of its encodings.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from rejoinder.models.layers import Encodings
from rejoinder.training.losses import Loss


def forward_backward(
    parts: int,
    encode: Callable[[int], Encodings],
    loss: Callable[[Encodings], Loss],
    backward: Callable[[Tensor], None] = Tensor.backward,
) -> Loss:
    """Return the loss of a batch and add its gradients to the parameters'.

    Args:
        parts: number of parts of the batch; with one, it is encoded once.
        encode: encodes the part of that number; called twice, it must give the same (dropout too).
        loss: the loss of all encodings, each matrix holding the rows of all parts in their order.
        backward: starts the backward pass of a loss, scaling it if need be.
    """
    if parts == 1:
        found = loss(encode(0))
        backward(found.value)
        return found
    with torch.no_grad():
        pieces = [encode(part) for part in range(parts)]
    whole = {name: torch.cat([piece[name] for piece in pieces]).requires_grad_() for name in pieces[0]}
    rows = {name: [len(piece[name]) for piece in pieces] for name in whole}
    del pieces
    found = loss(whole)
    backward(found.value)
    reached = {name: matrix.grad for name, matrix in whole.items() if matrix.grad is not None}
    gradients = {name: torch.split(gradient, rows[name]) for name, gradient in reached.items()}
    for part in range(parts):
        encodings = encode(part)
        # What depends on no parameter that learns (a part without history, a frozen side) has no gradient.
        names = [name for name in gradients if encodings[name].requires_grad]
        if names:
            torch.autograd.backward([encodings[name] for name in names], [gradients[name][part] for name in names])
    return found
