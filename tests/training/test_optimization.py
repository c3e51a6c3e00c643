"""Optimisers, clipping, rates over time, budgets; device and precision."""

import sys
import copy
import math

import pytest
import torch
from torch import nn

from rejoinder.encoders.families import build_module
from rejoinder.errors import InputError
from rejoinder.training import distributed
from rejoinder.training.recipe.settings import Quantization
from rejoinder.training.distributed import (
    Machine,
    choose_device,
    choose_precision,
    loss_scaler,
    tuned,
)
from rejoinder.training.recipe.budgets import Budget, stage_budget
from rejoinder.training.recipe.losses import annealed_scale
from rejoinder.training.recipe.optimization import (
    build_optimizer,
    clip_gradients,
    learning_rate,
    prepare_stage,
    set_learning_rate,
)
from rejoinder.training.recipe.settings import Scale
from rejoinder.training.recipe.stages import (
    Adadelta,
    Constant,
    Cosine,
    InverseSqrt,
    Stage,
    Step,
)
from tests.training.tiny import MODEL, NGRAM, recipe, stage

ROWS = 30
KINDS = {
    "Adadelta": {"rho": 0.8},
    "SGD": {},
    "Adam": {"betas": [0.8, 0.9]},
    "AdamW": {"betas": [0.8, 0.9]},
    "Adamax": {},
}
QUARTER = 0.001 + 0.999 * (1 + math.cos(math.pi / 4)) / 2


def a_stage(**keys):
    return recipe("data", stage=[stage(**keys)]).stage[0]


def module(**changes):
    torch.manual_seed(0)
    return build_module({**MODEL, **changes}, ROWS)


def prepared(model, config):
    """The stage's optimiser of a model."""
    prepare_stage(model, config)
    optimizer = build_optimizer(model, config)
    set_learning_rate(optimizer, config.learning_rate)
    return optimizer


@pytest.mark.parametrize("blocks", [0, 1, "all"])
@pytest.mark.parametrize(
    "changes", [{}, {"norm_placement": "after"}, {"feed_forward_2": "original"}, {"heads": 2}]
)
def test_every_active_parameter_is_held_once(blocks, changes):
    model = module(**changes)
    optimizer = prepared(model, a_stage(active_blocks=blocks))
    count = len(model.blocks) if blocks == "all" else int(blocks)
    inactive = {parameter for block in model.blocks[count:] for parameter in block.parameters()}
    held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    assert len(held) == len(set(held))
    assert set(held) == set(model.parameters()) - inactive


def test_each_group_has_its_own_rate_and_a_rate_of_0_freezes_it_for_its_stage_only():
    model = module()
    optimizer = prepared(model, a_stage(rates={"embedding": 0.1, "blocks": 2.0}, learning_rate=0.5))
    rate_of = {
        parameter: group["lr"] for group in optimizer.param_groups for parameter in group["params"]
    }
    groups = model.parameter_groups()
    for name, rate in (("embedding", 0.05), ("blocks", 1.0), ("reduction", 0.5)):
        assert {rate_of[parameter] for parameter in groups[name]} == {rate}
    frozen = prepared(model, a_stage(rates={"embedding": 0.0}))
    assert not model.embedding.weight.requires_grad
    assert not any(
        p is model.embedding.weight for group in frozen.param_groups for p in group["params"]
    )
    prepare_stage(model, a_stage())
    assert model.embedding.weight.requires_grad


