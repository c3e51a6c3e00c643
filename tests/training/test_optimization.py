"""Optimisers: rates per group, decay without layer norms, clipping, and no parameter left out."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from rejoinder.errors import InputError
from rejoinder.models.convert import Convert
from rejoinder.models.families import build_module
from rejoinder.models.packing import pack
from rejoinder.training.losses import InBatchLoss
from rejoinder.training.optimization import build_optimizer, clip_gradients, prepare_stage, set_learning_rate
from rejoinder.training.recipe import Stage
from tests.training.tiny import MODEL, recipe, stage

ROWS = 30


def a_stage(**keys: Any) -> Stage:
    return recipe("data", stage=[stage(**keys)]).stage[0]


def module(**changes: Any) -> Convert:
    torch.manual_seed(0)
    return build_module({**MODEL, **changes}, ROWS)


def backward(model: Convert, pairs: int = 6) -> None:
    lengths = np.arange(1, 2 * pairs + 1, dtype=np.int32)
    ids = np.random.default_rng(0).integers(0, ROWS - 1, lengths.sum()).astype(np.int32)
    x, y = model(pack(ids, lengths, ROWS - 1), contexts=pairs)
    InBatchLoss(0.2)(x, y, 5.0).value.backward()


@pytest.mark.parametrize("blocks", [0, 1, 2, "all"])
@pytest.mark.parametrize("changes", [{}, {"norm_placement": "after"}, {"feed_forward_2": "original"}, {"heads": 2}])
def test_every_active_parameter_gets_a_gradient_and_no_other(blocks: int | str, changes: dict[str, Any]) -> None:
    model = module(dropout=0.0, **changes)
    prepare_stage(model, a_stage(active_blocks=blocks))
    backward(model)
    count = len(model.blocks) if blocks == "all" else int(blocks)
    inactive = {parameter for block in model.blocks[count:] for parameter in block.parameters()}
    for name, parameter in model.named_parameters():
        if parameter in inactive:
            assert parameter.grad is None, name
        else:
            assert parameter.grad is not None, name
            assert float(parameter.grad.abs().max()) > 0, name


@pytest.mark.parametrize("changes", [{}, {"norm_placement": "after"}, {"feed_forward_2": "original"}])
def test_the_optimiser_holds_every_trained_parameter_once(changes: dict[str, Any]) -> None:
    model, config = module(**changes), a_stage(active_blocks=1)
    prepare_stage(model, config)
    held = [parameter for group in build_optimizer(model, config).param_groups for parameter in group["params"]]
    assert len(held) == len(set(held))
    assert set(held) == {parameter for parameter in model.parameters() if parameter.requires_grad}
    assert not set(held) & set(model.blocks[1].parameters())


def test_each_group_has_its_own_rate() -> None:
    model, config = module(), a_stage(rates={"embedding": 0.1, "blocks": 2.0})
    prepare_stage(model, config)
    optimizer = build_optimizer(model, config)
    set_learning_rate(optimizer, 0.5)
    rate_of = {parameter: group["lr"] for group in optimizer.param_groups for parameter in group["params"]}
    groups = model.parameter_groups()
    assert {rate_of[parameter] for parameter in groups["embedding"]} == {0.05}
    assert {rate_of[parameter] for parameter in groups["blocks"]} == {1.0}
    assert {rate_of[parameter] for parameter in groups["reduction"]} == {0.5}


def test_a_rate_of_0_freezes_a_group_for_its_stage_only() -> None:
    model, config = module(), a_stage(rates={"embedding": 0.0})
    prepare_stage(model, config)
    assert not model.embedding.weight.requires_grad
    held = [parameter for group in build_optimizer(model, config).param_groups for parameter in group["params"]]
    assert not any(parameter is model.embedding.weight for parameter in held)
    prepare_stage(model, a_stage())
    assert model.embedding.weight.requires_grad


def test_decay_leaves_out_the_layer_norms() -> None:
    model = module()
    config = a_stage(optimizer={"kind": "adadelta", "weight_decay": 1e-5})
    prepare_stage(model, config)
    norms = {p for child in model.modules() if isinstance(child, nn.LayerNorm) for p in child.parameters()}
    for group in build_optimizer(model, config).param_groups:
        for parameter in group["params"]:
            assert group["weight_decay"] == (0.0 if parameter in norms else 1e-5)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"active_blocks": 3}, "active_blocks = 3, but the model has 2"),
        ({"rates": {"embeddings": 0.1}}, "no parameters are called 'embeddings' in rates; allowed: embedding,"),
    ],
)
def test_a_stage_that_does_not_fit_the_model_is_refused(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match="stage 'only'") as caught:
        prepare_stage(module(), a_stage(**keys))
    assert said in str(caught.value)


def test_a_stage_that_trains_nothing_is_refused() -> None:
    model, config = module(), a_stage(rates=dict.fromkeys(module().parameter_groups(), 0.0))
    prepare_stage(model, config)
    with pytest.raises(InputError, match="nothing to train"):
        build_optimizer(model, config)


KINDS: list[tuple[dict[str, Any], Any]] = [
    ({"kind": "adadelta", "rho": 0.8, "epsilon": 1e-5, "weight_decay": 0.1},
     lambda p: torch.optim.Adadelta(p, lr=0.5, rho=0.8, eps=1e-5, weight_decay=0.1)),
    ({"kind": "sgd", "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
     lambda p: torch.optim.SGD(p, lr=0.5, momentum=0.9, nesterov=True, weight_decay=0.1)),
    ({"kind": "adam", "betas": [0.8, 0.9], "epsilon": 1e-6, "weight_decay": 0.1},
     lambda p: torch.optim.Adam(p, lr=0.5, betas=(0.8, 0.9), eps=1e-6, weight_decay=0.1)),
    ({"kind": "adamw", "betas": [0.8, 0.9], "weight_decay": 0.1},
     lambda p: torch.optim.AdamW(p, lr=0.5, betas=(0.8, 0.9), weight_decay=0.1)),
    ({"kind": "adamax", "weight_decay": 0.1}, lambda p: torch.optim.Adamax(p, lr=0.5, weight_decay=0.1)),
]  # fmt: skip


@pytest.mark.parametrize(("config", "reference"), KINDS, ids=[config["kind"] for config, _ in KINDS])
def test_each_optimiser_is_the_one_that_it_is_called(config: dict[str, Any], reference: Any) -> None:
    """Against PyTorch's plain loop, over a few steps, on a parameter that decays."""
    model = module(dropout=0.0)
    other = copy.deepcopy(model)
    chosen = a_stage(optimizer=config, learning_rate=0.5)
    prepare_stage(model, chosen)
    ours, theirs = build_optimizer(model, chosen), reference([other.embedding.weight])
    for number in range(4):
        gradient = torch.randn(model.embedding.weight.shape, generator=torch.Generator().manual_seed(number))
        model.embedding.weight.grad, other.embedding.weight.grad = gradient.clone(), gradient.clone()
        set_learning_rate(ours, 0.5)
        ours.step()
        theirs.step()
    assert torch.allclose(model.embedding.weight, other.embedding.weight, rtol=1e-5, atol=1e-6)


def test_clipping_scales_to_the_limit_and_leaves_short_gradients_bit_equal() -> None:
    parameters = [nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1))]
    parameters[0].grad, parameters[1].grad = torch.tensor([3.0, 0, 0]), torch.tensor([0.0, 4.0])
    before = [parameter.grad.clone() for parameter in parameters[:2] if parameter.grad is not None]
    assert clip_gradients(parameters, 5.5) == 5.0
    assert torch.equal(torch.cat(before), torch.cat([p.grad for p in parameters[:2] if p.grad is not None]))
    clip_gradients(parameters, 1.0)
    assert parameters[0].grad.tolist() == pytest.approx([0.6, 0, 0])
    assert parameters[1].grad.tolist() == pytest.approx([0, 0.8])
    assert clip_gradients(parameters[2:], 1.0) is None
