"""Sparse gradients: the same step as dense ones, for the rows of the batch alone."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rejoinder.models.families import build_module
from rejoinder.training.optimization import build_optimizer, clip_gradients, prepare_stage, set_learning_rate
from rejoinder.training.recipe import Stage
from tests.training.tiny import recipe, stage

NGRAM = {"kind": "ngram", "embedding_size": 8, "head_size": 4, "hidden_size": 8, "hidden_layers": 1, "output_size": 8}
ROWS = 30
OPTIMIZERS: list[dict[str, Any]] = [
    {"kind": "sgd"},
    {"kind": "sgd", "momentum": 0.9, "nesterov": True},
    {"kind": "adagrad", "weight_decay": 0.1},
    {"kind": "adadelta", "weight_decay": 0.1},
    {"kind": "adam", "weight_decay": 0.1},
    {"kind": "adamw", "weight_decay": 0.1},
    {"kind": "adamax"},
]


def a_stage(**keys: Any) -> Stage:
    return recipe("data", stage=[stage(**keys)]).stage[0]


def optimised(weight: torch.Tensor, config: dict[str, Any]) -> tuple[nn.Parameter, Any]:
    """A table of these values in a model, and the stage's optimiser."""
    module = build_module(NGRAM, ROWS)
    with torch.no_grad():
        module.embedding.weight.copy_(weight)
    chosen = a_stage(optimizer=config, learning_rate=0.1)
    prepare_stage(module, chosen)
    optimizer = build_optimizer(module, chosen)
    set_learning_rate(optimizer, 0.1)
    return module.embedding.weight, optimizer


def sparse(rows: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return torch.sparse_coo_tensor(rows[None], values, (ROWS, 8), check_invariants=True)


@pytest.mark.parametrize("config", OPTIMIZERS, ids=lambda config: config["kind"] + str("momentum" in config))
def test_a_sparse_step_equals_a_dense_one_in_its_rows_and_leaves_the_others(config: dict[str, Any]) -> None:
    """Over several steps in which the same rows have gradients, some of them listed twice."""
    torch.manual_seed(0)
    start = torch.randn(ROWS, 8)
    (one, by_rows), (other, dense) = (optimised(start, config) for _ in range(2))
    rows = torch.tensor([3, 7, 7, 29, 0, 3])
    for _ in range(4):
        gradient = sparse(rows, torch.randn(6, 8))
        one.grad, other.grad = gradient, gradient.to_dense()
        by_rows.step()
        dense.step()
        assert one.grad is None or not config.get("momentum")
    touched = rows.unique()
    torch.testing.assert_close(one[touched], other[touched], rtol=1e-5, atol=1e-6)
    untouched = [row for row in range(ROWS) if row not in touched]
    assert torch.equal(one[untouched], start[untouched])
    assert not torch.equal(one[touched], start[touched])


def test_plain_descent_equals_the_dense_one_whatever_rows_come() -> None:
    start = torch.randn(ROWS, 8, generator=torch.Generator().manual_seed(1))
    (one, by_rows), (other, dense) = (optimised(start, {"kind": "sgd"}) for _ in range(2))
    for number in range(5):
        generator = torch.Generator().manual_seed(number)
        gradient = sparse(torch.randint(ROWS, (9,), generator=generator), torch.randn(9, 8, generator=generator))
        one.grad, other.grad = gradient, gradient.to_dense()
        by_rows.step()
        dense.step()
    torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


def test_the_state_of_a_row_stands_still_while_it_is_in_no_batch() -> None:
    weight, optimizer = optimised(torch.zeros(ROWS, 8), {"kind": "adagrad"})
    for row in (2, 5, 2):
        weight.grad = sparse(torch.tensor([row]), torch.ones(1, 8))
        optimizer.step()
    sums = optimizer.state[weight]["sum"][:, 0]
    assert sums[[2, 5]].tolist() == [2.0, 1.0]
    assert sums.sum() == 3.0
    assert weight[2, 0].item() == pytest.approx(-0.1 * (1 + 2**-0.5))
    assert weight[5, 0].item() == pytest.approx(-0.1)


def test_clipping_counts_the_rows_of_a_sparse_gradient_once() -> None:
    dense, table = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(ROWS, 8))
    dense.grad = torch.tensor([0.0, 3.0])
    values = torch.zeros(3, 8)
    values[:, 0] = torch.tensor([1.0, 4.0, 3.0])
    table.grad = sparse(torch.tensor([4, 9, 4]), values)  # row 4 has 1 + 3
    norm = clip_gradients([dense, table], 1.0)
    assert norm is not None
    assert norm.item() == pytest.approx((9 + 16 + 16) ** 0.5)
    assert table.grad.is_sparse
    whole = table.grad.to_dense()
    assert (float(whole.norm()) ** 2 + float(dense.grad.norm()) ** 2) == pytest.approx(1.0)
    assert whole[4, 0].item() == pytest.approx(4 / 41**0.5)


@pytest.mark.parametrize("config", OPTIMIZERS, ids=lambda config: config["kind"] + str("momentum" in config))
def test_a_step_makes_nothing_as_large_as_the_table(config: dict[str, Any]) -> None:
    """But for the first one, which begins the optimiser's state."""
    weight, optimizer = optimised(torch.randn(ROWS, 8), config)
    made: list[tuple[int, ...]] = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            storages = {x.untyped_storage().data_ptr() for x in tree_leaves((args, kwargs)) if dense_tensor(x)}
            made.extend(
                tuple(x.shape)
                for x in tree_leaves(result)
                if dense_tensor(x) and x.untyped_storage().data_ptr() not in storages
            )
            return result

    for number in range(2):
        weight.grad = sparse(torch.tensor([3, 7]), torch.randn(2, 8))
        with Watch() if number else nullcontext():
            optimizer.step()
    assert made
    assert not [shape for shape in made if shape and shape[0] >= ROWS]


def dense_tensor(x: object) -> bool:
    return isinstance(x, torch.Tensor) and not x.is_sparse