def test_decay_leaves_out_the_layer_norms():
    model = module()
    optimizer = prepared(model, a_stage(optimizer={"kind": "adadelta", "weight_decay": 1e-5}))
    norms = {
        p
        for child in model.modules()
        if isinstance(child, nn.LayerNorm)
        for p in child.parameters()
    }
    decays = {p: group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    assert decays == {p: 0.0 if p in norms else 1e-5 for p in model.parameters()}


@pytest.mark.parametrize("name", KINDS)
def test_each_optimiser_is_the_one_that_it_is_called(name):
    """Against PyTorch's plain loop, over a few steps, on a parameter that decays."""
    model, options = module(dropout=0.0), KINDS[name] | {"weight_decay": 0.1}
    other = copy.deepcopy(model)
    found = prepared(model, a_stage(optimizer={"kind": name.lower(), **options}, learning_rate=0.5))
    expected = getattr(torch.optim, name)([other.embedding.weight], lr=0.5, **options)
    for number in range(4):
        gradient = torch.randn(
            model.embedding.weight.shape, generator=torch.Generator().manual_seed(number)
        )
        model.embedding.weight.grad, other.embedding.weight.grad = (
            gradient.clone(),
            gradient.clone(),
        )
        found.step()
        expected.step()
    assert torch.allclose(model.embedding.weight, other.embedding.weight, rtol=1e-5, atol=1e-6)


def table_of(weight, config):
    """A table of these values in a model, and the stage's optimiser."""
    model = build_module({**NGRAM, "embedding_size": 8}, ROWS)
    with torch.no_grad():
        model.embedding.weight.copy_(weight)
    return model.embedding.weight, prepared(model, a_stage(optimizer=config, learning_rate=0.1))


def sparse(rows, values):
    return torch.sparse_coo_tensor(rows[None], values, (ROWS, 8), check_invariants=True)


@pytest.mark.parametrize("name", KINDS)
def test_a_sparse_step_equals_a_dense_one_in_its_rows_and_leaves_the_others(name):
    """Over several steps in which the same rows have gradients, some of them listed twice."""
    torch.manual_seed(0)
    start = torch.randn(ROWS, 8)
    config = {"kind": name.lower(), "weight_decay": 0.1, **KINDS[name]}
    (one, by_rows), (other, dense) = (table_of(start, config) for _ in range(2))
    rows = torch.tensor([3, 7, 7, 29, 0, 3])
    for _ in range(4):
        gradient = sparse(rows, torch.randn(6, 8))
        one.grad, other.grad = gradient, gradient.to_dense()
        by_rows.step()
        dense.step()
    touched = rows.unique()
    torch.testing.assert_close(one[touched], other[touched], rtol=1e-5, atol=1e-6)
    untouched = [row for row in range(ROWS) if row not in touched]
    assert torch.equal(one[untouched], start[untouched])
    assert not torch.equal(one[touched], start[touched])


def test_the_state_of_a_row_stands_still_while_it_is_in_no_batch():
    weight, optimizer = table_of(torch.zeros(ROWS, 8), {"kind": "adam", "betas": [0.5, 0.5]})
    for row in (2, 5, 2):
        weight.grad = sparse(torch.tensor([row]), torch.ones(1, 8))
        optimizer.step()
    averages = optimizer.state[weight]["exp_avg"][:, 0]
    assert averages[[2, 5]].tolist() == [0.75, 0.5]
    assert averages.sum() == 1.25
    assert weight[[2, 5], 0].abs().min() > 0


def test_clipping_scales_to_the_limit_and_leaves_short_gradients_bit_equal():
    parameters = [nn.Parameter(torch.zeros(size)) for size in (3, 2, 1)]
    parameters[0].grad, parameters[1].grad = torch.tensor([3.0, 0, 0]), torch.tensor([0.0, 4.0])
    assert clip_gradients(parameters, 5.5) == 5.0
    assert [parameter.grad.tolist() for parameter in parameters[:2]] == [[3, 0, 0], [0, 4]]
    clip_gradients(parameters, 1.0)
    assert parameters[0].grad.tolist() == pytest.approx([0.6, 0, 0])
    assert parameters[1].grad.tolist() == pytest.approx([0, 0.8])
    assert clip_gradients(parameters[2:], 1.0) is None


def test_clipping_counts_the_rows_of_a_sparse_gradient_once():
    dense, table = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(ROWS, 8))
    dense.grad = torch.tensor([0.0, 3.0])
    values = torch.zeros(3, 8)
    values[:, 0] = torch.tensor([1.0, 4.0, 3.0])
    table.grad = sparse(torch.tensor([4, 9, 4]), values)  # row 4 has 1 + 3
    norm = clip_gradients([dense, table], 1.0)
    assert norm.item() == pytest.approx((9 + 16 + 16) ** 0.5)
    assert table.grad.is_sparse
    whole = table.grad.to_dense()
    assert (float(whole.norm()) ** 2 + float(dense.grad.norm()) ** 2) == pytest.approx(1.0)
    assert whole[4, 0].item() == pytest.approx(4 / 41**0.5)


@pytest.mark.parametrize(
    ("schedule", "rate", "total", "steps", "expected"),
    [
        pytest.param(
            Cosine(final_learning_rate=0.001),
            1.0,
            1000,
            [0, 250, 500, 750, 1000],
            [1.0, QUARTER, 0.5005, 1.001 - QUARTER, 0.001],
            id="the paper's cosine",
        ),
        (Cosine(warm_up_steps=10), 2.0, 100, [0, 4, 9, 10, 55, 100], [0.2, 1, 2, 2, 1, 0]),
        (Constant(warm_up_steps=2), 0.3, 100, [0, 1, 2, 99], [0.15, 0.3, 0.3, 0.3]),
        pytest.param(
            Step(factor=0.3, at=(0.875, 0.95)),
            0.03,
            4_000_000,
            [0, 3_499_999, 3_500_000, 3_799_999, 3_800_000],
            [0.03, 0.03, 0.009, 0.009, 0.0027],
            id="drops of the n-gram paper",
        ),
        (
            InverseSqrt(warm_up_steps=100),
            2e-4,
            10_000,
            [0, 49, 99, 399, 9999],
            [2e-6, 1e-4, 2e-4, 1e-4, 2e-5],
        ),
    ],
)
def test_learning_rates(schedule, rate, total, steps, expected):
    assert [learning_rate(schedule, rate, step, step / total) for step in steps] == pytest.approx(
        expected
    )


