"""A feed-forward network on frozen encodings (CONVERT 4.3), trained with PyTorch."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rejoinder.errors import RejoinderError
from rejoinder.intents.heads import Encoded, FeedForward, Head, head_from


class Network(nn.Module):
    """Linear layers of `sizes` d, ..., K, (n, d) -> (n, K).

    Dropout precedes each layer, and ReLU stands between layers.
    """

    def __init__(
        self, sizes: Sequence[int], input_dropout: float = 0.0, hidden_dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))
        self.input_dropout = input_dropout
        self.hidden_dropout = hidden_dropout

    @classmethod
    def of(cls, head: Head) -> Network:
        """Return the network of a head, without dropout."""
        network = cls(head.sizes)
        tensors = {name: torch.from_numpy(values) for name, values in head.tensors().items()}
        network.load_state_dict(tensors)
        return network.eval().requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (n, K) of vectors (n, d)."""
        first, *others = self.layers
        x = first(nn.functional.dropout(x, self.input_dropout, self.training))
        for layer in others:
            x = layer(nn.functional.dropout(torch.relu(x), self.hidden_dropout, self.training))
        return x

    def head(self) -> Head:
        """Return the weights without PyTorch."""
        return head_from({name: value.numpy() for name, value in self.state_dict().items()})


def fit_network(
    settings: FeedForward, data: Encoded, valid: Encoded | None, seed: int
) -> tuple[Head, int]:
    """Return the network and the number of epochs; with `valid`, the best epoch's network.

    RejoinderError: the training diverged, so that the network would give no probabilities.
    """
    generator = torch.Generator().manual_seed(seed)
    x = torch.from_numpy(data.vectors)
    targets = torch.from_numpy(data.targets)
    sizes = [x.shape[1], *[settings.hidden_size] * settings.hidden_layers, targets.shape[1]]
    steps = -(-len(x) // settings.batch_size)
    # Initial weights and dropout use torch's global generator, whose state is restored for
    # callers.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = Network(sizes, settings.input_dropout, settings.hidden_dropout).train()
        kind: Any = torch.optim.SGD if settings.optimizer == "sgd" else torch.optim.Adam
        optimizer = kind(network.parameters(), lr=settings.learning_rate)
        best_loss = float("inf")
        best_weights = network.state_dict()
        best_epoch = epoch = 0
        for epoch in range(1, settings.epochs + 1):
            if settings.sampling == "replacement":
                order = torch.randint(len(x), (steps * settings.batch_size,), generator=generator)
            else:
                order = torch.randperm(len(x), generator=generator)
            for step, rows in enumerate(
                torch.split(order, settings.batch_size), (epoch - 1) * steps
            ):
                if settings.decay == "linear":
                    optimizer.param_groups[0]["lr"] = settings.learning_rate * (
                        1 - step / (steps * settings.epochs)
                    )
                optimizer.zero_grad()
                _loss(network(x[rows]), targets[rows], data.multi_label).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            if valid is None:
                continue
            # By loss, which is far finer than accuracy on few held-out texts.
            logits = torch.from_numpy(network.head().logits(valid.vectors))
            loss = float(_loss(logits, torch.from_numpy(valid.targets), valid.multi_label))
            if loss < best_loss:
                best_loss = loss
                best_epoch = epoch
                best_weights = copy.deepcopy(network.state_dict())
            elif epoch - best_epoch >= settings.patience:
                break
    if valid is not None:
        network.load_state_dict(best_weights)
    if not all(bool(parameter.isfinite().all()) for parameter in network.parameters()):
        raise RejoinderError(
            f"not all weights are finite numbers after {epoch} epochs; lower learning_rate"
        )
    return network.head(), epoch


def _loss(logits: Tensor, targets: Tensor, multi_label: bool) -> Tensor:
    """Return the mean cross-entropy.

    For a multi-label classifier, sum the binary cross-entropies of the labels.
    """
    if multi_label:
        return nn.functional.binary_cross_entropy_with_logits(
            logits, targets, reduction="sum"
        ) / len(logits)
    return nn.functional.cross_entropy(logits, targets)
