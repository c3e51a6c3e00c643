"""Optimisers that leave a table alone but for the rows of the batch.

The gradient of an embedding table that is built with `sparse=True` holds the rows of the batch alone. Such a table is
updated by the optimiser's own rule, applied to those rows as if they were the whole parameter: their values, gradient
and state are copied out, updated, and written back. A step's cost does not depend on the table's size.

Plain SGD gives the same as with a dense gradient. A rule with memory does not: the running averages of a row, and its
weight decay, stand still while the row is in no batch ("lazy" updates), but the step count of bias corrections goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class RowUpdates(torch.optim.Optimizer):
    """Adds updates by rows to one of PyTorch's optimisers, named by `rule`; all else is done as ever."""

    rule: type[Any]

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update all parameters that have a gradient. The sparse ones' gradients are gone afterwards."""
        loss = None if closure is None else closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and parameter.grad.is_sparse:
                    self._update_rows(group, parameter)
                    parameter.grad = None  # which PyTorch's optimisers pass over
        super().step()
        return loss

    def _update_rows(self, group: dict[str, Any], parameter: nn.Parameter) -> None:
        gradient = coalesce(parameter)
        rows, values = gradient._indices()[0], gradient._values()
        part = nn.Parameter(parameter[rows])
        part.grad = values
        options = {key: value for key, value in group.items() if key != "params"}
        small = self.rule([{**options, "params": [part]}])
        whole = self.state[parameter]
        if whole:
            small.state[part] = {
                key: value[rows] if _has_rows(value, parameter) else value for key, value in whole.items()
            }
        small.step()
        parameter[rows] = part.detach()
        for key, value in small.state[part].items():
            if _has_rows(value, part):
                if key not in whole:  # no setdefault, which would fill a new table at every step
                    whole[key] = torch.zeros_like(parameter)
                whole[key][rows] = value
            elif value is not None:
                whole[key] = value


def _has_rows(value: object, like: Tensor) -> bool:
    """Whether an entry of an optimiser's state has a number for each of a parameter."""
    return isinstance(value, Tensor) and value.shape == like.shape


def coalesce(parameter: nn.Parameter) -> Tensor:
    """Make a parameter's sparse gradient list each row once, in place, and return it."""
    assert parameter.grad is not None
    if not parameter.grad.is_coalesced():
        parameter.grad = parameter.grad.coalesce()
    return parameter.grad


class RowSgd(RowUpdates, torch.optim.SGD):
    """Stochastic gradient descent."""

    rule = torch.optim.SGD


class RowAdagrad(RowUpdates, torch.optim.Adagrad):
    """Adagrad."""

    rule = torch.optim.Adagrad


class RowAdadelta(RowUpdates, torch.optim.Adadelta):
    """Adadelta."""

    rule = torch.optim.Adadelta


class RowAdam(RowUpdates, torch.optim.Adam):
    """Adam."""

    rule = torch.optim.Adam


class RowAdamW(RowUpdates, torch.optim.AdamW):
    """AdamW."""

    rule = torch.optim.AdamW


class RowAdamax(RowUpdates, torch.optim.Adamax):
    """Adamax."""

    rule = torch.optim.Adamax