@pytest.mark.parametrize(("steps", "peak"), [(1000, 20), (100, 10), (21, 3), (3, 1)])
def test_with_a_budget_in_seconds_a_slow_machine_warms_up_for_a_tenth_of_it(steps, peak):
    schedule = Cosine(warm_up_steps=20)
    rates = [
        learning_rate(schedule, 1.0, step, step / steps, in_seconds=True) for step in range(steps)
    ]
    assert rates.index(max(rates)) == pytest.approx(peak, abs=1)
    assert max(rates) > 0.8
    assert rates[: peak + 1] == sorted(rates[: peak + 1])
    assert rates[peak + 1 :] == sorted(rates[peak + 1 :], reverse=True)
    assert learning_rate(schedule, 1.0, steps, 1.0, in_seconds=True) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("steps", [3, 21, 63, 400, 5000])
def test_a_root_that_follows_the_clock_falls_from_where_the_warm_up_ended(steps):
    schedule = InverseSqrt(warm_up_steps=200)
    rates = [
        learning_rate(schedule, 1.0, step, step / steps, in_seconds=True) for step in range(steps)
    ]
    peak = min(200, -(-steps // 10))
    assert max(rates) <= 1.0 + 1e-9
    assert rates.index(max(rates)) == pytest.approx(peak, abs=1)
    assert rates[-1] == pytest.approx(math.sqrt(min(200, steps / 10) / steps), abs=0.08)
    assert rates[peak + 1 :] == sorted(rates[peak + 1 :], reverse=True)


def test_the_scale_rises_over_steps_or_a_share_of_the_run_and_stays():
    paper, last = Scale(steps=10_000), math.sqrt(512)
    found = [annealed_scale(paper, 512, step, 0.0) for step in (0, 5_000, 10_000, 900_000)]
    assert found == pytest.approx([1.0, (1 + last) / 2, last, last])
    by_share = Scale(first=2.0, last=10.0, share=0.5)
    assert [
        annealed_scale(by_share, 512, 0, share) for share in (0, 0.25, 0.5, 1)
    ] == pytest.approx([2, 6, 10, 10])
    for none in (Scale(last=5.0, steps=0), Scale(last=5.0, share=0.0)):
        assert annealed_scale(none, 512, 0, 0.0) == 5.0


@pytest.mark.parametrize(
    ("budget", "amount", "in_seconds"),
    [
        ({"steps": 7}, 7, False),
        ({"epochs": 1.5}, 150, False),
        ({"epochs": 0.001}, 1, False),
        ({"minutes": 0.5}, 30, True),
    ],
)
def test_budgets(budget, amount, in_seconds):
    one = Stage(name="a", batch_size=2, optimizer=Adadelta(), learning_rate=1.0, **budget)
    assert stage_budget(one, 100) == Budget(amount, in_seconds)


@pytest.mark.parametrize(
    ("there", "wanted", "chosen"),
    [
        (False, "auto", "cpu"),
        (True, "auto", "cuda"),
        (True, "cpu", "cpu"),
        (True, "cuda", "cuda"),
    ],
)
def test_device(monkeypatch, there, wanted, chosen):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert choose_device(wanted) == chosen


def test_what_needs_a_cuda_device_is_refused_without(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="sees no CUDA device"):
        choose_device("cuda")
    with pytest.raises(InputError, match="'fp16' needs a CUDA device"):
        choose_precision("fp16", "cpu")


@pytest.mark.parametrize(
    ("device", "native", "wanted", "chosen"),
    [
        ("cpu", True, "auto", "bf16"),
        ("cpu", False, "auto", "fp32"),
        ("cpu", False, "bf16", "bf16"),
        ("cuda", True, "auto", "bf16"),
        ("cuda", False, "auto", "fp16"),
        ("cuda", False, "fp32", "fp32"),
    ],
)
def test_precision(monkeypatch, device, native, wanted, chosen):
    monkeypatch.setattr(distributed, "has_fast_bfloat16", lambda: native)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: native)
    assert choose_precision(wanted, device) == chosen


def test_denormal_numbers_are_zero_while_training_and_only_then():
    tiny = torch.full((100_000,), 1e-39)
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot")
    torch.set_flush_denormal(False)
    with tuned(machine_of("cpu", "fp32")):
        assert (tiny * 0.5).abs().max() == 0
    assert (tiny * 0.5).abs().max() > 0


def machine_of(device, precision):
    return Machine(torch.device(device), precision, loss_scaler("cpu", "fp32", Quantization()))


@pytest.mark.parametrize(
    ("precision", "inside"), [("bf16", "high"), ("fp16", "high"), ("fp32", "highest")]
)
def test_what_a_card_is_tuned_by_ends_with_the_run(precision, inside):
    before = torch.get_float32_matmul_precision(), sys.getswitchinterval()
    with tuned(machine_of("cuda", precision)):
        assert torch.get_float32_matmul_precision() == inside
        assert sys.getswitchinterval() < 0.001
    assert (torch.get_float32_matmul_precision(), sys.getswitchinterval()) == before
